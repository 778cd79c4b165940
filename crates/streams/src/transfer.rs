//! Messages as copies send them: the bytes of a chunk behind a short head, each message with its
//! source and external id, encoded once.
//!
//! | part | form |
//! |---|---|
//! | version | the byte 1 |
//! | messages | number |
//! | when the first was received | signed number |
//! | messages | as in a chunk |
//!
//! What is read is not trusted: it may come from anybody who may append.

use base::Timestamp;

use crate::codec::{BadMessage, ChunkWriter, MessageReader};
use crate::message::StreamMessage;
use crate::varint::{Unread, put_number, put_signed};

/// The version of the form.
const VERSION: u8 = 1;

/// Gathers messages that are sent together.
#[derive(Clone, Debug, Default)]
pub struct TransferWriter {
    chunk: Option<(Timestamp, ChunkWriter)>,
}

/// Messages that were sent together.
#[derive(Clone, Debug)]
pub struct TransferReader<'a> {
    messages: u64,
    reader: MessageReader<'a>,
}

impl TransferWriter {
    /// Appends a message; its own id is not sent.
    pub fn push(&mut self, message: &StreamMessage<'_>) {
        let at = message.received_at;
        let (_, writer) = self.chunk.get_or_insert_with(|| (at, ChunkWriter::new(1, at)));
        writer.push(message);
    }

    /// Messages so far.
    #[must_use]
    pub fn messages(&self) -> u32 {
        self.chunk.as_ref().map_or(0, |(_, writer)| writer.messages())
    }

    /// Bytes so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.chunk.as_ref().map_or(0, |(_, writer)| writer.bytes())
    }

    /// What is sent.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let (at, messages, bytes) = match self.chunk {
            Some((at, writer)) => (at, u64::from(writer.messages()), writer.into_bytes()),
            None => (Timestamp(0), 0, Vec::new()),
        };
        let mut out = Vec::with_capacity(bytes.len() + 24);
        out.push(VERSION);
        put_number(&mut out, messages);
        put_signed(&mut out, at.0);
        out.extend_from_slice(&bytes);
        out
    }
}

impl<'a> TransferReader<'a> {
    /// Reads what was sent.
    ///
    /// # Errors
    /// When it is not of this form.
    pub fn new(bytes: &'a [u8]) -> Result<Self, BadMessage> {
        let bad = BadMessage { at: 0 };
        let mut unread = Unread(bytes);
        if unread.byte() != Some(VERSION) {
            return Err(bad);
        }
        let messages = unread.number().ok_or(bad)?;
        let at = Timestamp(unread.signed().ok_or(bad)?);
        Ok(Self { messages, reader: MessageReader::new(1, at, unread.0) })
    }

    /// How many there are to be, as its head says.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages
    }
}

impl<'a> Iterator for TransferReader<'a> {
    type Item = Result<StreamMessage<'a>, BadMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.reader.next();
        let is_missing = next.is_none() && self.messages > 0;
        self.messages = self.messages.saturating_sub(1);
        if is_missing {
            self.messages = 0;
            return Some(Err(BadMessage { at: self.reader.bytes_read() }));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ExternalId, MessageHeaders, MessageOrigin, StreamPayload};

    fn message(id: u64, at: i64) -> StreamMessage<'static> {
        StreamMessage {
            id,
            received_at: Timestamp(at),
            ts: Timestamp(at - 5),
            origin: Some(MessageOrigin { source: "till", external_id: ExternalId::Number(id) }),
            segment: Some("east"),
            headers: MessageHeaders::NONE,
            payload: StreamPayload::Json(b"1"),
        }
    }

    #[test]
    fn what_was_sent_is_read() {
        let mut writer = TransferWriter::default();
        for (id, at) in [(7, 100), (9, 100), (10, 250)] {
            writer.push(&message(id, at));
        }
        assert_eq!(writer.messages(), 3);
        let bytes = writer.finish();
        let read: Vec<_> =
            TransferReader::new(&bytes).expect("a form").map(|one| one.expect("readable")).collect();
        let ids = read.iter().map(|one| one.origin.map(|origin| origin.external_id));
        assert!(ids.eq([7, 9, 10].map(|id| Some(ExternalId::Number(id)))));
        assert_eq!(read.iter().map(|one| one.ts.0).collect::<Vec<_>>(), [95, 95, 245]);
    }

    #[test]
    fn what_is_cut_or_foreign_is_refused() {
        let mut writer = TransferWriter::default();
        writer.push(&message(1, 100));
        writer.push(&message(2, 100));
        let bytes = writer.finish();
        for cut in 0..bytes.len() {
            let read = TransferReader::new(&bytes[..cut]).map(|mut reader| reader.all(|one| one.is_ok()));
            assert_ne!(read.ok(), Some(true), "{cut}");
        }
        assert!(TransferReader::new(b"{\"messages\":[]}").is_err());
        let none = TransferWriter::default().finish();
        assert_eq!(TransferReader::new(&none).expect("a form").count(), 0);
    }
}
