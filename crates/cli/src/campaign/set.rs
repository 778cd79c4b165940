//! `fieldpost campaign set`: a campaign is changed in what is named, and stays as it is in the
//! rest.

use std::collections::BTreeMap;

use clap::{ArgGroup, Args};
use serde::Serialize;
use serde_json::value::RawValue;

use super::slot_flags::{ResultFlags, SlotFlags};
use super::{of, show};
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::input::json;
use crate::pick_terms::PickTermFlags;
use crate::receiver::GivenReceiver;
use crate::screen::Screen;

/// What a change may name; it names something.
const CHANGES: [&str; 33] = [
    "payload",
    "name",
    "no_name",
    "count",
    "selector",
    "place",
    "no_selector",
    "device",
    "no_device",
    "exclude",
    "no_exclude",
    "same_as",
    "not_as",
    "no_relation",
    "spread_by",
    "no_spread_by",
    "answer_timeout",
    "class",
    "every",
    "over",
    "from",
    "no_from",
    "until",
    "no_until",
    "missed",
    "phase",
    "no_phase",
    "panel",
    "no_panel",
    "results_queue",
    "results_stream",
    "results_url",
    "no_results",
];

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("changes").required(true).multiple(true).args(CHANGES))]
pub struct SetCampaign {
    /// The campaign.
    #[arg(value_name = "CAMPAIGN")]
    id: String,
    /// What each device is asked from now on, as JSON.
    #[arg(value_name = "PAYLOAD", allow_hyphen_values = true, value_parser = json)]
    payload: Option<Box<RawValue>>,
    /// What people call it.
    #[arg(long)]
    name: Option<String>,
    /// How many devices.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    #[command(flatten)]
    terms: PickTermFlags,
    #[command(flatten)]
    slots: SlotFlags,
    /// The same devices in each slot, replaced only when they are gone.
    #[arg(long)]
    panel: bool,
    /// Other devices in each slot, by turns.
    #[arg(long, conflicts_with = "panel")]
    no_panel: bool,
    #[command(flatten)]
    results: ResultFlags,
    #[command(flatten)]
    cleared: ClearFlags,
}

/// What a campaign is to be without.
#[derive(Args, Debug)]
struct ClearFlags {
    /// Without a name.
    #[arg(long, conflicts_with = "name")]
    no_name: bool,
    /// Neither selector nor place: every device.
    #[arg(long, conflicts_with_all = ["selector", "place"])]
    no_selector: bool,
    /// No longer only the devices that were named.
    #[arg(long, conflicts_with = "device")]
    no_device: bool,
    /// No device is left out any more.
    #[arg(long, conflicts_with = "exclude")]
    no_exclude: bool,
    /// Neither --same-as nor --not-as.
    #[arg(long, conflicts_with_all = ["same_as", "not_as"])]
    no_relation: bool,
    /// Not spread over the values of a label.
    #[arg(long, conflicts_with = "spread_by")]
    no_spread_by: bool,
    /// From now on.
    #[arg(long, conflicts_with = "from")]
    no_from: bool,
    /// Without an end.
    #[arg(long, conflicts_with = "until")]
    no_until: bool,
    /// The server levels the minutes.
    #[arg(long, conflicts_with = "phase")]
    no_phase: bool,
    /// Nobody is told results.
    #[arg(long, conflicts_with_all = ["results_queue", "results_stream", "results_url"])]
    no_results: bool,
}

/// A change on its way to the server: only what was given, and null for what is cleared.
#[derive(Serialize)]
struct CampaignPatchBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
    #[serde(flatten)]
    terms: &'a PickTermFlags,
    #[serde(flatten)]
    slots: &'a SlotFlags,
    #[serde(skip_serializing_if = "Option::is_none")]
    panel: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<GivenReceiver<'a>>,
    #[serde(flatten)]
    cleared: BTreeMap<&'static str, ()>,
}

impl SetCampaign {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        show(&api.patch(&of(&self.id), &self.change())?, api, screen)
    }

    fn change(&self) -> CampaignPatchBody<'_> {
        CampaignPatchBody {
            payload: self.payload.as_deref(),
            name: self.name.as_deref(),
            count: self.count,
            terms: &self.terms,
            slots: &self.slots,
            panel: (self.panel || self.no_panel).then_some(self.panel),
            results: self.results.given(),
            cleared: self.cleared.fields().collect(),
        }
    }
}

impl ClearFlags {
    fn fields(&self) -> impl Iterator<Item = (&'static str, ())> {
        let flags = [
            (self.no_name, "name"),
            (self.no_selector, "selector"),
            (self.no_device, "devices"),
            (self.no_exclude, "exclude"),
            (self.no_relation, "same_as"),
            (self.no_spread_by, "spread_by"),
            (self.no_from, "from"),
            (self.no_until, "until"),
            (self.no_phase, "phase"),
            (self.no_results, "results"),
        ];
        flags.into_iter().filter_map(|(is_given, field)| is_given.then_some((field, ())))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        set: SetCampaign,
    }

    #[test]
    fn a_change_names_only_what_it_changes_and_clears() {
        for (line, expect) in [
            ("--count 30", Some(r#"{"count":30}"#)),
            ("2 --over 1h --name all", Some(r#"{"payload":2,"name":"all","over":"1h"}"#)),
            ("-1", Some(r#"{"payload":-1}"#)),
            (
                "--place CN --device a --class large",
                Some(r#"{"place":"CN","devices":["a"],"class":"large"}"#),
            ),
            ("--panel --missed skip", Some(r#"{"missed":"skip","panel":true}"#)),
            ("--no-panel --results-queue a/b", Some(r#"{"panel":false,"results":{"queue":"a/b"}}"#)),
            ("--results-stream a/b", Some(r#"{"results":{"stream":"a/b"}}"#)),
            ("--results-stream a/b --no-results", None),
            (
                "--no-name --no-selector --no-device --no-exclude --no-relation",
                Some(r#"{"devices":null,"exclude":null,"name":null,"same_as":null,"selector":null}"#),
            ),
            (
                "--no-spread-by --no-from --no-until --no-phase --no-results",
                Some(r#"{"from":null,"phase":null,"results":null,"spread_by":null,"until":null}"#),
            ),
            ("", None),
            ("--every 1m --over 1h", None),
            ("--panel --no-panel", None),
            ("--place CN --no-selector", None),
            ("--not-as tsk_1 --no-relation", None),
            ("--results-url http://a --no-results", None),
        ] {
            let words = ["test", "dns"].into_iter().chain(line.split_whitespace());
            let line_read = Line::try_parse_from(words).ok();
            let change =
                line_read.map(|line| serde_json::to_string(&line.set.change()).expect("named fields"));
            assert_eq!(change.as_deref(), expect, "{line}");
        }
    }
}
