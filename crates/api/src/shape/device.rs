//! A device in requests and answers.

use std::collections::BTreeMap;

use base::Problem;
use base::limits::COMMANDS_IN_FLIGHT_MAX;
use engine::queries::DeviceDetails;
use engine::records::PaceOverride;
use engine::{DevicePatch, ImportDevice, NewDevice, PaceChange};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use super::text::{Data, Time, of_millis};
use crate::fields::{
    ObjectFields, duration, label_changes, labels, report_interval, string, strings, time, whole_or, within,
};
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

const FIELDS: [&str; 6] = ["id", "kind", "address", "labels", "report_interval", "commands"];
const IMPORT_FIELDS: [&str; 8] =
    ["id", "kind", "address", "labels", "report_interval", "commands", "clients", "expect_from"];

/// A device with its state.
#[derive(Serialize, ToSchema)]
#[schema(as = Device)]
pub(crate) struct DeviceShape<'a> {
    #[schema(schema_with = words::device_id)]
    id: &'a str,
    #[schema(schema_with = words::kind)]
    kind: &'a str,
    #[schema(required)]
    address: Option<&'a str>,
    #[schema(schema_with = words::labels)]
    labels: BTreeMap<&'a str, &'a str>,
    /// Null where the setting holds.
    #[schema(schema_with = interval_or_null, required)]
    report_interval: Option<String>,
    /// Null where the settings hold.
    #[schema(required)]
    commands: Option<PaceShape>,
    registered_at: Time,
    state: StateShape,
}

/// How commands go to the device; what is null the settings say.
#[derive(Serialize, ToSchema)]
#[schema(as = DeviceCommands)]
struct PaceShape {
    /// Commands that may be unanswered at a time.
    #[schema(required)]
    window: Option<u32>,
    /// Least time from one publish to the next.
    #[schema(schema_with = interval_or_null, required)]
    gap: Option<String>,
}

impl PaceShape {
    fn of(pace: PaceOverride) -> Option<Self> {
        let PaceOverride { in_flight, gap_ms } = pace;
        let shape = Self { window: in_flight, gap: gap_ms.map(of_millis) };
        (pace != PaceOverride::default()).then_some(shape)
    }
}

/// What a device is like now.
#[derive(Serialize, ToSchema)]
#[schema(as = DeviceState)]
struct StateShape {
    #[schema(schema_with = words::any, required)]
    value: Option<Data>,
    #[schema(required)]
    changed_at: Option<Time>,
    #[schema(required)]
    last_seen_at: Option<Time>,
    #[schema(schema_with = words::connection)]
    connection: &'static str,
    /// Whether a session of its own lives.
    connected: bool,
}

impl<'a> From<&'a DeviceDetails> for DeviceShape<'a> {
    fn from(DeviceDetails { profile, state, seen, connected }: &'a DeviceDetails) -> Self {
        Self {
            id: profile.id.as_str(),
            kind: profile.kind.as_str(),
            address: profile.address.as_deref(),
            labels: profile.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            report_interval: profile.report_interval_ms.map(of_millis),
            commands: PaceShape::of(profile.pace),
            registered_at: Time(profile.registered_at),
            state: StateShape {
                value: state.value.as_ref().map(Data::from),
                changed_at: state.changed_at.map(Time),
                last_seen_at: seen.map(|seen| Time(seen.at)),
                connection: state.connection.as_str(),
                connected: *connected,
            },
        }
    }
}

