//! Which message of a block has which external id: in memory while the block is open, in the index
//! of its file afterwards.
//!
//! Numbers of a source that ascend one by one, with ids that rise evenly, are one run, however many
//! they are. Texts are there by [`crate::text_hash`]: whoever finds an id by one compares the
//! message's text.

use std::collections::{BTreeMap, BTreeSet};

use crate::external_ids::text_hash;
use crate::message::{EXTERNAL_NUMBER_MAX, ExternalId, MessageOrigin};
use crate::varint::{Unread, put_counted, put_number};

/// Bytes of memory of a source, a run and a text, in maps that are about half full.
const SOURCE_BYTES: usize = 160;
const RUN_BYTES: usize = 72;
const TEXT_BYTES: usize = 40;

/// External ids of a block's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockOrigins {
    sources: BTreeMap<Box<str>, SourceOrigins>,
    bytes: usize,
}

/// External ids of one source. A source that is there has some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SourceOrigins {
    /// By lowest number. No two share one.
    runs: BTreeMap<u64, NumberRun>,
    /// Hashes of texts, each with the id of its message.
    texts: BTreeSet<(u64, u64)>,
}

/// Numbers without a gap, whose messages' ids rise by `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberRun {
    /// The highest number.
    to: u64,
    /// The message of the lowest.
    id: u64,
    /// At least 1 if there are two numbers; else 0.
    step: u64,
}

impl NumberRun {
    /// The message of a number of the run that begins with `from`.
    fn id_of(self, from: u64, number: u64) -> u64 {
        self.id + self.step * (number - from)
    }

    /// Whether the run goes on with the number that comes next, of the message with this id.
    fn extend(&mut self, from: u64, id: u64) -> bool {
        if self.to == from {
            self.step = id.saturating_sub(self.id);
        }
        let goes_on = self.step > 0 && self.id_of(from, self.to).checked_add(self.step) == Some(id);
        self.to += u64::from(goes_on);
        goes_on
    }
}

impl BlockOrigins {
    /// Adds a message. Ids ascend. An external id that is there stays with the message that had it
    /// first.
    pub fn add(&mut self, origin: MessageOrigin<'_>, id: u64) {
        let of_source = match self.sources.get_mut(origin.source) {
            Some(of_source) => of_source,
            None => {
                self.bytes += SOURCE_BYTES + origin.source.len();
                self.sources.entry(origin.source.into()).or_default()
            }
        };
        self.bytes += match origin.external_id {
            ExternalId::Number(number) => of_source.add_number(number, id),
            ExternalId::Text(text) => usize::from(of_source.texts.insert((text_hash(text), id))) * TEXT_BYTES,
        };
    }

    /// The message that has a number of a source.
    #[must_use]
    pub fn number(&self, source: &str, number: u64) -> Option<u64> {
        let (from, run) = self.sources.get(source)?.runs.range(..=number).next_back()?;
        (number <= run.to).then(|| run.id_of(*from, number))
    }

    /// The messages whose text, of a source, has this hash.
    pub fn text(&self, source: &str, hash: u64) -> impl Iterator<Item = u64> {
        let texts =
            self.sources.get(source).map(|of_source| of_source.texts.range((hash, 0)..=(hash, u64::MAX)));
        texts.into_iter().flatten().map(|(_, id)| *id)
    }

    /// Each source that gave numbers, with the lowest and the highest, in order of source.
    pub fn spans(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.sources.iter().filter_map(|(source, of_source)| {
            let (from, _) = of_source.runs.first_key_value()?;
            let (_, last) = of_source.runs.last_key_value()?;
            Some((&**source, *from, last.to))
        })
    }

    /// Each text: its source, its hash and its message, in this order.
    pub fn texts(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.sources.iter().flat_map(|(source, of_source)| {
            of_source.texts.iter().map(move |(hash, id)| (&**source, *hash, *id))
        })
    }

