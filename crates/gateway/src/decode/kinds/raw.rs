//! Commands and answers in a fixed form of the devices' own. The command's id goes to a place of
//! the payload, and comes back at a place of the answer.

use std::fmt;

use base::limits::COMMAND_RESULT_BYTES_MAX;
use base::{EntityId, Problem};
use engine::ReportContent;
use engine::commands::COMMAND_ID_PREFIX;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::decode::envelope::{missing, object_of};
use crate::decode::{UNKNOWN_COMMAND, compact, quoted, unquoted};

/// How a kind's commands and answers look.
#[derive(Clone, Debug, PartialEq)]
pub struct RawForm {
    /// Where the id of a command goes, in its payload.
    pub id_path: JsonPointer,
    /// Where it stands in an answer.
    pub ack_id_path: JsonPointer,
    /// Where an answer says how it went.
    pub ack_ok_path: JsonPointer,
    /// What stands there if it went well. Numbers are equal as numbers: 200 and 200.0.
    pub ack_ok_value: Json,
}

/// A place in a JSON value (RFC 6901), not its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPointer(Box<str>);

impl JsonPointer {
    /// What a pointer has to be.
    pub const FORM: &str = "a JSON pointer such as \"/messageId\" or \"/header/id\"";

    /// The pointer that is written so, if it is one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let escapes_right = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        (text.starts_with('/') && escapes_right).then(|| Self(text.into()))
    }

    fn in_value<'a>(&self, value: &'a Json) -> Option<&'a Json> {
        value.pointer(&self.0)
    }

    /// Whether [`JsonPointer::put`] finds or makes the place.
    fn has_place(&self, value: &Json) -> bool {
        let mut at = Some(value);
        self.0.split('/').skip(1).all(|name| match at {
            Some(Json::Object(members)) => {
                at = members.get(&name.replace("~1", "/").replace("~0", "~"));
                true
            }
            Some(_) => false,
            None => true,
        })
    }

    /// Puts a text there; objects on the way are made. Whether there is such a place.
    fn put(&self, value: &mut Json, text: &str) -> bool {
        let mut at = value;
        for name in self.0.split('/').skip(1) {
            let Json::Object(members) = at else { return false };
            let name = name.replace("~1", "/").replace("~0", "~");
            at = members.entry(name).or_insert_with(|| Json::Object(serde_json::Map::new()));
        }
        *at = text.into();
        true
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RawForm {
    /// Whether the payload has a place for a command's id.
    pub(super) fn has_place(&self, payload: &[u8]) -> bool {
        serde_json::from_slice(payload).is_ok_and(|value| self.id_path.has_place(&value))
    }

    /// The payload with the command's id in it.
    pub(super) fn command(&self, id: &str, payload: &[u8]) -> Option<Vec<u8>> {
        let mut value: Json = serde_json::from_slice(payload).ok()?;
        self.id_path.put(&mut value, id).then(|| value.to_string().into_bytes())
    }

    /// Reads an answer. All of it is the result.
    pub(super) fn answer(&self, text: &str) -> Result<ReportContent, Problem> {
        // Whatever is no object is refused as such.
        drop(object_of::<serde_json::Map<String, Json>>("an answer", text)?);
        let raw: &RawValue = object_of_raw(text)?;
        let result = compact::text(raw, "an answer", COMMAND_RESULT_BYTES_MAX)?;
        let unreadable = |error: serde_json::Error| crate::decode::not_json(&error, &result);
        let value: Json = serde_json::from_str(&result).map_err(unreadable)?;
        let id = self.ack_id_path.in_value(&value).ok_or_else(|| missing(&self.ack_id_path.0))?;
        let known = id.as_str().and_then(|id| EntityId::from_text(COMMAND_ID_PREFIX, id));
        let command = known.ok_or_else(|| {
            let shown = id.as_str().map_or_else(|| unquoted(&id.to_string()), quoted);
            let detail = format!("{} is that of no command: {shown}", self.ack_id_path.0);
            Problem::unknown(UNKNOWN_COMMAND, detail)
        })?;
        let said = self.ack_ok_path.in_value(&value).ok_or_else(|| missing(&self.ack_ok_path.0))?;
        Ok(ReportContent::Answer { command, ok: same(said, &self.ack_ok_value), result: Some(result) })
    }
}

fn object_of_raw(text: &str) -> Result<&RawValue, Problem> {
    serde_json::from_str(text).map_err(|error| crate::decode::not_json(&error, text))
}

fn same(one: &Json, other: &Json) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_is_found_where_an_id_can_be_put() {
        for (pointer, mut payload, expect) in [
            ("/id", json!({}), true),
            ("/id", json!({"id": 7}), true),
            ("/a/b", json!({}), true),
            ("/a/b", json!({"a": {}}), true),
            ("/a/b", json!({"a": 1}), false),
            ("/a~1b/c", json!({"a/b": []}), false),
            ("/a/0", json!({"a": [1]}), false),
            ("/id", json!([1]), false),
            ("/id", json!("text"), false),
        ] {
            let pointer = JsonPointer::new(pointer).expect("a pointer");
            assert_eq!(pointer.has_place(&payload), expect, "{pointer} {payload}");
            assert_eq!(pointer.put(&mut payload, "cmd_1"), expect, "{pointer} {payload}");
        }
    }
}
