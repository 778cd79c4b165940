//! A message of a stream, with its texts and payload borrowed from wherever they lie.

use std::fmt;

use base::Timestamp;

use crate::varint::Unread;

/// The largest number that an external id may be: 2^63 - 1.
pub const EXTERNAL_NUMBER_MAX: u64 = i64::MAX as u64;

/// A message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamMessage<'a> {
    /// Its place in the stream, from 1 on.
    pub id: u64,
    /// When it was received. No message is received before the one that it follows.
    pub received_at: Timestamp,
    /// The time that its sender gave; without, that of receipt.
    pub ts: Timestamp,
    /// What its sender calls it; without, it is known by its id alone.
    pub origin: Option<MessageOrigin<'a>>,
    /// The part of the stream that it belongs to.
    pub segment: Option<&'a str>,
    /// Names and values that its sender gave.
    pub headers: MessageHeaders<'a>,
    /// What it carries.
    pub payload: StreamPayload<'a>,
}

/// What a message's sender calls it. Unique within a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageOrigin<'a> {
    /// Who.
    pub source: &'a str,
    /// How that one calls it.
    pub external_id: ExternalId<'a>,
}

/// How a source calls a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExternalId<'a> {
    /// At most [`EXTERNAL_NUMBER_MAX`]. Unique for ever.
    Number(u64),
    /// Any other text. Unique among messages that are kept.
    Text(&'a str),
}

impl<'a> ExternalId<'a> {
    /// The id that a text is. A canonical decimal up to [`EXTERNAL_NUMBER_MAX`] is the number.
    #[must_use]
    pub fn of_text(text: &'a str) -> Self {
        let is_canonical = text == "0" || !text.starts_with(['0', '+']);
        match text.parse() {
            Ok(number) if is_canonical && number <= EXTERNAL_NUMBER_MAX => Self::Number(number),
            _ => Self::Text(text),
        }
    }
}

impl fmt::Display for ExternalId<'_> {
    /// The text that [`ExternalId::of_text`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// What a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPayload<'a> {
    /// A JSON value, as text.
    Json(&'a [u8]),
    /// Any bytes.
    Bytes(&'a [u8]),
}

impl<'a> StreamPayload<'a> {
    /// The bytes of either.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Json(bytes) | Self::Bytes(bytes) => bytes,
        }
    }
}

/// Names and values that a sender gave, in the sender's order.
#[derive(Clone, Copy)]
pub struct MessageHeaders<'a>(HeadersForm<'a>);

#[derive(Clone, Copy)]
enum HeadersForm<'a> {
    Given(&'a [(Box<str>, Box<str>)]),
    /// So many pairs of texts, which are known to be readable.
    Encoded(usize, Unread<'a>),
}

impl<'a> MessageHeaders<'a> {
    /// None.
    pub const NONE: Self = Self(HeadersForm::Given(&[]));

    /// These.
    #[must_use]
    pub fn new(pairs: &'a [(Box<str>, Box<str>)]) -> Self {
        Self(HeadersForm::Given(pairs))
    }

    /// So many pairs of texts at the front of `unread`, if they are there.
    pub(crate) fn read(pairs: usize, unread: &mut Unread<'a>) -> Option<Self> {
        let headers = Self(HeadersForm::Encoded(pairs, *unread));
        for _ in 0..pairs {
            unread.text()?;
            unread.text()?;
        }
        Some(headers)
    }

    /// How many there are.
    #[must_use]
    pub fn len(self) -> usize {
        match self.0 {
            HeadersForm::Given(pairs) => pairs.len(),
            HeadersForm::Encoded(pairs, _) => pairs,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Each name with its value.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let (given, mut encoded) = match self.0 {
            HeadersForm::Given(pairs) => (pairs, None),
            HeadersForm::Encoded(pairs, unread) => (&[][..], Some((pairs, unread))),
        };
        let read = std::iter::from_fn(move || {
            let (left, unread) = encoded.as_mut()?;
            *left = left.checked_sub(1)?;
            Some((unread.text()?, unread.text()?))
        });
        given.iter().map(|(name, value)| (&**name, &**value)).chain(read)
    }
}

impl PartialEq for MessageHeaders<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for MessageHeaders<'_> {}

impl fmt::Debug for MessageHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canonical_decimal_is_a_number() {
        for (text, number) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("9223372036854775807", Some(EXTERNAL_NUMBER_MAX)),
            ("9223372036854775808", None),
            ("99999999999999999999", None),
            ("07", None),
            ("00", None),
            ("+7", None),
            ("-7", None),
            ("7.0", None),
            ("", None),
            ("a7", None),
        ] {
            let id = ExternalId::of_text(text);
            assert_eq!(id, number.map_or(ExternalId::Text(text), ExternalId::Number));
            assert_eq!(id.to_string(), text);
        }
    }
}
