//! Changes of a table in order of key. The library writes rows that come to lie side by side, and
//! takes out rows that lie so, several times as fast together: each page once for all of its rows.
//! Those that are scattered are changed one by one.

use std::ops::Bound;

use base::PartitionId;
use redb::{CursorError, ReadableTable};

use super::{TableWriter, failure};
use crate::codec::key::{self, TableKey};
use crate::one_by_one::OneByOne;
use crate::port::StoreError;

/// Changes of one sort that are looked at together.
const RUN_MAX: usize = 512;
/// It does not pay for fewer.
const RUN_MIN: usize = 8;
/// Of the rows among which some are taken out together, one in so many is one of those, about.
const DENSE: usize = 2;
/// Values are looked at with their rows. No more are when they have so many bytes.
const LOOKED_AT_BYTES_MAX: usize = 1 << 20;

/// A row to put, or with `None` to take out.
type Change<'c> = (TableKey, Option<&'c [u8]>);

impl TableWriter<'_> {
    /// Makes changes of a partition's rows that come in order of key.
    pub(in crate::embedded) fn change_in_order<'c>(
        &mut self,
        partition: PartitionId,
        changes: impl Iterator<Item = (&'c [u8], Option<&'c [u8]>)>,
    ) -> Result<(), StoreError> {
        let mut one_by_one = OneByOne::default();
        let mut run: Vec<Change<'_>> = Vec::with_capacity(RUN_MAX);
        let name = self.name;
        let failed = |error| failure(name, "writing", error);
        for (key, value) in changes {
            let is_other = run.last().is_some_and(|(_, last)| last.is_some() != value.is_some());
            if is_other || run.len() == RUN_MAX {
                self.change_run(&run, &mut one_by_one).map_err(failed)?;
                run.clear();
            }
            run.push((key::in_partition(partition, key), value));
        }
        self.change_run(&run, &mut one_by_one).map_err(failed)
    }

    /// Takes out the rows of a partition with these keys, which come in order.
    pub(in crate::embedded) fn remove_in_order<'c>(
        &mut self,
        partition: PartitionId,
        keys: impl Iterator<Item = &'c TableKey>,
    ) -> Result<(), StoreError> {
        self.change_in_order(partition, keys.map(|key| (&**key, None)))
    }

    /// Changes that are all of one sort.
    fn change_run(&mut self, run: &[Change<'_>], one_by_one: &mut OneByOne) -> Result<(), redb::Error> {
        debug_assert!(run.is_sorted_by(|(one, _), (next, _)| one < next), "changes come in order");
        let mut left = run;
        while let [(key, value), behind @ ..] = left {
            if left.len() < RUN_MIN || one_by_one.takes_next() {
                self.change_one(key, *value)?;
                left = behind;
                continue;
            }
            let together = match value {
                Some(_) => self.insert_together(left)?,
                None => self.remove_together(left)?,
            };
            one_by_one.note(together >= RUN_MIN);
            left = &left[together..];
        }
        Ok(())
    }

    fn change_one(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), redb::Error> {
        match value {
            Some(value) => drop(self.table.insert(key, value)?),
            None => drop(self.table.remove(key)?),
        }
        Ok(())
    }

    /// Inserts the first ones of these, up to a key that is in the table or behind which another
    /// one comes first; answers how many.
    fn insert_together(&mut self, run: &[Change<'_>]) -> Result<usize, redb::Error> {
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

    /// Removes the first ones of these, as long as few others lie among them; answers how many.
    fn remove_together(&mut self, run: &[Change<'_>]) -> Result<usize, redb::Error> {
        let dense = &run[..self.dense(run)?];
        let (Some((first, _)), Some((last, _))) = (dense.first(), dense.last()) else { return Ok(0) };
        let mut keys = dense.iter().map(|(key, _)| &**key).peekable();
        self.table.retain_in(&**first..=&**last, |row, _| {
            while keys.next_if(|key| *key < row).is_some() {}
            keys.peek().is_none_or(|key| *key != row)
        })?;
        Ok(dense.len())
    }

    /// How many of these, from the first on, lie among few others.
    fn dense(&self, run: &[Change<'_>]) -> Result<usize, redb::Error> {
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
            if rows > DENSE * passed + RUN_MIN || bytes > LOOKED_AT_BYTES_MAX {
                return Ok(passed);
            }
        }
        Ok(run.len())
    }
}
