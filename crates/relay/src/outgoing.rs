//! A row of an outbox, and what becomes of it in a call. Pure.
//!
//! A job gets the row's payload, the fields of its attributes and, for a group, its key. Both get
//! what makes them known when they come again, made of the table's identity and the row's uid. For
//! a message that is a source and an external id, for a job an idempotency key.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A longer payload is not even fetched. As compact JSON, which the API counts, it may have 1 MiB.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 4 * 1_024 * 1_024;
/// Bytes of a destination, a key or attributes that are read.
pub(crate) const FIELD_BYTES_MAX: usize = 65_536;
/// Longest name of a namespace, queue or stream, in bytes.
const NAME_BYTES_MAX: usize = 255;

const QUEUE: &str = "queue:";
const STREAM: &str = "stream:";

/// What kind of thing a row goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowTarget {
    Queue,
    Stream,
}

/// A row as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutboxRow {
    pub(crate) id: i64,
    pub(crate) uid: String,
    pub(crate) destination: String,
    pub(crate) key: Option<String>,
    /// Empty where it is null, as no JSON is. `None` where it is over [`PAYLOAD_BYTES_MAX`], or
    /// another column over [`FIELD_BYTES_MAX`].
    pub(crate) payload: Option<String>,
    pub(crate) attributes: Option<String>,
}

/// A row as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutgoingRow {
    pub(crate) id: i64,
    pub(crate) key: Option<String>,
    /// Of a job; a call with the same alias twice would be refused.
    pub(crate) alias: Option<String>,
    /// The job or the message, as JSON.
    pub(crate) body: String,
}

/// Why a row or a call is refused for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowRefusal {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) detail: String,
}

impl RowRefusal {
    fn of_row(code: &str, detail: impl Into<String>) -> Self {
        Self { status: 422, code: code.to_owned(), detail: detail.into() }
    }

    /// For the column `reason`.
    pub(crate) fn reason(&self) -> String {
        format!("{} {}: {}", self.status, self.code, self.detail)
    }
}

/// The kind and the names of `queue:ns/q` or `stream:ns/s`.
pub(crate) fn target(destination: &str) -> Option<(RowTarget, &str, &str)> {
    let of = |prefix| destination.strip_prefix(prefix)?.split_once('/');
    let (kind, (namespace, name)) = match (of(QUEUE), of(STREAM)) {
        (Some(names), _) => (RowTarget::Queue, names),
        (_, Some(names)) => (RowTarget::Stream, names),
        (None, None) => return None,
    };
    let is_right = |name: &str| {
        (1..=NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    (is_right(namespace) && is_right(name)).then_some((kind, namespace, name))
}

/// Checks a destination that somebody writes.
///
/// # Errors
/// When it is none, or one of the server's own.
pub fn check_destination(text: &str) -> Result<(), &'static str> {
    let Some((_, namespace, name)) = target(text) else {
        return Err("write it as queue:NAMESPACE/QUEUE or stream:NAMESPACE/STREAM");
    };
    if [namespace, name].iter().any(|name| name.starts_with('_')) {
        return Err("names that begin with '_' are the server's own, and refused there: take another one");
    }
    Ok(())
}

/// By what a destination knows what it has already.
const NAMES: [&str; 3] = ["idempotency_key", "source", "external_id"];

#[derive(Deserialize)]
#[serde(transparent)]
struct Attributes<'a>(#[serde(borrow)] HashMap<String, &'a RawValue>);

