//! Copies of a stream to and from other nodes, and on which nodes a message is.

use hyper::Method;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Error;
use crate::message::MessageId;
use crate::path::Path;
use crate::request::Request;
use crate::retry::Repeat;

/// A copy of a stream. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MessageCopy {
    client: Client,
    path: Path,
}

/// What a copy is to be. What is left out has its default.
#[derive(Clone, Debug, Serialize)]
pub struct CopyTerms {
    direction: &'static str,
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    segments: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<String>,
}

impl CopyTerms {
    /// Messages are given on to a node; `self` is the server itself.
    #[must_use]
    pub fn to(node: impl Into<String>) -> Self {
        Self::of("to", node.into())
    }

    /// Messages are taken from a node.
    #[must_use]
    pub fn taken_from(node: impl Into<String>) -> Self {
        Self::of("from", node.into())
    }

    /// Accepted reports of devices are brought to a node, by way of the stream. The token of the
    /// node needs the scope `report` there.
    #[must_use]
    pub fn reports_to(node: impl Into<String>) -> Self {
        Self { kind: Some("reports"), ..Self::of("to", node.into()) }
    }

    fn of(direction: &'static str, node: String) -> Self {
        Self {
            direction,
            node,
            stream: None,
            segments: Vec::new(),
            from: None,
            live_share: None,
            rate: None,
            kind: None,
            selector: None,
        }
    }

    /// Only reports of the devices that a selector means are brought.
    #[must_use]
    pub fn selector(self, selector: impl Into<String>) -> Self {
        Self { selector: Some(selector.into()), ..self }
    }

    /// The stream there has another name.
    #[must_use]
    pub fn other_stream(self, namespace: &str, stream: &str) -> Self {
        Self { stream: Some(format!("{namespace}/{stream}")), ..self }
    }

    /// Only messages of these segments are copied.
    #[must_use]
    pub fn segments<'a>(self, segments: impl IntoIterator<Item = &'a str>) -> Self {
        Self { segments: segments.into_iter().map(str::to_owned).collect(), ..self }
    }

    /// It begins there: `start`, `end`, the id of the last message that is not copied, or a time.
    #[must_use]
    pub fn from(self, place: impl Into<String>) -> Self {
        Self { from: Some(place.into()), ..self }
    }

    /// While it is far behind, new messages get this share of its rate.
    #[must_use]
    pub fn live_share(self, share: f64) -> Self {
        Self { live_share: Some(share), ..self }
    }

    /// Bytes in a second at most.
    #[must_use]
    pub fn rate(self, bytes_per_second: u64) -> Self {
        Self { rate: Some(bytes_per_second), ..self }
    }
}

/// How a copy stands.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct CopySummary {
    /// Its name.
    pub name: String,
    /// `idle`, `running`, `waiting`, `paused` or `source_reset`.
    pub state: String,
    /// Every message up to this one is durable at the other end.
    pub position: MessageId,
    /// Messages that are not copied; with segments, those of others count too.
    pub lag: u64,
    /// When the oldest of these was received.
    pub oldest_uncopied_at: Option<String>,
    /// Messages that were new at the other end.
    pub copied: u64,
    /// Messages that were there already.
    pub duplicates: u64,
    /// Messages that went before they were copied.
    pub dropped: u64,
    /// `messages` or `reports`.
    #[serde(default)]
    pub kind: String,
    /// Reports that the other node refused for good.
    #[serde(default)]
    pub refused: u64,
    /// Why it does not go on.
    pub error: Option<String>,
}

/// On which nodes a message is durable.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct MessageReceipt {
    /// What the nodes call themselves.
    pub durable_on: Vec<String>,
    /// Whether they are as many as were asked for.
    pub enough: bool,
}

impl MessageCopy {
    pub(crate) fn new(client: Client, path: Path) -> Self {
        Self { client, path }
    }

    /// Makes it, and its stream, or changes it.
    ///
    /// # Errors
    /// 404 `unknown_node`, 422 for what is not allowed; see [`Error`].
    pub async fn put(&self, terms: &CopyTerms) -> Result<CopySummary, Error> {
        let request = Request::document(Method::PUT, self.path.clone(), terms)?;
        self.client.fetch(&request, Repeat::Harmless).await
    }

    /// How far it is.
    ///
    /// # Errors
    /// 404 `unknown_copy`; see [`Error`].
    pub async fn summary(&self) -> Result<CopySummary, Error> {
        self.client.fetch(&Request::new(Method::GET, self.path.clone()), Repeat::Harmless).await
    }

    /// Has it rest.
    ///
    /// # Errors
    /// 404 `unknown_copy`; see [`Error`].
    pub async fn pause(&self) -> Result<(), Error> {
        self.tell("pause").await
    }

    /// Has it go on.
    ///
    /// # Errors
    /// 404 `unknown_copy`; see [`Error`].
    pub async fn resume(&self) -> Result<(), Error> {
        self.tell("resume").await
    }

    async fn tell(&self, call: &str) -> Result<(), Error> {
        let request = Request::new(Method::POST, self.path.clone().and(&[call])).json("");
        self.client.order(&request, Repeat::Harmless).await
    }

    /// Deletes it; what it copied stays.
    ///
    /// # Errors
    /// 404 `unknown_copy`; see [`Error`].
    pub async fn delete(&self) -> Result<(), Error> {
        match self.client.ask(&Request::new(Method::DELETE, self.path.clone()), Repeat::Harmless).await {
            Ok(_) => Ok(()),
            // An earlier try of this call, whose answer was lost, has done it.
            Err(failed) if failed.perhaps_done && failed.error.code() == Some("unknown_copy") => Ok(()),
            Err(failed) => Err(failed.error),
        }
    }
}
