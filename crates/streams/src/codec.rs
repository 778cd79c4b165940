//! Messages as bytes, one behind the other: the form that chunks and blocks share.
//!
//! A run of messages has consecutive ids. Its first id and its first time of receipt are kept
//! beside it. So the time that its first message says is not needed to read it. Version 1 of a
//! message, where each text is UTF-8 behind its length:
//!
//! | part | form | if |
//! |---|---|---|
//! | flags | a byte | |
//! | milliseconds since the message before it was received | number | |
//! | `ts` less the time of receipt, in milliseconds | signed number | `TS`: it is another time |
//! | source | text | `ORIGIN` |
//! | external id | number, or text with `TEXT` | `ORIGIN` |
//! | segment | text | `SEGMENT` |
//! | headers | a number of pairs, then texts | `HEADERS`: there are some |
//! | payload | bytes behind their length | |
//!
//! A message costs 3 bytes and what it carries; its sender's names for it cost their length and 2
//! bytes more. The flag that is left is the way to change the form: a chunk's record and a
//! block's footer have the version. Nothing here trusts its input. Bytes that make no sense are a
//! [`BadMessage`], and a message that is read is written again to the same bytes.

use base::{Incarnation, Timestamp};
use records::StreamChunk;

use crate::message::{
    EXTERNAL_NUMBER_MAX, ExternalId, MessageHeaders, MessageOrigin, StreamMessage, StreamPayload,
};
use crate::varint::{Unread, put_counted, put_number, put_signed};

const BYTES: u8 = 1 << 0;
const TS: u8 = 1 << 1;
const ORIGIN: u8 = 1 << 2;
const TEXT: u8 = 1 << 3;
const SEGMENT: u8 = 1 << 4;
const HEADERS: u8 = 1 << 5;
const FLAGS: u8 = BYTES | TS | ORIGIN | TEXT | SEGMENT | HEADERS;

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message at byte {at} makes no sense")]
pub struct BadMessage {
    /// Where it begins.
    pub at: usize,
}

/// Gathers messages into a chunk.
#[derive(Clone, Debug)]
pub struct ChunkWriter {
    first: u64,
    messages: u32,
    at: Timestamp,
    last_at: Timestamp,
    bytes: Vec<u8>,
}

impl ChunkWriter {
    /// An empty chunk whose first message has this id and was received then.
    #[must_use]
    pub fn new(first: u64, at: Timestamp) -> Self {
        Self::following(at, first, at)
    }

    /// An empty chunk that follows a message received `before`. In the file of a block, messages of
    /// several chunks are one slice if each was begun so.
    #[must_use]
    pub fn following(before: Timestamp, first: u64, at: Timestamp) -> Self {
        Self { first, messages: 0, at: at.max(before), last_at: before, bytes: Vec::new() }
    }

    /// Appends a message, under the id that comes next whatever its own says. A time of receipt
    /// before the previous one counts as that; the first message's is the chunk's.
    pub fn push(&mut self, message: &StreamMessage<'_>) {
        let received_at = if self.messages == 0 { self.at } else { message.received_at.max(self.last_at) };
        put_message(&mut self.bytes, self.last_at, &StreamMessage { received_at, ..*message });
        self.last_at = received_at;
        self.messages += 1;
    }

    /// The id of the next message.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.first + u64::from(self.messages)
    }

    /// Messages so far.
    #[must_use]
    pub fn messages(&self) -> u32 {
        self.messages
    }

    /// Bytes so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of its messages, one behind the other.
    #[must_use]
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The chunk. Copies its bytes once.
    #[must_use]
    pub fn finish(self, stream: Incarnation) -> StreamChunk {
        StreamChunk {
            stream,
            first: self.first,
            messages: self.messages,
            at: self.at,
            bytes: self.bytes.into(),
        }
    }
}