/// The job or the message that a row is; `source` is the table's identity.
pub(crate) fn outgoing(row: OutboxRow, source: &str) -> Result<OutgoingRow, RowRefusal> {
    let Some((kind, _, _)) = target(&row.destination) else {
        let detail = "destination must be queue:NAMESPACE/QUEUE or stream:NAMESPACE/STREAM";
        return Err(RowRefusal::of_row("invalid_destination", detail));
    };
    if row.uid.is_empty() {
        return Err(RowRefusal::of_row("invalid_uid", "uid must not be null: by it the row is known"));
    }
    let Some(payload) = row.payload else {
        let detail = format!(
            "a payload has at most 1 MiB; this one has over {PAYLOAD_BYTES_MAX} bytes, or its key, \
             destination or attributes over {FIELD_BYTES_MAX}"
        );
        return Err(RowRefusal::of_row("payload_too_large", detail));
    };
    if payload.is_empty() {
        return Err(RowRefusal::of_row("invalid_payload", "payload must not be null; JSON's null is one"));
    }
    let attributes = row.attributes.as_deref().filter(|text| *text != "null").unwrap_or("{}");
    let Ok(Attributes(fields)) = serde_json::from_str(attributes) else {
        return Err(RowRefusal::of_row("invalid_attributes", "attributes must be an object"));
    };
    for own in ["payload", "payload_base64", "group"] {
        if fields.contains_key(own) {
            let detail = format!("attributes may not have {own}: the row's own column says it");
            return Err(RowRefusal::of_row("invalid_attributes", detail));
        }
    }
    let mut body = format!("{{\"payload\":{payload}");
    // A name of its own that is null is none: it gets that of the row.
    let is_given = |name| fields.get(name).is_some_and(|value| value.get() != "null");
    let has_null = NAMES.iter().any(|name| fields.contains_key(*name) && !is_given(*name));
    // What jsonb prints is JSON; in its order, so that the same row is always the same text.
    let inner = if has_null { Cow::from(without_nulls(&fields)) } else { Cow::from(members(attributes)) };
    if !inner.is_empty() {
        body.push(',');
        body.push_str(&inner);
    }
    let mut alias = None;
    match kind {
        RowTarget::Queue => {
            alias = fields.get("alias").and_then(|alias| serde_json::from_str(alias.get()).ok());
            if let Some(key) = &row.key {
                body.push_str(",\"group\":");
                body.push_str(&serde_json::Value::from(key.as_str()).to_string());
            }
            if !is_given("idempotency_key") {
                body.push_str(&format!(",\"idempotency_key\":\"{source}:{}\"", row.uid));
            }
        }
        RowTarget::Stream => {
            if !is_given("source") && !is_given("external_id") {
                body.push_str(&format!(",\"source\":\"{source}\",\"external_id\":\"{}\"", row.uid));
            }
        }
    }
    body.push('}');
    Ok(OutgoingRow { id: row.id, key: row.key, alias, body })
}

/// The members that are not null, in order of their names.
fn without_nulls(fields: &HashMap<String, &RawValue>) -> String {
    let mut members: Vec<String> = fields
        .iter()
        .filter(|(_, value)| value.get() != "null")
        .map(|(name, value)| format!("{}:{}", serde_json::Value::from(name.as_str()), value.get()))
        .collect();
    members.sort_unstable();
    members.join(",")
}

