//! A view: one partition at one moment, read through its layers.

mod feed;
mod merged;
mod queues;
mod reading_times;
mod readings;

use std::collections::HashMap;
use std::sync::Arc;

use base::{ClientId, DeviceId, Incarnation, Kind, Timestamp};
use records::{
    AliasKey, AnswerKey, Attempt, Client, Counts, CountsKey, DeadJob, Delivery, DeliveryKey,
    DeliveryProgress, DeviceProfile, DeviceSlot, DeviceState, Event, EventKey, GroupKey, JobClock, JobHead,
    JobId, KeptAnswer, KeptFrom, ParkedJob, PartitionHead, QuarantineKey, Quarantined, QueueKey, Reading,
    Seen,
};

use super::health::Health;
use super::overlay::{Found, SeenChange};
use super::partition::Moment;
use super::tables::Table;
use crate::codec::key::{self, Key};
use crate::codec::{CodecError, SeenSlice, Stored, decode_seen_slice};
use crate::key_range::KeyRange;
use crate::port::{Page, ParkedTimes, ReadingKey, StoreError, StoredJob, View, Whose};
use feed::Feed;
use merged::Merged;

/// A partition's layers, and where to report what is found damaged.
pub(super) struct EmbeddedView {
    moment: Moment,
    health: Arc<Health>,
}

impl EmbeddedView {
    pub(super) fn new(moment: Moment, health: Arc<Health>) -> Self {
        Self { moment, health }
    }

    fn kept(&self) -> KeptFrom {
        self.moment.head.kept_from
    }

    /// What cannot be read stops the store.
    fn reported<T>(&self, read: Result<T, StoreError>) -> Result<T, StoreError> {
        read.map_err(|error| self.health.fail(error))
    }

