//! Two documents of contents, one held against the other.

use serde_json::Value;

/// Where `found` differs from `expect`; a field that was not there when `expect` was written is no
/// difference.
pub(crate) fn difference(expect: &Value, found: &Value, at: &str) -> Option<String> {
    match (expect, found) {
        (Value::Object(expect), Value::Object(found)) => expect.iter().find_map(|(key, value)| {
            difference(value, found.get(key).unwrap_or(&Value::Null), &format!("{at}/{key}"))
        }),
        (Value::Array(expect), Value::Array(found)) if expect.len() == found.len() => {
            let both = expect.iter().zip(found).enumerate();
            both.into_iter()
                .find_map(|(place, (expect, found))| difference(expect, found, &format!("{at}/{place}")))
        }
        _ if expect == found => None,
        _ => Some(format!("{at}: {found} is not {expect}")),
    }
}

/// Takes the readings of a device out, and what else moves with them.
pub(crate) fn take_readings(contents: &mut Value, device: &str) -> Vec<Value> {
    let readings = contents["readings"][device].take();
    let mut devices = contents["devices"].as_array_mut().into_iter().flatten();
    if let Some(shown) = devices.find(|shown| shown["id"] == device) {
        shown["state"].take();
    }
    contents["timelines"][device].take();
    let events = contents["events"].take();
    let others = events.as_array().into_iter().flatten().filter(|event| event["device_id"] != device);
    contents["events"] = others.cloned().collect();
    contents["counts"].take();
    match readings {
        Value::Array(readings) => readings,
        _ => Vec::new(),
    }
}
