//! Once only: which numbers each source has ever given to messages of a stream.
//!
//! Numbers are unique for ever, so their intervals are kept when the messages are gone. However
//! many there are, they are rows: in memory are the highest interval of each source in use, and
//! rows that are not durable yet. So numbers that ascend need no row, and any other needs two.
//! Texts are unique while their message is kept: they are rows by [`text_hash`], and nothing here.
//! Which message a number belongs to is in [`crate::origins`].

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{Incarnation, hash};
use records::ExternalInterval;

/// Bytes of a source beside its changes: its highest interval, and its place in the map.
const SOURCE_BYTES: usize = 160;
/// Bytes of a row that is not durable: in a map that is about half full, and in the order in which
/// rows become durable.
const CHANGE_BYTES: usize = 128;

/// The hash by which the text of an external id is found. Part of the stored form.
#[must_use]
pub fn text_hash(text: &str) -> u64 {
    hash::derived(0, text.as_bytes())
}

/// Numbers without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberInterval {
    /// The lowest.
    pub from: u64,
    /// The highest.
    pub to: u64,
}

/// The durable rows of a stream's intervals. Those of a source do not touch.
pub trait StoredIntervals {
    /// Why they cannot be read.
    type Error;

    /// Of the intervals of a source that begin with this number or lower, the one that begins
    /// highest. Those that begin with a number that `is_left_out` count as not there.
    ///
    /// # Errors
    /// When it cannot be read.
    fn up_to(
        &self,
        source: &str,
        number: u64,
        is_left_out: &dyn Fn(u64) -> bool,
    ) -> Result<Option<NumberInterval>, Self::Error>;

    /// The interval of a source that begins with this number.
    ///
    /// # Errors
    /// When it cannot be read.
    fn starting_at(&self, source: &str, from: u64) -> Result<Option<NumberInterval>, Self::Error>;
}

/// A change of the rows of intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntervalRowChange {
    /// This row is there now.
    Put(ExternalInterval),
    /// The row of this source from this number on is gone.
    Delete(Box<str>, u64),
}

/// The numbers that sources have given to messages of a stream, as far as they are in memory.
#[derive(Clone, Debug, Default)]
pub struct ExternalNumbers {
    sources: BTreeMap<Arc<str>, SourceNumbers>,
    /// Sources with changes that are not taken, in the order in which they changed.
    changed: Vec<Arc<str>>,
    /// Rows by the batch that they are in, with their source and lowest number.
    in_flight: VecDeque<(u64, Arc<str>, u64)>,
    /// Rows that are not taken.
    untaken: usize,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct SourceNumbers {
    highest: Option<NumberInterval>,
    /// Rows that may differ from the durable ones, by lowest number.
    changes: BTreeMap<u64, ChangedRow>,
    /// Some of them are not taken.
    is_changed: bool,
}

/// A row that may differ from the durable one.
#[derive(Clone, Copy, Debug)]
struct ChangedRow {
    /// `None` for a row that goes.
    to: Option<u64>,
    /// Whether there is such a row, durable or on its way.
    is_stored: bool,
    /// The batch that it is in; `None` while it is in none.
    batch: Option<u64>,
}

impl ExternalNumbers {
    /// Notes that a source gave a number. Whether it is new. Looks at no row while the numbers of
    /// the source ascend.
    ///
    /// # Errors
    /// When a row cannot be read; then nothing is noted.
    pub fn insert<R: StoredIntervals>(
        &mut self,
        source: &str,
        number: u64,
        rows: &R,
    ) -> Result<bool, R::Error> {
        if self.sources.get_mut(source).is_some_and(|of_source| of_source.extend_highest(number)) {
            return Ok(true);
        }
        let name = self.bring_in(source, rows)?;
        let Some(of_source) = self.sources.get_mut(&name) else { unreachable!("it was brought in") };
        let before = of_source.up_to(&name, number, rows)?;
        if before.is_some_and(|before| before.to >= number) {
            return Ok(false);
        }
        let touching = before.filter(|before| before.to + 1 == number);
        let behind = match number.checked_add(1) {
            Some(next) => of_source.starting_at(&name, next, rows)?,
            None => None,
        };
        let put = NumberInterval {
            from: touching.map_or(number, |before| before.from),
            to: behind.map_or(number, |behind| behind.to),
        };
        let (rows_before, untaken_before) = (of_source.changes.len(), of_source.untaken_at(put, behind));
        of_source.put(put, touching.is_some());
        if let Some(behind) = behind {
            of_source.delete(behind.from);
        }
        self.untaken = self.untaken + of_source.untaken_at(put, behind) - untaken_before;
        self.bytes = self.bytes + of_source.changes.len() * CHANGE_BYTES - rows_before * CHANGE_BYTES;
        if !std::mem::replace(&mut of_source.is_changed, true) {
            self.changed.push(name);
        }
        Ok(true)
    }

    /// Whether a source has given a number.
    ///
    /// # Errors
    /// When a row cannot be read.
    pub fn contains<R: StoredIntervals>(
        &mut self,
        source: &str,
        number: u64,
        rows: &R,
    ) -> Result<bool, R::Error> {
        let name = self.bring_in(source, rows)?;
        let Some(of_source) = self.sources.get(&name) else { unreachable!("it was brought in") };
        Ok(of_source.up_to(&name, number, rows)?.is_some_and(|before| before.to >= number))
    }

    /// How many sources are in memory.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Bytes of memory, counted without looking at them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of those that are in no batch.
    #[must_use]
    pub fn untaken_bytes(&self) -> usize {
        self.untaken * CHANGE_BYTES
    }

