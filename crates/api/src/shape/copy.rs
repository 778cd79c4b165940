//! Nodes, copies and receipts in requests and answers.

use base::Problem;
use base::limits::{EXACT_NUMBER_MAX, SEGMENTS_PER_READ_MAX};
use engine::nodes::{NewNode, NodeStatus};
use engine::records::CopyDirection;
use engine::streams::{CopyReport, NewCopy, ReceiptStatus, ReportsTerms, StreamName, SubscriptionFrom};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use super::subscription::from;
use super::text::Time;
use crate::fields::{ObjectFields, string, strings, whole_within, wrong_type};
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// Longest URL of a node, in characters.
const URL_CHARS_MAX: usize = 2_048;
/// Longest token of a node, in bytes.
const TOKEN_BYTES_MAX: usize = 4_096;

/// Another node, and whether it answers.
#[derive(Serialize, ToSchema)]
#[schema(as = Node)]
pub(crate) struct NodeShape<'a> {
    #[schema(schema_with = words::node_name)]
    name: &'a str,
    #[schema(schema_with = words::url)]
    url: &'a str,
    /// Whether it answered the latest request.
    reachable: bool,
    /// When it last answered, since this server started.
    #[schema(required)]
    last_contact_at: Option<Time>,
    /// Why the latest request failed.
    #[schema(required)]
    error: Option<&'a str>,
}

impl<'a> From<&'a NodeStatus> for NodeShape<'a> {
    fn from(shown: &'a NodeStatus) -> Self {
        Self {
            name: &shown.node.name,
            url: &shown.node.url,
            reachable: shown.contact.reachable,
            last_contact_at: shown.contact.last_contact_at.map(Time),
            error: shown.contact.error.as_deref(),
        }
    }
}

impl CsvRow for NodeShape<'_> {
    const COLUMNS: &'static [&'static str] = &["name", "url", "reachable", "last_contact_at", "error"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.name).text(self.url).shown(self.reachable).shown_or_empty(self.last_contact_at);
        cells.shown_or_empty(self.error);
    }
}

/// The schema of a node to be put.
pub(crate) fn new_node_schema() -> Schema {
    words::body(&[("url", words::url()), ("token?", words::any_text())])
}

/// The node that a body asks for.
///
/// # Errors
/// 400 or 422.
pub(crate) fn new_node(name: &str, text: &str) -> Result<NewNode, Problem> {
    let fields = ObjectFields::read(text, &["url", "token"])?;
    let url = fields.required("url", node_url)?;
    let token = fields.optional("token", node_token)?;
    Ok(NewNode { name: name.into(), url, token })
}

fn node_url(name: &str, json: &str) -> Result<Box<str>, Problem> {
    let url = string(name, json)?;
    let wrong = |what: &str| Err(Problem::not_allowed("invalid_url", format!("{name} {what}")));
    if url.chars().count() > URL_CHARS_MAX {
        return wrong("must have at most 2048 characters");
    }
    let Ok(uri) = url.parse::<axum::http::Uri>() else {
        return wrong("is no URL; write it as http://192.0.2.7:8080");
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return wrong("must begin with http:// or https:// and name a host");
    }
    if uri.query().is_some()
        || url.contains('#')
        || uri.authority().is_some_and(|at| at.as_str().contains('@'))
    {
        return wrong("must have no ?, no # and no password: a node asks for a token");
    }
    Ok(url.trim_end_matches('/').into())
}

fn node_token(name: &str, json: &str) -> Result<Box<str>, Problem> {
    let token = string(name, json)?;
    let is_one =
        !token.is_empty() && token.len() <= TOKEN_BYTES_MAX && token.bytes().all(|b| b.is_ascii_graphic());
    if is_one {
        return Ok(token.into());
    }
    let detail = format!("{name} must be 1 to {TOKEN_BYTES_MAX} visible ASCII characters");
    Err(Problem::not_allowed("invalid_token", detail))
}

