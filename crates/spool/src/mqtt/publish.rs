//! From a publish to the report that the server takes over HTTP. Pure.
//!
//! The kind of the topic goes with the report, so that the server checks it as it would there. The
//! topics of kinds of one's own, answers to commands and heartbeats are not reports, and nothing
//! for later.

use std::fmt::Write;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// What a publish comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PublishMeaning {
    /// A report, as its JSON.
    Report(Vec<u8>),
    /// It says that a device is alive, or answers a command: that is of no use later.
    Passing,
    /// Its topic is none that the server has.
    Unknown,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    data: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    ts: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    id: Option<&'a RawValue>,
}

/// A member that is null is there.
fn there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// The meaning of a publish; `id` came beside the payload and goes before the one within.
pub(super) fn meaning(topic: &str, payload: &[u8], id: Option<&str>) -> PublishMeaning {
    if topic == "sensors" {
        return PublishMeaning::Report(sensors(payload, id));
    }
    let levels: Vec<&str> = topic.split('/').collect();
    match levels[..] {
        ["dev", kind, device, "state"] => PublishMeaning::Report(state((kind, device), payload, id)),
        ["dev", _, _, "heartbeat" | "ack" | "Ack" | "confirmed"] => PublishMeaning::Passing,
        _ => PublishMeaning::Unknown,
    }
}

/// The payload is the report; what is wrong with it the server says.
fn sensors(payload: &[u8], id: Option<&str>) -> Vec<u8> {
    let inner = payload.trim_ascii().strip_prefix(b"{");
    let (Some(inner), Some(id), Ok(fields)) = (inner, id, serde_json::from_slice::<Envelope<'_>>(payload))
    else {
        return payload.trim_ascii().to_vec();
    };
    if fields.id.is_some() {
        // The one beside the payload goes before it: the field is there once.
        let Ok(serde_json::Value::Object(mut object)) = serde_json::from_slice(payload) else {
            return payload.to_vec();
        };
        object.insert("id".to_owned(), id.into());
        return serde_json::Value::Object(object).to_string().into_bytes();
    }
    [format!("{{\"id\":{},", text(id)).as_bytes(), inner].concat()
}

fn state((kind, device): (&str, &str), payload: &[u8], outer: Option<&str>) -> Vec<u8> {
    let mut report = format!("{{\"device_id\":{},\"kind\":{}", text(device), text(kind));
    let mut member = |name: &str, json: &str| {
        let written = write!(report, ",\"{name}\":{json}");
        debug_assert!(written.is_ok(), "a String takes every write");
    };
    let is_object = payload.trim_ascii_start().starts_with(b"{");
    let envelope = is_object.then(|| serde_json::from_slice::<Envelope<'_>>(payload).ok()).flatten();
    let outer = outer.map(text);
    match envelope {
        Some(Envelope { data: Some(data), ts, id }) => {
            member("data", data.get());
            if let Some(ts) = ts {
                member("ts", ts.get());
            }
            if let Some(id) = outer.as_deref().or(id.map(RawValue::get)) {
                member("id", id);
            }
        }
        _ => {
            match serde_json::from_slice::<&RawValue>(payload) {
                Ok(value) => member("data", value.get()),
                // Without data the server refuses it, and people see what it was.
                Err(_) => member("payload", &text(&String::from_utf8_lossy(payload))),
            }
            if let Some(id) = outer {
                member("id", &id);
            }
        }
    }
    report.push('}');
    report.into_bytes()
}

fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(topic: &str, payload: &str, id: Option<&str>) -> String {
        match meaning(topic, payload.as_bytes(), id) {
            PublishMeaning::Report(report) => String::from_utf8(report).expect("text"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_publish_is_the_report_that_the_server_would_make_of_it() {
        for (topic, payload, id, expect) in [
            ("dev/lock/a1/state", "1", None, r#"{"device_id":"a1","kind":"lock","data":1}"#),
            (
                "dev/lock/a1/state",
                r#"{"data":1,"ts":"t","x":2}"#,
                None,
                r#"{"device_id":"a1","kind":"lock","data":1,"ts":"t"}"#,
            ),
            (
                "dev/lock/a1/state",
                r#"{"data":1,"id":"i"}"#,
                Some("o"),
                r#"{"device_id":"a1","kind":"lock","data":1,"id":"o"}"#,
            ),
            (
                "dev/lock/a1/state",
                r#"{"open":true}"#,
                None,
                r#"{"device_id":"a1","kind":"lock","data":{"open":true}}"#,
            ),
            (
                "dev/lock/a1/state",
                "1,\"id\":2",
                None,
                r#"{"device_id":"a1","kind":"lock","payload":"1,\"id\":2"}"#,
            ),
            ("dev/lock/a\"/state", "1", None, r#"{"device_id":"a\"","kind":"lock","data":1}"#),
            ("sensors", r#" {"sensor_id":"a"} "#, None, r#"{"sensor_id":"a"}"#),
            ("sensors", r#"{"sensor_id":"a"}"#, Some("o"), r#"{"id":"o","sensor_id":"a"}"#),
            ("sensors", r#"{"id":"i","sensor_id":"a"}"#, Some("o"), r#"{"id":"o","sensor_id":"a"}"#),
            (
                "dev/meter/m1/state",
                r#"{"data":null}"#,
                None,
                r#"{"device_id":"m1","kind":"meter","data":null}"#,
            ),
            ("sensors", r#"{"id":null,"sensor_id":"a"}"#, Some("o"), r#"{"id":"o","sensor_id":"a"}"#),
            ("sensors", "nonsense", Some("o"), "nonsense"),
            ("dev/lock/a1/heartbeat", "", None, "Passing"),
            ("dev/lock/a1/ack", "{}", None, "Passing"),
            ("dev/lock/a1", "1", None, "Unknown"),
            ("other", "1", None, "Unknown"),
        ] {
            assert_eq!(told(topic, payload, id), expect, "{topic} {payload}");
        }
    }
}
