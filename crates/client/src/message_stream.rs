//! One stream: messages are appended, read from any place on, and kept as long as it is set to.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::client::Client;
use crate::copy::{MessageCopy, MessageReceipt};
use crate::error::Error;
use crate::message::{
    AppendResult, MessageId, OutgoingMessage, ReceivedMessage, ReceivedPage, StreamReading,
};
use crate::path::Path;
use crate::request::Request;
use crate::retry::Repeat;
use crate::span::Milliseconds;
use crate::stream_config::StreamConfig;
use crate::subscription::MessageSubscription;

/// A stream. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MessageStream {
    client: Client,
    namespace: String,
    name: String,
}

/// How much is in a stream, and where.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct StreamSummary {
    /// Its namespace.
    pub namespace: String,
    /// Its name there.
    pub stream: String,
    /// The oldest message that is kept; the next one where none is.
    pub first_id: MessageId,
    /// The newest message; "0" before the first.
    pub last_id: MessageId,
    /// Messages that are kept.
    pub messages: u64,
    /// What they take.
    pub bytes: u64,
    /// Blocks, the open one included.
    pub blocks: u64,
    /// What of it is in memory.
    pub bytes_in_memory: u64,
    /// Blocks by storage, the open one not among them.
    pub storages: BTreeMap<String, StoredSummary>,
    /// What it is set to.
    pub settings: StreamConfig,
}

/// How much a storage has of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct StoredSummary {
    /// Blocks.
    pub blocks: u64,
    /// Bytes, as they are stored.
    pub bytes: u64,
}

#[derive(Deserialize)]
struct AppendAnswer {
    messages: Vec<AppendResult>,
}

#[derive(Serialize)]
struct ManyMessages<'a> {
    messages: &'a [OutgoingMessage],
    #[serde(skip_serializing_if = "Option::is_none")]
    expect_last_id: Option<&'a MessageId>,
}

impl MessageStream {
    pub(crate) fn new(client: Client, namespace: String, name: String) -> Self {
        Self { client, namespace, name }
    }

    /// Appends a message. How durable it is when this returns is up to the stream's save mode.
    ///
    /// Where an answer is lost, a message with [`OutgoingMessage::once`] is appended again: if the
    /// first try got through, the answer is a duplicate. Any other is not tried again.
    ///
    /// # Errors
    /// 422 for what is not allowed, 503 `stream_full`; see [`Error`].
    pub async fn append(&self, message: &OutgoingMessage) -> Result<AppendResult, Error> {
        let repeat = repeat_of(std::slice::from_ref(message));
        let request = Request::document(Method::POST, self.path(&["messages"]), message)?;
        let AppendAnswer { messages } = self.client.fetch(&request, repeat).await?;
        messages.into_iter().next().ok_or_else(|| self.client.foreign("it appended nothing"))
    }

    /// Appends up to 1,000 messages, all or none; what it answers is in their order.
    ///
    /// # Errors
    /// See [`MessageStream::append`].
    pub async fn append_many(&self, messages: &[OutgoingMessage]) -> Result<Vec<AppendResult>, Error> {
        self.append_behind(messages, None, repeat_of(messages)).await
    }

    /// The same, but only if this is the stream's newest message; [`MessageId::start`] is before
    /// the first.
    ///
    /// # Errors
    /// 409 `tail_moved`; see [`MessageStream::append`].
    pub async fn append_after(
        &self,
        last: &MessageId,
        messages: &[OutgoingMessage],
    ) -> Result<Vec<AppendResult>, Error> {
        // A repeat would find that the first try has moved the tail.
        self.append_behind(messages, Some(last), Repeat::Harmful).await
    }

    /// The same, asked once: whoever calls has others to ask.
    pub(crate) async fn append_once(&self, messages: &[OutgoingMessage]) -> Result<Vec<AppendResult>, Error> {
        let body = ManyMessages { messages, expect_last_id: None };
        let request = Request::document(Method::POST, self.path(&["messages"]), &body)?;
        let answered = self.client.ask_until(&request, Repeat::Harmful, Instant::now()).await?;
        let AppendAnswer { messages } = self.client.read(&answered.body)?;
        Ok(messages)
    }

    async fn append_behind(
        &self,
        messages: &[OutgoingMessage],
        expect_last_id: Option<&MessageId>,
        repeat: Repeat,
    ) -> Result<Vec<AppendResult>, Error> {
        let body = ManyMessages { messages, expect_last_id };
        let request = Request::document(Method::POST, self.path(&["messages"]), &body)?;
        let AppendAnswer { messages } = self.client.fetch(&request, repeat).await?;
        Ok(messages)
    }

