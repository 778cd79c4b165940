//! On which nodes a message is durable.

use std::sync::Arc;

use ::streams::copying::is_taken;
use base::Problem;
use records::CopyDirection;
use store::Store;
use tokio::sync::Notify;

use super::super::context::StreamsContext;
use super::super::copy::{ReceiptOf, ReceiptStatus};
use super::super::reading::StreamReader;
use super::super::{MessagePayload, NewMessage, OwnedMessage, StreamName};
use super::StreamCalls;
use crate::nodes::SELF_NODE;
use crate::queries::unreadable;

impl StreamCalls {
    /// On which nodes a message is durable: this one, and those to which it is copied that have
    /// answered. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream`, `unknown_message` or `message_gone`; 503 `storage_unavailable`.
    pub fn receipt(&self, stream: &StreamName, of: &ReceiptOf) -> Result<ReceiptStatus, Problem> {
        self.reader().receipt(stream, of)
    }

    /// Told whenever a copy moved on: take it before a look at what it may change.
    #[must_use]
    pub fn copies_moved(&self) -> Arc<Notify> {
        self.engine.context().streams.copies.moved()
    }

    /// Returns when a message that is there is durable, or its stream is gone.
    pub async fn saved_message(&self, stream: &StreamName, id: u64) {
        self.saved(stream, id - 1).await;
    }
}

impl StreamsContext {
    /// [`StreamCalls::receipt`], for whoever runs partitions without an engine.
    ///
    /// # Errors
    /// As that.
    pub fn receipt(
        &self,
        store: &dyn Store,
        stream: &StreamName,
        of: &ReceiptOf,
    ) -> Result<ReceiptStatus, Problem> {
        StreamReader { store, context: self }.receipt(stream, of)
    }
}

impl StreamReader<'_> {
    fn receipt(&self, stream: &StreamName, of: &ReceiptOf) -> Result<ReceiptStatus, Problem> {
        let message = self.message_of(stream, of)?;
        let found = self.find(stream)?;
        let saved = found.open.as_ref().map_or(found.tail.next, |open| open.saved().max(found.tail.next));
        let mut durable_on = Vec::new();
        if message.id < saved {
            durable_on.push(self.context.node(self.store).name);
            for copy in found.view.copies_of(found.stream, None, usize::MAX).map_err(unreadable)? {
                let is_its = copy.segments.is_empty()
                    || message.segment.as_ref().is_some_and(|segment| copy.segments.contains(segment));
                let answered = copy.direction == CopyDirection::To
                    && *copy.node != *SELF_NODE
                    && is_its
                    && is_taken(&copy, message.id);
                let name = copy.peer_node.filter(|name| answered && !durable_on.contains(name));
                durable_on.extend(name);
            }
        }
        Ok(ReceiptStatus { id: message.id, durable_on })
    }

    fn message_of(&self, stream: &StreamName, of: &ReceiptOf) -> Result<OwnedMessage, Problem> {
        let id = match of {
            ReceiptOf::Id(id) => *id,
            ReceiptOf::Origin(source, external_id) => {
                let asked = NewMessage {
                    source: Some(source.clone()),
                    external_id: Some(external_id.clone()),
                    ..NewMessage::new(MessagePayload::Bytes([].into()))
                };
                let first = self.first_messages(stream, &[asked])?;
                let unknown = || {
                    let detail = format!("stream {stream} has no message {external_id} of {source}");
                    Problem::unknown("unknown_message", detail)
                };
                let first = first.into_iter().next();
                // What may lie where nothing can be read now is not unknown.
                let why = first.as_ref().and_then(|first| first.untold.clone());
                let id = first.and_then(|first| first.appended.id);
                id.ok_or_else(|| why.unwrap_or_else(unknown))?
            }
        };
        self.message(stream, id)
    }
}