/// A copy of a stream, and how far it has come.
#[derive(Serialize, ToSchema)]
#[schema(as = Copy)]
pub(crate) struct CopyShape<'a> {
    #[schema(schema_with = words::queue_name)]
    name: &'a str,
    /// Whether it copies messages to a stream, or brings reports of devices to the other node.
    #[schema(schema_with = words::copy_kind)]
    kind: &'static str,
    /// Whether it gives messages on, or takes them in.
    #[schema(schema_with = words::copy_direction)]
    direction: &'static str,
    /// The node at the other end; `self` is this one.
    #[schema(schema_with = words::node_name)]
    node: &'a str,
    /// The stream at the other end. A copy of kind `reports` has none.
    #[schema(required)]
    stream: Option<String>,
    /// The only segments that are copied; all if it is empty.
    segments: &'a [Box<str>],
    /// Whose reports a copy of kind `reports` brings; those of all devices if there is none.
    #[schema(required)]
    selector: Option<&'a str>,
    live_share: f64,
    /// Bytes in a second at most.
    #[schema(required)]
    rate: Option<u64>,
    #[schema(schema_with = words::copy_state)]
    state: &'static str,
    /// Every message up to this id, of the stream that is read, is durable at the other end.
    #[schema(schema_with = words::message_id)]
    position: String,
    /// Messages that are not copied. With `segments` those of others count too: it is at most so
    /// much. Of kind `reports`, accepted reports that are no messages yet count too.
    lag: u64,
    /// When the oldest of these was received.
    #[schema(required)]
    oldest_uncopied_at: Option<Time>,
    /// Messages that were new at the other end.
    copied: u64,
    /// Messages that were there already.
    duplicates: u64,
    /// Messages that went for want of room before they were copied.
    dropped: u64,
    /// Reports that the other node refused for good, which it keeps in its quarantine.
    refused: u64,
    /// Why it does not go on.
    #[schema(required)]
    error: Option<&'a str>,
    /// When the stream at the other end was last seen to be made anew.
    #[schema(required)]
    source_reset_at: Option<Time>,
    created_at: Time,
}

impl<'a> From<&'a CopyReport> for CopyShape<'a> {
    fn from(shown: &'a CopyReport) -> Self {
        let row = &shown.row;
        let reports = row.reports.as_deref();
        Self {
            name: &row.name,
            kind: if reports.is_some() { REPORTS } else { MESSAGES },
            direction: row.direction.as_str(),
            node: &row.node,
            stream: reports.is_none().then(|| format!("{}/{}", row.other_namespace, row.other_name)),
            segments: if reports.is_some() { &[] } else { &row.segments },
            selector: reports.and_then(|reports| reports.selector.as_deref()),
            live_share: f64::from(row.live_permille) / 1_000.0,
            rate: row.rate,
            state: shown.state.as_str(),
            position: row.position.to_string(),
            lag: shown.lag,
            oldest_uncopied_at: shown.oldest_uncopied_at.map(Time),
            copied: row.copied,
            duplicates: row.duplicates,
            dropped: row.dropped,
            refused: reports.map_or(0, |reports| reports.refused),
            error: shown.error.as_deref(),
            source_reset_at: row.reset_at.map(Time),
            created_at: Time(row.created_at),
        }
    }
}

impl CsvRow for CopyShape<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "kind",
        "direction",
        "node",
        "stream",
        "state",
        "position",
        "lag",
        "oldest_uncopied_at",
        "copied",
        "duplicates",
        "dropped",
        "refused",
        "error",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.name).text(self.kind).text(self.direction).text(self.node);
        cells.text(self.stream.as_deref().unwrap_or_default()).text(self.state);
        cells.text(&self.position).shown(self.lag).shown_or_empty(self.oldest_uncopied_at);
        cells.shown(self.copied).shown(self.duplicates).shown(self.dropped).shown(self.refused);
        cells.shown_or_empty(self.error);
    }
}

/// The kinds of a copy.
const MESSAGES: &str = "messages";
const REPORTS: &str = "reports";

/// The schema of a copy to be put.
pub(crate) fn new_copy_schema() -> Schema {
    words::body(&[
        ("direction?", words::copy_direction()),
        ("node", words::node_name()),
        ("stream?", words::any_text()),
        ("segments?", words::array_of(words::stream_label())),
        ("from?", words::subscription_from()),
        ("live_share?", words::share()),
        ("rate?", words::whole(1, EXACT_NUMBER_MAX)),
        ("kind?", words::copy_kind()),
        ("selector?", words::any_text()),
    ])
}

