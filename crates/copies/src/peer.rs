//! An end of a copy at another node, over HTTP with that node's own API.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::Engine;
use engine::nodes::NodeStatus;
use engine::records::PeerNode;
use engine::streams::{PeerIdentity, StreamName, TransferReader};
use http_body_util::Full;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use net::transfer::{
    EXPECTED_HEADER, NEWEST_HEADER, NEXT_AFTER_HEADER, NODE_HEADER, RUN_HEADER, STREAM_HEADER, TRANSFER_TYPE,
};
use serde_json::Value;
use url::form_urlencoded::Serializer;

use crate::ends::{CopyBatch, CopyFailure, CopyFailureKind, PageAsk, SinkAnswer, SourcePage, StreamEnd};
use crate::places::BatchPlaces;
use crate::transport::{NodeAnswer, NodeTransport};

/// Longest wait for an answer. With the pause between tries, a copy goes on within 5 s once a line
/// that was cut without a word is back.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// A single message has the time beside that a line of so many bytes a second needs for it: it
/// cannot be sent with less. Several messages are sent with fewer where they take longer.
const SLOWEST_BYTES_PER_SECOND: u64 = 4 << 10;
/// How long a page waits at the node for its first message; within the time of an answer.
const WAIT: &str = "2s";

/// How nodes are spoken to, for all copies together.
#[derive(Debug)]
pub struct NodeLines {
    engine: Engine,
    transport: NodeTransport,
}

/// A stream of another node.
#[derive(Clone, Debug)]
pub struct PeerStream {
    lines: Arc<NodeLines>,
    node: Box<str>,
    stream: StreamName,
}

impl NodeLines {
    /// No connection is made yet.
    #[must_use]
    pub fn new(engine: &Engine, places: &BatchPlaces) -> Self {
        Self { engine: engine.clone(), transport: NodeTransport::new(places.clone()) }
    }

    /// What this node calls itself.
    pub(crate) fn own_name(&self) -> Box<str> {
        self.engine.streams().node_name()
    }

    /// Asks a node for an answer within [`ANSWER_MAX`], and notes whether it answered.
    pub(crate) async fn ask(
        &self,
        name: &str,
        make: impl FnOnce(&PeerNode) -> Result<Request<Full<Bytes>>, hyper::http::Error>,
    ) -> Result<NodeAnswer, CopyFailure> {
        self.ask_within(ANSWER_MAX, name, make).await
    }

    async fn ask_within(
        &self,
        limit: Duration,
        name: &str,
        make: impl FnOnce(&PeerNode) -> Result<Request<Full<Bytes>>, hyper::http::Error>,
    ) -> Result<NodeAnswer, CopyFailure> {
        let refused = |what: String| CopyFailure::new(CopyFailureKind::Refused, what);
        let nodes = self.engine.nodes();
        let Some(NodeStatus { node, .. }) = nodes.get(name) else {
            return Err(refused(format!("there is no node {name}")));
        };
        let mut request = make(&node).map_err(|error| refused(error.to_string()))?;
        if let Some(token) = &node.token {
            let shown = format!("Bearer {token}").parse();
            let mut shown: hyper::header::HeaderValue =
                shown.map_err(|_| refused("the token of the node cannot be sent".to_owned()))?;
            shown.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, shown);
        }
        let answer = self.transport.ask(request, limit).await;
        let now = self.engine.clock().now();
        match &answer {
            Ok(answer) if answer.status.as_u16() == 401 => {
                nodes.contacted(&node, Err(&format!("it answers {}", answer.status)), now);
            }
            Ok(_) => nodes.contacted(&node, Ok(()), now),
            Err(failure) => nodes.contacted(&node, Err(&failure.error), now),
        }
        answer
    }

    /// Whether a node answers now.
    pub async fn probe(&self, name: &str) {
        let make = |node: &PeerNode| Request::get(url_of(node, "/v1/streams?limit=1")).body(Full::default());
        let answer = self.ask(name, make).await;
        tracing::debug!(name, is_answered = answer.is_ok(), "a node was asked whether it is there");
    }
}

pub(crate) fn url_of(node: &PeerNode, path: &str) -> String {
    format!("{}{path}", node.url.trim_end_matches('/'))
}

impl PeerStream {
    /// A stream of a node, by its name here.
    #[must_use]
    pub fn new(lines: &Arc<NodeLines>, node: Box<str>, stream: StreamName) -> Self {
        Self { lines: Arc::clone(lines), node, stream }
    }

    fn path(&self, query: &str) -> String {
        format!("/v1/streams/{}/{}/messages?{query}", self.stream.namespace(), self.stream.stream())
    }
}

