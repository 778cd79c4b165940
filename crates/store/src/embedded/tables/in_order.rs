//! Changes of a table in order of key. Adjacent new rows, and adjacent removals, are applied in
//! batches: a page is rewritten once for many rows, which is several times as fast. Overwrites and
//! scattered rows are applied singly.

use std::ops::Bound;

use base::PartitionId;
use redb::{CursorError, ReadableTable};

use super::{TableWriter, failure};
use crate::batch_backoff::BatchBackoff;
use crate::codec::key::{self, TableKey};
use crate::port::StoreError;

/// Changes of one kind that are looked at together, all of them puts or all of them removals.
const RUN_CHANGES_MAX: usize = 512;
/// A batch of fewer does not pay.
const RUN_CHANGES_MIN: usize = 8;
/// Rows that are scanned for each key to remove.
const ROWS_PER_KEY_MAX: usize = 2;
/// A scan for removals stops after so many bytes of values.
const SCANNED_BYTES_MAX: usize = 1 << 20;

/// A row to put, or with `None` to remove.
type Change<'c> = (TableKey, Option<&'c [u8]>);

impl TableWriter<'_> {
    /// Changes rows of a partition, in order of key; any other order is slower.
    pub(in crate::embedded) fn change_in_order<'c>(
        &mut self,
        partition: PartitionId,
        changes: impl Iterator<Item = (&'c [u8], Option<&'c [u8]>)>,
    ) -> Result<(), StoreError> {
        let mut backoff = BatchBackoff::default();
        let mut run: Vec<Change<'_>> = Vec::with_capacity(changes.size_hint().0.min(RUN_CHANGES_MAX));
        let name = self.name;
        let failed = |error| failure(name, "writing", error);
        for (key, value) in changes {
            let key = key::in_partition(partition, key);
            let ends_run = |(last, other): &Change<'_>| *last >= key || other.is_some() != value.is_some();
            if run.len() == RUN_CHANGES_MAX || run.last().is_some_and(ends_run) {
                self.apply_run(&run, &mut backoff).map_err(failed)?;
                run.clear();
            }
            run.push((key, value));
        }
        self.apply_run(&run, &mut backoff).map_err(failed)
    }

    /// Removes the rows of a partition with these keys.
    pub(in crate::embedded) fn remove_in_order<'c>(
        &mut self,
        partition: PartitionId,
        keys: impl Iterator<Item = &'c TableKey>,
    ) -> Result<(), StoreError> {
        self.change_in_order(partition, keys.map(|key| (&**key, None)))
    }

    /// Applies a run: all puts or all removals, in order of key.
    fn apply_run(&mut self, run: &[Change<'_>], backoff: &mut BatchBackoff) -> Result<(), redb::Error> {
        let mut left = run;
        while let [(key, value), behind @ ..] = left {
            if left.len() < RUN_CHANGES_MIN || backoff.take_single() {
                self.apply_one(key, *value)?;
                left = behind;
                continue;
            }
            let together = match value {
                Some(_) => self.insert_prefix(left)?,
                None => self.remove_prefix(left)?,
            };
            backoff.note(together >= RUN_CHANGES_MIN);
            left = &left[together..];
        }
        Ok(())
    }

    fn apply_one(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), redb::Error> {
        match value {
            Some(value) => drop(self.table.insert(key, value)?),
            None => drop(self.table.remove(key)?),
        }
        Ok(())
    }

    /// Inserts a prefix of the run; answers its length. It ends before a key that is in the table,
    /// or that has a row of the table between it and its predecessor.
    fn insert_prefix(&mut self, run: &[Change<'_>]) -> Result<usize, redb::Error> {
        let Some((first, _)) = run.first() else { return Ok(0) };
        let mut cursor = self.table.lower_bound_mut(Bound::Included(&**first))?;
        let mut inserted = 0;
        for (key, value) in run {
            match cursor.insert_before(&**key, value.unwrap_or_default()) {
                Ok(()) => inserted += 1,
                Err(CursorError::UnorderedKey) => break,
                Err(error) => return Err(error.into()),
            }
        }
        cursor.close()?;
        Ok(inserted)
    }

    /// Removes the prefix of the run that is dense; answers its length.
    fn remove_prefix(&mut self, run: &[Change<'_>]) -> Result<usize, redb::Error> {
        let dense = &run[..self.dense_prefix(run)?];
        let (Some((first, _)), Some((last, _))) = (dense.first(), dense.last()) else { return Ok(0) };
        let mut keys = dense.iter().map(|(key, _)| &**key).peekable();
        self.table.retain_in(&**first..=&**last, |row, _| {
            while keys.next_if(|key| *key < row).is_some() {}
            keys.peek().is_none_or(|key| *key != row)
        })?;
        Ok(dense.len())
    }

    /// How many keys of the run, from the first on, lie among few other rows.
    fn dense_prefix(&self, run: &[Change<'_>]) -> Result<usize, redb::Error> {
        let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else { return Ok(0) };
        let mut keys = run.iter().map(|(key, _)| &**key).peekable();
        let (mut passed, mut rows, mut bytes) = (0, 0, 0);
        for row in self.table.range(&**first..=&**last)? {
            let (key, value) = row?;
            while keys.next_if(|next| *next <= key.value()).is_some() {
                passed += 1;
            }
            rows += 1;
            bytes += value.value().len();
            if rows > ROWS_PER_KEY_MAX * passed + RUN_CHANGES_MIN || bytes > SCANNED_BYTES_MAX {
                return Ok(passed);
            }
        }
        Ok(run.len())
    }
}
