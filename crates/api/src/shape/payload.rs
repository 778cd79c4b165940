//! What jobs and messages carry, on its way in and out: JSON as its compact text, or bytes in
//! base64.
//!
//! JSON is never made into a tree: only the white space between its tokens goes. So numbers,
//! escapes and the order of members come back as they were given.

use std::borrow::Cow;

use base::Problem;
use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use engine::queues::JobPayload;
use engine::streams::MessagePayload;
use memchr::memchr2;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::fields::string;
use crate::openapi::words;
use crate::row::Cells;

/// With and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a job or a message carries, in answers.
#[derive(Serialize, ToSchema)]
#[schema(as = Payload)]
pub(crate) struct PayloadShape<'a> {
    /// Any JSON value, as it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::any)]
    payload: Option<&'a RawValue>,
    /// Where bytes were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

impl<'a> From<&'a JobPayload> for PayloadShape<'a> {
    fn from(payload: &'a JobPayload) -> Self {
        match payload {
            JobPayload::Json(text) => Self::of(true, text.as_bytes()),
            JobPayload::Bytes(bytes) => Self::of(false, bytes),
        }
    }
}

impl<'a> PayloadShape<'a> {
    /// JSON text, or bytes. An edge that took for JSON what is none has its bytes shown.
    pub(super) fn of(is_json: bool, bytes: &'a [u8]) -> Self {
        match is_json.then(|| serde_json::from_slice(bytes)) {
            Some(Ok(json)) => Self { payload: Some(json), payload_base64: None },
            Some(Err(_)) | None => Self { payload: None, payload_base64: Some(STANDARD.encode(bytes)) },
        }
    }

    /// Two cells, one of them empty.
    pub(super) fn write(&self, cells: &mut Cells<'_>) {
        cells.json(self.payload).shown_or_empty(self.payload_base64.as_deref());
    }
}

/// The payload that a body gives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GivenPayload<'a> {
    /// Compact JSON text.
    Json(Cow<'a, str>),
    Bytes(Vec<u8>),
}

impl From<GivenPayload<'_>> for JobPayload {
    fn from(given: GivenPayload<'_>) -> Self {
        match given {
            GivenPayload::Json(text) => Self::Json(text.into()),
            GivenPayload::Bytes(bytes) => Self::Bytes(bytes.into()),
        }
    }
}

impl From<GivenPayload<'_>> for MessagePayload {
    fn from(given: GivenPayload<'_>) -> Self {
        match given {
            GivenPayload::Json(text) => Self::Json(text.into_owned().into_bytes().into()),
            GivenPayload::Bytes(bytes) => Self::Bytes(bytes.into()),
        }
    }
}

/// The payload that a body gives for an `item`, with one of these two fields; `None` without
/// either.
///
/// # Errors
/// `conflicting_fields` with both, `wrong_type` or `invalid_base64`.
pub(super) fn given<'a>(
    item: &str,
    json: Option<&'a str>,
    base64: Option<&str>,
) -> Result<Option<GivenPayload<'a>>, Problem> {
    match (json, base64.filter(|text| *text != "null")) {
        (Some(_), Some(_)) => {
            let detail = format!("payload and payload_base64 are there; a {item} carries one of the two");
            Err(Problem::not_allowed("conflicting_fields", detail))
        }
        (Some(json), None) => Ok(Some(GivenPayload::Json(compact(json)))),
        (None, Some(text)) => bytes(text).map(|bytes| Some(GivenPayload::Bytes(bytes))),
        (None, None) => Ok(None),
    }
}

fn bytes(json: &str) -> Result<Vec<u8>, Problem> {
    let text = string("payload_base64", json)?;
    LENIENT.decode(text).map_err(|error| {
        let detail = format!("payload_base64 is not base64 of the standard alphabet: {error}");
        Problem::not_allowed("invalid_base64", detail)
    })
}

/// JSON text without the white space between its tokens.
pub(crate) fn compact(json: &str) -> Cow<'_, str> {
    // In JSON every byte up to the space is white space. Chunks are folded without a branch, so
    // that the processor compares many bytes at a time.
    let is_space = |byte: u8| byte <= b' ';
    let has_space = |piece: &[u8]| piece.iter().fold(false, |found, byte| found | is_space(*byte));
    if !json.as_bytes().chunks(64).any(has_space) {
        return Cow::Borrowed(json);
    }
    // Outside of strings JSON is ASCII, so every cut lies between two characters.
    let (mut text, mut kept_from, mut at) = (String::new(), 0, 0);
    while let Some(byte) = json.as_bytes().get(at) {
        if *byte == b'"' {
            at = end_of_string(json.as_bytes(), at);
            continue;
        }
        if is_space(*byte) {
            text.push_str(&json[kept_from..at]);
            kept_from = at + 1;
        }
        at += 1;
    }
    if kept_from == 0 {
        return Cow::Borrowed(json);
    }
    text.push_str(&json[kept_from..]);
    Cow::Owned(text)
}

/// The index behind the string that opens at `begin`: behind its closing quote.
fn end_of_string(json: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(found) = memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        // A backslash escapes the byte behind it.
        at += 2;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_between_tokens_goes() {
        for (json, expect) in [
            ("null", "null"),
            (" 1.0e+05 ", "1.0e+05"),
            ("[ 1 ,\t2\r\n]", "[1,2]"),
            (r#""a  b""#, r#""a  b""#),
            (r#"{ "a \" b" : "c \\" , "d" : [ ] }"#, r#"{"a \" b":"c \\","d":[]}"#),
            (r#"{ "é \\\" ü" : "ö  ö" }"#, r#"{"é \\\" ü":"ö  ö"}"#),
            (r#"{"b":1,"a":12345678901234567890.5,"b":2}"#, r#"{"b":1,"a":12345678901234567890.5,"b":2}"#),
        ] {
            assert_eq!(compact(json), expect);
        }
    }

    #[test]
    fn a_payload_is_shown_as_it_was_given() {
        for (json, base64, shown) in [
            (Some("null"), None, r#"{"payload":null}"#),
            (Some(r#"{"n": 1.50}"#), None, r#"{"payload":{"n":1.50}}"#),
            (Some(r#""\u00e9 é""#), Some("null"), r#"{"payload":"\u00e9 é"}"#),
            (None, Some(r#""AP8=""#), r#"{"payload_base64":"AP8="}"#),
            (None, Some(r#""AP8""#), r#"{"payload_base64":"AP8="}"#),
            (None, Some(r#""""#), r#"{"payload_base64":""}"#),
        ] {
            let payload: JobPayload = given("job", json, base64).expect("allowed").expect("there").into();
            let text = serde_json::to_string(&PayloadShape::from(&payload)).expect("a shape");
            assert_eq!(text, shown);
        }
    }

    #[test]
    fn what_is_no_json_after_all_is_shown_as_bytes() {
        let payload = JobPayload::Json("{".into());
        let text = serde_json::to_string(&PayloadShape::from(&payload)).expect("a shape");
        assert_eq!(text, r#"{"payload_base64":"ew=="}"#);
    }

    #[test]
    fn a_payload_is_one_of_the_two() {
        for (json, base64, code) in [
            (Some("1"), Some("\"\""), "conflicting_fields"),
            (None, Some("1"), "wrong_type"),
            (None, Some("\"%\""), "invalid_base64"),
            (None, Some("\"A\""), "invalid_base64"),
        ] {
            assert_eq!(given("job", json, base64).map_err(|problem| problem.code), Err(code));
        }
        assert_eq!(given("job", None, Some("null")), Ok(None));
    }
}