/// The copy that a body asks for, and where it begins.
///
/// # Errors
/// 400 or 422.
pub(crate) fn new_copy(
    stream: &StreamName,
    name: &str,
    text: &str,
) -> Result<(NewCopy, Option<SubscriptionFrom>), Problem> {
    let known = ["direction", "node", "stream", "segments", "from", "live_share", "rate", "kind", "selector"];
    let fields = ObjectFields::read(text, &known)?;
    let is_of_reports = fields.optional("kind", kind)?.unwrap_or(false);
    let other = fields.optional("stream", other_stream)?;
    let segments = fields.optional("segments", segments)?;
    let live_share = fields.optional("live_share", share)?;
    let selector = fields.optional("selector", string)?;
    let foreign = match is_of_reports {
        true => [
            ("stream", other.is_some()),
            ("segments", segments.is_some()),
            ("live_share", live_share.is_some()),
        ],
        false => [("selector", selector.is_some()), ("", false), ("", false)],
    };
    if let Some((field, _)) = foreign.into_iter().find(|(_, is_given)| *is_given) {
        let kind = if is_of_reports { REPORTS } else { MESSAGES };
        let detail = format!("{field} is nothing that a copy of kind {kind} has");
        return Err(Problem::not_allowed("unknown_field", detail));
    }
    let direction = match fields.optional("direction", direction)? {
        Some(direction) => direction,
        None if is_of_reports => CopyDirection::To,
        None => fields.required("direction", direction)?,
    };
    let copy = NewCopy {
        name: name.into(),
        direction,
        node: fields.required("node", string)?.into(),
        other: other.unwrap_or_else(|| stream.clone()),
        segments: segments.unwrap_or_default(),
        from: None,
        live_permille: live_share.unwrap_or_default(),
        rate: fields.optional("rate", |name, json| whole_within(name, json, &(1..=EXACT_NUMBER_MAX)))?,
        reports: is_of_reports.then(|| ReportsTerms { selector: selector.map(Box::from) }),
    };
    Ok((copy, fields.optional("from", from)?))
}

/// Whether a copy brings reports.
fn kind(name: &str, json: &str) -> Result<bool, Problem> {
    match string(name, json)?.as_str() {
        MESSAGES => Ok(false),
        REPORTS => Ok(true),
        _ => {
            let detail = format!("{name} is {json}; it must be \"messages\" or \"reports\"");
            Err(Problem::not_allowed("unknown_word", detail))
        }
    }
}

fn direction(name: &str, json: &str) -> Result<CopyDirection, Problem> {
    let given = string(name, json)?;
    let found = CopyDirection::ALL.into_iter().find(|direction| direction.as_str() == given);
    found.ok_or_else(|| {
        Problem::not_allowed("unknown_word", format!("{name} is {json}; it must be \"to\" or \"from\""))
    })
}

fn other_stream(name: &str, json: &str) -> Result<StreamName, Problem> {
    let given = string(name, json)?;
    match given.split_once('/') {
        Some((namespace, stream)) => StreamName::new(namespace, stream),
        None => {
            let detail = format!("{name} is {json}; it must be \"namespace/stream\"");
            Err(Problem::not_allowed("invalid_name", detail))
        }
    }
}

fn segments(name: &str, json: &str) -> Result<Vec<Box<str>>, Problem> {
    let given = strings(name, json)?;
    Ok(given.into_iter().take(SEGMENTS_PER_READ_MAX + 1).map(Box::from).collect())
}

/// A part of one, in thousandths.
fn share(name: &str, json: &str) -> Result<u32, Problem> {
    let share: f64 = json.parse().map_err(|_| wrong_type(name, json, "a number from 0 to 1"))?;
    if !(0.0..=1.0).contains(&share) {
        let detail = format!("{name} is {json}; it must be from 0 to 1");
        return Err(Problem::not_allowed("invalid_number", detail));
    }
    // What is above 0 has a live lane.
    let least = if share > 0.0 { 1 } else { 0 };
    Ok(((share * 1_000.0).round() as u32).max(least))
}

/// On which nodes a message is durable.
#[derive(Serialize, ToSchema)]
#[schema(as = Receipt)]
pub(crate) struct ReceiptShape<'a> {
    /// What the nodes call themselves: this one, and those that it was copied to and that have
    /// answered.
    durable_on: &'a [Box<str>],
    /// Whether these are as many as were asked for.
    enough: bool,
}

impl<'a> ReceiptShape<'a> {
    pub(crate) fn of(receipt: &'a ReceiptStatus, nodes: usize) -> Self {
        Self { durable_on: &receipt.durable_on, enough: receipt.durable_on.len() >= nodes }
    }
}

