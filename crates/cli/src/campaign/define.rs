//! `fieldpost campaign create` and `put`: what devices are asked, which of them, and how often.

use clap::{ArgGroup, Args};
use serde::Serialize;
use serde_json::value::RawValue;

use super::slot_flags::{ResultFlags, SlotFlags};
use super::{of, show};
use crate::api::{ApiPath, ServerApi};
use crate::failure::CommandFailure;
use crate::input::json;
use crate::pick_terms::PickFlags;
use crate::receiver::GivenReceiver;
use crate::screen::Screen;

#[derive(Args, Debug)]
pub struct CreateCampaign {
    #[command(flatten)]
    terms: CampaignFlags,
    /// Your own id for the campaign.
    #[arg(long)]
    id: Option<String>,
    /// Create only one, however often this is called with the same key within a day.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

#[derive(Args, Debug)]
pub struct PutCampaign {
    /// The campaign.
    #[arg(value_name = "CAMPAIGN")]
    id: String,
    #[command(flatten)]
    terms: CampaignFlags,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("pace").required(true).args(["every", "over"]))]
struct CampaignFlags {
    /// What each device is asked, as JSON: 1, '"ping"', '{"probe":"dns"}'.
    #[arg(value_name = "PAYLOAD", allow_hyphen_values = true, value_parser = json)]
    payload: Box<RawValue>,
    /// What people call it.
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    picks: PickFlags,
    #[command(flatten)]
    slots: SlotFlags,
    /// The same devices in each slot, replaced only when they are gone.
    #[arg(long)]
    panel: bool,
    #[command(flatten)]
    results: ResultFlags,
}

/// A campaign on its way to the server.
#[derive(Serialize)]
struct CampaignBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    payload: &'a RawValue,
    #[serde(flatten)]
    picks: &'a PickFlags,
    #[serde(flatten)]
    slots: &'a SlotFlags,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    panel: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<GivenReceiver<'a>>,
}

impl CreateCampaign {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let body = self.terms.body(self.id.as_deref());
        let made = api.post_once(&ApiPath::of(&["campaigns"]), &body, self.idempotency_key.as_deref())?;
        show(&made, api, screen)
    }
}

impl PutCampaign {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        show(&api.replace(&of(&self.id), &self.terms.body(None))?, api, screen)
    }
}

impl CampaignFlags {
    fn body<'a>(&'a self, id: Option<&'a str>) -> CampaignBody<'a> {
        CampaignBody {
            id,
            name: self.name.as_deref(),
            payload: &self.payload,
            picks: &self.picks,
            slots: &self.slots,
            panel: self.panel,
            results: self.results.given(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        create: CreateCampaign,
    }

    fn body(line: &str) -> Option<String> {
        let line = Line::try_parse_from(["test"].into_iter().chain(line.split_whitespace())).ok()?;
        let body = line.create.terms.body(line.create.id.as_deref());
        Some(serde_json::to_string(&body).expect("a body has only names for keys"))
    }

    #[test]
    fn a_campaign_says_what_was_given_and_nothing_else() {
        for (line, expect) in [
            ("1 --count 20 --every 5m", Some(r#"{"payload":1,"count":20,"every":"5m"}"#)),
            (
                "1 --count 6000 --over 1h --place CN --class enterprise --id dns --name DNS --phase 0s",
                Some(
                    r#"{"id":"dns","name":"DNS","payload":1,"count":6000,"place":"CN","class":"enterprise","over":"1h","phase":"0s"}"#,
                ),
            ),
            (
                "1 --count 1 --every 1m --missed catch-up --panel --from 2026-11-21T01:02:03Z",
                Some(
                    r#"{"payload":1,"count":1,"every":"1m","from":"2026-11-21T01:02:03Z","missed":"catch_up","panel":true}"#,
                ),
            ),
            (
                "1 --count 1 --every 1m --results-queue ops/probes",
                Some(r#"{"payload":1,"count":1,"every":"1m","results":{"queue":"ops/probes"}}"#),
            ),
            (
                "1 --count 1 --every 1m --results-stream ops/probes",
                Some(r#"{"payload":1,"count":1,"every":"1m","results":{"stream":"ops/probes"}}"#),
            ),
            ("1 --count 1 --every 1m --results-stream a/b --results-queue a/b", None),
            ("1 --count 20", None),
            ("1 --every 5m", None),
            ("1 --count 20 --every 5m --over 1h", None),
            ("1 --count 1 --every 1m --results-url http://a --results-queue a/b", None),
        ] {
            assert_eq!(body(line).as_deref(), expect, "{line}");
        }
    }
}