    /// Bytes of memory, counted without looking at them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends the form that [`BlockOrigins::read`] reads. Ids are written as their distance from
    /// the block's `first`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, first: u64) {
        put_number(out, self.sources.len() as u64);
        for (source, of_source) in &self.sources {
            put_counted(out, source.as_bytes());
            put_number(out, of_source.runs.len() as u64);
            let mut next = 0;
            for (from, run) in &of_source.runs {
                put_number(out, from - next);
                put_number(out, run.to - from);
                put_number(out, run.id - first);
                if run.to > *from {
                    put_number(out, run.step);
                }
                next = run.to + 1;
            }
            put_number(out, of_source.texts.len() as u64);
            for (hash, id) in &of_source.texts {
                out.extend_from_slice(&hash.to_le_bytes());
                put_number(out, id - first);
            }
        }
    }

    /// Reads what was written. `None` if it makes no sense, or names a message that is not from
    /// `first` to `last`.
    pub(crate) fn read(unread: &mut Unread<'_>, first: u64, last: u64) -> Option<Self> {
        let mut origins = Self::default();
        let mut before: Option<&str> = None;
        for _ in 0..unread.number()? {
            let source = unread.text()?;
            if before.is_some_and(|before| before >= source) {
                return None;
            }
            before = Some(source);
            let of_source = SourceOrigins::read(unread, first, last)?;
            origins.bytes += SOURCE_BYTES
                + source.len()
                + of_source.runs.len() * RUN_BYTES
                + of_source.texts.len() * TEXT_BYTES;
            origins.sources.insert(source.into(), of_source);
        }
        Some(origins)
    }
}

impl SourceOrigins {
    /// Adds a number. Bytes that it takes.
    fn add_number(&mut self, number: u64, id: u64) -> usize {
        if let Some((from, run)) = self.runs.range_mut(..=number).next_back() {
            let is_there = number <= run.to;
            if is_there || (number - 1 == run.to && run.extend(*from, id)) {
                return 0;
            }
        }
        self.runs.insert(number, NumberRun { to: number, id, step: 0 });
        RUN_BYTES
    }

    fn read(unread: &mut Unread<'_>, first: u64, last: u64) -> Option<Self> {
        let id_of = |distance| first.checked_add(distance).filter(|id: &u64| *id <= last);
        let mut of_source = Self::default();
        let mut next = 0_u64;
        for _ in 0..unread.number()? {
            let from = next.checked_add(unread.number()?)?;
            let more = unread.number()?;
            let to = from.checked_add(more).filter(|to| *to <= EXTERNAL_NUMBER_MAX)?;
            let id = id_of(unread.number()?)?;
            let step = if more > 0 { unread.number().filter(|step| *step > 0)? } else { 0 };
            let is_within = id.checked_add(step.checked_mul(more)?)? <= last;
            of_source.runs.insert(from, is_within.then_some(NumberRun { to, id, step })?);
            next = to + 1;
        }
        for _ in 0..unread.number()? {
            let hash = u64::from_le_bytes(unread.array()?);
            let text = (hash, id_of(unread.number()?)?);
            if of_source.texts.last().is_some_and(|before| *before >= text) {
                return None;
            }
            of_source.texts.insert(text);
        }
        (!of_source.runs.is_empty() || !of_source.texts.is_empty()).then_some(of_source)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(source: &str, number: u64) -> MessageOrigin<'_> {
        MessageOrigin { source, external_id: ExternalId::Number(number) }
    }

    #[test]
    fn sources_that_take_turns_are_a_run_each() {
        let mut origins = BlockOrigins::default();
        for id in 100..10_100 {
            let source = format!("device-{}", id % 10);
            origins.add(number(&source, 5_000 + id / 10), id);
        }
        let runs: usize = origins.sources.values().map(|of_source| of_source.runs.len()).sum();
        assert_eq!((runs, origins.number("device-7", 5_040)), (10, Some(407)));
        assert_eq!((origins.number("device-7", 4_999), origins.number("device-7", 7_000)), (None, None));
        let mut bytes = Vec::new();
        origins.write(&mut bytes, 100);
        assert!(bytes.len() < 200, "{} bytes", bytes.len());
        assert_eq!(origins.spans().last(), Some(("device-9", 5_010, 6_009)));
    }

