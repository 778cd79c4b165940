//! Records that are not resident: read from the store, or from the batches that are not durable yet.
//!
//! A view of the store shows durable data only. What a partition wrote a moment ago is kept here until its batch is durable, so
//! that the next input sees it.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::Arc;

use base::{DeviceId, EntityId, Incarnation, Timestamp};
use records::{
    Counts, CountsKey, Delivery, DeliveryKey, DeviceProfile, DeviceSlot, Event, JobId, QuarantineKey,
};
use store::{Page, StoreError, View, Whose};

use crate::kernel::hashed::HashMap;

/// The name of a record that is not resident.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RecordKey {
    /// A device's profile.
    Profile(DeviceId),
    /// What a job carries.
    Body(JobId),
    /// A delivery.
    Delivery(DeliveryKey),
    /// The newest durable delivery of a device to a client.
    NewestDelivery(DeviceSlot, Incarnation),
    /// The newest durable event of a device.
    NewestEvent(DeviceSlot),
    /// What was counted on a day.
    Counts(CountsKey),
    /// A refused report.
    Quarantined(QuarantineKey),
}

/// A record that is not resident.
#[derive(Clone, Debug)]
pub enum Record {
    /// A device's profile.
    Profile(Arc<DeviceProfile>),
    /// What a job carries.
    Body(Arc<[u8]>),
    /// A delivery, with its progress as it was when it was read.
    Delivery(Arc<Delivery>),
    /// An event.
    Event(Arc<Event>),
    /// What was counted on a day.
    Counts(Counts),
    /// The id of a refused report.
    Quarantined(EntityId),
}

/// Reads durable records by key.
pub trait Fetch {
    /// The record of that name, if there is one.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn get(&self, key: &RecordKey) -> Result<Option<Record>, StoreError>;

    /// What is durable, as of this step.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn view(&self) -> Result<&dyn View, StoreError>;
}

/// Fetches from one view, which is opened when it is first needed.
pub(crate) struct FromStore<'a> {
    store: &'a dyn store::Store,
    partition: base::PartitionId,
    view: OnceCell<Box<dyn View>>,
}

impl<'a> FromStore<'a> {
    pub(crate) fn new(store: &'a dyn store::Store, partition: base::PartitionId) -> Self {
        Self { store, partition, view: OnceCell::new() }
    }
}

impl Fetch for FromStore<'_> {
    fn get(&self, key: &RecordKey) -> Result<Option<Record>, StoreError> {
        let view = self.view()?;
        Ok(match key {
            RecordKey::Profile(id) => view.device(id)?.map(|profile| Record::Profile(Arc::new(profile))),
            RecordKey::Body(job) => view.job_body(*job)?.map(Record::Body),
            RecordKey::Delivery(key) => {
                view.delivery(*key)?.map(|delivery| Record::Delivery(Arc::new(delivery)))
            }
            RecordKey::NewestDelivery(slot, client) => {
                let whose = Whose { device: Some(*slot), client: Some(*client) };
                let found = view.deliveries(whose, newest(), &|_| true)?.pop();
                found.map(|delivery| Record::Delivery(Arc::new(delivery)))
            }
            RecordKey::Counts(key) => view.counts(*key)?.map(Record::Counts),
            RecordKey::Quarantined(key) => {
                view.quarantined_one(*key)?.map(|report| Record::Quarantined(report.id))
            }
            RecordKey::NewestEvent(slot) => {
                let whose = Whose { device: Some(*slot), client: None };
                let found = view.events(whose, newest(), &|_| true)?.pop();
                found.map(|event| Record::Event(Arc::new(event)))
            }
        })
    }

    fn view(&self) -> Result<&dyn View, StoreError> {
        if let Some(view) = self.view.get() {
            return Ok(&**view);
        }
        let view = self.store.view(self.partition)?;
        Ok(&**self.view.get_or_init(|| view))
    }
}

/// The newest item of a feed.
fn newest<K>() -> Page<K> {
    Page { from: Timestamp(i64::MIN), to: Timestamp::MAX, ascending: false, after: None, limit: 1 }
}

/// Records that there stays room for when all are durable.
const ROOM_KEPT: usize = 1_024;

/// What was written by batches that are not durable yet; `None` for what they deleted.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    records: HashMap<RecordKey, (u64, Option<Record>)>,
    order: VecDeque<(u64, RecordKey)>,
}

impl Unsettled {
    /// Notes what batch `seq` writes.
    pub(crate) fn put(&mut self, seq: u64, key: RecordKey, record: Option<Record>) {
        self.order.push_back((seq, key.clone()));
        self.records.insert(key, (seq, record));
    }

    /// Forgets what is durable. The room of a burst goes with it.
    pub(crate) fn settle(&mut self, seq: u64) {
        while let Some((written, key)) = self.order.pop_front_if(|(written, _)| *written <= seq) {
            if self.records.get(&key).is_some_and(|(latest, _)| *latest == written) {
                self.records.remove(&key);
            }
        }
        if self.order.is_empty() && self.order.capacity() > ROOM_KEPT {
            *self = Self::default();
        }
    }

    /// The latest record of that name, durable or not.
    pub(crate) fn get(&self, key: &RecordKey, fetch: &dyn Fetch) -> Result<Option<Record>, StoreError> {
        match self.records.get(key) {
            Some((_, record)) => Ok(record.clone()),
            None => fetch.get(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;
    impl Fetch for Nothing {
        fn get(&self, _: &RecordKey) -> Result<Option<Record>, StoreError> {
            Ok(None)
        }

        fn view(&self) -> Result<&dyn View, StoreError> {
            Err(StoreError::Refused("there is nothing to see".to_owned()))
        }
    }

    #[test]
    fn a_record_is_seen_until_its_latest_batch_is_durable() {
        let mut unsettled = Unsettled::default();
        let key = RecordKey::Body(JobId([1; 16]));
        let body = |byte: u8| Some(Record::Body(Arc::from([byte])));
        let seen = |unsettled: &Unsettled| match unsettled.get(&key, &Nothing) {
            Ok(Some(Record::Body(bytes))) => Some(bytes[0]),
            _ => None,
        };
        unsettled.put(1, key.clone(), body(1));
        unsettled.put(2, key.clone(), body(2));
        unsettled.settle(1);
        assert_eq!(seen(&unsettled), Some(2));
        unsettled.put(3, key.clone(), None);
        unsettled.settle(2);
        assert_eq!(seen(&unsettled), None);
        unsettled.settle(3);
        assert!(unsettled.records.is_empty() && unsettled.order.is_empty());
    }
}
