//! Messages as the edges give and get them.

use std::ops::Deref;
use std::sync::Arc;

use ::streams::{ExternalId, MessageHeaders, MessageOrigin, StreamMessage, StreamPayload};
use base::Timestamp;

/// What a message carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessagePayload {
    /// A JSON value, as compact text.
    Json(Box<[u8]>),
    /// Bytes.
    Bytes(Box<[u8]>),
}

impl MessagePayload {
    /// The text, or the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Json(bytes) | Self::Bytes(bytes) => bytes,
        }
    }
}

/// The id that a message has at its source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnedExternalId {
    /// 0 to 2^63-1. A text that is the canonical decimal of one is the number.
    Number(u64),
    /// 1 to 64 characters.
    Text(Box<str>),
}

impl OwnedExternalId {
    /// The id that a text means: the number, where it is the canonical decimal of one.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        ExternalId::of_text(text).into()
    }

    /// The same, borrowed.
    #[must_use]
    pub fn as_external_id(&self) -> ExternalId<'_> {
        match self {
            Self::Number(number) => ExternalId::Number(*number),
            Self::Text(text) => ExternalId::Text(text),
        }
    }
}

impl From<ExternalId<'_>> for OwnedExternalId {
    fn from(id: ExternalId<'_>) -> Self {
        match id {
            ExternalId::Number(number) => Self::Number(number),
            ExternalId::Text(text) => Self::Text(text.into()),
        }
    }
}

impl std::fmt::Display for OwnedExternalId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_external_id().fmt(f)
    }
}

/// A message to be appended; checked by the edge as to form, by the engine as to range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// What it carries; at most [`base::limits::MESSAGE_PAYLOAD_BYTES_MAX`].
    pub payload: MessagePayload,
    /// Where it comes from. With it there is an external id, and without it there is none.
    pub source: Option<Box<str>>,
    /// Its id there: a second message with both is a duplicate.
    pub external_id: Option<OwnedExternalId>,
    /// By which it can be read apart.
    pub segment: Option<Box<str>>,
    /// Its own time; the time of receipt if there is none.
    pub ts: Option<Timestamp>,
    /// Names and values that travel with it.
    pub headers: Vec<(Box<str>, Box<str>)>,
}

impl NewMessage {
    /// Its source and its id there.
    #[must_use]
    pub fn origin(&self) -> Option<MessageOrigin<'_>> {
        let (source, external_id) = (self.source.as_deref()?, self.external_id.as_ref()?);
        Some(MessageOrigin { source, external_id: external_id.as_external_id() })
    }

    /// The message as it is written, under that id.
    pub(super) fn received(&self, id: u64, received_at: Timestamp) -> StreamMessage<'_> {
        let payload = match &self.payload {
            MessagePayload::Json(text) => StreamPayload::Json(text),
            MessagePayload::Bytes(bytes) => StreamPayload::Bytes(bytes),
        };
        StreamMessage {
            id,
            received_at,
            ts: self.ts.unwrap_or(received_at),
            origin: self.origin(),
            segment: self.segment.as_deref(),
            headers: MessageHeaders::new(&self.headers),
            payload,
        }
    }

    /// A plain message.
    #[must_use]
    pub fn new(payload: MessagePayload) -> Self {
        Self { payload, source: None, external_id: None, segment: None, ts: None, headers: Vec::new() }
    }
}

/// What became of a message that was to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendedMessage {
    /// Its id; of a duplicate that of the first, unless that is gone.
    pub id: Option<u64>,
    /// It was there before: nothing was appended.
    pub duplicate: bool,
    /// The first one is kept, and carries something else.
    pub conflict: bool,
}

/// A message that was read. Its payload is a slice of memory that it shares with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedMessage {
    /// Its id: from 1, rising in the order of appending.
    pub id: u64,
    /// Its own time; that of receipt if it was given none.
    pub ts: Timestamp,
    /// When it was received, on the engine clock.
    pub received_at: Timestamp,
    /// Where it comes from.
    pub source: Option<Box<str>>,
    /// Its id there.
    pub external_id: Option<OwnedExternalId>,
    /// By which it can be read apart.
    pub segment: Option<Box<str>>,
    /// Names and values that travel with it.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// Whether the payload is JSON text.
    pub is_json: bool,
    /// What it carries.
    pub payload: SharedBytes,
}

/// A part of bytes that are shared.
#[derive(Clone)]
pub struct SharedBytes {
    all: Arc<[u8]>,
    start: usize,
    end: usize,
}

impl SharedBytes {
    /// The part of `all` from `start` on, `len` bytes long; cut where `all` ends.
    #[must_use]
    pub fn of(all: &Arc<[u8]>, start: usize, len: usize) -> Self {
        let start = start.min(all.len());
        Self { all: Arc::clone(all), start, end: start.saturating_add(len).min(all.len()) }
    }
}

impl SharedBytes {
    /// The same bytes, shared with nobody.
    #[must_use]
    pub fn copied(&self) -> Self {
        let all: Arc<[u8]> = Arc::from(&**self);
        Self { start: 0, end: all.len(), all }
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.all[self.start..self.end]
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedBytes {}

impl std::fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl OwnedMessage {
    /// A message that lies in `all`, which its payload shares from then on.
    pub(super) fn of(message: &StreamMessage<'_>, all: &Arc<[u8]>) -> Self {
        let payload = message.payload.bytes();
        let start = (payload.as_ptr() as usize).saturating_sub(all.as_ptr() as usize);
        let shared = SharedBytes::of(all, start, payload.len());
        debug_assert_eq!(&*shared, payload, "the payload lies in these bytes");
        let (source, external_id) = match message.origin {
            Some(origin) => (Some(origin.source.into()), Some(origin.external_id.into())),
            None => (None, None),
        };
        let pairs = message.headers.iter().map(|(name, value)| (name.into(), value.into()));
        Self {
            id: message.id,
            ts: message.ts,
            received_at: message.received_at,
            source,
            external_id,
            segment: message.segment.map(Box::from),
            headers: pairs.collect(),
            is_json: matches!(message.payload, StreamPayload::Json(_)),
            payload: shared,
        }
    }

    /// Bytes of its payload and its texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let texts = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        self.payload.len() + texts + 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_decimal_of_a_number_is_the_number() {
        let number = OwnedExternalId::Number;
        let text = |text: &str| OwnedExternalId::Text(text.into());
        for (given, meant) in [
            ("0", number(0)),
            ("9223372036854775807", number(i64::MAX.unsigned_abs())),
            ("9223372036854775808", text("9223372036854775808")),
            ("007", text("007")),
            ("+7", text("+7")),
            ("-7", text("-7")),
            ("", text("")),
            ("7a", text("7a")),
        ] {
            assert_eq!(OwnedExternalId::from_text(given), meant, "{given}");
        }
    }

    #[test]
    fn a_part_of_bytes_ends_where_they_end() {
        let all: Arc<[u8]> = (*b"payload").into();
        assert_eq!(&*SharedBytes::of(&all, 3, 4), b"load");
        assert_eq!(&*SharedBytes::of(&all, 3, 9), b"load");
        assert_eq!(&*SharedBytes::of(&all, 9, 1), b"");
    }
}