    #[test]
    fn an_external_id_stays_with_its_first_message() {
        let mut origins = BlockOrigins::default();
        for (of, id) in [(7, 1), (8, 2), (7, 3), (8, 4), (6, 5), (9, 6)] {
            origins.add(number("a", of), id);
        }
        let ids = [5, 6, 7, 8, 9, 10].map(|of| origins.number("a", of));
        assert_eq!(ids, [None, Some(5), Some(1), Some(2), Some(6), None]);
    }

    #[test]
    fn an_index_that_names_other_messages_is_refused() {
        let mut origins = BlockOrigins::default();
        for (of, id) in [(7, 10), (8, 12), (30, 15)] {
            origins.add(number("a", of), id);
        }
        let mut bytes = Vec::new();
        origins.write(&mut bytes, 10);
        for (last, is_read) in [(15, true), (14, false), (11, false)] {
            assert_eq!(BlockOrigins::read(&mut Unread(&bytes), 10, last).is_some(), is_read, "{last}");
        }
        assert_eq!(BlockOrigins::read(&mut Unread(&bytes), u64::MAX - 2, u64::MAX), None);
        for (why, bytes) in [
            ("a source twice", &b"\x02\x01a\x01\x05\0\0\0\x01a\x01\x05\0\0\0"[..]),
            ("a source without ids", b"\x01\x01a\0\0"),
            ("a run of two messages with one id", b"\x01\x01a\x01\x05\x01\0\0\0"),
        ] {
            assert_eq!(BlockOrigins::read(&mut Unread(bytes), 0, 99), None, "{why}");
        }
    }

    proptest! {
        #[test]
        fn it_finds_what_a_list_of_all_finds(
            added in proptest::collection::vec((0..3_u8, 0..40_u64, any::<bool>(), 1..3_u64), 0..100),
        ) {
            let mut origins = BlockOrigins::default();
            let mut naive: BTreeMap<(String, u64), u64> = BTreeMap::new();
            let mut texts = Vec::new();
            let mut id = 50;
            for (source, external, is_text, step) in added {
                id += step;
                let (source, text) = (format!("s{source}"), external.to_string());
                let number = ExternalId::Number(external);
                let external_id = if is_text { ExternalId::Text(&text) } else { number };
                origins.add(MessageOrigin { source: &source, external_id }, id);
                if is_text {
                    texts.push((source, text_hash(&text), id));
                } else {
                    naive.entry((source, external)).or_insert(id);
                }
            }
            texts.sort();
            let mut bytes = Vec::new();
            origins.write(&mut bytes, 50);
            let mut unread = Unread(&bytes);
            let read = BlockOrigins::read(&mut unread, 50, id);
            prop_assert_eq!((read.as_ref(), unread.0.len()), (Some(&origins), 0));
            for source in ["s0", "s1", "s2"] {
                let of_source = naive.iter().filter(|((of, _), _)| of == source);
                let numbers: Vec<u64> = of_source.map(|((_, number), _)| *number).collect();
                let span = origins.spans().find(|(of, ..)| *of == source).map(|(_, from, to)| (from, to));
                prop_assert_eq!(span, numbers.first().copied().zip(numbers.last().copied()));
                for external in 0..45 {
                    let expect = naive.get(&(source.to_owned(), external)).copied();
                    prop_assert_eq!(origins.number(source, external), expect);
                    let hash = text_hash(&external.to_string());
                    let of_text = texts.iter().filter(|(of, found, _)| of == source && *found == hash);
                    let expect: Vec<u64> = of_text.map(|(.., id)| *id).collect();
                    prop_assert_eq!(origins.text(source, hash).collect::<Vec<_>>(), expect);
                }
            }
            let all: Vec<_> = origins.texts().map(|(of, hash, id)| (of.to_owned(), hash, id)).collect();
            prop_assert_eq!(all, texts);
        }
    }
}
