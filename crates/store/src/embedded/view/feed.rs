//! A feed: records in order of time and number, directly or by an index.

use base::Timestamp;

use super::EmbeddedView;
use super::merged::Merged;
use crate::codec::Stored;
use crate::codec::key::{Key, Moment};
use crate::embedded::tables::Table;
use crate::key_range::KeyRange;
use crate::port::{Page, StoreError};
use std::ops::Bound;

/// Which part of which table.
pub(super) struct Feed {
    table: Table,
    range: Option<KeyRange>,
    ascending: bool,
}

impl Feed {
    /// The part that a page may hold; `prefix` is what an index is by.
    pub(super) fn of<K: Copy + Into<Moment>>(table: Table, prefix: &[u8], page: Page<K>) -> Self {
        let first_at = |at: Timestamp| Moment::first_at(at).below(prefix);
        let mut low = Bound::Included(first_at(page.from));
        let mut high = Bound::Excluded(first_at(page.to));
        if let Some(after) = page.after.map(|after| after.into().below(prefix)) {
            let is_beyond_start = match page.ascending {
                true => after >= first_at(page.from),
                false => after < first_at(page.to),
            };
            let bound = Bound::Excluded(after);
            match page.ascending {
                _ if !is_beyond_start => {}
                true => low = bound,
                false => high = bound,
            }
        }
        let range = KeyRange { low, high };
        let is_empty = page.limit == 0 || range.is_empty();
        Self { table, range: (!is_empty).then_some(range), ascending: page.ascending }
    }

    /// The records, from `main` where the feed's own table is an index.
    pub(super) fn records<T: Stored>(
        self,
        view: &EmbeddedView,
        main: Table,
    ) -> Result<impl Iterator<Item = Result<T, StoreError>>, StoreError> {
        let rows =
            self.range.as_ref().map(|range| view.rows(self.table, range, self.ascending)).transpose()?;
        let table = self.table;
        let record = move |(key, row): (Key, Vec<u8>)| {
            if table == main {
                return view.decoded(main, &key, &row).map(Some);
            }
            let moment = Moment::at_end_of(&key).map_err(|error| view.damaged(table, &key, &error))?;
            view.record(main, &moment.below(&[]))
        };
        let rows: Option<Merged<'_>> = rows;
        Ok(rows.into_iter().flatten().filter_map(move |row| row.and_then(&record).transpose()))
    }
}