fn put_message(out: &mut Vec<u8>, before: Timestamp, message: &StreamMessage<'_>) {
    let (payload, kind) = match message.payload {
        StreamPayload::Json(text) => (text, 0),
        StreamPayload::Bytes(bytes) => (bytes, BYTES),
    };
    let origin = match message.origin {
        None => 0,
        Some(MessageOrigin { external_id: ExternalId::Number(_), .. }) => ORIGIN,
        Some(MessageOrigin { external_id: ExternalId::Text(_), .. }) => ORIGIN | TEXT,
    };
    let has = |is: bool, flag: u8| if is { flag } else { 0 };
    let flags = kind
        | origin
        | has(message.ts != message.received_at, TS)
        | has(message.segment.is_some(), SEGMENT)
        | has(!message.headers.is_empty(), HEADERS);
    out.reserve(payload.len() + 64);
    out.push(flags);
    put_number(out, message.received_at.0.wrapping_sub(before.0).cast_unsigned());
    if flags & TS != 0 {
        put_signed(out, message.ts.0.wrapping_sub(message.received_at.0));
    }
    if let Some(origin) = message.origin {
        put_counted(out, origin.source.as_bytes());
        match origin.external_id {
            ExternalId::Number(number) => put_number(out, number),
            ExternalId::Text(text) => put_counted(out, text.as_bytes()),
        }
    }
    if let Some(segment) = message.segment {
        put_counted(out, segment.as_bytes());
    }
    if flags & HEADERS != 0 {
        put_number(out, message.headers.len() as u64);
        for (name, value) in message.headers.iter() {
            put_counted(out, name.as_bytes());
            put_counted(out, value.as_bytes());
        }
    }
    put_counted(out, payload);
}

/// Reads a run of messages from front to back, without copying. Ends behind the first that is bad.
#[derive(Clone, Debug)]
pub struct MessageReader<'a> {
    bytes: usize,
    unread: Unread<'a>,
    next: u64,
    at: Timestamp,
    is_at_start: bool,
}

impl<'a> MessageReader<'a> {
    /// Reads messages of which the first has this id and was received at `at`. What its own bytes
    /// say of the time since the one before does not count.
    #[must_use]
    pub fn new(first: u64, at: Timestamp, bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.len(), unread: Unread(bytes), next: first, at, is_at_start: true }
    }

    /// Reads the messages of a chunk.
    #[must_use]
    pub fn of(chunk: &'a StreamChunk) -> Self {
        Self::new(chunk.first, chunk.at, &chunk.bytes)
    }

    /// Bytes of the messages that were read: where the next one begins.
    #[must_use]
    pub fn bytes_read(&self) -> usize {
        self.bytes - self.unread.0.len()
    }

    fn message(&mut self) -> Option<StreamMessage<'a>> {
        let unread = &mut self.unread;
        let flags = unread.byte()?;
        if flags & !FLAGS != 0 || flags & (ORIGIN | TEXT) == TEXT {
            return None;
        }
        let passed_ms = unread.number()?;
        let passed_ms = if self.is_at_start { 0 } else { passed_ms };
        let received_at = Timestamp(self.at.0.checked_add_unsigned(passed_ms)?);
        let ts = match flags & TS {
            0 => received_at,
            _ => other_time(received_at, unread.signed()?)?,
        };
        let origin = if flags & ORIGIN == 0 { None } else { Some(origin(unread, flags)?) };
        let segment = if flags & SEGMENT == 0 { None } else { Some(unread.text()?) };
        let headers = if flags & HEADERS == 0 { MessageHeaders::NONE } else { headers(unread)? };
        let payload = unread.counted()?;
        let payload =
            if flags & BYTES == 0 { StreamPayload::Json(payload) } else { StreamPayload::Bytes(payload) };
        let id = self.next;
        self.next = id.checked_add(1)?;
        (self.at, self.is_at_start) = (received_at, false);
        Some(StreamMessage { id, received_at, ts, origin, segment, headers, payload })
    }
}

/// How long after the message before it the first of a run was received, as its bytes say.
pub(crate) fn passed_before(bytes: &[u8]) -> Option<u64> {
    let mut unread = Unread(bytes);
    unread.byte()?;
    unread.number()
}

fn other_time(received_at: Timestamp, less: i64) -> Option<Timestamp> {
    (less != 0).then(|| Timestamp(received_at.0.wrapping_add(less)))
}

fn origin<'a>(unread: &mut Unread<'a>, flags: u8) -> Option<MessageOrigin<'a>> {
    let source = unread.text()?;
    let external_id = match flags & TEXT {
        0 => ExternalId::Number(unread.number().filter(|number| *number <= EXTERNAL_NUMBER_MAX)?),
        _ => ExternalId::Text(unread.text()?),
    };
    Some(MessageOrigin { source, external_id })
}

fn headers<'a>(unread: &mut Unread<'a>) -> Option<MessageHeaders<'a>> {
    let pairs = unread.count().filter(|pairs| *pairs > 0)?;
    MessageHeaders::read(pairs, unread)
}

impl<'a> Iterator for MessageReader<'a> {
    type Item = Result<StreamMessage<'a>, BadMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.unread.0.is_empty() {
            return None;
        }
        let at = self.bytes_read();
        let message = self.message();
        if message.is_none() {
            self.unread = Unread(&[]);
        }
        Some(message.ok_or(BadMessage { at }))
    }
}

#[cfg(test)]
mod tests;
