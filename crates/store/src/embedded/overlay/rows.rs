//! The rows of one table that were changed, with the versions that open views need.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

use smallvec::SmallVec;

use super::Versions;
use crate::codec::key::TableKey;
use crate::key_range::KeyRange;

/// Changed rows in order of key.
#[derive(Debug, Default)]
pub(crate) struct ChangedRows {
    rows: BTreeMap<TableKey, RowVersions>,
    /// Memory of values.
    value_bytes: usize,
    /// Rows of which a deletion is the latest.
    deleted: usize,
}

/// Memory of a row without a value: its place in a tree whose nodes are two thirds full.
const ROW_BYTES: usize = (size_of::<TableKey>() + size_of::<RowVersions>()) * 3 / 2;
/// What the allocation of a value costs besides its bytes.
const ALLOCATION_BYTES: usize = 16;

#[derive(Debug)]
struct RowVersions {
    /// Nothing of it lies below: a deletion leaves nothing to delete.
    is_born_here: bool,
    /// Oldest first; at least one.
    versions: SmallVec<[RowVersion; 1]>,
}

#[derive(Debug)]
struct RowVersion {
    /// The batch that wrote it.
    seq: u64,
    /// `None` is a deletion.
    value: Option<Box<[u8]>>,
}

/// What is known of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverlayRow<'a> {
    /// Nothing was changed: what lies below counts.
    Untouched,
    Deleted,
    Value(&'a [u8]),
}

/// A key, and its row unless that is deleted.
pub(crate) type CopiedRow = (TableKey, Option<Box<[u8]>>);

/// What a checkpoint does with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Final<'a> {
    Put(&'a [u8]),
    Remove,
}

impl RowVersions {
    fn at(&self, seq: u64) -> OverlayRow<'_> {
        match self.versions.iter().rev().find(|version| version.seq <= seq) {
            None => OverlayRow::Untouched,
            Some(RowVersion { value: None, .. }) => OverlayRow::Deleted,
            Some(RowVersion { value: Some(value), .. }) => OverlayRow::Value(value),
        }
    }

    /// Adds a version, and drops those that no view needs; the bytes of these.
    fn push(&mut self, value: Option<Box<[u8]>>, versions: &Versions) -> usize {
        let version = RowVersion { seq: versions.seq, value };
        let mut dropped = 0;
        match self.versions.last_mut() {
            Some(last) if last.seq == versions.seq || !versions.needs(last.seq) => {
                dropped += std::mem::replace(last, version).bytes();
            }
            _ => self.versions.push(version),
        }
        // a version is of use to views older than the next one only
        while self.versions.get(1).is_some_and(|next| !versions.needs_before(next.seq)) {
            dropped += self.versions.remove(0).bytes();
        }
        dropped
    }

    fn is_deleted(&self) -> bool {
        self.versions.last().is_some_and(|last| last.value.is_none())
    }

    fn value_bytes(&self) -> usize {
        self.versions.iter().map(RowVersion::bytes).sum()
    }

    fn first_seq(&self) -> u64 {
        self.versions.first().map_or(0, |version| version.seq)
    }
}

impl RowVersion {
    fn bytes(&self) -> usize {
        self.value.as_ref().map_or(0, |value| value.len())
    }
}

impl ChangedRows {
    /// About how much memory rows take that are there, and those that are deleted, older versions
    /// of either with the first.
    pub(super) fn memory_bytes(&self) -> (usize, usize) {
        let there = self.rows.len() - self.deleted;
        (there * (ROW_BYTES + ALLOCATION_BYTES) + self.value_bytes, self.deleted * ROW_BYTES)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether anything is known of the row.
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.rows.contains_key(key)
    }

