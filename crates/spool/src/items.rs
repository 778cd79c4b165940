//! What a request's body holds: the reports, jobs or messages that are spooled one by one, or the
//! whole request where it must stay together. Pure.
//!
//! Only what has to be known here is looked at. What is wrong otherwise the server refuses, and
//! then it is kept in `refused.ndjson`.

use base::Problem;
use base::limits::{MESSAGES_PER_CALL_MAX, NDJSON_LINE_BYTES_MAX};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

use crate::destination::{Destination, DestinationKind};
use crate::record::SpoolEntry;

/// Longest `Idempotency-Key`, in bytes.
const KEY_BYTES_MAX: usize = 255;
/// Most jobs or messages of a call; most lines of one too.
const ITEMS_MAX: usize = MESSAGES_PER_CALL_MAX;
/// Most lines of one request.
const LINES_MAX: usize = 100_000;

/// A body, and what came with it.
#[derive(Clone, Debug)]
pub(crate) struct SpoolBody<'a> {
    pub(crate) bytes: &'a [u8],
    /// It is lines of JSON.
    pub(crate) is_lines: bool,
    /// The caller's `Idempotency-Key`.
    pub(crate) key: Option<&'a str>,
    /// What the spool calls itself. Keys and sources of others do not begin with it, since the
    /// server would take what the spool sends for theirs.
    pub(crate) own_name: &'a str,
}

/// What is to be spooled of a body. `new_key` makes a key for a request that has to stay together
/// and has none.
///
/// # Errors
/// 400, 413 or 422, as the server would say.
pub(crate) fn entries(
    to: &Destination,
    body: &SpoolBody<'_>,
    new_key: impl FnOnce() -> String,
) -> Result<Vec<SpoolEntry>, Problem> {
    let array = match to.kind() {
        DestinationKind::Reports => None,
        DestinationKind::Queue => Some("jobs"),
        DestinationKind::Stream => Some("messages"),
    };
    if body.is_lines && to.kind() != DestinationKind::Queue {
        return lines(to, body);
    }
    let text = text_of(body.bytes)?;
    let Some(array) = array else {
        if text.len() > NDJSON_LINE_BYTES_MAX {
            return Err(too_long("a report"));
        }
        object(text)?;
        return Ok(vec![one(to, text)]);
    };
    if let Some(key) = body.key {
        check_key(key, body.own_name)?;
    }
    let members = object(text)?;
    let Some(many) = members.get(array) else {
        check_source(to, text.as_bytes(), body.own_name)?;
        // Beside a list of messages this is a field of the request; in a list it is none of a
        // message.
        let stays_whole = to.kind() == DestinationKind::Stream && members.contains_key("expect_last_id");
        let key = body.key.map(ToOwned::to_owned).or_else(|| stays_whole.then(new_key));
        return Ok(match key {
            Some(key) => vec![whole(to, text, key, 1)],
            None => vec![one(to, text)],
        });
    };
    let items: Vec<&RawValue> = serde_json::from_str(many.get())
        .map_err(|_| Problem::not_allowed("wrong_type", format!("{array} must be a list")))?;
    if items.is_empty() || items.len() > ITEMS_MAX {
        let code = if array == "jobs" { "too_many_jobs" } else { "too_many_messages" };
        let detail = format!("{array} has {} items; 1 to {ITEMS_MAX} are right", items.len());
        return Err(Problem::not_allowed(code, detail));
    }
    for item in &items {
        check_source(to, item.get().as_bytes(), body.own_name)?;
    }
    if body.key.is_some() || members.len() > 1 {
        let key = body.key.map_or_else(new_key, ToOwned::to_owned);
        return Ok(vec![whole(to, text, key, items.len() as u32)]);
    }
    items.into_iter().map(|item| object(item.get()).map(|_| one(to, item.get()))).collect()
}

/// One entry for each line that is not blank. A line that is no JSON is the server's to refuse: it
/// stays what it is until it is forwarded.
fn lines(to: &Destination, body: &SpoolBody<'_>) -> Result<Vec<SpoolEntry>, Problem> {
    let mut entries = Vec::new();
    let lines = body.bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    for line in lines.filter(|line| !line.is_empty()) {
        if line.len() > NDJSON_LINE_BYTES_MAX {
            return Err(too_long("a line"));
        }
        if entries.len() == LINES_MAX {
            let detail = format!("more than {LINES_MAX} lines; send them in several requests");
            return Err(Problem::new(413, "body_too_large", detail));
        }
        check_source(to, line, body.own_name)?;
        entries.push(one_line(to, line));
    }
    Ok(entries)
}

