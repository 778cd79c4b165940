//! Subscriptions of streams: those of one, and those that are pushed.

use base::Incarnation;
use records::StreamSubscription;

use super::index_of;
use crate::codec::key;
use crate::key_range::KeyRange;
use crate::port::{StoreError, View};
use crate::table::Table;

impl dyn View + '_ {
    /// A subscription.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every query.
    pub fn subscription(
        &self,
        stream: Incarnation,
        name: &str,
    ) -> Result<Option<StreamSubscription>, StoreError> {
        self.record(&key::subscription(stream, name))
    }

    /// The subscriptions of a stream behind the one of that name, in order of name.
    pub fn subscriptions_of(
        &self,
        stream: Incarnation,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StreamSubscription>, StoreError> {
        let after = after.map(|name| key::subscription(stream, name));
        let range = KeyRange::of(&key::incarnation(stream)).after(after);
        if limit == 0 || range.is_empty() {
            return Ok(Vec::new());
        }
        self.records(range, true)?.take(limit).collect()
    }

    /// Subscriptions of any stream, in order of stream and name.
    pub fn subscriptions(&self, limit: usize) -> Result<Vec<StreamSubscription>, StoreError> {
        self.records(KeyRange::all(), true)?.take(limit).collect()
    }

    /// Those that are pushed, in the same order.
    pub fn pushed_subscriptions(&self, limit: usize) -> Result<Vec<StreamSubscription>, StoreError> {
        let index = index_of::<StreamSubscription>(Table::PushedSubscriptions);
        let rows = self.rows(index.table, KeyRange::all(), true)?.take(limit);
        rows.map(|row| row.and_then(|(key, row)| self.surely_named(index, &key, &row))).collect()
    }
}
