//! The ends of a copy of kind `reports`: what is gathered in its stream becomes lines, which the
//! other node takes as any reports.
//!
//! A node knows the last 8 ids of a device. A call may have to be made again, so it has no more
//! reports of one device. The next call goes once the position behind this one is durable. So a
//! repeat of a call is without effect. What the node refuses for good it keeps in its quarantine,
//! and the copy counts it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use base::limits::REPORT_IDS_KEPT;
use base::{LogLimit, hash};
use bytes::Bytes;
use engine::records::PeerNode;
use engine::streams::{OriginPage, OwnedMessage, PeerIdentity};
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use net::transfer::NODE_HEADER;
use serde::Deserialize;
use serde_json::Value;

use crate::ends::{CopyBatch, CopyFailure, PageAsk, SinkAnswer, SourcePage, StreamEnd};
use crate::here::LocalStream;
use crate::peer::{NodeLines, checked, counted, foreign, text, url_of};

/// What stands for the stream at the other end: reports have none. It is the same for ever, because
/// a node that was made anew is not to get old reports as new ones.
const ALL_REPORTS: &str = "reports";
/// Longest id of a report, in characters.
const REPORT_ID_CHARS_MAX: usize = 64;
/// So much of what a node says of a refused report is logged, in characters.
const WHY_CHARS_MAX: usize = 200;

/// Messages that are read at first, and at least: those of one device that go together.
const READ_MIN: usize = REPORT_IDS_KEPT;

/// The stream with what was gathered, as pages of lines.
#[derive(Clone, Debug)]
pub struct LocalReports {
    stream: LocalStream,
    /// Messages to read next: of few devices only some go together, and the rest of a page would be
    /// read again.
    next_read: Arc<AtomicUsize>,
}

/// The reports of another node.
#[derive(Clone, Debug)]
pub struct PeerReports {
    lines: Arc<NodeLines>,
    node: Box<str>,
    /// Lines of the log about reports that it refused.
    noted: Arc<LogLimit<()>>,
}

/// What is looked at of a message that is to be a report.
#[derive(Deserialize)]
struct GatheredDevice {
    device_id: Box<str>,
}

/// Messages of a page that go together.
struct ReportLines {
    body: Vec<u8>,
    messages: u64,
    /// The last one; `None` if all of the page go.
    last: Option<u64>,
}

impl LocalReports {
    /// The reports in a stream.
    #[must_use]
    pub fn new(stream: LocalStream) -> Self {
        Self { stream, next_read: Arc::new(AtomicUsize::new(READ_MIN)) }
    }
}

impl PeerReports {
    /// The reports of a node, by its name here.
    #[must_use]
    pub fn new(lines: &Arc<NodeLines>, node: Box<str>) -> Self {
        Self { lines: Arc::clone(lines), node, noted: Arc::default() }
    }

    fn identity(&self) -> PeerIdentity {
        PeerIdentity { node: self.node.clone(), stream: ALL_REPORTS.into() }
    }

    /// By its own name, which an earlier version does not say.
    fn identity_in(&self, headers: &HeaderMap) -> PeerIdentity {
        let name = text(headers, NODE_HEADER).ok().filter(|name| !name.is_empty());
        let node = name.map_or_else(|| self.node.clone(), Box::from);
        PeerIdentity { node, stream: ALL_REPORTS.into() }
    }
}

impl StreamEnd for LocalReports {
    async fn page(&self, mut ask: PageAsk) -> Result<SourcePage, CopyFailure> {
        ask.limit = ask.limit.min(self.next_read.load(Relaxed));
        let (place, read) = self.stream.durable(ask).await?;
        let mut page = page_of_reports(read);
        let goes = usize::try_from(page.messages).unwrap_or(usize::MAX);
        self.next_read.store(goes.saturating_mul(2).max(READ_MIN), Relaxed);
        page.body = place.held_by(page.body);
        Ok(page)
    }

    async fn append(&self, _: CopyBatch) -> Result<SinkAnswer, CopyFailure> {
        Err(foreign("reports are not taken from another node"))
    }
}

impl StreamEnd for PeerReports {
    /// Nothing is read there: it is asked so that a copy knows whom it speaks with.
    async fn page(&self, ask: PageAsk) -> Result<SourcePage, CopyFailure> {
        let (body, identity) = (Bytes::new(), self.identity());
        let next_after = ask.after;
        Ok(SourcePage { body, messages: 0, oldest_at: None, next_after, newest: 0, identity })
    }

    async fn append(&self, batch: CopyBatch) -> Result<SinkAnswer, CopyFailure> {
        let lines = batch.body.iter().filter(|byte| **byte == b'\n').count() as u64;
        // What is no report is in nobody's way.
        let unread = batch.messages.saturating_sub(lines);
        if lines == 0 {
            // Nobody was asked: who is there is as it was.
            let identity = PeerIdentity::default();
            return Ok(SinkAnswer { appended: 0, duplicates: 0, refused: unread, identity });
        }
        let own_name = self.lines.own_name();
        let make = |node: &PeerNode| {
            Request::post(url_of(node, "/v1/reports"))
                .header(CONTENT_TYPE, "application/x-ndjson")
                .header(NODE_HEADER, &*own_name)
                .body(Full::new(batch.body.clone()))
        };
        let answer = checked(self.lines.ask(&self.node, make).await?)?;
        let told: Value =
            serde_json::from_slice(&answer.body).map_err(|error| foreign(&error.to_string()))?;
        let (appended, refused) = (counted(&told, "accepted")?, counted(&told, "rejected_count")?);
        if appended + refused != lines {
            return Err(foreign("it counts other reports than it was sent"));
        }
        if refused > 0 {
            let why = told["rejected"][0]["detail"].as_str().unwrap_or_default();
            self.note_refused(refused, why);
        }
        let identity = self.identity_in(&answer.headers);
        Ok(SinkAnswer { appended, duplicates: 0, refused: refused + unread, identity })
    }