fn one(to: &Destination, text: &str) -> SpoolEntry {
    one_line(to, text.trim().as_bytes())
}

/// On a line of its own: outside of texts, line ends are blanks of JSON.
fn one_line(to: &Destination, bytes: &[u8]) -> SpoolEntry {
    let flat = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    let body: Vec<u8> = bytes.iter().map(flat).collect();
    SpoolEntry { destination: to.clone(), items: 1, key: None, follow: None, body: body.into() }
}

fn whole(to: &Destination, text: &str, key: String, items: u32) -> SpoolEntry {
    let body = Bytes::copy_from_slice(text.as_bytes());
    SpoolEntry { destination: to.clone(), items, key: Some(key.into()), follow: None, body }
}

fn object(text: &str) -> Result<BTreeMap<String, &RawValue>, Problem> {
    if !text.trim_ascii_start().starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok() {
        return Err(Problem::not_allowed("not_an_object", "the body must be a JSON object"));
    }
    serde_json::from_str(text).map_err(|error| Problem::unreadable(format!("not JSON: {error}")))
}

fn text_of(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes)
        .map_err(|bad| Problem::unreadable(format!("not UTF-8 at byte {}", bad.valid_up_to())))
}

fn too_long(what: &str) -> Problem {
    let detail = format!("{what} has more than {NDJSON_LINE_BYTES_MAX} bytes");
    Problem::new(413, "body_too_large", detail)
}

fn check_key(key: &str, own_name: &str) -> Result<(), Problem> {
    let is_right =
        (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let detail = format!("an Idempotency-Key has 1 to {KEY_BYTES_MAX} printable ASCII characters");
    if !is_right {
        return Err(Problem::not_allowed("invalid_idempotency_key", detail));
    }
    if key.starts_with(own_name) {
        let detail = format!("an Idempotency-Key that begins with {own_name} is this spool's own");
        return Err(Problem::not_allowed("invalid_idempotency_key", detail));
    }
    Ok(())
}

/// Whether a message has a source that only the spool gives.
fn check_source(to: &Destination, message: &[u8], own_name: &str) -> Result<(), Problem> {
    // Few messages have the name, or an escape that hides it: only those are taken apart.
    let is_likely = to.kind() == DestinationKind::Stream
        && (memchr::memchr(b'\\', message).is_some()
            || memchr::memmem::find(message, own_name.as_bytes()).is_some());
    let fields = if is_likely { KnownFields::of(message) } else { None };
    let source = fields.and_then(|fields| serde_json::from_str::<String>(fields.source?.get()).ok());
    if source.is_some_and(|source| source.starts_with(own_name)) {
        let detail = format!("a source that begins with {own_name} is this spool's own");
        return Err(Problem::not_allowed("invalid_name", detail));
    }
    Ok(())
}

/// What is looked at of a report or a message when it is forwarded.
#[derive(Deserialize)]
pub(crate) struct KnownFields<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) source: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) external_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) device_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) sensor_id: Option<&'a RawValue>,
}

