//! Registering a device, and changing what is known of it.

use clap::{ArgGroup, Args};
use serde_json::{Map, Value};

use super::view::DeviceView;
use super::{Label, clients_of, of};
use crate::api::{ApiPath, ServerApi};
use crate::failure::CommandFailure;
use crate::screen::Screen;

#[derive(Args, Debug)]
pub struct AddDevice {
    /// Its id.
    #[arg(value_name = "DEVICE")]
    id: String,
    /// What kind of device it is; a lock if left out.
    #[arg(long)]
    kind: Option<String>,
    /// Where it is.
    #[arg(long)]
    address: Option<String>,
    /// A label; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// How often it gives a sign of life (30s, 1h); the server's setting if left out.
    #[arg(long, value_name = "DURATION")]
    report_interval: Option<String>,
    /// How many commands it may leave unanswered; as the server's settings say if left out.
    #[arg(long, value_name = "COUNT")]
    command_window: Option<u32>,
    /// Least time from one command to the next (500ms, 2s); as the server's settings say if left
    /// out.
    #[arg(long, value_name = "DURATION")]
    command_gap: Option<String>,
}

/// What a change may name; it names something.
const CHANGES: [&str; 10] = [
    "address",
    "no_address",
    "label",
    "no_label",
    "report_interval",
    "no_report_interval",
    "command_window",
    "no_command_window",
    "command_gap",
    "no_command_gap",
];

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("changes").required(true).multiple(true).args(CHANGES))]
pub struct SetDevice {
    /// The device.
    #[arg(value_name = "DEVICE")]
    id: String,
    /// Where it is.
    #[arg(long)]
    address: Option<String>,
    /// Forget where it is.
    #[arg(long, conflicts_with = "address")]
    no_address: bool,
    /// Set a label and leave the others; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Take a label away; may be given several times.
    #[arg(long, value_name = "KEY")]
    no_label: Vec<String>,
    /// How often it gives a sign of life (30s, 1h).
    #[arg(long, value_name = "DURATION")]
    report_interval: Option<String>,
    /// Let the server's setting say how often.
    #[arg(long, conflicts_with = "report_interval")]
    no_report_interval: bool,
    /// How many commands it may leave unanswered.
    #[arg(long, value_name = "COUNT")]
    command_window: Option<u32>,
    /// Let the server's settings say how many.
    #[arg(long, conflicts_with = "command_window")]
    no_command_window: bool,
    /// Least time from one command to the next (500ms, 2s).
    #[arg(long, value_name = "DURATION")]
    command_gap: Option<String>,
    /// Let the server's settings say how long.
    #[arg(long, conflicts_with = "command_gap")]
    no_command_gap: bool,
}

impl AddDevice {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let device = api.post(&ApiPath::of(&["devices"]), &self.body())?;
        screen.show(&device, || Ok(api.read::<DeviceView>(&device)?.facts(&[])))
    }

    fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("id".to_owned(), self.id.clone().into());
        let given =
            [("kind", &self.kind), ("address", &self.address), ("report_interval", &self.report_interval)];
        for (field, text) in given {
            body.extend(text.as_ref().map(|text| (field.to_owned(), text.clone().into())));
        }
        if !self.label.is_empty() {
            body.insert("labels".to_owned(), labels(&self.label).into());
        }
        body.extend(pace([
            ("window", self.command_window.map(Value::from), false),
            ("gap", self.command_gap.clone().map(Value::from), false),
        ]));
        body
    }
}

impl SetDevice {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let device = api.patch(&of(&self.id), &self.body())?;
        screen.show(&device, || Ok(api.read::<DeviceView>(&device)?.facts(&clients_of(&self.id, api)?)))
    }

    /// The merge patch: what is null is cleared.
    fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        let given = [
            ("address", &self.address, self.no_address),
            ("report_interval", &self.report_interval, self.no_report_interval),
        ];
        for (field, text, cleared) in given {
            if text.is_some() || cleared {
                body.insert(field.to_owned(), text.clone().into());
            }
        }
        let mut changes = labels(&self.label);
        changes.extend(self.no_label.iter().map(|key| (key.clone(), Value::Null)));
        if !changes.is_empty() {
            body.insert("labels".to_owned(), changes.into());
        }
        body.extend(pace([
            ("window", self.command_window.map(Value::from), self.no_command_window),
            ("gap", self.command_gap.clone().map(Value::from), self.no_command_gap),
        ]));
        body
    }
}

/// How commands go to the device, if anything is said of it: each member, and whether it is
/// cleared.
fn pace(members: [(&str, Option<Value>, bool); 2]) -> Option<(String, Value)> {
    let named = members.into_iter().filter(|(_, value, cleared)| value.is_some() || *cleared);
    let pace: Map<_, _> = named.map(|(name, value, _)| (name.to_owned(), value.into())).collect();
    (!pace.is_empty()).then(|| ("commands".to_owned(), pace.into()))
}

fn labels(labels: &[Label]) -> Map<String, Value> {
    labels.iter().map(|label| (label.key.clone(), label.value.clone().into())).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    enum Line {
        Add(AddDevice),
        Set(SetDevice),
    }

    fn body(line: &str) -> Option<Value> {
        let words = std::iter::once("test").chain(line.split_whitespace());
        match Line::try_parse_from(words).ok()? {
            Line::Add(add) => Some(add.body().into()),
            Line::Set(set) => Some(set.body().into()),
        }
    }

    #[test]
    fn a_registration_says_what_was_given_and_nothing_else() {
        for (line, expect) in [
            ("add a", Some(json!({"id": "a"}))),
            (
                "add a --kind face --address Hall --report-interval 30s --label site=12 --label note=a=b",
                Some(json!({"id": "a", "kind": "face", "address": "Hall", "report_interval": "30s",
                            "labels": {"site": "12", "note": "a=b"}})),
            ),
            ("add a --command-window 2", Some(json!({"id": "a", "commands": {"window": 2}}))),
            ("add a --label site", None),
            ("add", None),
        ] {
            assert_eq!(body(line), expect, "{line}");
        }
    }

    #[test]
    fn a_change_names_what_changes_and_clears_by_null() {
        for (line, expect) in [
            ("set a --address Hall", Some(json!({"address": "Hall"}))),
            (
                "set a --no-address --no-report-interval",
                Some(json!({"address": null, "report_interval": null})),
            ),
            ("set a --label site=12 --no-label old", Some(json!({"labels": {"site": "12", "old": null}}))),
            (
                "set a --no-command-window --command-gap 2s",
                Some(json!({"commands": {"window": null, "gap": "2s"}})),
            ),
            ("set a --command-gap 2s --no-command-gap", None),
            ("set a", None),
            ("set a --address Hall --no-address", None),
        ] {
            assert_eq!(body(line), expect, "{line}");
        }
    }
}
