//! Messages of streams as bodies and lines ask for them. What a message may be in the end, the
//! engine decides.

use base::Problem;
use base::limits::MESSAGES_PER_CALL_MAX;
use engine::streams::{NewMessage, OwnedExternalId, check_message};
use net::problem::quoted;
use utoipa::openapi::schema::OneOfBuilder;
use utoipa::openapi::{RefOr, Schema};

use super::members::{Grammar, GrammarField, Members, ParsedBody, payload_of, read_line};
use crate::fields::{object_members, string, time, wrong_type};
use crate::openapi::words;

/// A body that appends.
pub(in crate::shape) static MESSAGES: Grammar = Grammar {
    item: "message",
    fields: &["payload", "payload_base64", "source", "external_id", "segment", "ts", "headers"],
    many: "messages",
    beside: &["expect_last_id"],
    items_max: MESSAGES_PER_CALL_MAX,
    too_many: "too_many_messages",
};

const EXPECT_LAST_ID: GrammarField = MESSAGES.field("expect_last_id");
const SOURCE: GrammarField = MESSAGES.field("source");
const EXTERNAL_ID: GrammarField = MESSAGES.field("external_id");
const SEGMENT: GrammarField = MESSAGES.field("segment");
const TS: GrammarField = MESSAGES.field("ts");
const HEADERS: GrammarField = MESSAGES.field("headers");

/// What a body asks to be appended.
#[derive(Debug)]
pub(crate) struct NewMessages {
    pub messages: Vec<NewMessage>,
    /// Only behind this one.
    pub expect_last_id: Option<u64>,
}

/// The schema of a body with a message, or many.
pub(crate) fn new_messages_schema() -> Schema {
    let mut of_one = members().to_vec();
    of_one.push(("expect_last_id?", words::message_id()));
    let many =
        [("messages", words::messages(new_message_schema())), ("expect_last_id?", words::message_id())];
    let items = OneOfBuilder::new().item(RefOr::T(words::body(&of_one)));
    Schema::OneOf(items.item(RefOr::T(words::body(&many))).build())
}

/// The schema of a line.
pub(crate) fn new_message_schema() -> Schema {
    words::body(&members())
}

fn members() -> [(&'static str, Schema); 7] {
    [
        ("payload?", words::any()),
        ("payload_base64?", words::base64()),
        ("source?", words::stream_label()),
        ("external_id?", words::external_id()),
        ("segment?", words::stream_label()),
        ("ts?", words::time()),
        ("headers?", words::message_headers()),
    ]
}

/// The messages that a body asks for, one or many.
///
/// # Errors
/// 400 or 422; of one of many it says which.
pub(crate) fn new_messages(text: &str) -> Result<NewMessages, Problem> {
    let (messages, beside) = match ParsedBody::read(text, &MESSAGES, new_message)? {
        ParsedBody::One(message, members) => (vec![message], members),
        ParsedBody::Many { items, beside } => (items, beside),
    };
    Ok(NewMessages { messages, expect_last_id: beside.optional(EXPECT_LAST_ID, message_id)? })
}

/// The message that a line asks for, form and range checked.
///
/// # Errors
/// 400 or 422.
pub(crate) fn message_in_line(line: &str) -> Result<NewMessage, Problem> {
    let message = new_message(&read_line(line, &MESSAGES)?)?;
    check_message(&"the line", &message)?;
    Ok(message)
}

fn new_message(members: &Members<'_>) -> Result<NewMessage, Problem> {
    members.all_known()?;
    let mut message = NewMessage::new(payload_of(members)?.into());
    message.source = members.optional(SOURCE, text)?;
    message.external_id = members.optional(EXTERNAL_ID, external_id)?;
    message.segment = members.optional(SEGMENT, text)?;
    message.ts = members.optional(TS, time)?;
    message.headers = members.optional(HEADERS, headers)?.unwrap_or_default();
    Ok(message)
}

fn text(name: &str, json: &str) -> Result<Box<str>, Problem> {
    string(name, json).map(String::into_boxed_str)
}

/// A whole number, or a text.
fn external_id(name: &str, json: &str) -> Result<OwnedExternalId, Problem> {
    if json.starts_with('"') {
        return Ok(OwnedExternalId::from_text(&string(name, json)?));
    }
    if !json.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(wrong_type(name, json, "a whole number or a text"));
    }
    let number = json.parse().ok().filter(|number| *number <= i64::MAX.unsigned_abs());
    number.map(OwnedExternalId::Number).ok_or_else(|| {
        let most = i64::MAX;
        let detail = format!("{name} is {}; as a number it must be whole, 0 to {most}", quoted(json));
        Problem::not_allowed("invalid_external_id", detail)
    })
}

/// The id of a message, as it is shown or as a number; 0 is before the first.
pub(super) fn message_id(name: &str, json: &str) -> Result<u64, Problem> {
    let digits = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        const RIGHT: &str = "the id of a message, such as \"42\"";
        let Ok(text) = string(name, json) else { return Err(wrong_type(name, json, RIGHT)) };
        let detail = format!("{name} is {}; it must be {RIGHT}", quoted(&text));
        return Err(Problem::not_allowed("wrong_type", detail));
    }
    digits.parse().map_err(|_| {
        let detail = format!("{name} is {}; no message has such an id", quoted(digits));
        Problem::not_allowed("invalid_number", detail)
    })
}