    fn is_stop_and_wait(&self) -> bool {
        true
    }

    fn known_identity(&self) -> Option<PeerIdentity> {
        Some(self.identity())
    }
}

impl PeerReports {
    /// Up to the log's limit: a device that is not known there is refused with each report.
    fn note_refused(&self, refused: u64, why: &str) {
        let Some(left_out) = self.noted.take((), Instant::now()) else { return };
        let why: String = why.chars().take(WHY_CHARS_MAX).collect();
        tracing::warn!(
            node = &*self.node,
            refused,
            why,
            left_out,
            "a node refused reports that were copied to it"
        );
    }
}

/// What was read of a stream of gathered reports, as its copy sends it: the first messages, as many
/// as one call may have.
#[must_use]
pub fn page_of_reports(read: OriginPage) -> SourcePage {
    let (newest, identity) = (read.newest_durable, read.identity.clone());
    let page = read.with_origins();
    let ReportLines { body, messages, last } = lines_of(&page.items);
    SourcePage {
        messages,
        oldest_at: page.items.first().map(|message| message.received_at),
        next_after: last.unwrap_or(page.next_after),
        newest,
        identity,
        body: body.into(),
    }
}

/// The lines of the first messages: as many as one call may have. A message that is no report has
/// no line.
fn lines_of(messages: &[OwnedMessage]) -> ReportLines {
    let mut lines = ReportLines { body: Vec::new(), messages: 0, last: None };
    let mut of_device: HashMap<Box<str>, usize> = HashMap::new();
    let mut last = None;
    for message in messages {
        if let Some((device, line)) = line_of(message) {
            let count = of_device.entry(device).or_insert(0);
            *count += 1;
            if *count > REPORT_IDS_KEPT {
                lines.last = last;
                return lines;
            }
            lines.body.extend_from_slice(&line);
        }
        lines.messages += 1;
        last = Some(message.id);
    }
    lines
}

/// Whom a message is from, and its line with an id that is always the same.
fn line_of(message: &OwnedMessage) -> Option<(Box<str>, Vec<u8>)> {
    let payload: &[u8] = &message.payload;
    let GatheredDevice { device_id } = serde_json::from_slice(payload).ok().filter(|_| message.is_json)?;
    let inner = payload.strip_prefix(b"{").filter(|inner| !inner.contains(&b'\n'))?;
    let id = report_id(message)?;
    Some((device_id, [b"{\"id\":\"", id.as_bytes(), b"\",", inner, b"\n"].concat()))
}

/// The id of a report at the other node: what the message is called wherever it comes to.
fn report_id(message: &OwnedMessage) -> Option<String> {
    let (source, external_id) = (message.source.as_ref()?, message.external_id.as_ref()?);
    let id = format!("{source}:{external_id}");
    let is_plain = id.len() <= REPORT_ID_CHARS_MAX && id.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && !id.contains(['"', '\\']) {
        return Some(id);
    }
    let [one, other] = [0, 1].map(|seed| hash::derived(seed, id.as_bytes()));
    Some(format!("{one:016x}{other:016x}"))
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use engine::streams::{OwnedExternalId, SharedBytes};

    use super::*;

    fn message(id: u64, payload: &str) -> OwnedMessage {
        OwnedMessage {
            id,
            received_at: Timestamp(5),
            ts: Timestamp(5),
            source: Some("00000000000000ab.7.3".into()),
            external_id: Some(OwnedExternalId::Number(id)),
            segment: None,
            headers: Vec::new(),
            is_json: true,
            payload: SharedBytes::of(&Arc::from(payload.as_bytes()), 0, payload.len()),
        }
    }

    fn report(id: u64, device: &str) -> OwnedMessage {
        message(id, &format!("{{\"device_id\":\"{device}\",\"data\":1}}"))
    }

    #[test]
    fn a_line_has_an_id_that_follows_from_its_message() {
        let lines = lines_of(&[report(9, "0xA")]);
        let expect = "{\"id\":\"00000000000000ab.7.3:9\",\"device_id\":\"0xA\",\"data\":1}\n";
        assert_eq!(String::from_utf8(lines.body).expect("text"), expect);
        let mut long = report(9, "0xA");
        long.source = Some("s".repeat(64).into());
        let id = report_id(&long).expect("an id");
        assert_eq!((id.len(), report_id(&long)), (32, Some(id)));
    }

    #[test]
    fn a_call_has_no_more_reports_of_a_device_than_the_node_knows_ids() {
        let mut messages: Vec<_> =
            (1..=20).map(|id| report(id, if id % 2 == 0 { "a" } else { "b" })).collect();
        let lines = lines_of(&messages);
        assert_eq!((lines.messages, lines.last), (16, Some(16)));
        messages.truncate(16);
        let lines = lines_of(&messages);
        assert_eq!((lines.messages, lines.last), (16, None), "all of the page go");
    }

    #[test]
    fn what_is_no_report_has_no_line_and_holds_up_nothing() {
        let messages = [message(1, "[1]"), message(2, "{\"data\":1}"), report(3, "0xA"), message(4, "7")];
        let lines = lines_of(&messages);
        assert_eq!((lines.messages, lines.last), (4, None));
        assert_eq!(lines.body.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
}
