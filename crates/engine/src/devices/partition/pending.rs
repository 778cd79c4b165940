//! What a partition of devices wrote and is not durable yet, and its newest durable records.

use std::sync::Arc;

use base::{DeviceId, EntityId, Incarnation, Timestamp};
use records::{CountsKey, DeviceProfile, DeviceSlot, Event, HourlyCounts, JobId};
use store::{FeedFilter, Page, StoreError};

use crate::kernel::fetch::Fetch;
use crate::kernel::pending_writes::PendingWrites;

/// Pending writes of records that are not resident.
#[derive(Debug, Default)]
pub(super) struct PendingRecords {
    pub(super) profiles: PendingWrites<DeviceId, Arc<DeviceProfile>>,
    /// What jobs carry.
    pub(super) bodies: PendingWrites<JobId, Arc<[u8]>>,
    pub(super) newest_events: PendingWrites<DeviceSlot, Arc<Event>>,
    /// By device and client: the newest delivery that was cancelled.
    pub(super) newest_cancelled: PendingWrites<(DeviceSlot, Incarnation), EntityId>,
    pub(super) counts: PendingWrites<CountsKey, HourlyCounts>,
}

impl PendingRecords {
    /// All batches up to `seq` are durable.
    pub(super) fn settle(&mut self, seq: u64) {
        let Self { profiles, bodies, newest_events, newest_cancelled, counts } = self;
        profiles.settle(seq);
        bodies.settle(seq);
        newest_events.settle(seq);
        newest_cancelled.settle(seq);
        counts.settle(seq);
    }
}

/// The newest durable event of a device.
pub(super) fn newest_event(fetch: &dyn Fetch, slot: DeviceSlot) -> Result<Option<Arc<Event>>, StoreError> {
    let whose = FeedFilter { device: Some(slot), client: None };
    Ok(fetch.view()?.events(whose, newest(), &|_| true)?.pop().map(Arc::new))
}

/// The newest durable delivery of a device to a client.
pub(super) fn newest_delivery(
    fetch: &dyn Fetch,
    slot: DeviceSlot,
    client: Incarnation,
) -> Result<Option<EntityId>, StoreError> {
    let whose = FeedFilter { device: Some(slot), client: Some(client) };
    Ok(fetch.view()?.deliveries(whose, newest(), &|_| true)?.pop().map(|delivery| delivery.id))
}

/// The newest item of a feed.
fn newest<K>() -> Page<K> {
    Page { from: Timestamp(i64::MIN), to: Timestamp::MAX, ascending: false, after: None, limit: 1 }
}