    /// A row of the newest layer that knows of it.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        for overlay in &self.moment.overlays {
            let data = overlay.read();
            match data.rows(table).map_or(Found::Untouched, |rows| rows.at(key, self.moment.seq)) {
                Found::Untouched => {}
                Found::Deleted => return Ok(None),
                Found::Value(value) => return Ok(Some(value.to_vec())),
            }
        }
        self.moment.snapshot.get(table, self.moment.partition, key)
    }

    fn record<T: Stored>(&self, table: Table, key: &[u8]) -> Result<Option<T>, StoreError> {
        let row = self.get(table, key)?;
        row.map(|row| T::from_row(&row)).transpose().map_err(|error| self.damaged(table, key, &error))
    }

    fn rows(&self, table: Table, range: &KeyRange, ascending: bool) -> Result<Merged<'_>, StoreError> {
        Merged::new(&self.moment, table, range, ascending)
    }

    /// The first records of a range that are wanted.
    fn records<T: Stored>(&self, table: Table, range: &KeyRange, limit: usize) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(table, range, true)?.take(limit);
        rows.map(|row| row.and_then(|(key, row)| self.decoded(table, &key, &row))).collect()
    }

    pub(super) fn decoded<T: Stored>(&self, table: Table, key: &[u8], row: &[u8]) -> Result<T, StoreError> {
        T::from_row(row).map_err(|error| self.damaged(table, key, &error))
    }

    pub(super) fn damaged(&self, table: Table, key: &[u8], error: &CodecError) -> StoreError {
        damaged_row(self.moment.snapshot.name(), table, key, error)
    }

    fn damaged_at(&self, table: Table, key: &[u8], what: String) -> StoreError {
        damaged_at(self.moment.snapshot.name(), table, key, what)
    }

    /// Hands out every record of a table.
    pub(super) fn each<T: Stored>(
        &self,
        table: Table,
        mut take: impl FnMut(&Key, T) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for row in self.rows(table, &KeyRange::all(), true)? {
            let (key, row) = row?;
            take(&key, self.decoded(table, &key, &row)?)?;
        }
        Ok(())
    }

    /// Signs of life of a slice, with what every layer knows of it.
    pub(super) fn seen_slice(&self, slice: u32) -> Result<Box<SeenSlice>, StoreError> {
        let key = key::slice(slice);
        let row = self.moment.snapshot.get(Table::Seen, self.moment.partition, &key)?;
        let mut seen = match row {
            Some(row) => decode_seen_slice(&row).map_err(|error| self.damaged(Table::Seen, &key, &error))?,
            None => Box::new([None; DeviceSlot::SLICE_DEVICES as usize]),
        };
        for overlay in self.moment.overlays.iter().rev() {
            let data = overlay.read();
            let Some(changes) = data.slice(slice) else { continue };
            for (within, seen) in (0..=u8::MAX).zip(seen.iter_mut()) {
                match changes.seen(within, self.moment.seq) {
                    SeenChange::Untouched => {}
                    SeenChange::Gone => *seen = None,
                    SeenChange::Seen(latest) => *seen = Some(latest),
                }
            }
        }
        Ok(seen)
    }

    fn seen_of(&self, slot: DeviceSlot) -> Result<Option<Seen>, StoreError> {
        for overlay in &self.moment.overlays {
            let data = overlay.read();
            let change =
                data.slice(slot.slice()).map(|slice| slice.seen(slot.within_slice(), self.moment.seq));
            match change {
                None | Some(SeenChange::Untouched) => {}
                Some(SeenChange::Gone) => return Ok(None),
                Some(SeenChange::Seen(seen)) => return Ok(Some(seen)),
            }
        }
        Ok(self.seen_slice(slot.slice())?[usize::from(slot.within_slice())])
    }

    /// Whether the device was deleted and its history is not swept yet.
    pub(super) fn is_deleted(&self, slot: DeviceSlot) -> Result<bool, StoreError> {
        Ok(self.get(Table::Deleted, &key::slot(slot))?.is_some())
    }

    /// Devices that an index names behind `prefix`, as far as their profiles agree: it also holds what is gone.
    fn indexed(
        &self,
        (table, prefix): (Table, &[u8]),
        after: Option<&DeviceId>,
        limit: usize,
        agrees: impl Fn(&DeviceProfile) -> bool,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        let last = after.map(|id| {
            let mut key = Key::from_slice(prefix);
            key.extend_from_slice(id.as_str().as_bytes());
            key
        });
        let mut devices = Vec::new();
        for row in self.rows(table, &KeyRange::of(prefix).after(last), true)? {
            if devices.len() >= limit {
                break;
            }
            let (key, _) = row?;
            let id = key.get(prefix.len()..).unwrap_or_default();
            let device = self.record::<DeviceProfile>(Table::Devices, id)?;
            devices.extend(device.filter(|device| agrees(device)));
        }
        Ok(devices)
    }

    fn events_of(
        &self,
        whose: Whose,
        page: Page<EventKey>,
        keep: &dyn Fn(&Event) -> bool,
    ) -> Result<Vec<Event>, StoreError> {
        let any_deleted = self.rows(Table::Deleted, &KeyRange::all(), true)?.next().transpose()?.is_some();
        if any_deleted && whose.device.map_or(Ok(false), |slot| self.is_deleted(slot))? {
            return Ok(Vec::new());
        }
        let feed = match whose.device {
            Some(slot) => Feed::of(Table::EventsByDevice, &key::slot(slot), page),
            None => Feed::of(Table::Events, &[], page),
        };
        let mut gone: HashMap<DeviceSlot, bool> = HashMap::new();
        let mut events = Vec::new();
        for found in feed.records::<Event>(self, Table::Events)? {
            if events.len() >= page.limit {
                break;
            }
            let event = found?;
            if any_deleted {
                let known = gone.get(&event.slot).copied();
                let is_gone = known.map_or_else(|| self.is_deleted(event.slot), Ok)?;
                gone.insert(event.slot, is_gone);
                if is_gone {
                    continue;
                }
            }
            if keep(&event) {
                events.push(event);
            }
        }
        Ok(events)
    }

    fn deliveries_of(
        &self,
        whose: Whose,
        page: Page<DeliveryKey>,
        keep: &dyn Fn(&Delivery) -> bool,
    ) -> Result<Vec<Delivery>, StoreError> {
        let feed = match (whose.device, whose.client) {
            (Some(slot), _) => Feed::of(Table::DeliveriesByDevice, &key::slot(slot), page),
            (None, Some(client)) => Feed::of(Table::DeliveriesByClient, &key::incarnation(client), page),
            (None, None) => Feed::of(Table::Deliveries, &[], page),
        };
        let mut deliveries = Vec::new();
        for found in feed.records::<Delivery>(self, Table::Deliveries)? {
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

    fn with_progress(&self, delivery: Delivery) -> Result<Delivery, StoreError> {
        let key = key::moment(DeliveryKey::from(delivery.id));
        let progress = self.record::<DeliveryProgress>(Table::Progress, &key)?;
        Ok(Delivery { progress: progress.unwrap_or(delivery.progress), ..delivery })
    }
}

impl View for EmbeddedView {
    fn head(&self) -> &PartitionHead {
        &self.moment.head
    }

    fn device(&self, id: &DeviceId) -> Result<Option<DeviceProfile>, StoreError> {
        self.reported(self.record(Table::Devices, &key::device(id)))
    }

    fn state(&self, slot: DeviceSlot) -> Result<DeviceState, StoreError> {
        self.reported(self.record(Table::States, &key::slot(slot)).map(Option::unwrap_or_default))
    }

    fn seen(&self, slot: DeviceSlot) -> Result<Option<Seen>, StoreError> {
        self.reported(self.seen_of(slot))
    }

    fn devices(&self, after: Option<&DeviceId>, limit: usize) -> Result<Vec<DeviceProfile>, StoreError> {
        let range = KeyRange::all().after(after.map(key::device));
        self.reported(self.records(Table::Devices, &range, limit))
    }

    fn devices_of(
        &self,
        client: Incarnation,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        let of = (Table::DevicesByClient, &*key::incarnation(client));
        self.reported(self.indexed(of, after, limit, |device| device.clients.contains(&client)))
    }

    fn devices_with(
        &self,
        (name, value): (&str, &str),
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        let of = (Table::DevicesByLabel, &*key::label(base::hash::label_hash(name, value), &[]));
        let has = |device: &DeviceProfile| device.labels.iter().any(|(k, v)| k == name && v == value);
        self.reported(self.indexed(of, after, limit, has))
    }

    fn devices_of_kind(
        &self,
        kind: &Kind,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        let of = (Table::DevicesByKind, &*key::kind(kind, &[]));
        self.reported(self.indexed(of, after, limit, |device| device.kind == *kind))
    }

    fn readings(&self, slot: DeviceSlot, page: Page<ReadingKey>) -> Result<Vec<Reading>, StoreError> {
        self.reported(readings::page(self, &self.moment, slot, page))
    }

    fn reading_times(
        &self,
        slot: DeviceSlot,
        from: Timestamp,
        to: Timestamp,
        each: &mut dyn FnMut(Timestamp),
    ) -> Result<(), StoreError> {
        self.reported(reading_times::each(self, &self.moment, slot, (from, to), each))
    }

    fn events(
        &self,
        whose: Whose,
        page: Page<EventKey>,
        keep: &dyn Fn(&Event) -> bool,
    ) -> Result<Vec<Event>, StoreError> {
        self.reported(self.events_of(whose, page.kept_from(self.kept().events), keep))
    }

    fn deliveries(
        &self,
        whose: Whose,
        page: Page<DeliveryKey>,
        keep: &dyn Fn(&Delivery) -> bool,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.reported(self.deliveries_of(whose, page.kept_from(self.kept().deliveries), keep))
    }

    fn delivery(&self, key: DeliveryKey) -> Result<Option<Delivery>, StoreError> {
        if key.at < self.kept().deliveries {
            return Ok(None);
        }
        let delivery = self.record::<Delivery>(Table::Deliveries, &key::moment(key));
        let delivery = delivery.and_then(|found| found.map(|found| self.with_progress(found)).transpose());
        self.reported(delivery)
    }

    fn attempts(&self, key: DeliveryKey) -> Result<Vec<Attempt>, StoreError> {
        if key.at < self.kept().deliveries {
            return Ok(Vec::new());
        }
        self.reported(self.records(Table::Attempts, &KeyRange::of(&key::moment(key)), usize::MAX))
    }

    fn quarantined(&self, page: Page<QuarantineKey>) -> Result<Vec<Quarantined>, StoreError> {
        let reports = Feed::of(Table::Quarantine, &[], page).records(self, Table::Quarantine);
        self.reported(reports.and_then(|reports| reports.take(page.limit).collect()))
    }

    fn quarantined_one(&self, key: QuarantineKey) -> Result<Option<Quarantined>, StoreError> {
        self.reported(self.record(Table::Quarantine, &key::moment(key)))
    }

    fn counts(&self, of: CountsKey) -> Result<Option<Counts>, StoreError> {
        if CountsKey::start_of(of.day) < self.kept().events {
            return Ok(None);
        }
        self.reported(self.record(Table::Counts, &key::counts(of)))
    }

    fn job_body(&self, job: JobId) -> Result<Option<Arc<[u8]>>, StoreError> {
        let body = self.get(Table::JobBodies, &key::job(job));
        self.reported(body).map(|body| body.map(Arc::from))
    }

    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        self.reported(self.job_by_id(id))
    }

    fn parked_alias(&self, queue: QueueKey, alias: AliasKey) -> Result<Option<ParkedJob>, StoreError> {
        self.reported(self.parked_with_alias(queue, alias))
    }

    fn parked_times(
        &self,
        clock: JobClock,
        after: (Timestamp, JobId),
        scan_max: usize,
    ) -> Result<ParkedTimes, StoreError> {
        self.reported(self.times(clock, after, scan_max))
    }

    fn parked_line(
        &self,
        queue: QueueKey,
        group: Option<GroupKey>,
        after: Option<(Timestamp, u64)>,
        from_back: bool,
        limit: usize,
    ) -> Result<Vec<ParkedJob>, StoreError> {
        self.reported(self.line((queue, group), after, from_back, limit))
    }

    fn jobs_of(
        &self,
        queue: QueueKey,
        after: Option<JobId>,
        scan_max: usize,
        limit: usize,
        keep: &dyn Fn(&JobHead) -> bool,
    ) -> Result<(Vec<JobHead>, Option<JobId>), StoreError> {
        self.reported(self.jobs_in(queue, after, (scan_max, limit), keep))
    }

    fn dead(
        &self,
        queue: QueueKey,
        after: Option<u64>,
        ascending: bool,
        limit: usize,
    ) -> Result<Vec<DeadJob>, StoreError> {
        self.reported(self.dead_of(queue, after, ascending, limit))
    }

    fn dead_by_id(&self, queue: QueueKey, id: JobId) -> Result<Option<DeadJob>, StoreError> {
        self.reported(self.dead_letter(queue, id))
    }

    fn answer(&self, key: AnswerKey) -> Result<Option<KeptAnswer>, StoreError> {
        self.reported(self.kept_answer(key))
    }

    fn answers_before(&self, at: Timestamp, limit: usize) -> Result<Vec<(Timestamp, AnswerKey)>, StoreError> {
        self.reported(self.answers_given_before(at, limit))
    }

    fn clients(&self, after: Option<&ClientId>, limit: usize) -> Result<Vec<Client>, StoreError> {
        let range = KeyRange::all().after(after.map(key::client));
        self.reported(self.records(Table::Clients, &range, limit))
    }
}

/// What an operator is told of a row that makes no sense.
pub(super) fn damaged_row(file: &str, table: Table, key: &[u8], error: &CodecError) -> StoreError {
    damaged_at(file, table, key, error.to_string())
}

fn damaged_at(file: &str, table: Table, key: &[u8], what: String) -> StoreError {
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    StoreError::Damaged { file: file.to_owned(), at: format!("{table:?} {key}"), what }
}
