//! A view in memory: the partition as it was, shared until the next commit copies it.

use std::ops::Bound;
use std::sync::Arc;

use base::{ClientId, DeviceId, Incarnation, Kind, Timestamp};
use records::{
    AliasKey, AnswerKey, Attempt, Client, Counts, CountsKey, DeadJob, Delivery, DeliveryKey, DeviceProfile,
    DeviceSlot, DeviceState, Event, EventKey, GroupKey, JobClock, JobHead, JobId, KeptAnswer, KeptFrom,
    ParkedJob, PartitionHead, QuarantineKey, Quarantined, QueueKey, Reading, Seen,
};

use super::partition::{FeedKey, MemoryPartition};
use crate::port::{Page, ParkedTimes, ReadingKey, StoreError, StoredJob, View, Whose};

pub(super) struct MemoryView(pub(super) Arc<MemoryPartition>);

impl MemoryView {
    fn kept(&self) -> KeptFrom {
        self.0.head.kept_from
    }
}

/// The keys that a page may hold, or nothing when there are none.
fn bounds<K: FeedKey>(page: &Page<K>) -> Option<(Bound<K>, Bound<K>)> {
    let (mut low, mut high) =
        (Bound::Included(K::first_at(page.from)), Bound::Excluded(K::first_at(page.to)));
    if page.from >= page.to {
        return None;
    }
    match page.after {
        Some(after) if page.ascending && after >= K::first_at(page.from) => low = Bound::Excluded(after),
        Some(after) if !page.ascending && after < K::first_at(page.to) => high = Bound::Excluded(after),
        _ => {}
    }
    let (Bound::Included(first) | Bound::Excluded(first), Bound::Excluded(end)) = (low, high) else {
        return None;
    };
    (first < end).then_some((low, high))
}

fn taken<T: Clone>(
    items: impl DoubleEndedIterator<Item = T>,
    ascending: bool,
    limit: usize,
    keep: impl Fn(&T) -> bool,
) -> Vec<T> {
    if ascending {
        items.filter(keep).take(limit).collect()
    } else {
        items.rev().filter(keep).take(limit).collect()
    }
}

fn after<K: Clone>(key: Option<&K>) -> (Bound<K>, Bound<K>) {
    (key.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone())), Bound::Unbounded)
}

impl View for MemoryView {
    fn head(&self) -> &PartitionHead {
        &self.0.head
    }

    fn device(&self, id: &DeviceId) -> Result<Option<DeviceProfile>, StoreError> {
        Ok(self.0.devices.get(id).cloned())
    }

    fn state(&self, slot: DeviceSlot) -> Result<DeviceState, StoreError> {
        Ok(self.0.states.get(&slot).cloned().unwrap_or_default())
    }

    fn seen(&self, slot: DeviceSlot) -> Result<Option<Seen>, StoreError> {
        Ok(self.0.seen.get(&slot).copied())
    }

    fn devices(&self, last: Option<&DeviceId>, limit: usize) -> Result<Vec<DeviceProfile>, StoreError> {
        Ok(self.0.devices.range(after(last)).map(|(_, device)| device.clone()).take(limit).collect())
    }

    fn devices_of(
        &self,
        client: Incarnation,
        last: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        let linked = |device: &DeviceProfile| device.clients.contains(&client);
        let devices = self.0.devices.range(after(last)).map(|(_, device)| device.clone());
        Ok(devices.filter(linked).take(limit).collect())
    }

    fn devices_with(
        &self,
        (key, value): (&str, &str),
        last: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        let has = |device: &DeviceProfile| device.labels.iter().any(|(k, v)| (&**k, &**v) == (key, value));
        let devices = self.0.devices.range(after(last)).map(|(_, device)| device.clone());
        Ok(devices.filter(has).take(limit).collect())
    }

    fn devices_of_kind(
        &self,
        kind: &Kind,
        last: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        let devices = self.0.devices.range(after(last)).map(|(_, device)| device.clone());
        Ok(devices.filter(|device| device.kind == *kind).take(limit).collect())
    }

    fn readings(&self, slot: DeviceSlot, page: Page<ReadingKey>) -> Result<Vec<Reading>, StoreError> {
        let Some((low, high)) = bounds(&page) else { return Ok(Vec::new()) };
        let range = (low.map(|key| (slot, key)), high.map(|key| (slot, key)));
        let readings = self.0.readings.range(range).map(|(_, (reading, _))| reading.clone());
        Ok(taken(readings, page.ascending, page.limit, |_| true))
    }

    fn reading_times(
        &self,
        slot: DeviceSlot,
        from: Timestamp,
        to: Timestamp,
        each: &mut dyn FnMut(Timestamp),
    ) -> Result<(), StoreError> {
        let page = Page { from, to, ascending: true, after: None, limit: usize::MAX };
        self.readings(slot, page).map(|readings| readings.iter().for_each(|reading| each(reading.ts)))
    }

