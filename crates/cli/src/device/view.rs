//! Devices, their readings and their events as people see them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::follow::Timed;
use crate::list::TableRow;
use crate::table::{BAD, Cell, FAINT, GOOD, OPEN, facts};
use crate::when::{to_millisecond, to_second, with_age};

/// A device with its state.
#[derive(Deserialize)]
pub(super) struct DeviceView {
    pub(super) id: String,
    kind: String,
    address: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    report_interval: Option<String>,
    /// Older servers do not say.
    commands: Option<DevicePace>,
    registered_at: String,
    state: ShownState,
}

/// How commands go to a device, as far as it says so itself.
#[derive(Deserialize)]
struct DevicePace {
    window: Option<u32>,
    gap: Option<String>,
}

#[derive(Deserialize)]
struct ShownState {
    value: Option<Box<RawValue>>,
    changed_at: Option<String>,
    last_seen_at: Option<String>,
    connection: String,
    /// Whether it has a live MQTT session; older servers do not say.
    connected: Option<bool>,
}

/// Something that a device reported.
#[derive(Deserialize)]
pub(super) struct ReadingView {
    pub(super) ts: String,
    data: Box<RawValue>,
    changed: bool,
}

/// Something that happened to a device.
#[derive(Deserialize)]
pub(super) struct EventView {
    pub(super) ts: String,
    id: String,
    device_id: String,
    r#type: String,
    sequence: u64,
    value: Option<Box<RawValue>>,
    previous: Option<Box<RawValue>>,
}

impl DeviceView {
    /// When the server last heard of it.
    pub(super) fn last_seen_at(&self) -> Option<&str> {
        self.state.last_seen_at.as_deref()
    }

    /// Everything, with those who are told of it.
    pub(super) fn facts(&self, clients: &[String]) -> String {
        let labels: Vec<_> = self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut known = vec![
            ("id", Cell::text(&self.id)),
            ("kind", Cell::text(&self.kind)),
            ("address", Cell::maybe(self.address.as_deref())),
            ("labels", Cell::maybe(joined(&labels).as_deref())),
            ("reports every", Cell::maybe(self.report_interval.as_deref())),
            ("registered", Cell::text(&with_age(&self.registered_at))),
            ("value", Cell::maybe(self.state.value.as_deref().map(RawValue::get))),
            ("changed", Cell::maybe(self.state.changed_at.as_deref().map(with_age).as_deref())),
            ("last seen", Cell::maybe(self.last_seen_at().map(with_age).as_deref())),
            ("connection", self.connection()),
        ];
        known.extend(self.state.connected.map(|connected| {
            let session = if connected { Cell::text("connected").styled(GOOD) } else { Cell::text("none") };
            ("session", session)
        }));
        if let Some(DevicePace { window, gap }) = &self.commands {
            let window = window.map(|window| format!("{window} unanswered at most"));
            let gap = gap.as_ref().map(|gap| format!("{gap} apart"));
            let pace: Vec<_> = window.into_iter().chain(gap).collect();
            known.push(("commands", Cell::maybe(joined(&pace).as_deref())));
        }
        known.extend(joined(clients).map(|clients| ("told", Cell::text(&clients))));
        facts(&known)
    }

    /// Its state in one line.
    pub(super) fn line(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.id),
            self.connection(),
            Cell::text(&format!("value {}", self.state.value.as_deref().map_or("-", RawValue::get))),
            Cell::text(&format!("last seen {}", self.last_seen_at().map_or("never".to_owned(), to_second))),
        ]
    }

    fn connection(&self) -> Cell {
        Cell::standing(&self.state.connection, &[(GOOD, &["online"]), (BAD, &["lost"])])
    }
}

fn joined(parts: &[String]) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join(", "))
}

impl TableRow for DeviceView {
    const HEADINGS: &'static [&'static str] =
        &["ID", "KIND", "CONNECTION", "VALUE", "CHANGED", "LAST SEEN", "ADDRESS"];

    fn cells(&self) -> Vec<Cell> {
        let second = |time: &Option<String>| Cell::maybe(time.as_deref().map(to_second).as_deref());
        vec![
            Cell::text(&self.id),
            Cell::text(&self.kind),
            self.connection(),
            value(self.state.value.as_deref()),
            second(&self.state.changed_at),
            second(&self.state.last_seen_at),
            self.address.as_deref().map_or_else(|| Cell::maybe(None), Cell::short),
        ]
    }
}

impl TableRow for ReadingView {
    const HEADINGS: &'static [&'static str] = &["TS", "VALUE", ""];

    fn cells(&self) -> Vec<Cell> {
        let changed = if self.changed { "changed" } else { "" };
        vec![
            Cell::text(&to_millisecond(&self.ts)),
            Cell::short(self.data.get()),
            Cell::text(changed).styled(OPEN),
        ]
    }
}