    /// The row as of batch `seq`.
    pub(crate) fn at(&self, key: &[u8], seq: u64) -> OverlayRow<'_> {
        self.rows.get(key).map_or(OverlayRow::Untouched, |row| row.at(seq))
    }

    pub(super) fn put(
        &mut self,
        key: TableKey,
        value: Box<[u8]>,
        versions: &Versions,
        is_born: impl FnOnce(&TableKey, &[u8]) -> bool,
    ) {
        self.value_bytes += value.len();
        match self.rows.entry(key) {
            Entry::Occupied(mut row) => {
                let row = row.get_mut();
                self.deleted -= usize::from(row.is_deleted());
                self.value_bytes -= row.push(Some(value), versions);
            }
            Entry::Vacant(place) => {
                let is_born_here = is_born(place.key(), &value);
                let version = RowVersion { seq: versions.seq, value: Some(value) };
                place.insert(RowVersions { is_born_here, versions: SmallVec::from_buf([version]) });
            }
        }
    }

    pub(super) fn delete(
        &mut self,
        key: TableKey,
        versions: &Versions,
        is_below: impl FnOnce(&TableKey) -> bool,
    ) {
        match self.rows.entry(key) {
            Entry::Occupied(row) if row.get().is_born_here && !versions.needs(row.get().first_seq()) => {
                let row = row.remove();
                self.deleted -= usize::from(row.is_deleted());
                self.value_bytes -= row.value_bytes();
            }
            Entry::Occupied(mut row) => {
                let row = row.get_mut();
                self.deleted += usize::from(!row.is_deleted());
                self.value_bytes -= row.push(None, versions);
            }
            Entry::Vacant(place) => {
                if is_below(place.key()) {
                    let version = RowVersion { seq: versions.seq, value: None };
                    let versions = SmallVec::from_buf([version]);
                    place.insert(RowVersions { is_born_here: false, versions });
                    self.deleted += 1;
                }
            }
        }
    }

    /// Keys in a range, deleted ones too.
    pub(super) fn keys(&self, range: &KeyRange) -> Vec<TableKey> {
        self.range(range).map(|(key, _)| key.clone()).collect()
    }

    fn range(&self, range: &KeyRange) -> impl DoubleEndedIterator<Item = (&TableKey, &RowVersions)> {
        let none = KeyRange { low: Bound::Unbounded, high: Bound::Excluded(TableKey::new()) };
        let range = if range.is_empty() { none } else { range.clone() };
        self.rows.range((range.low, range.high))
    }

    /// Changed rows of a range as of batch `seq`, from its front or its back; `None` is a deletion.
    /// Stops after `rows_max` rows, or after the row that brings their values to `bytes_max`. Also
    /// answers whether there are more.
    pub(crate) fn first_changed(
        &self,
        range: &KeyRange,
        seq: u64,
        ascending: bool,
        (rows_max, bytes_max): (usize, usize),
    ) -> (Vec<CopiedRow>, bool) {
        let mut rows = self.range(range);
        let mut next = || if ascending { rows.next() } else { rows.next_back() };
        let (mut copied, mut bytes) = (Vec::new(), 0);
        while let Some((key, row)) = next() {
            let value = match row.at(seq) {
                OverlayRow::Untouched => continue,
                OverlayRow::Deleted => None,
                OverlayRow::Value(value) => Some(value),
            };
            if copied.len() >= rows_max || bytes >= bytes_max {
                return (copied, true);
            }
            bytes += value.map_or(0, <[u8]>::len);
            copied.push((TableKey::from_slice(key), value.map(Box::from)));
        }
        (copied, false)
    }

    /// Every row as it is at the end, in order of key; those that leave nothing behind are left
    /// out.
    pub(crate) fn finals(&self) -> impl DoubleEndedIterator<Item = (&TableKey, Final<'_>)> {
        self.rows.iter().filter_map(|(key, row)| match row.at(u64::MAX) {
            OverlayRow::Value(value) => Some((key, Final::Put(value))),
            OverlayRow::Deleted if row.is_born_here => None,
            OverlayRow::Deleted => Some((key, Final::Remove)),
            OverlayRow::Untouched => None,
        })
    }
}