impl StreamEnd for PeerStream {
    async fn page(&self, ask: PageAsk) -> Result<SourcePage, CopyFailure> {
        let path = self.path(&query_of(&ask));
        let make = |node: &PeerNode| {
            Request::get(url_of(node, &path)).header(ACCEPT, TRANSFER_TYPE).body(Full::default())
        };
        let answer = self.lines.ask(&self.node, make).await?;
        let NodeAnswer { headers, body, .. } = checked(answer)?;
        let (messages, oldest_at) = match body.is_empty() {
            true => (0, None),
            false => {
                let reader = TransferReader::new(&body).map_err(|bad| foreign(&bad.to_string()))?;
                let first = reader.clone().next().and_then(Result::ok);
                (reader.messages(), first.map(|message| message.received_at))
            }
        };
        Ok(SourcePage {
            messages,
            oldest_at,
            next_after: number(&headers, NEXT_AFTER_HEADER)?,
            newest: number(&headers, NEWEST_HEADER)?,
            identity: identity(&headers)?,
            body,
        })
    }

    async fn append(&self, batch: CopyBatch) -> Result<SinkAnswer, CopyFailure> {
        let path = self.path("durable=true");
        let make = |node: &PeerNode| {
            let mut request = Request::post(url_of(node, &path))
                .header(CONTENT_TYPE, TRANSFER_TYPE)
                .header(RUN_HEADER, format!("{:016x}-{}", batch.run, batch.place));
            if let Some(expected) = &batch.expected {
                request = request.header(EXPECTED_HEADER, &**expected);
            }
            request.body(Full::new(batch.body.clone()))
        };
        let answer = self.lines.ask_within(time_for(&batch), &self.node, make).await?;
        let NodeAnswer { headers, body, .. } = checked(answer)?;
        let told: Value = serde_json::from_slice(&body).map_err(|error| foreign(&error.to_string()))?;
        let (appended, duplicates) = (counted(&told, "appended")?, counted(&told, "duplicates")?);
        if appended + duplicates != batch.messages {
            return Err(foreign("it counts other messages than it was sent"));
        }
        Ok(SinkAnswer { appended, duplicates, refused: 0, identity: identity(&headers)? })
    }
}

/// A count in an answer.
pub(crate) fn counted(told: &Value, name: &str) -> Result<u64, CopyFailure> {
    told[name].as_u64().ok_or_else(|| foreign(&format!("it says no {name}")))
}

/// Within what time a batch is answered.
fn time_for(batch: &CopyBatch) -> Duration {
    let sent = match batch.messages {
        0 | 1 => Duration::from_secs(batch.body.len() as u64 / SLOWEST_BYTES_PER_SECOND),
        _ => Duration::ZERO,
    };
    ANSWER_MAX + sent
}

fn query_of(ask: &PageAsk) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("after", &ask.after.to_string()).append_pair("durable", "true");
    query.append_pair("limit", &ask.limit.to_string()).append_pair("bytes", &ask.bytes_max.to_string());
    if let Some(from) = ask.from {
        query.append_pair("from", &from.to_string());
    }
    if !ask.segments.is_empty() {
        query.append_pair("segment", &ask.segments.join(","));
    }
    if ask.waits {
        query.append_pair("wait", WAIT);
    }
    query.finish()
}

/// What is answered is not what a node of this kind says.
pub(crate) fn foreign(what: &str) -> CopyFailure {
    CopyFailure::new(CopyFailureKind::Refused, format!("its answer is not that of a node: {what}"))
}

pub(crate) fn checked(answer: NodeAnswer) -> Result<NodeAnswer, CopyFailure> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = |name: &str| told[name].as_str().unwrap_or_default();
    let mut failure = CopyFailure::of_problem(answer.status.as_u16(), text("code"), text("detail"));
    let seconds = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    failure.patience = seconds.map(Duration::from_secs);
    Err(failure)
}

pub(crate) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h str, CopyFailure> {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.ok_or_else(|| foreign(&format!("it has no {name}")))
}

fn number(headers: &HeaderMap, name: &str) -> Result<u64, CopyFailure> {
    text(headers, name)?.parse().map_err(|_| foreign(&format!("its {name} is no number")))
}

fn identity(headers: &HeaderMap) -> Result<PeerIdentity, CopyFailure> {
    let identity = PeerIdentity {
        node: text(headers, NODE_HEADER)?.into(),
        stream: text(headers, STREAM_HEADER)?.into(),
    };
    match identity.is_known() {
        true => Ok(identity),
        false => Err(foreign(&format!("its {STREAM_HEADER} is empty"))),
    }
}