    fn events(
        &self,
        whose: Whose,
        page: Page<EventKey>,
        keep: &dyn Fn(&Event) -> bool,
    ) -> Result<Vec<Event>, StoreError> {
        let Some(range) = bounds(&page.kept_from(self.kept().events)) else { return Ok(Vec::new()) };
        let events = self.0.events.range(range).map(|(_, event)| event.clone());
        let whose = |event: &Event| whose.device.is_none_or(|slot| event.slot == slot);
        Ok(taken(events, page.ascending, page.limit, |event| whose(event) && keep(event)))
    }

    fn deliveries(
        &self,
        whose: Whose,
        page: Page<DeliveryKey>,
        keep: &dyn Fn(&Delivery) -> bool,
    ) -> Result<Vec<Delivery>, StoreError> {
        let Some(range) = bounds(&page.kept_from(self.kept().deliveries)) else { return Ok(Vec::new()) };
        let deliveries = self.0.deliveries.range(range).map(|(_, delivery)| delivery.clone());
        let whose = |delivery: &Delivery| {
            whose.device.is_none_or(|slot| delivery.slot == slot)
                && whose.client.is_none_or(|client| delivery.client == client)
        };
        Ok(taken(deliveries, page.ascending, page.limit, |delivery| whose(delivery) && keep(delivery)))
    }

    fn delivery(&self, key: DeliveryKey) -> Result<Option<Delivery>, StoreError> {
        let found = self.0.deliveries.get(&key).filter(|_| key.at >= self.kept().deliveries);
        Ok(found.cloned())
    }

    fn attempts(&self, key: DeliveryKey) -> Result<Vec<Attempt>, StoreError> {
        if key.at < self.kept().deliveries {
            return Ok(Vec::new());
        }
        Ok(self.0.attempts.range((key, 0)..=(key, u32::MAX)).map(|(_, attempt)| attempt.clone()).collect())
    }

    fn quarantined(&self, page: Page<QuarantineKey>) -> Result<Vec<Quarantined>, StoreError> {
        let Some(range) = bounds(&page) else { return Ok(Vec::new()) };
        let reports = self.0.quarantine.range(range).map(|(_, report)| report.clone());
        Ok(taken(reports, page.ascending, page.limit, |_| true))
    }

    fn quarantined_one(&self, key: QuarantineKey) -> Result<Option<Quarantined>, StoreError> {
        Ok(self.0.quarantine.get(&key).cloned())
    }

    fn counts(&self, of: CountsKey) -> Result<Option<Counts>, StoreError> {
        let found = self.0.counts.get(&of).filter(|_| CountsKey::start_of(of.day) >= self.kept().events);
        Ok(found.copied())
    }

    fn job_body(&self, job: JobId) -> Result<Option<Arc<[u8]>>, StoreError> {
        Ok(self.0.job_bodies.get(&job).cloned())
    }

    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        Ok(self.0.job(id))
    }

    fn parked_alias(&self, queue: QueueKey, alias: AliasKey) -> Result<Option<ParkedJob>, StoreError> {
        Ok(self.0.queues.parked_alias(queue, alias))
    }

    fn parked_times(
        &self,
        clock: JobClock,
        after: (Timestamp, JobId),
        scan_max: usize,
    ) -> Result<ParkedTimes, StoreError> {
        Ok(self.0.queues.parked_times(clock, after, scan_max))
    }

    fn parked_line(
        &self,
        queue: QueueKey,
        group: Option<GroupKey>,
        after: Option<(Timestamp, u64)>,
        from_back: bool,
        limit: usize,
    ) -> Result<Vec<ParkedJob>, StoreError> {
        Ok(self.0.queues.parked_line((queue, group), after, from_back, limit))
    }

    fn jobs_of(
        &self,
        queue: QueueKey,
        after: Option<JobId>,
        scan_max: usize,
        limit: usize,
        keep: &dyn Fn(&JobHead) -> bool,
    ) -> Result<(Vec<JobHead>, Option<JobId>), StoreError> {
        Ok(self.0.jobs_of(queue, after, (scan_max, limit), keep))
    }

    fn dead(
        &self,
        queue: QueueKey,
        after: Option<u64>,
        ascending: bool,
        limit: usize,
    ) -> Result<Vec<DeadJob>, StoreError> {
        Ok(self.0.queues.dead(queue, after, ascending, limit))
    }

    fn dead_by_id(&self, queue: QueueKey, id: JobId) -> Result<Option<DeadJob>, StoreError> {
        Ok(self.0.queues.dead_by_id(queue, id))
    }

    fn answer(&self, key: AnswerKey) -> Result<Option<KeptAnswer>, StoreError> {
        Ok(self.0.queues.answer(key))
    }

    fn answers_before(&self, at: Timestamp, limit: usize) -> Result<Vec<(Timestamp, AnswerKey)>, StoreError> {
        Ok(self.0.queues.answers_before(at, limit))
    }

    fn clients(&self, last: Option<&ClientId>, limit: usize) -> Result<Vec<Client>, StoreError> {
        Ok(self.0.clients.range(after(last)).map(|(_, client)| client.clone()).take(limit).collect())
    }
}
