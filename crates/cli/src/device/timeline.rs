//! `fieldpost device timeline`: everything that happened to a device, in one list.

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::below;
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::feed::FeedFlags;
use crate::follow::Timed;
use crate::list::{ListFlags, TableRow};
use crate::screen::Screen;
use crate::table::{BAD, Cell, GOOD, OPEN};
use crate::when::to_millisecond;

#[derive(Args, Debug)]
pub struct TimelineFlags {
    /// The device.
    #[arg(value_name = "DEVICE")]
    id: String,
    #[command(flatten)]
    feed: FeedFlags,
    #[command(flatten)]
    list_flags: ListFlags,
}

/// Something that happened to a device.
#[derive(Deserialize)]
struct TimelineRow {
    at: String,
    r#type: String,
    #[serde(default)]
    detail: Map<String, Value>,
}

impl TimelineFlags {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = below(&self.id, "timeline");
        self.feed.show::<TimelineRow>(api, screen, path, &self.list_flags, "nothing has happened to it")
    }
}

impl TimelineRow {
    /// `reason=keep_alive address=10.0.0.7`; what is empty is left out.
    fn detail(&self) -> String {
        let said =
            self.detail.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| match value {
                Value::String(text) => format!("{name}={text}"),
                other => format!("{name}={other}"),
            });
        said.collect::<Vec<_>>().join(" ")
    }
}

impl TableRow for TimelineRow {
    const HEADINGS: &'static [&'static str] = &["AT", "TYPE", "DETAIL"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&to_millisecond(&self.at)),
            Cell::standing(
                &self.r#type,
                &[
                    (BAD, &["device.lost", "delivery.failed", "command.failed", "command.expired"]),
                    (GOOD, &["device.restored", "connected", "delivery.delivered", "command.acknowledged"]),
                    (OPEN, &["device.changed", "command.scheduled", "command.published", "command.running"]),
                ],
            ),
            Cell::elastic(&self.detail()),
        ]
    }
}

impl Timed for TimelineRow {
    fn time(&self) -> &str {
        &self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TextTable;

    #[test]
    fn what_happened_is_a_row_that_fits_a_terminal() {
        let items = [
            r#"{"at":"2026-11-21T01:02:03.456Z","type":"disconnected","detail":{"reason":"keep_alive","address":null}}"#,
            r#"{"at":"2026-11-21T01:02:04.000Z","type":"command.published",
                "detail":{"command_id":"cmd_0123456789abcdefghjkmnpqrstvwxyz","tries":1}}"#,
        ];
        let rows: Vec<_> = items
            .iter()
            .map(|item| serde_json::from_str::<TimelineRow>(item).expect("an item").cells())
            .collect();
        let shown = TextTable::new(TimelineRow::HEADINGS).within(Some(80)).lines(&rows);
        let shown = anstream::adapter::strip_str(&shown).to_string();
        assert!(
            shown.contains("2026-11-21 01:02:03.456Z  disconnected       reason=keep_alive\n"),
            "{shown}"
        );
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let whole = TextTable::new(TimelineRow::HEADINGS).lines(&rows);
        assert!(whole.contains("command_id=cmd_0123456789abcdefghjkmnpqrstvwxyz tries=1"), "{whole}");
    }
}