/// Names with their texts, in the order of the sender.
type Headers = Vec<(Box<str>, Box<str>)>;

fn headers(name: &str, json: &str) -> Result<Headers, Problem> {
    let header = |(key, value): (String, &serde_json::value::RawValue)| {
        let value = text(&format!("{name}.{}", quoted(&key)), value.get())?;
        Ok((key.into_boxed_str(), value))
    };
    object_members(name, json)?.into_iter().map(header).collect()
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use engine::streams::MessagePayload;

    use super::*;

    #[test]
    fn a_message_has_what_its_body_says() {
        let NewMessages { messages, expect_last_id } = new_messages(
            r#"{"payload": {"a": 1}, "source": "till-4", "external_id": 7, "segment": "eu", "expect_last_id": "12",
                "ts": "2026-11-21T01:02:03Z", "headers": {"k": "v", "a": "b"}}"#,
        )
        .expect("allowed");
        assert_eq!(expect_last_id, Some(12));
        let expect = NewMessage {
            payload: MessagePayload::Json((*br#"{"a":1}"#).into()),
            source: Some("till-4".into()),
            external_id: Some(OwnedExternalId::Number(7)),
            segment: Some("eu".into()),
            ts: Some(Timestamp(1_795_222_923_000)),
            headers: vec![("a".into(), "b".into()), ("k".into(), "v".into())],
        };
        assert_eq!(messages, [expect]);
        let many = r#"{"messages": [{"payload": null}, {"payload_base64": "AP8="}]}"#;
        let NewMessages { messages, expect_last_id } = new_messages(many).expect("allowed");
        let payloads: Vec<_> = messages.into_iter().map(|message| message.payload).collect();
        let expect = [MessagePayload::Json((*b"null").into()), MessagePayload::Bytes([0, 255].into())];
        assert_eq!((&payloads[..], expect_last_id), (&expect[..], None));
    }

    #[test]
    fn an_external_id_is_a_number_however_it_is_written() {
        for (given, expect) in [
            ("0", Ok(OwnedExternalId::Number(0))),
            ("9223372036854775807", Ok(OwnedExternalId::Number(9_223_372_036_854_775_807))),
            (r#""42""#, Ok(OwnedExternalId::Number(42))),
            (r#""042""#, Ok(OwnedExternalId::Text("042".into()))),
            (r#""order-42""#, Ok(OwnedExternalId::Text("order-42".into()))),
            ("9223372036854775808", Err("invalid_external_id")),
            ("-1", Err("invalid_external_id")),
            ("1.5", Err("invalid_external_id")),
            ("1e3", Err("invalid_external_id")),
            ("true", Err("wrong_type")),
            ("[]", Err("wrong_type")),
        ] {
            let read = external_id("external_id", given);
            assert_eq!(read.map_err(|problem| problem.code), expect, "{given}");
        }
    }

    #[test]
    fn what_no_message_can_be_is_refused_with_its_place() {
        for (message, code, part) in [
            ("{}", "missing_field", "payload"),
            (r#"{"payload":1,"payload_base64":"AA=="}"#, "conflicting_fields", "a message carries one"),
            (r#"{"payload":1,"source":7}"#, "wrong_type", "source is a number"),
            (r#"{"payload":1,"ts":"soon"}"#, "invalid_time", "soon"),
            (r#"{"payload":1,"headers":["a"]}"#, "wrong_type", "headers is an array"),
            (r#"{"payload":1,"headers":{"a":1}}"#, "wrong_type", "headers.\"a\" is a number"),
            (r#"{"payload":1,"hue":3}"#, "unknown_field", "\"hue\""),
            (r#"{"payload":1,"expect_last_id":"3"}"#, "unknown_field", "expect_last_id"),
            ("7", "not_an_object", "a number"),
        ] {
            let body = format!(r#"{{"messages":[{{"payload":1}},{message}]}}"#);
            let problem = new_messages(&body).expect_err(message);
            assert_eq!(problem.code, code, "{message}: {problem}");
            let Problem { detail, .. } = &problem;
            assert!(detail.contains(part) && detail.starts_with("message 2: "), "{message}: {problem}");
        }
    }

    #[test]
    fn an_expected_id_is_a_decimal() {
        for (given, expect) in [
            (r#""0""#, Ok(Some(0))),
            ("17", Ok(Some(17))),
            ("null", Ok(None)),
            (r#""""#, Err("wrong_type")),
            (r#""-1""#, Err("wrong_type")),
            (r#""18446744073709551616""#, Err("invalid_number")),
        ] {
            let body = format!(r#"{{"messages":[{{"payload":1}}],"expect_last_id":{given}}}"#);
            let read = new_messages(&body).map(|read| read.expect_last_id);
            assert_eq!(read.map_err(|problem| problem.code), expect, "{given}");
        }
    }

    #[test]
    fn a_line_is_one_message_and_checked_at_once() {
        assert!(message_in_line(r#"{"payload":1}"#).is_ok());
        for (line, code) in [
            (r#"{"payload":1,"expect_last_id":"1"}"#, "unknown_field"),
            (r#"{"payload":1,"source":"a"}"#, "missing_field"),
            (r#"{"messages":[]}"#, "unknown_field"),
            ("[1]", "not_an_object"),
            ("{", "unreadable"),
        ] {
            let read = message_in_line(line).map(drop);
            assert_eq!(read.map_err(|problem| problem.code), Err(code), "{line}");
        }
    }
}
