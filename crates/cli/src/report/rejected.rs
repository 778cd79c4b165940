//! `fieldpost report rejected`: the quarantine, where reports wait that were refused.

use clap::{Args, Subcommand};
use serde::Deserialize;

use crate::api::{ApiPath, ServerApi};
use crate::failure::CommandFailure;
use crate::feed::FeedFlags;
use crate::follow::Timed;
use crate::import::ImportTally;
use crate::list::{ListFlags, TableRow};
use crate::screen::Screen;
use crate::table::{BAD, Cell, facts, plain};
use crate::when::{to_millisecond, with_age};

/// What can be done with rejected reports.
#[derive(Debug, Subcommand)]
pub enum RejectedAction {
    /// List rejected reports, the newest first.
    Ls(ListRejected),
    /// Show a rejected report: why, and what it was.
    Show(OneRejected),
    /// Send rejected reports again, as they came; those that are accepted now are removed.
    Replay(SeveralRejected),
    /// Remove rejected reports.
    Rm(SeveralRejected),
}

#[derive(Args, Debug)]
pub struct ListRejected {
    #[command(flatten)]
    feed: FeedFlags,
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Args, Debug)]
pub struct OneRejected {
    /// The rejected report.
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Args, Debug)]
pub struct SeveralRejected {
    /// The rejected reports.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

#[derive(Deserialize)]
struct QuarantinedReport {
    id: String,
    at: String,
    source: String,
    code: String,
    detail: String,
    payload: Option<String>,
    payload_base64: Option<String>,
}

impl RejectedAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Ls(ListRejected { feed, list_flags }) => feed.show::<QuarantinedReport>(
                api,
                screen,
                ApiPath::of(&["quarantine"]),
                list_flags,
                "no rejected reports",
            ),
            Self::Show(OneRejected { id }) => {
                let rejected = api.get(&of(id))?;
                screen.show(&rejected, || Ok(api.read::<QuarantinedReport>(&rejected)?.facts()))
            }
            Self::Replay(SeveralRejected { ids }) => replay(ids, api, screen),
            Self::Rm(SeveralRejected { ids }) => screen.each(ids, "removed", |id| api.delete(&of(id))),
        }
    }
}

/// All of them are sent; one that is refused again does not stop the others.
fn replay(ids: &[String], api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
    let mut refused = 0;
    for id in ids {
        match api.call(&ApiPath::of(&["quarantine", id, "replay"])) {
            Ok(answer) => {
                let tally: ImportTally = api.read(&answer)?;
                screen.show(&answer, || Ok(format!("{}: {}\n", plain(id), tally.sentence())))?;
                tally.tell_rejected(0, screen);
                refused += u64::from(tally.verdict().is_err());
            }
            Err(failure) if failure.is_of_one() => {
                screen.note_refused(id, &failure);
                refused += 1;
            }
            Err(failure) => return Err(failure),
        }
    }
    match refused {
        0 => Ok(()),
        _ => Err(CommandFailure::Incomplete(format!("{refused} of {} not accepted", ids.len()))),
    }
}

fn of(id: &str) -> ApiPath {
    ApiPath::of(&["quarantine", id])
}

impl QuarantinedReport {
    fn payload(&self) -> String {
        match (&self.payload, &self.payload_base64) {
            (Some(text), _) => text.clone(),
            (None, Some(base64)) => format!("{base64} (base64)"),
            (None, None) => String::new(),
        }
    }

    fn facts(&self) -> String {
        facts(&[
            ("id", Cell::text(&self.id)),
            ("at", Cell::text(&with_age(&self.at))),
            ("source", Cell::text(&self.source)),
            ("code", Cell::text(&self.code).styled(BAD)),
            ("detail", Cell::text(&self.detail)),
            ("payload", Cell::text(&self.payload())),
        ])
    }
}

impl Timed for QuarantinedReport {
    fn time(&self) -> &str {
        &self.at
    }
}

impl TableRow for QuarantinedReport {
    const HEADINGS: &'static [&'static str] = &["AT", "ID", "SOURCE", "CODE", "PAYLOAD"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&to_millisecond(&self.at)),
            Cell::text(&self.id),
            Cell::text(&self.source),
            Cell::text(&self.code).styled(BAD),
            Cell::short(&self.payload()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_is_no_text_is_shown_as_base64() {
        for (members, shown) in
            [(r#""payload":"{\"data\":2}""#, "{\"data\":2}"), (r#""payload_base64":"gA==""#, "gA== (base64)")]
        {
            let text = format!(r#"{{"id":"q","at":"x","source":"mqtt","code":"c","detail":"d",{members}}}"#);
            let rejected: QuarantinedReport = serde_json::from_str(&text).expect("a rejected report");
            assert_eq!(rejected.payload(), shown);
        }
    }
}