    /// What makes the rows say all that was inserted, source by source, to be written with the
    /// batch `seq`. They are durable in the same batch as the messages that had the numbers: a
    /// number whose message a crash lost was never there.
    pub fn take_changes(&mut self, stream: Incarnation, seq: u64) -> Vec<IntervalRowChange> {
        let mut changes = Vec::new();
        for name in std::mem::take(&mut self.changed) {
            let Some(of_source) = self.sources.get_mut(&name) else { continue };
            of_source.is_changed = false;
            for (from, row) in of_source.changes.iter_mut().filter(|(_, row)| row.batch.is_none()) {
                let source = Box::from(&*name);
                changes.push(match row.to {
                    Some(to) => IntervalRowChange::Put(ExternalInterval { stream, source, from: *from, to }),
                    None => IntervalRowChange::Delete(source, *from),
                });
                (row.is_stored, row.batch) = (row.to.is_some(), Some(seq));
                self.in_flight.push_back((seq, Arc::clone(&name), *from));
            }
        }
        self.untaken = 0;
        changes
    }

    /// All batches up to this one are durable: their rows need not be in memory.
    pub fn settle(&mut self, durable: u64) {
        while let Some((seq, name, from)) = self.in_flight.pop_front_if(|(seq, ..)| *seq <= durable) {
            let Some(of_source) = self.sources.get_mut(&name) else { continue };
            if of_source.changes.get(&from).is_some_and(|row| row.batch == Some(seq)) {
                of_source.changes.remove(&from);
                self.bytes -= CHANGE_BYTES;
            }
        }
    }

    /// Forgets sources whose rows are all durable: they are read again when they are used.
    pub fn shrink(&mut self) {
        let bytes = &mut self.bytes;
        self.sources.retain(|name, of_source| {
            let stays = of_source.is_changed || !of_source.changes.is_empty();
            *bytes -= if stays { 0 } else { SOURCE_BYTES + name.len() };
            stays
        });
    }

    /// The name of a source that is in memory from now on.
    fn bring_in<R: StoredIntervals>(&mut self, source: &str, rows: &R) -> Result<Arc<str>, R::Error> {
        if let Some((name, _)) = self.sources.get_key_value(source) {
            return Ok(Arc::clone(name));
        }
        let highest = rows.up_to(source, u64::MAX, &|_| false)?;
        let name: Arc<str> = Arc::from(source);
        self.sources.insert(Arc::clone(&name), SourceNumbers { highest, ..SourceNumbers::default() });
        self.bytes += SOURCE_BYTES + source.len();
        Ok(name)
    }
}

impl SourceNumbers {
    /// Extends the highest interval by this number, if it is the next one and the interval's row is
    /// in no batch. Then only that row changes. Most numbers take this way.
    fn extend_highest(&mut self, number: u64) -> bool {
        let Some(highest) = &mut self.highest else { return false };
        if highest.to.checked_add(1) != Some(number) {
            return false;
        }
        match self.changes.get_mut(&highest.from) {
            Some(row) if row.batch.is_none() => {
                (highest.to, row.to) = (number, Some(number));
                true
            }
            _ => false,
        }
    }

    /// The interval that begins with this number, or with the next lower one.
    fn up_to<R: StoredIntervals>(
        &self,
        source: &str,
        number: u64,
        rows: &R,
    ) -> Result<Option<NumberInterval>, R::Error> {
        match self.highest {
            Some(highest) if number < highest.from => {}
            highest => return Ok(highest),
        }
        let there = |(from, row): (&u64, &ChangedRow)| Some(NumberInterval { from: *from, to: row.to? });
        let changed = self.changes.range(..=number).rev().find_map(there);
        let stored = rows.up_to(source, number, &|from| self.changes.contains_key(&from))?;
        Ok(changed.into_iter().chain(stored).max_by_key(|interval| interval.from))
    }

    fn starting_at<R: StoredIntervals>(
        &self,
        source: &str,
        from: u64,
        rows: &R,
    ) -> Result<Option<NumberInterval>, R::Error> {
        match (self.highest, self.changes.get(&from)) {
            (Some(highest), _) if from == highest.from => Ok(Some(highest)),
            (Some(highest), _) if from > highest.from => Ok(None),
            (None, _) => Ok(None),
            (_, Some(row)) => Ok(row.to.map(|to| NumberInterval { from, to })),
            (_, None) => rows.starting_at(source, from),
        }
    }

    fn put(&mut self, interval: NumberInterval, was_there: bool) {
        let NumberInterval { from, to } = interval;
        let row = self.changes.entry(from).or_insert(ChangedRow {
            to: None,
            // What begins there and is no change is a row.
            is_stored: was_there,
            batch: None,
        });
        (row.to, row.batch) = (Some(to), None);
        if self.highest.is_none_or(|highest| to >= highest.to) {
            self.highest = Some(interval);
        }
    }

    fn delete(&mut self, from: u64) {
        match self.changes.entry(from) {
            Entry::Occupied(row) if !row.get().is_stored => {
                row.remove();
            }
            Entry::Occupied(mut row) => {
                let row = row.get_mut();
                (row.to, row.batch) = (None, None);
            }
            Entry::Vacant(row) => {
                row.insert(ChangedRow { to: None, is_stored: true, batch: None });
            }
        }
    }

    /// How many of these two rows are in no batch.
    fn untaken_at(&self, put: NumberInterval, behind: Option<NumberInterval>) -> usize {
        let is_untaken = |from: &u64| self.changes.get(from).is_some_and(|row| row.batch.is_none());
        [Some(put.from), behind.map(|behind| behind.from)]
            .iter()
            .flatten()
            .filter(|from| is_untaken(from))
            .count()
    }
}

#[cfg(test)]
mod tests;
