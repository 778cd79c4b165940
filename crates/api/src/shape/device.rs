//! A device in requests and answers.

use std::collections::BTreeMap;

use base::Problem;
use engine::queries::Device;
use engine::{DevicePatch, NewDevice};
use serde::Serialize;
use serde_json::value::RawValue;

use super::text::{Time, of_millis, of_value};
use crate::fields::{Fields, label_changes, labels, report_interval, string};

const FIELDS: [&str; 5] = ["id", "kind", "address", "labels", "report_interval"];

/// A device with its state.
#[derive(Serialize)]
pub(crate) struct DeviceShape<'a> {
    id: &'a str,
    kind: &'a str,
    address: Option<&'a str>,
    labels: BTreeMap<&'a str, &'a str>,
    /// Null where the setting holds.
    report_interval: Option<String>,
    registered_at: Time,
    state: StateShape,
}

#[derive(Serialize)]
struct StateShape {
    value: Option<Box<RawValue>>,
    changed_at: Option<Time>,
    last_seen_at: Option<Time>,
    connection: &'static str,
}

impl<'a> From<&'a Device> for DeviceShape<'a> {
    fn from(Device { profile, state, seen }: &'a Device) -> Self {
        Self {
            id: profile.id.as_str(),
            kind: profile.kind.as_str(),
            address: profile.address.as_deref(),
            labels: profile.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            report_interval: profile.report_interval_ms.map(of_millis),
            registered_at: Time(profile.registered_at),
            state: StateShape {
                value: state.value.as_ref().map(of_value),
                changed_at: state.changed_at.map(Time),
                last_seen_at: seen.map(|seen| Time(seen.at)),
                connection: state.connection.as_str(),
            },
        }
    }
}

/// A device as the body of a request asks for it.
pub(crate) fn new_device(text: &str) -> Result<NewDevice, Problem> {
    let fields = Fields::read(text, &FIELDS)?;
    Ok(NewDevice {
        id: fields.required("id", string)?,
        kind: fields.optional("kind", string)?,
        address: fields.optional("address", string)?,
        labels: fields.optional("labels", labels)?.unwrap_or_default(),
        report_interval: fields.optional("report_interval", report_interval)?,
    })
}

/// A change of a device as the body of a request asks for it.
pub(crate) fn change_of_device(text: &str) -> Result<DevicePatch, Problem> {
    let fields = Fields::read(text, &FIELDS)?;
    Ok(DevicePatch {
        id: fields.patch("id", string)?,
        kind: fields.patch("kind", string)?,
        address: fields.patch("address", string)?,
        labels: fields.patch("labels", label_changes)?,
        report_interval: fields.patch("report_interval", report_interval)?,
    })
}
