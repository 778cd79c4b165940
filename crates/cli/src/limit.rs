//! `fieldpost limit`: how often something may be done in a span of time.

use std::time::Duration;

use base::duration;
use base::limits::EXACT_NUMBER_MAX;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::list::{self, ListFlags, TableRow};
use super::screen::Screen;
use super::table::{Cell, facts};

/// What can be done with limits.
#[derive(Debug, Subcommand)]
pub enum LimitAction {
    /// Ask whether something may be done now: exits with 0 if so, with 1 if not.
    Ask(AskLimit),
    /// List the limits that are used.
    #[command(visible_alias = "list")]
    Ls(LimitListing),
}

#[derive(Args, Debug)]
pub struct AskLimit {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// The limit, such as sms:customer-7.
    #[arg(value_name = "LIMIT")]
    name: String,
    /// How much may come in the span.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=EXACT_NUMBER_MAX))]
    limit: u64,
    /// The span, such as 1m.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    per: Duration,
    /// How much this is.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=EXACT_NUMBER_MAX),
    )]
    cost: u64,
    /// Count in spans that are aligned to the clock; without it, never more than the limit in any
    /// span.
    #[arg(long)]
    window: bool,
}

#[derive(Args, Debug)]
pub struct LimitListing {
    /// Only those of this namespace.
    #[arg(long)]
    namespace: Option<String>,
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Serialize)]
struct LimitBody {
    limit: u64,
    per: String,
    cost: u64,
    kind: &'static str,
}

#[derive(Deserialize)]
struct LimitVerdict {
    allowed: bool,
    remaining: u64,
    retry_after_ms: u64,
}

#[derive(Deserialize)]
struct LimitRow {
    namespace: String,
    name: String,
    kind: String,
    limit: u64,
    per: String,
    remaining: u64,
}

impl LimitAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Ask(ask) => ask.run(api, screen),
            Self::Ls(LimitListing { namespace, list_flags }) => {
                let path = ApiPath::of(&["limits"]).with_maybe("namespace", namespace.as_ref());
                list::show::<LimitRow>(api, screen, &path, list_flags, "no limits are used")
            }
        }
    }
}

impl AskLimit {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let kind = if self.window { "window" } else { "smooth" };
        let body = LimitBody { limit: self.limit, per: duration::format(self.per), cost: self.cost, kind };
        let answer = api.post(&ApiPath::of(&["limits", &self.namespace, &self.name]), &body)?;
        let verdict: LimitVerdict = api.read(&answer)?;
        let again_in = Duration::from_millis(verdict.retry_after_ms);
        screen.show(&answer, || {
            let again_in = Some(duration::format(again_in)).filter(|_| !verdict.allowed);
            Ok(facts(&[
                ("allowed", Cell::text(if verdict.allowed { "yes" } else { "no" })),
                ("remaining", Cell::number(verdict.remaining)),
                ("again in", Cell::maybe(again_in.as_deref())),
            ]))
        })?;
        if verdict.allowed {
            return Ok(());
        }
        Err(CommandFailure::Incomplete("it may not be done now".to_owned()))
    }
}

impl TableRow for LimitRow {
    const HEADINGS: &'static [&'static str] = &["NAMESPACE", "LIMIT", "KIND", "AT MOST", "IN", "REMAINING"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.namespace),
            Cell::text(&self.name),
            Cell::text(&self.kind),
            Cell::number(self.limit),
            Cell::text(&self.per),
            Cell::number(self.remaining),
        ]
    }
}
