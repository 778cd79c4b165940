//! A message that is to be appended, checked before it reaches a partition: form and range, and
//! what each refusal says.
//!
//! An edge that takes many messages one by one, such as lines, asks for each alone; a call asks for
//! all of them.

use std::fmt::Display;

use base::Problem;
use base::limits::{
    EXTERNAL_ID_CHARS_MAX, MESSAGE_HEADER_BYTES_MAX, MESSAGE_HEADERS_MAX, MESSAGE_PAYLOAD_BYTES_MAX,
    STREAM_LABEL_CHARS_MAX,
};

use super::{MessagePayload, NewMessage, OwnedExternalId};

/// Whether a message may be appended; `what` is what a refusal calls it.
///
/// # Errors
/// 422 `payload_too_large`, `missing_field`, `invalid_name`, `invalid_external_id` or
/// `invalid_headers`.
pub fn check_message(what: &dyn Display, message: &NewMessage) -> Result<(), Problem> {
    let (MessagePayload::Json(payload) | MessagePayload::Bytes(payload)) = &message.payload;
    if payload.len() > MESSAGE_PAYLOAD_BYTES_MAX {
        let bytes = payload.len();
        let detail =
            format!("payload of {what} must be at most {MESSAGE_PAYLOAD_BYTES_MAX} bytes, not {bytes}");
        return Err(Problem::not_allowed("payload_too_large", detail));
    }
    let lonely = match (&message.source, &message.external_id) {
        (Some(_), None) => Some(("source", "external_id")),
        (None, Some(_)) => Some(("external_id", "source")),
        (Some(_), Some(_)) | (None, None) => None,
    };
    if let Some((there, missing)) = lonely {
        let detail = format!("{there} of {what} is there without {missing}; a message has both or neither");
        return Err(Problem::not_allowed("missing_field", detail));
    }
    for (field, label) in [("source", &message.source), ("segment", &message.segment)] {
        if label.as_deref().is_some_and(|label| !is_label(label)) {
            let detail =
                format!("{field} of {what} must be 1 to {STREAM_LABEL_CHARS_MAX} of A-Z a-z 0-9 _ . : and -");
            return Err(Problem::not_allowed("invalid_name", detail));
        }
    }
    check_external_id(what, message.external_id.as_ref())?;
    check_headers(what, &message.headers)
}

/// Whether a text may be a source or a segment.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'-');
    (1..=STREAM_LABEL_CHARS_MAX).contains(&text.len()) && text.bytes().all(plain)
}

fn check_external_id(what: &dyn Display, id: Option<&OwnedExternalId>) -> Result<(), Problem> {
    let fits = match id {
        None => true,
        Some(OwnedExternalId::Number(number)) => *number <= i64::MAX.unsigned_abs(),
        // Characters take up to four bytes: what is longer is not counted.
        Some(OwnedExternalId::Text(text)) => {
            text.len() <= 4 * EXTERNAL_ID_CHARS_MAX
                && (1..=EXTERNAL_ID_CHARS_MAX).contains(&text.chars().count())
        }
    };
    if fits {
        return Ok(());
    }
    let detail = format!(
        "external_id of {what} must be a whole number from 0 to {}, or 1 to {EXTERNAL_ID_CHARS_MAX} characters",
        i64::MAX
    );
    Err(Problem::not_allowed("invalid_external_id", detail))
}

fn check_headers(what: &dyn Display, headers: &[(Box<str>, Box<str>)]) -> Result<(), Problem> {
    let wrong = if headers.len() > MESSAGE_HEADERS_MAX {
        format!("must be at most {MESSAGE_HEADERS_MAX}, not {}", headers.len())
    } else if headers.iter().any(|(name, _)| name.is_empty()) {
        "must have names".to_owned()
    } else if headers.iter().any(|(name, value)| name.len() + value.len() > MESSAGE_HEADER_BYTES_MAX) {
        format!("must have at most {MESSAGE_HEADER_BYTES_MAX} bytes each, with their names")
    } else {
        return Ok(());
    };
    Err(Problem::not_allowed("invalid_headers", format!("headers of {what} {wrong}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> NewMessage {
        NewMessage::new(MessagePayload::Json((*b"1").into()))
    }

    fn check(message: &NewMessage, expect: Result<(), &'static str>) {
        let checked = check_message(&"the message", message);
        assert_eq!(checked.map_err(|problem| problem.code), expect, "{message:?}");
    }

    #[test]
    fn a_payload_has_a_bound() {
        for (bytes, expect) in [(1_048_576, Ok(())), (1_048_577, Err("payload_too_large"))] {
            let payload = MessagePayload::Bytes(vec![0; bytes].into());
            check(&NewMessage { payload, ..message() }, expect);
        }
    }

    #[test]
    fn a_source_and_an_external_id_come_together() {
        let number = OwnedExternalId::Number;
        let text = |text: &str| OwnedExternalId::Text(text.into());
        for (source, id, expect) in [
            (None, None, Ok(())),
            (Some("till-4"), Some(number(0)), Ok(())),
            (Some("a.b:c_d-E9"), Some(text("é")), Ok(())),
            (Some("till-4"), None, Err("missing_field")),
            (None, Some(number(1)), Err("missing_field")),
            (Some(""), Some(number(1)), Err("invalid_name")),
            (Some("a b"), Some(number(1)), Err("invalid_name")),
            (Some("till-4"), Some(number(1 << 63)), Err("invalid_external_id")),
            (Some("till-4"), Some(text("")), Err("invalid_external_id")),
            (Some("till-4"), Some(text(&"é".repeat(64))), Ok(())),
            (Some("till-4"), Some(text(&"e".repeat(65))), Err("invalid_external_id")),
        ] {
            check(&NewMessage { source: source.map(Box::from), external_id: id, ..message() }, expect);
        }
        for (chars, expect) in [(64, Ok(())), (65, Err("invalid_name"))] {
            check(&NewMessage { segment: Some("s".repeat(chars).into()), ..message() }, expect);
        }
    }

    #[test]
    fn headers_are_few_and_short() {
        let header = |name: &str, bytes: usize| (Box::from(name), "v".repeat(bytes).into());
        for (headers, expect) in [
            (vec![header("n", 1_023); 16], Ok(())),
            (vec![header("n", 1); 17], Err("invalid_headers")),
            (vec![header("n", 1_024)], Err("invalid_headers")),
            (vec![header("", 1)], Err("invalid_headers")),
        ] {
            check(&NewMessage { headers, ..message() }, expect);
        }
    }
}