impl<'a> KnownFields<'a> {
    /// `None` where the body is no object that can be read.
    pub(crate) fn of(body: &'a [u8]) -> Option<Self> {
        let is_object = body.trim_ascii_start().first() == Some(&b'{');
        is_object.then(|| serde_json::from_slice(body).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(
        to: &Destination,
        text: &str,
        is_lines: bool,
        key: Option<&str>,
    ) -> Result<Vec<String>, &'static str> {
        let body = SpoolBody { bytes: text.as_bytes(), is_lines, key, own_name: "spool-01" };
        let entries = entries(to, &body, || "made".to_owned()).map_err(|problem| problem.code)?;
        let told = |entry: SpoolEntry| {
            let key = entry.key.map_or_else(String::new, |key| format!("{key} {}: ", entry.items));
            format!("{key}{}", String::from_utf8_lossy(&entry.body))
        };
        Ok(entries.into_iter().map(told).collect())
    }

    /// A body, whether it is lines, its key, and what is spooled of it or why nothing is.
    type Row<'a> = (&'a str, bool, Option<&'a str>, Result<&'a [&'a str], &'static str>);

    fn check(to: &Destination, rows: &[Row<'_>]) {
        for (text, is_lines, key, expect) in rows {
            let expect = expect.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
            assert_eq!(told(to, text, *is_lines, *key), expect, "{text}");
        }
    }

    #[test]
    fn reports_are_taken_one_by_one() {
        check(
            &Destination::reports(),
            &[
                (
                    "{\"device_id\":\"a\",\n\"data\":1}",
                    false,
                    None,
                    Ok(&["{\"device_id\":\"a\", \"data\":1}"]),
                ),
                ("{}\n\n nonsense \r\n{\"a\":1}", true, None, Ok(&["{}", "nonsense", "{\"a\":1}"])),
                ("", true, None, Ok(&[])),
                ("[1]", false, None, Err("not_an_object")),
                ("nonsense", false, None, Err("unreadable")),
                ("{}", false, Some("k"), Ok(&["{}"])),
            ],
        );
    }

    #[test]
    fn jobs_and_messages_are_taken_one_by_one_unless_they_belong_together() {
        let queue = Destination::queue("ns", "q").expect("right names");
        check(
            &queue,
            &[
                (r#"{"payload":1}"#, false, None, Ok(&[r#"{"payload":1}"#])),
                (
                    r#"{"jobs":[{"payload":1}, {"payload":2}]}"#,
                    false,
                    None,
                    Ok(&[r#"{"payload":1}"#, r#"{"payload":2}"#]),
                ),
                (r#"{"payload":1}"#, false, Some("k"), Ok(&[r#"k 1: {"payload":1}"#])),
                (r#"{"expect_last_id":"0"}"#, false, None, Ok(&[r#"{"expect_last_id":"0"}"#])),
                (r#"{"jobs":[{},{}]}"#, false, Some("k"), Ok(&[r#"k 2: {"jobs":[{},{}]}"#])),
                (r#"{"jobs":[{}],"x":1}"#, false, None, Ok(&[r#"made 1: {"jobs":[{}],"x":1}"#])),
                (r#"{"jobs":[]}"#, false, None, Err("too_many_jobs")),
                (r#"{"jobs":[1]}"#, false, None, Err("not_an_object")),
                (r#"{"jobs":{}}"#, false, None, Err("wrong_type")),
                ("{}", false, Some("\n"), Err("invalid_idempotency_key")),
            ],
        );
        let stream = Destination::stream("ns", "s").expect("right names");
        let behind = r#"{"messages":[{}],"expect_last_id":"7"}"#;
        let one_behind = r#"{"payload":1,"expect_last_id":"0"}"#;
        check(
            &stream,
            &[
                (behind, false, None, Ok(&[&format!("made 1: {behind}")])),
                (one_behind, false, None, Ok(&[&format!("made 1: {one_behind}")])),
                (one_behind, false, Some("k"), Ok(&[&format!("k 1: {one_behind}")])),
                (r#"{"payload":1}"#, false, None, Ok(&[r#"{"payload":1}"#])),
                ("{}\n{}", true, None, Ok(&["{}", "{}"])),
            ],
        );
    }

    #[test]
    fn what_only_the_spool_gives_is_refused_and_that_of_other_spools_is_not() {
        let own = r#"{"payload":1,"source":"spool-01","external_id":7}"#;
        let hidden = r#"{"payload":1,"s\u006furce":"sp\u006fol-01-x","external_id":7}"#;
        let others = r#"{"payload":"spool-01","source":"spool-02","external_id":7}"#;
        let many =
            |message: &str, beside: &str| format!(r#"{{"messages":[{{"payload":0}},{message}]{beside}}}"#);
        let stream = Destination::stream("ns", "s").expect("right names");
        for own in [own, hidden] {
            for (text, is_lines, key) in [
                (own.to_owned(), false, None),
                (own.to_owned(), false, Some("k")),
                (format!("{{\"payload\":0}}\n{own}"), true, None),
                (many(own, ""), false, None),
                (many(own, r#","expect_last_id":"7""#), false, None),
            ] {
                assert_eq!(told(&stream, &text, is_lines, key), Err("invalid_name"), "{text}");
            }
        }
        for text in [others.to_owned(), many(others, "")] {
            assert!(told(&stream, &text, false, Some("spool-02-1-2")).is_ok(), "{text}");
        }
        let queue = Destination::queue("ns", "q").expect("right names");
        let job = r#"{"payload":1}"#;
        check(
            &queue,
            &[
                (job, false, Some("spool-01-1-2"), Err("invalid_idempotency_key")),
                (job, false, Some("spool-02-1-2"), Ok(&[r#"spool-02-1-2 1: {"payload":1}"#])),
                (own, false, None, Ok(&[own])),
            ],
        );
    }

    #[test]
    fn what_is_too_long_is_refused_at_once() {
        let long = "x".repeat(NDJSON_LINE_BYTES_MAX + 1);
        assert_eq!(told(&Destination::reports(), &long, true, None), Err("body_too_large"));
        assert_eq!(told(&Destination::reports(), &long, false, None), Err("body_too_large"));
    }
}
