//! What a device says of its commands: an answer, progress, or an entry that was changed at the
//! device. Other fields are ignored, as in reports.

use base::limits::{COMMAND_NAME_BYTES_MAX, COMMAND_PROGRESS_BYTES_MAX, COMMAND_RESULT_BYTES_MAX};
use base::{EntityId, Problem};
use engine::ReportContent;
use engine::commands::COMMAND_ID_PREFIX;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::envelope::{missing, object_of, shown, string_of, there};
use super::{canonical, compact};

/// The code of an answer to a command that the server cannot have sent.
pub const UNKNOWN_COMMAND: &str = "unknown_command";

/// `{"message_id","ok","result"?}` or `{"message_id","progress"}`.
#[derive(Deserialize)]
struct AnswerFields<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    message_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    ok: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    progress: Option<&'a RawValue>,
}

/// `{"key","value"|null}`.
#[derive(Deserialize)]
struct ConfirmedFields<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    key: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    value: Option<&'a RawValue>,
}

/// Reads an answer, or progress.
pub(super) fn answer(text: &str) -> Result<ReportContent, Problem> {
    let AnswerFields { message_id, ok, result, progress } = object_of("an answer", text)?;
    let command = command_id(message_id.ok_or_else(|| missing("message_id"))?)?;
    let is_ok = ok.and_then(|raw| raw.get().parse::<bool>().ok());
    match (is_ok, progress, ok) {
        (Some(ok), _, _) => {
            Ok(ReportContent::Answer { command, ok, result: result.map(result_text).transpose()? })
        }
        (None, Some(progress), _) => {
            let progress = compact::text(progress, "progress", COMMAND_PROGRESS_BYTES_MAX)?;
            Ok(ReportContent::Progress { command, progress })
        }
        (None, None, Some(raw)) => {
            let detail = format!("ok must be true or false, not {}", shown(raw));
            Err(Problem::not_allowed("invalid_ok", detail))
        }
        (None, None, None) => Err(missing("ok")),
    }
}

/// Reads what was changed at the device.
pub(super) fn confirmed(message: &str) -> Result<ReportContent, Problem> {
    let ConfirmedFields { key, value } = object_of("a confirmed entry", message)?;
    let key = key.ok_or_else(|| missing("key"))?;
    let value = value.ok_or_else(|| missing("value"))?;
    let name = string_of(key).filter(|name| engine::commands::check_entry_key(name).is_ok());
    let Some(name) = name else {
        let shown = shown(key);
        let detail = format!(
            "key must be a string of 1 to {COMMAND_NAME_BYTES_MAX} bytes without quotes, backslashes and \
             control characters, not {shown}"
        );
        return Err(Problem::not_allowed("invalid_key", detail));
    };
    let value = match value.get() {
        "null" => None,
        text => Some(canonical::value_in(message, text)?.to_json().into()),
    };
    Ok(ReportContent::Confirmed { key: (&*name).into(), value })
}

/// What a device answered, as it is kept.
pub(super) fn result_text(raw: &RawValue) -> Result<Box<str>, Problem> {
    compact::text(raw, "result", COMMAND_RESULT_BYTES_MAX)
}

/// The command that a device names.
pub(super) fn command_id(raw: &RawValue) -> Result<EntityId, Problem> {
    let id = string_of(raw).and_then(|text| EntityId::from_text(COMMAND_ID_PREFIX, &text));
    id.ok_or_else(|| {
        let detail = format!("message_id is that of no command of this server: {}", shown(raw));
        Problem::unknown(UNKNOWN_COMMAND, detail)
    })
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;

    #[test]
    fn what_is_wrong_is_repeated_as_it_was_sent() {
        let id = EntityId { routing: 1, at: Timestamp(2), number: 7, tag: 3 }.to_text(COMMAND_ID_PREFIX);
        let long = format!("[{}0]", "0,".repeat(50));
        for (ok, shown) in [
            ("1", "1"),
            ("null", "null"),
            (r#""true""#, r#""true""#),
            ("{\n\"a\":1}", r#"{ "a":1}"#),
            ("[\"\u{202e}\"]", r#"["\u{202e}"]"#),
            (&long, &format!("{}...", &long[..80])),
        ] {
            let refused = answer(&format!(r#"{{"message_id":"{id}","ok":{ok}}}"#)).expect_err(ok);
            assert_eq!(refused.detail, format!("ok must be true or false, not {shown}"));
        }
        let refused = answer(r#"{"message_id":17,"ok":true}"#).expect_err("no text");
        assert!(refused.detail.ends_with(": 17"), "{}", refused.detail);
    }
}
