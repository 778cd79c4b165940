//! What a job carries, between the protocol's form and the engine's.

use std::sync::Arc;

use base::Problem;
use base::limits::JOB_PAYLOAD_BYTES_MAX;
use bytes::Bytes;
use engine::queues::JobPayload;
use serde_json::value::RawValue;

/// From here on bytes are shared with the engine and not copied: for fewer a copy is cheaper than
/// keeping count.
const SHARED_BYTES_MIN: usize = 4_096;

/// Reads a JSON payload: the text without the blanks between its tokens.
pub(crate) fn read_json(text: &[u8]) -> Result<JobPayload, Problem> {
    let json: &RawValue = serde_json::from_slice(text)
        .map_err(|error| Problem::unreadable(format!("json is not a JSON value: {error}")))?;
    Ok(JobPayload::Json(compact(json.get()).into()))
}

/// Refuses what is no JSON.
pub(crate) fn check_json(field: &str, text: &str) -> Result<(), Problem> {
    let read: Result<&RawValue, _> = serde_json::from_str(text);
    read.map(drop).map_err(|error| Problem::unreadable(format!("{field} is not a JSON value: {error}")))
}

/// Reads a payload of bytes.
pub(crate) fn read_data(data: &[u8]) -> Result<JobPayload, Problem> {
    // Before it is copied: the engine would say the same, a copy later.
    if data.len() > JOB_PAYLOAD_BYTES_MAX {
        let detail = format!("data must be at most {JOB_PAYLOAD_BYTES_MAX} bytes, not {}", data.len());
        return Err(Problem::not_allowed("payload_too_large", detail));
    }
    Ok(JobPayload::Bytes(data.into()))
}

/// JSON text without blanks between tokens; numbers and texts stay as they are written.
fn compact(json: &str) -> String {
    let (mut compact, mut in_text, mut escaped) = (String::with_capacity(json.len()), false, false);
    let mut rest = json;
    // Text is copied in runs: blanks are rare, and within a JSON text all of them are single bytes.
    while let Some(end) = rest.bytes().position(|byte| {
        let blank = !in_text && matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            _ => {}
        }
        blank
    }) {
        compact.push_str(&rest[..end]);
        rest = &rest[end + 1..];
    }
    compact.push_str(rest);
    compact
}

/// A payload in the protocol's two fields.
pub(crate) enum WirePayload {
    /// `json`
    Json(Bytes),
    /// `data`
    Data(Bytes),
}

/// The payload as it is sent.
pub(crate) fn carried(payload: JobPayload) -> WirePayload {
    match payload {
        JobPayload::Json(text) => WirePayload::Json(if text.len() < SHARED_BYTES_MIN {
            Bytes::copy_from_slice(text.as_bytes())
        } else {
            Bytes::from_owner(Arc::<[u8]>::from(text))
        }),
        JobPayload::Bytes(data) => WirePayload::Data(if data.len() < SHARED_BYTES_MIN {
            Bytes::copy_from_slice(&data)
        } else {
            Bytes::from_owner(data)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_go_between_tokens_and_nowhere_else() {
        for (text, expect) in [
            (" { \"a b\" : [ 1 , 2.50 ] }\n", "{\"a b\":[1,2.50]}"),
            ("\"a \\\" b\"", "\"a \\\" b\""),
            ("\"\\\\\" ", "\"\\\\\""),
            ("[\" \\u0020 \", \"ы \"]", "[\" \\u0020 \",\"ы \"]"),
            (" null ", "null"),
        ] {
            assert_eq!(read_json(text.as_bytes()), Ok(JobPayload::Json(expect.into())), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_value_is_unreadable() {
        for text in [&b""[..], b"{", b"1 2", b"nul", b"\"\xff\"", b"{\"a\":1}x"] {
            assert_eq!(read_json(text).map_err(|problem| problem.code), Err("unreadable"), "{text:?}");
        }
    }

    #[test]
    fn a_payload_is_sent_as_it_was_read() {
        for size in [0, 10, SHARED_BYTES_MIN] {
            let data = vec![b' '; size];
            let WirePayload::Data(sent) = carried(read_data(&data).expect("read")) else {
                panic!("data stays data")
            };
            assert_eq!(sent, data);
            let text = serde_json::to_string(&String::from_utf8(data).expect("blanks")).expect("JSON");
            let WirePayload::Json(sent) = carried(read_json(text.as_bytes()).expect("read")) else {
                panic!("JSON stays JSON")
            };
            assert_eq!(sent, text);
        }
    }
}