impl CsvRow for DeviceShape<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "kind",
        "address",
        "labels",
        "report_interval",
        "registered_at",
        "value",
        "changed_at",
        "last_seen_at",
        "connection",
        "connected",
        "commands",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        let labels = serde_json::to_string(&self.labels).expect("a map of text is JSON");
        cells.text(self.id).text(self.kind).text(self.address.unwrap_or_default()).text(&labels);
        cells.text(self.report_interval.as_deref().unwrap_or_default()).shown(self.registered_at);
        let state = &self.state;
        cells.json(state.value.as_ref().map(Data::json)).shown_or_empty(state.changed_at);
        cells.shown_or_empty(state.last_seen_at).text(state.connection).shown(state.connected);
        let commands = self.commands.as_ref();
        let commands = commands.map(|pace| serde_json::to_string(pace).expect("a number and text are JSON"));
        cells.text(commands.as_deref().unwrap_or_default());
    }
}

fn pace_schema() -> Schema {
    words::body(&[("window?", words::whole(1, COMMANDS_IN_FLIGHT_MAX.into())), ("gap?", words::duration())])
}

fn interval_or_null() -> Schema {
    words::or_null(words::duration())
}

/// The schema of a device to be registered.
pub(crate) fn new_device_schema() -> Schema {
    words::body(&[
        ("id", words::device_id()),
        ("kind?", words::kind()),
        ("address?", words::name()),
        ("labels?", words::labels()),
        ("report_interval?", words::duration()),
        ("commands?", pace_schema()),
    ])
}

/// The schema of a line of an import.
pub(crate) fn import_device_schema() -> Schema {
    words::body(&[
        ("id", words::device_id()),
        ("kind?", words::kind()),
        ("address?", words::name()),
        ("labels?", words::labels()),
        ("report_interval?", words::duration()),
        ("commands?", pace_schema()),
        ("clients?", words::client_ids()),
        ("expect_from?", words::time()),
    ])
}

/// The schema of a change of a device.
pub(crate) fn device_changes_schema() -> Schema {
    words::body(&[
        ("address?", words::name()),
        ("labels?", words::label_changes()),
        ("report_interval?", words::duration()),
        ("commands?", pace_schema()),
    ])
}

/// A device as the body of a request asks for it.
pub(crate) fn new_device(text: &str) -> Result<NewDevice, Problem> {
    device_in(&ObjectFields::read(text, &FIELDS)?)
}

fn device_in(fields: &ObjectFields<'_>) -> Result<NewDevice, Problem> {
    Ok(NewDevice {
        id: fields.required("id", string)?,
        kind: fields.optional("kind", string)?,
        address: fields.optional("address", string)?,
        labels: fields.optional("labels", labels)?,
        report_interval: fields.optional("report_interval", report_interval)?,
        commands: fields.optional("commands", pace)?,
    })
}

/// A device as a line of an import describes it.
pub(crate) fn import_device(text: &str) -> Result<ImportDevice, Problem> {
    let fields = ObjectFields::read_line(text, &IMPORT_FIELDS)?;
    Ok(ImportDevice {
        device: device_in(&fields)?,
        clients: fields.optional("clients", strings)?,
        expect_from: fields.optional("expect_from", time)?,
    })
}

/// A change of a device as the body of a request asks for it.
pub(crate) fn change_of_device(text: &str) -> Result<DevicePatch, Problem> {
    let fields = ObjectFields::read(text, &FIELDS)?;
    Ok(DevicePatch {
        id: fields.patch("id", string)?,
        kind: fields.patch("kind", string)?,
        address: fields.patch("address", string)?,
        labels: fields.patch("labels", label_changes)?,
        report_interval: fields.patch("report_interval", report_interval)?,
        commands: fields.patch("commands", pace)?,
    })
}

fn pace(name: &str, json: &str) -> Result<PaceChange, Problem> {
    within(name, json, ("an object with window and gap, or null", &["window", "gap"]), |fields| {
        let window = |name: &str, json: &str| {
            let refusal = |detail| Problem::not_allowed("invalid_pace", detail);
            whole_or(name, json, &(1..=COMMANDS_IN_FLIGHT_MAX.into()), refusal)
        };
        Ok(PaceChange { in_flight: fields.patch("window", window)?, gap: fields.patch("gap", duration)? })
    })
}
