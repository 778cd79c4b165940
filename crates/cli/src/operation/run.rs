//! `fieldpost operation run`: what is done, and to what.

use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::{Map, Value};

use super::of;
use super::view::{DryRun, OperationView};
use crate::api::{ApiPath, ServerApi};
use crate::device::Label;
use crate::failure::CommandFailure;
use crate::polling::{interval, watch};
use crate::screen::Screen;

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).multiple(true).args(["filter", "id", "everything"]))]
pub struct RunOperation {
    /// What is done to each: dead.respawn, dead.delete, jobs.delete, deliveries.retry,
    /// deliveries.resend, quarantine.replay, quarantine.delete, commands.cancel, commands.retry,
    /// devices.label, devices.link, devices.unlink or devices.delete.
    #[arg(value_name = "ACTION")]
    action: String,
    /// Only what has this: a parameter of the list that the action is about, such as
    /// status=failed, kind=lock or label.site=12; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = filter)]
    filter: Vec<(String, String)>,
    /// Only this; may be given several times.
    #[arg(long, value_name = "ID", conflicts_with = "everything")]
    id: Vec<String>,
    /// Everything that the list shows.
    #[arg(long)]
    everything: bool,
    /// The queue, of dead letters and jobs.
    #[arg(long, value_name = "NAMESPACE/QUEUE")]
    queue: Option<String>,
    /// Set a label of each device; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Remove a label from each device; may be given several times.
    #[arg(long, value_name = "KEY")]
    no_label: Vec<String>,
    /// The client that each device is linked to, or unlinked from.
    #[arg(long)]
    client: Option<String>,
    /// Rows in a second; the server's setting if left out.
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Change nothing: count what it would be done to.
    #[arg(long, conflicts_with_all = ["wait", "idempotency_key"])]
    dry_run: bool,
    /// Begin only once, however often this is called with the same key within a day.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Follow it until it has ended. Exit code: 0 when it is done and nothing was refused.
    #[arg(long)]
    wait: bool,
    /// How long to wait between two looks.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = interval, requires = "wait")]
    every: Duration,
}

impl RunOperation {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = ApiPath::of(&["operations"]);
        let begun = api.post_once(&path, &self.body(), self.idempotency_key.as_deref())?;
        if self.dry_run {
            return screen.show(&begun, || Ok(api.read::<DryRun>(&begun)?.facts()));
        }
        let operation: OperationView = api.read(&begun)?;
        if !self.wait {
            return screen.show(&begun, || Ok(operation.facts()));
        }
        self.watch(&operation.id, api, screen)
    }

    /// Shows it whenever anything about it is new, until it has ended.
    fn watch(&self, id: &str, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let operation = watch(
            screen,
            self.every,
            || api.get(&of(id)),
            |screen, document, is_new| {
                let operation: OperationView = api.read(document)?;
                if is_new {
                    screen.show(document, || Ok(operation.line()))?;
                }
                Ok(Some(operation).filter(OperationView::has_ended))
            },
        )?;
        operation.verdict()
    }

    fn body(&self) -> Map<String, Value> {
        let mut filter: Map<String, Value> =
            self.filter.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        if !self.id.is_empty() {
            filter.insert("ids".to_owned(), self.id.clone().into());
        }
        filter.extend(self.queue.as_ref().map(|queue| ("queue".to_owned(), queue.clone().into())));
        let mut body = Map::new();
        body.insert("action".to_owned(), self.action.clone().into());
        body.insert("filter".to_owned(), filter.into());
        let mut labels: Map<String, Value> =
            self.label.iter().map(|label| (label.key.clone(), label.value.clone().into())).collect();
        labels.extend(self.no_label.iter().map(|key| (key.clone(), Value::Null)));
        if !labels.is_empty() {
            body.insert("labels".to_owned(), labels.into());
        }
        body.extend(self.client.as_ref().map(|client| ("client".to_owned(), client.clone().into())));
        body.extend(self.rate.map(|rate| ("rate".to_owned(), rate.into())));
        if self.dry_run {
            body.insert("dry_run".to_owned(), true.into());
        }
        body
    }
}

fn filter(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let parts = parts.map(|(name, value)| (name.to_owned(), value.to_owned()));
    parts.ok_or_else(|| "NAME=VALUE, such as status=failed".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        run: RunOperation,
    }

    fn body(words: &[&str]) -> Option<String> {
        let line = Line::try_parse_from(["test"].iter().chain(words)).ok()?;
        Some(serde_json::to_string(&line.run.body()).expect("a body has only names for keys"))
    }

    #[test]
    fn an_operation_says_what_was_given_and_nothing_else() {
        for (words, expect) in [
            (
                &["devices.label", "--filter", "kind=lock", "--label", "site=12", "--no-label", "old"][..],
                Some(
                    r#"{"action":"devices.label","filter":{"kind":"lock"},"labels":{"old":null,"site":"12"}}"#,
                ),
            ),
            (
                &["dead.respawn", "--queue", "shop/mail", "--everything", "--rate", "5"],
                Some(r#"{"action":"dead.respawn","filter":{"queue":"shop/mail"},"rate":5}"#),
            ),
            (
                &["devices.link", "--id", "a", "--id", "b", "--client", "acme", "--dry-run"],
                Some(
                    r#"{"action":"devices.link","client":"acme","dry_run":true,"filter":{"ids":["a","b"]}}"#,
                ),
            ),
            (&["devices.delete", "--everything"], Some(r#"{"action":"devices.delete","filter":{}}"#)),
            (&["devices.delete"], None),
            (&["devices.delete", "--filter", "kind"], None),
            (&["devices.delete", "--everything", "--id", "a"], None),
        ] {
            let sorted = |text: &str| {
                let value: Value = serde_json::from_str(text).expect("JSON");
                value
            };
            let found = body(words);
            assert_eq!(found.as_deref().map(sorted), expect.map(sorted), "{words:?}");
        }
    }
}