/// What became of messages that a copy sent.
#[derive(Serialize)]
pub(crate) struct TransferredShape {
    pub(crate) appended: u64,
    pub(crate) duplicates: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_what_its_body_says() {
        let here = StreamName::new("shop", "orders").expect("a name");
        let body = r#"{"direction":"to","node":"dc1","stream":"all/orders","segments":["a","b"],"from":"end",
            "live_share":0.25,"rate":1000}"#;
        let (copy, from) = new_copy(&here, "c", body).expect("allowed");
        assert_eq!((copy.live_permille, copy.rate, copy.segments.len()), (250, Some(1_000), 2));
        assert_eq!(copy.other.to_string(), "all/orders");
        assert!(from.is_some());
        let (copy, from) = new_copy(&here, "c", r#"{"direction":"from","node":"dc1"}"#).expect("allowed");
        assert_eq!((copy.other, copy.rate, from), (here.clone(), None, None));
        for (share, expect) in [("0", 0), ("0.0001", 1), ("0.9999", 1_000), ("1", 1_000)] {
            let body = format!(r#"{{"direction":"to","node":"dc1","live_share":{share}}}"#);
            assert_eq!(new_copy(&here, "c", &body).expect("allowed").0.live_permille, expect, "{share}");
        }
        for (body, code) in [
            ("{}", "missing_field"),
            (r#"{"direction":"up","node":"a"}"#, "unknown_word"),
            (r#"{"direction":"to","node":"a","stream":"x"}"#, "invalid_name"),
            (r#"{"direction":"to","node":"a","live_share":1.001}"#, "invalid_number"),
            (r#"{"direction":"to","node":"a","live_share":-0.1}"#, "invalid_number"),
            (r#"{"direction":"to","node":"a","live_share":"x"}"#, "wrong_type"),
            (r#"{"direction":"to","node":"a","kind":"events"}"#, "unknown_word"),
            (r#"{"node":"a","kind":"reports","stream":"a/b"}"#, "unknown_field"),
            (r#"{"node":"a","kind":"reports","segments":["x"]}"#, "unknown_field"),
            (r#"{"node":"a","kind":"reports","live_share":0.5}"#, "unknown_field"),
            (r#"{"node":"a","direction":"to","selector":"site=1"}"#, "unknown_field"),
            (r#"{"direction":"to","node":"a","hue":1}"#, "unknown_field"),
        ] {
            assert_eq!(
                new_copy(&here, "c", body).map_err(|problem| problem.code).err(),
                Some(code),
                "{body}"
            );
        }
    }

    #[test]
    fn a_copy_of_reports_goes_to_a_node_and_has_no_stream_there() {
        let here = StreamName::new("edge", "reports").expect("a name");
        let body = r#"{"kind":"reports","node":"dc1","selector":"site=12","rate":1000}"#;
        let (copy, from) = new_copy(&here, "c", body).expect("allowed");
        assert_eq!((copy.direction, copy.rate, from), (CopyDirection::To, Some(1_000), None));
        assert_eq!(copy.reports.and_then(|reports| reports.selector).as_deref(), Some("site=12"));
        let (copy, _) = new_copy(&here, "c", r#"{"kind":"reports","node":"dc1"}"#).expect("allowed");
        assert_eq!(copy.reports, Some(ReportsTerms { selector: None }));
        let (copy, _) =
            new_copy(&here, "c", r#"{"kind":"messages","direction":"to","node":"a"}"#).expect("allowed");
        assert_eq!(copy.reports, None);
    }

    #[test]
    fn a_node_is_reached_over_http() {
        for (url, expect) in [
            ("http://192.0.2.7:8080/", Ok("http://192.0.2.7:8080")),
            ("https://dc1.example/fieldpost", Ok("https://dc1.example/fieldpost")),
            ("ftp://a", Err("invalid_url")),
            ("dc1:8080", Err("invalid_url")),
            ("http://a/?b", Err("invalid_url")),
            ("http://u:p@a/", Err("invalid_url")),
        ] {
            let read = new_node("dc1", &format!("{{\"url\":\"{url}\",\"token\":\"t\"}}"));
            let read = read.as_ref().map(|node| &*node.url).map_err(|problem| problem.code);
            assert_eq!(read, expect, "{url}");
        }
    }
}