    /// Messages from a place on, oldest first.
    ///
    /// # Errors
    /// 404 `unknown_stream`; see [`Error`].
    pub async fn read(&self, reading: &StreamReading) -> Result<ReceivedPage, Error> {
        let request = Request::new(Method::GET, reading.of(self.path(&["messages"]))?);
        let timeout = self.client.timeout_of(&request) + reading.waits();
        self.client.fetch(&request.timeout(timeout), Repeat::Harmless).await
    }

    /// One message.
    ///
    /// # Errors
    /// 404 `unknown_message`, or `message_gone`; see [`Error`].
    pub async fn message(&self, id: &MessageId) -> Result<ReceivedMessage, Error> {
        let path = self.path(&["messages", id.as_str()]);
        self.client.fetch(&Request::new(Method::GET, path), Repeat::Harmless).await
    }

    /// A copy to or from another node. It need not be there yet.
    #[must_use]
    pub fn copy(&self, name: &str) -> MessageCopy {
        MessageCopy::new(self.client.clone(), self.path(&["copies", name]))
    }

    /// On which nodes a message is durable; waits so long, up to a minute, until it is on so many.
    ///
    /// # Errors
    /// 404 `unknown_message`; see [`Error`].
    pub async fn receipt(&self, id: &MessageId, nodes: u32, wait: Duration) -> Result<MessageReceipt, Error> {
        self.receipt_at(self.path(&["receipts"]).with("id", &id.to_string()), nodes, wait).await
    }

    /// The same for the message that its producer appended as this one of this source, on whichever
    /// node it did.
    ///
    /// # Errors
    /// See [`MessageStream::receipt`].
    pub async fn receipt_of(
        &self,
        source: &str,
        external_id: impl Display,
        nodes: u32,
        wait: Duration,
    ) -> Result<MessageReceipt, Error> {
        let path = self.path(&["receipts"]).with("source", source);
        self.receipt_at(path.with("external_id", &external_id.to_string()), nodes, wait).await
    }

    async fn receipt_at(&self, path: Path, nodes: u32, wait: Duration) -> Result<MessageReceipt, Error> {
        let path = path.with("nodes", &nodes.to_string()).with("wait", &Milliseconds(wait).to_string());
        let request = Request::new(Method::GET, path);
        let timeout = self.client.timeout_of(&request) + wait;
        self.client.fetch(&request.timeout(timeout), Repeat::Harmless).await
    }

    /// A subscription, read under this reader's name. It need not be there yet.
    #[must_use]
    pub fn subscription(&self, name: &str, reader: impl Into<String>) -> MessageSubscription {
        MessageSubscription::new(self.client.clone(), self.path(&["subscriptions", name]), reader.into())
    }

    /// How much is in it.
    ///
    /// # Errors
    /// 404 `unknown_stream`; see [`Error`].
    pub async fn summary(&self) -> Result<StreamSummary, Error> {
        self.client.fetch(&Request::new(Method::GET, self.path(&[])), Repeat::Harmless).await
    }

    /// Sets it, all of it, in force when this returns; makes it if it is not there.
    ///
    /// # Errors
    /// 422 for what is out of range; see [`Error`].
    pub async fn set(&self, config: &StreamConfig) -> Result<(), Error> {
        let request = Request::document(Method::PUT, self.path(&["settings"]), config)?;
        self.client.order(&request, Repeat::Harmless).await
    }

    /// Deletes it with all its messages.
    ///
    /// # Errors
    /// 404 `unknown_stream`; see [`Error`].
    pub async fn delete(&self) -> Result<(), Error> {
        match self.client.ask(&Request::new(Method::DELETE, self.path(&[])), Repeat::Harmless).await {
            Ok(_) => Ok(()),
            // An earlier try of this call, whose answer was lost, has done it.
            Err(failed) if failed.perhaps_done && failed.error.code() == Some("unknown_stream") => Ok(()),
            Err(failed) => Err(failed.error),
        }
    }

    fn path(&self, below: &[&str]) -> Path {
        Path::of(&["streams", &self.namespace, &self.name]).and(below)
    }
}

/// Messages that all have an external id may be appended again.
fn repeat_of(messages: &[OutgoingMessage]) -> Repeat {
    if messages.iter().all(OutgoingMessage::is_once) { Repeat::Harmless } else { Repeat::Harmful }
}
