//! What a notification says, read strictly.
//!
//! Every field that the contract promises must be there, also where it may be null: a receiver that
//! guessed would hide what the server forgot.

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::wire_time;

/// What has happened to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum DeviceEventKind {
    /// Its value is another one.
    #[serde(rename = "device.changed")]
    Changed,
    /// It has been silent for too long.
    #[serde(rename = "device.lost")]
    Lost,
    /// It is back.
    #[serde(rename = "device.restored")]
    Restored,
}

impl fmt::Display for DeviceEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "device.changed",
            Self::Lost => "device.lost",
            Self::Restored => "device.restored",
        })
    }
}

/// Whether a device is heard from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionStatus {
    /// It has reported in time.
    Online,
    /// It has not.
    Lost,
    /// It has never given a sign of life.
    NeverSeen,
}

/// The whole picture of a device, as a client is told it.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// The newest event.
    pub kind: DeviceEventKind,
    /// When the server noticed, milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Whom it is about.
    pub device_id: String,
    /// The present value.
    pub value: Value,
    /// The value before the oldest event that is folded in.
    pub previous: Value,
    /// Whether the device is heard from.
    pub connection: ConnectionStatus,
    /// The `ts` of the reading that changed the value.
    pub changed_at_ms: Option<i64>,
    /// The number of the newest event of the device, from 1.
    pub sequence: u64,
    /// The events since the last notification that was delivered, oldest first.
    pub types: Vec<DeviceEventKind>,
    /// Notifications that were superseded or failed since then.
    pub skipped: u64,
}

impl Notification {
    /// Reads a body.
    ///
    /// # Errors
    /// What is missing or of the wrong form.
    pub fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        let Body { kind, timestamp, data } = serde_json::from_slice(body)?;
        Ok(Self {
            kind,
            timestamp_ms: timestamp.0,
            device_id: data.device_id,
            value: data.value,
            previous: data.previous,
            connection: data.connection,
            changed_at_ms: data.changed_at.map(|time| time.0),
            sequence: data.sequence,
            types: data.types,
            skipped: data.skipped,
        })
    }
}

#[derive(Deserialize)]
struct Body {
    #[serde(rename = "type")]
    kind: DeviceEventKind,
    timestamp: WireTime,
    data: NotificationData,
}

#[derive(Deserialize)]
struct NotificationData {
    device_id: String,
    #[serde(rename = "kind")]
    _device_kind: String,
    #[serde(rename = "address", deserialize_with = "nullable")]
    _address: Option<String>,
    value: Value,
    previous: Value,
    connection: ConnectionStatus,
    #[serde(deserialize_with = "nullable")]
    changed_at: Option<WireTime>,
    #[serde(rename = "last_seen_at", deserialize_with = "nullable")]
    _last_seen_at: Option<WireTime>,
    sequence: u64,
    types: Vec<DeviceEventKind>,
    skipped: u64,
}

/// A time in the server's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WireTime(pub(crate) i64);

impl<'de> Deserialize<'de> for WireTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let ms = wire_time::parse_ms(&text);
        ms.map(Self)
            .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a time with milliseconds")))
    }
}

/// Null is fine, absence is not.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"type":"device.changed","timestamp":"2026-11-21T01:02:03.456Z","data":
        {"device_id":"0xA","kind":"lock","address":null,"value":1,"previous":null,"connection":"online",
         "changed_at":"2026-11-21T01:02:03.000Z","last_seen_at":"2026-11-21T01:02:03.456Z","sequence":1,
         "types":["device.changed"],"skipped":0}}"#;

    #[test]
    fn a_body_of_the_contract_is_read() {
        let notification = Notification::read(BODY.as_bytes()).expect("a notification");
        assert_eq!(notification.timestamp_ms - notification.changed_at_ms.expect("it has both times"), 456);
        assert_eq!(notification.types, [DeviceEventKind::Changed]);
        assert_eq!((notification.value, notification.previous), (Value::from(1), Value::Null));
    }

    #[test]
    fn a_missing_or_misshapen_field_is_an_error() {
        for (field, instead) in [
            (r#""address":null,"#, ""),
            (r#""previous":null,"#, ""),
            (r#""changed_at":"2026-11-21T01:02:03.000Z","#, ""),
            ("03.456Z", "03Z"),
            ("device.changed", "device.moved"),
        ] {
            assert!(Notification::read(BODY.replace(field, instead).as_bytes()).is_err(), "{field}");
        }
    }
}