impl Timed for ReadingView {
    fn time(&self) -> &str {
        &self.ts
    }
}

impl Timed for EventView {
    fn time(&self) -> &str {
        &self.ts
    }
}

impl TableRow for EventView {
    const HEADINGS: &'static [&'static str] =
        &["TS", "ID", "DEVICE", "TYPE", "SEQUENCE", "PREVIOUS", "VALUE"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&to_millisecond(&self.ts)),
            Cell::text(&self.id),
            Cell::text(&self.device_id),
            self.kind(),
            Cell::number(self.sequence),
            value(self.previous.as_deref()),
            value(self.value.as_deref()),
        ]
    }
}

impl ReadingView {
    /// What it says, in a line of a device that is watched.
    pub(super) fn line(&self) -> Vec<Cell> {
        let time = Cell::text(&to_millisecond(&self.ts)).styled(FAINT);
        vec![time, Cell::text("reading").styled(FAINT), Cell::text(self.data.get())]
    }
}

impl EventView {
    /// What it says, in a line of a device that is watched.
    pub(super) fn line(&self) -> Vec<Cell> {
        let text = |value: &Option<Box<RawValue>>| value.as_deref().map_or("-", RawValue::get).to_owned();
        let value = match self.r#type.as_str() {
            "device.changed" => format!("{} -> {}", text(&self.previous), text(&self.value)),
            _ => text(&self.value),
        };
        let time = Cell::text(&to_millisecond(&self.ts)).styled(FAINT);
        vec![time, self.kind(), Cell::text(&format!("{value}  #{}", self.sequence))]
    }

    fn kind(&self) -> Cell {
        let style = match self.r#type.as_str() {
            "device.changed" => OPEN,
            "device.lost" => BAD,
            _ => GOOD,
        };
        Cell::text(self.r#type.trim_start_matches("device.")).styled(style)
    }
}

fn value(value: Option<&RawValue>) -> Cell {
    value.map_or_else(|| Cell::maybe(None), |value| Cell::short(value.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TextTable;

    const DEVICE: &str = r#"{"id":"lock7","kind":"lock","address":"12 Harbour St","labels":{"site":"12","wing":"b"},
        "report_interval":null,"registered_at":"2026-11-20T12:00:00.000Z","state":{"value":{"t":21.50},
        "changed_at":"2026-11-21T01:02:03.456Z","last_seen_at":null,"connection":"lost"}}"#;

    fn unstyled(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn rows<R: TableRow>(items: &[&str]) -> String {
        let rows: Vec<_> =
            items.iter().map(|item| serde_json::from_str::<R>(item).expect("an item").cells()).collect();
        unstyled(&TextTable::new(R::HEADINGS).lines(&rows))
    }

    #[test]
    fn a_device_is_a_row_with_its_value_as_it_came() {
        assert_eq!(
            rows::<DeviceView>(&[DEVICE]),
            "ID     KIND  CONNECTION  VALUE      CHANGED               LAST SEEN  ADDRESS\n\
             lock7  lock  lost        {\"t\":21.50}  2026-11-21 01:02:03Z  -          12 Harbour St\n"
                .replace("VALUE      ", "VALUE        ")
        );
    }

    #[test]
    fn a_device_alone_is_shown_with_who_is_told() {
        let device: DeviceView = serde_json::from_str(DEVICE).expect("a device");
        let text = unstyled(&device.facts(&["acme".to_owned(), "beta".to_owned()]));
        assert!(text.contains("labels         site=12, wing=b\n"), "{text}");
        assert!(text.ends_with("connection     lost\ntold           acme, beta\n"), "{text}");
        assert!(!unstyled(&device.facts(&[])).contains("told"));
    }

    #[test]
    fn events_and_readings_are_rows() {
        let event = r#"{"id":"evt_1","device_id":"lock7","type":"device.changed","ts":"2026-11-21T01:02:03.456Z",
            "sequence":7,"value":1,"previous":null}"#;
        assert_eq!(
            rows::<EventView>(&[event]),
            "TS                        ID     DEVICE  TYPE     SEQUENCE  PREVIOUS  VALUE\n\
             2026-11-21 01:02:03.456Z  evt_1  lock7   changed         7  -         1\n"
        );
        let same = r#"{"ts":"2026-11-21T01:02:03.456Z","data":"open","changed":false}"#;
        assert_eq!(
            rows::<ReadingView>(&[same, &same.replace("false", "true")]),
            "TS                        VALUE\n\
             2026-11-21 01:02:03.456Z  \"open\"\n\
             2026-11-21 01:02:03.456Z  \"open\"  changed\n"
        );
    }
}
