//! Feeds: events, deliveries and refused reports in order of time and number, directly or by an
//! index.

use std::collections::HashMap;
use std::ops::Bound;

use base::Timestamp;
use records::{
    Attempt, Delivery, DeliveryKey, DeliveryProgress, DeviceSlot, Event, EventKey, QuarantineKey, Quarantined,
};

use super::index_of;
use crate::codec::key::{self, FeedEntryKey, TableKey};
use crate::key_range::KeyRange;
use crate::port::{FeedFilter, Page, StoreError, View};
use crate::record::Record;
use crate::table::Table;

impl dyn View + '_ {
    /// Events, ordered by [`EventKey`]; `keep` drops items before they count towards the limit.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every query.
    pub fn events(
        &self,
        whose: FeedFilter,
        page: Page<EventKey>,
        keep: &dyn Fn(&Event) -> bool,
    ) -> Result<Vec<Event>, StoreError> {
        let page = page.kept_from(self.head().kept_from.events);
        let mut deleted = Deleted::of(self)?;
        if whose.device.map_or(Ok(false), |slot| deleted.has(slot))? {
            return Ok(Vec::new());
        }
        let feed = match whose.device {
            Some(slot) => TableRange::of(Table::EventsByDevice, &key::slot(slot), page),
            None => TableRange::of(Table::Events, &[], page),
        };
        let mut events = Vec::new();
        for found in feed.records::<Event>(self)? {
            if events.len() >= page.limit {
                break;
            }
            let event = found?;
            if !deleted.has(event.slot)? && keep(&event) {
                events.push(event);
            }
        }
        Ok(events)
    }

    /// Deliveries, ordered by [`DeliveryKey`]; `keep` drops items before they count towards the
    /// limit.
    pub fn deliveries(
        &self,
        whose: FeedFilter,
        page: Page<DeliveryKey>,
        keep: &dyn Fn(&Delivery) -> bool,
    ) -> Result<Vec<Delivery>, StoreError> {
        let page = page.kept_from(self.head().kept_from.deliveries);
        let feed = match (whose.device, whose.client) {
            (Some(slot), _) => TableRange::of(Table::DeliveriesByDevice, &key::slot(slot), page),
            (None, Some(client)) => {
                TableRange::of(Table::DeliveriesByClient, &key::incarnation(client), page)
            }
            (None, None) => TableRange::of(Table::Deliveries, &[], page),
        };
        let mut deliveries = Vec::new();
        for found in feed.records::<Delivery>(self)? {
            if deliveries.len() >= page.limit {
                break;
            }
            let delivery = self.with_progress(found?)?;
            if whose.client.is_none_or(|client| delivery.client == client) && keep(&delivery) {
                deliveries.push(delivery);
            }
        }
        Ok(deliveries)
    }

    /// One delivery.
    pub fn delivery(&self, key: DeliveryKey) -> Result<Option<Delivery>, StoreError> {
        if key.at < self.head().kept_from.deliveries {
            return Ok(None);
        }
        let delivery = self.record::<Delivery>(&key::feed_entry(key))?;
        delivery.map(|delivery| self.with_progress(delivery)).transpose()
    }

    fn with_progress(&self, delivery: Delivery) -> Result<Delivery, StoreError> {
        let key = key::feed_entry(DeliveryKey::from(delivery.id));
        let progress = self.record::<DeliveryProgress>(&key)?;
        Ok(Delivery { progress: progress.unwrap_or(delivery.progress), ..delivery })
    }

    /// A delivery's attempts, oldest first.
    pub fn attempts(&self, key: DeliveryKey) -> Result<Vec<Attempt>, StoreError> {
        if key.at < self.head().kept_from.deliveries {
            return Ok(Vec::new());
        }
        self.records(KeyRange::of(&key::feed_entry(key)), true)?.collect()
    }

    /// Refused reports, ordered by [`QuarantineKey`].
    pub fn quarantined(&self, page: Page<QuarantineKey>) -> Result<Vec<Quarantined>, StoreError> {
        TableRange::of(Table::Quarantine, &[], page).records(self)?.take(page.limit).collect()
    }

    /// One refused report.
    pub fn quarantined_one(&self, key: QuarantineKey) -> Result<Option<Quarantined>, StoreError> {
        self.record(&key::feed_entry(key))
    }

    /// Whether the device was deleted and its history is not swept yet.
    pub(crate) fn is_deleted(&self, slot: DeviceSlot) -> Result<bool, StoreError> {
        Ok(self.get(Table::Deleted, &key::slot(slot))?.is_some())
    }
}

/// Which devices were deleted and are not swept yet. Mostly none, and then nothing more is looked
/// up.
pub(super) struct Deleted<'a> {
    view: &'a dyn View,
    any: bool,
    known: HashMap<DeviceSlot, bool>,
}

impl<'a> Deleted<'a> {
    pub(super) fn of(view: &'a dyn View) -> Result<Self, StoreError> {
        let any = view.rows(Table::Deleted, KeyRange::all(), true)?.next().transpose()?.is_some();
        Ok(Self { view, any, known: HashMap::new() })
    }

    pub(super) fn has(&mut self, slot: DeviceSlot) -> Result<bool, StoreError> {
        if !self.any {
            return Ok(false);
        }
        let known = self.known.get(&slot).copied();
        let is_deleted = known.map_or_else(|| self.view.is_deleted(slot), Ok)?;
        self.known.insert(slot, is_deleted);
        Ok(is_deleted)
    }
}

/// Which part of which table.
pub(super) struct TableRange {
    table: Table,
    range: Option<KeyRange>,
    ascending: bool,
}

impl TableRange {
    /// The part that a page may hold; `prefix` is what an index is by.
    pub(super) fn of<K: Copy + Into<FeedEntryKey>>(table: Table, prefix: &[u8], page: Page<K>) -> Self {
        let first_at = |at: Timestamp| FeedEntryKey::first_at(at).below(prefix);
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

    /// The records, from their own table where the feed's is an index. A row of an index may be
    /// left of what expired.
    pub(super) fn records<R: Record>(
        self,
        view: &dyn View,
    ) -> Result<impl Iterator<Item = Result<R, StoreError>>, StoreError> {
        let rows = self.range.map(|range| view.rows(self.table, range, self.ascending)).transpose()?;
        let index = (self.table != R::TABLE).then(|| index_of::<R>(self.table));
        let record = move |(key, row): (TableKey, Vec<u8>)| match index {
            Some(index) => view.named(index, &key, &row),
            None => view.decoded(R::TABLE, &key, &row).map(Some),
        };
        Ok(rows.into_iter().flatten().filter_map(move |row| row.and_then(&record).transpose()))
    }
}
