//! Values as codes: a bit, a number that follows, or a text of a list.
//!
//! Short texts stand once at the front of a blob, for all its devices, as far as there is room. The
//! others stand in the section of their device. So one device can be read without the texts of the
//! others.

use std::collections::BTreeMap;

use base::{ArcStr, Value};

use crate::codec::{ByteReader, CodecError, bit, get_value, put_bytes, put_u64, put_value};

const INLINE: u64 = 2;
const TEXTS: u64 = 3;
/// Longer texts are not shared.
const SHARED_TEXT_BYTES_MAX: usize = 64;
/// Room for shared texts: a quarter of a block, so that reading the head stays cheap.
const SHARED_BYTES_MAX: usize = 1_024;

/// The texts at the front of a blob, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedTexts(Vec<ArcStr>);

impl SharedTexts {
    /// Those of `texts` that there is room for, the most frequent first.
    pub(super) fn among<'a>(texts: impl Iterator<Item = &'a ArcStr>) -> Self {
        let mut counts: BTreeMap<&ArcStr, usize> = BTreeMap::new();
        for text in texts.filter(|text| text.len() <= SHARED_TEXT_BYTES_MAX) {
            *counts.entry(text).or_default() += 1;
        }
        let mut frequent: Vec<_> = counts.into_iter().collect();
        frequent.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut room = SHARED_BYTES_MAX;
        let mut shared = Vec::new();
        for (text, _) in frequent {
            let Some(left) = room.checked_sub(text.len() + 1) else { break };
            room = left;
            shared.push(text.clone());
        }
        shared.sort_unstable();
        Self(shared)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ArcStr> {
        self.0.iter()
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_texts(out, &self.0);
    }

    pub(super) fn get(reader: &mut ByteReader<'_>) -> Result<Self, CodecError> {
        reader.list("texts", get_text).map(Self)
    }
}

fn put_texts(out: &mut Vec<u8>, texts: &[ArcStr]) {
    put_u64(out, texts.len() as u64);
    texts.iter().for_each(|text| put_bytes(out, text.as_bytes()));
}

fn get_text(reader: &mut ByteReader<'_>) -> Result<ArcStr, CodecError> {
    let text = reader.text("a text")?;
    if text.is_empty() || text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return Err(reader.invalid("a text"));
    }
    Ok(ArcStr::from(text))
}

/// The texts that a section may name: the blob's, then its own.
pub(super) struct Texts<'a> {
    shared: &'a [ArcStr],
    own: Vec<ArcStr>,
}

impl<'a> Texts<'a> {
    /// For a section with these values.
    pub(super) fn of<'v>(shared: &'a SharedTexts, values: impl Iterator<Item = &'v Value>) -> Self {
        let shared = &*shared.0;
        let own = values.filter_map(|value| match value {
            Value::Text(text) if shared.binary_search(text).is_err() => Some(text.clone()),
            _ => None,
        });
        let mut own: Vec<_> = own.collect();
        own.sort_unstable();
        own.dedup();
        Self { shared, own }
    }

    /// Whether the section has texts of its own.
    pub(super) fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    pub(super) fn put_own(&self, out: &mut Vec<u8>) {
        put_texts(out, &self.own);
    }

    pub(super) fn get(
        shared: &'a SharedTexts,
        reader: &mut ByteReader<'_>,
        has_own: bool,
    ) -> Result<Self, CodecError> {
        let own = if has_own { reader.list("texts", get_text)? } else { Vec::new() };
        Ok(Self { shared: &shared.0, own })
    }

    pub(super) fn put_code(&self, out: &mut Vec<u8>, value: &Value) {
        match value {
            Value::Number(number) if value.is_bit() => put_u64(out, u64::from(*number == 1.0)),
            Value::Number(_) => {
                put_u64(out, INLINE);
                put_value(out, value);
            }
            Value::Text(text) => {
                // every text of the section is in one of the lists
                let place = match self.shared.binary_search(text) {
                    Ok(place) => place,
                    Err(_) => self.shared.len() + self.own.partition_point(|other| other < text),
                };
                put_u64(out, TEXTS + place as u64);
            }
        }
    }

    pub(super) fn get_coded(&self, reader: &mut ByteReader<'_>) -> Result<Value, CodecError> {
        match reader.u64("a value")? {
            code @ (0 | 1) => Ok(bit(code == 1)),
            INLINE => get_value(reader),
            code => {
                let place = usize::try_from(code - TEXTS).unwrap_or(usize::MAX);
                let text =
                    self.shared.get(place).or_else(|| self.own.get(place.checked_sub(self.shared.len())?));
                text.cloned().map(Value::Text).ok_or_else(|| reader.invalid("a text"))
            }
        }
    }
}
