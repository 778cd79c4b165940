//! Keys of streams and of what they hold.

use base::{Incarnation, Timestamp, hash};

use super::{TableKey, incarnation, time};
use crate::codec::CodecError;

/// A stream by its name. No namespace holds a byte 0.
pub(crate) fn stream_name(namespace: &str, name: &str) -> TableKey {
    let mut key = streams_of(namespace);
    key.extend_from_slice(name.as_bytes());
    key
}

/// What the names of the streams of a namespace begin with.
pub(crate) fn streams_of(namespace: &str) -> TableKey {
    let mut key = TableKey::from_slice(namespace.as_bytes());
    key.push(0);
    key
}

/// A stream to which time does something then.
pub(crate) fn stream_due(at: Timestamp, stream: Incarnation) -> TableKey {
    let mut key = TableKey::from_slice(&time(at));
    key.extend_from_slice(&incarnation(stream));
    key
}

/// What stands under a number of a stream: the id of a message.
pub(crate) fn in_stream(stream: Incarnation, id: u64) -> TableKey {
    let mut key = incarnation(stream);
    key.extend_from_slice(&id.to_be_bytes());
    key
}

/// A subscription of a stream.
pub(crate) fn subscription(stream: Incarnation, name: &str) -> TableKey {
    let mut key = incarnation(stream);
    key.extend_from_slice(name.as_bytes());
    key
}

/// What the keys of a source begin with. No source holds a byte 0.
pub(crate) fn of_source(stream: Incarnation, source: &str) -> TableKey {
    let mut key = incarnation(stream);
    key.extend_from_slice(source.as_bytes());
    key.push(0);
    key
}

/// A number of a source.
pub(crate) fn external_number(stream: Incarnation, source: &str, number: u64) -> TableKey {
    let mut key = of_source(stream, source);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// A span of numbers of a source, by its lowest, and the block that has it.
pub(crate) fn external_span(stream: Incarnation, source: &str, from: u64, block: u64) -> TableKey {
    let mut key = external_number(stream, source, from);
    key.extend_from_slice(&block.to_be_bytes());
    key
}

/// The same by its block.
pub(crate) fn span_of_block(stream: Incarnation, block: u64, source: &str, from: u64) -> TableKey {
    let mut key = in_stream(stream, block);
    key.extend_from_slice(source.as_bytes());
    key.push(0);
    key.extend_from_slice(&from.to_be_bytes());
    key
}

/// The key of [`external_span`] that one of [`span_of_block`] leads to.
pub(crate) fn span_from(row: &[u8]) -> Result<TableKey, CodecError> {
    let invalid = CodecError::Invalid { what: "the key of a span of numbers", at: 0 };
    let (stream, rest) = row.split_first_chunk::<8>().ok_or(invalid)?;
    let (block, rest) = rest.split_first_chunk::<8>().ok_or(invalid)?;
    let mut key = TableKey::from_slice(stream);
    key.extend_from_slice(rest);
    key.extend_from_slice(block);
    Ok(key)
}

/// What the keys of one text of a source begin with.
pub(crate) fn texts(stream: Incarnation, source: &str, text: &str) -> TableKey {
    let mut key = of_source(stream, source);
    key.extend_from_slice(&hash::wide(text.as_bytes()).to_be_bytes());
    key
}

/// A text of a source, and its message.
pub(crate) fn external_text(stream: Incarnation, source: &str, text: &str, id: u64) -> TableKey {
    let mut key = texts(stream, source, text);
    key.extend_from_slice(&id.to_be_bytes());
    key
}