/// What stands between the braces of an object.
fn members(object: &str) -> &str {
    let inner = object.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inner.unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(destination: &str, key: Option<&str>, attributes: Option<&str>) -> OutboxRow {
        OutboxRow {
            id: 7,
            uid: "0190f3a0-u".to_owned(),
            destination: destination.to_owned(),
            key: key.map(str::to_owned),
            payload: Some("{\"a\": 1}".to_owned()),
            attributes: attributes.map(str::to_owned),
        }
    }

    fn body(destination: &str, key: Option<&str>, attributes: Option<&str>) -> Result<String, String> {
        let sent = outgoing(row(destination, key, attributes), "relay-1");
        sent.map(|row| row.body).map_err(|refusal| refusal.code)
    }

    #[test]
    fn a_name_that_is_null_is_none() {
        let attributes = Some(r#"{"tries": 3, "alias": null, "idempotency_key": null}"#);
        let expect = r#"{"payload":{"a": 1},"tries":3,"idempotency_key":"relay-1:0190f3a0-u"}"#;
        assert_eq!(body("queue:shop/mail", None, attributes).as_deref(), Ok(expect));
        let attributes = Some(r#"{"source": null, "external_id": null}"#);
        let expect = r#"{"payload":{"a": 1},"source":"relay-1","external_id":"0190f3a0-u"}"#;
        assert_eq!(body("stream:shop/orders", None, attributes).as_deref(), Ok(expect));
        let attributes = Some(r#"{"alias": null}"#);
        let expect = r#"{"payload":{"a": 1},"alias": null,"idempotency_key":"relay-1:0190f3a0-u"}"#;
        assert_eq!(body("queue:shop/mail", None, attributes).as_deref(), Ok(expect));
    }

    #[test]
    fn a_job_has_the_fields_of_its_attributes_its_key_for_a_group_and_what_it_is_known_by() {
        for (key, attributes, expect) in [
            (None, None, ""),
            (None, Some("null"), ""),
            (None, Some("{}"), ""),
            (Some("k\"1"), None, r#","group":"k\"1""#),
            (Some("k"), Some(r#"{"delay": "5s", "tries": 2}"#), r#","delay": "5s", "tries": 2,"group":"k""#),
        ] {
            let known_by = r#","idempotency_key":"relay-1:0190f3a0-u""#;
            let expect = format!(r#"{{"payload":{{"a": 1}}{expect}{known_by}}}"#);
            assert_eq!(body("queue:ns/q", key, attributes), Ok(expect));
        }
        let own = body("queue:ns/q", None, Some(r#"{"idempotency_key": "x"}"#));
        assert_eq!(own.as_deref(), Ok(r#"{"payload":{"a": 1},"idempotency_key": "x"}"#));
        let aliased = outgoing(row("queue:a/b", None, Some(r#"{"alias": "x"}"#)), "s").expect("right");
        assert_eq!(aliased.alias.as_deref(), Some("x"));
    }

    #[test]
    fn a_message_has_what_it_is_known_by() {
        let expect = r#"{"payload":{"a": 1},"segment": "s","source":"relay-1","external_id":"0190f3a0-u"}"#;
        assert_eq!(body("stream:ns/s", Some("k"), Some(r#"{"segment": "s"}"#)).as_deref(), Ok(expect));
        let own = body("stream:ns/s", None, Some(r#"{"source": "x", "external_id": 1}"#));
        assert_eq!(own.as_deref(), Ok(r#"{"payload":{"a": 1},"source": "x", "external_id": 1}"#));
    }

    #[test]
    fn a_destination_that_somebody_writes_is_not_the_servers_own() {
        for (text, is_right) in [
            ("queue:a/b_", true),
            ("stream:a_/b", true),
            ("queue:a", false),
            ("queue:a/_b", false),
            ("stream:a/_b", false),
            ("queue:_a/b", false),
        ] {
            assert_eq!(check_destination(text).is_ok(), is_right, "{text}");
        }
    }

    #[test]
    fn what_can_never_be_sent_is_refused() {
        for (destination, attributes, code) in [
            ("nowhere", None, "invalid_destination"),
            ("queue:a", None, "invalid_destination"),
            ("queue:a/b/c", None, "invalid_destination"),
            ("stream:/s", None, "invalid_destination"),
            ("stream:a/b?c", None, "invalid_destination"),
            ("queue:a/b", Some("[1]"), "invalid_attributes"),
            ("queue:a/b", Some(r#"{"group": "g"}"#), "invalid_attributes"),
            ("queue:a/b", Some(r#"{"payload": 1}"#), "invalid_attributes"),
        ] {
            assert_eq!(body(destination, None, attributes), Err(code.to_owned()), "{destination}");
        }
        for (payload, code) in [(None, "payload_too_large"), (Some(String::new()), "invalid_payload")] {
            let row = OutboxRow { payload, ..row("queue:a/b", None, None) };
            assert_eq!(outgoing(row, "s").map_err(|refusal| refusal.code), Err(code.to_owned()));
        }
    }
}
