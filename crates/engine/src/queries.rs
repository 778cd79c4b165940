//! Everything that is read: from views of the store, so only what is durable, and complete.
//!
//! Lists in order of id are here; feeds in order of time are in [`feeds`].

use std::sync::Arc;

use base::{ClientId, DeviceId, EntityId, Incarnation, PartitionId, Problem, Timestamp, hash};
use fleet::Selection;
use records::{
    Attempt, Client, Connection, Delivery, DeliveryKey, DeliveryStatus, DeviceProfile, DeviceSlot,
    DeviceState, LastSeen, NotificationState, QuarantineKey, Quarantined, Reading,
};
use store::{Page, ReadingKey, StoreError, View};

mod bounded;
mod campaigns;
mod commands;
mod feeds;
mod listed;
mod merge;
mod notices;
mod operations;
mod refused;
mod rollouts;
mod selected;
mod stats;
mod tasks;

pub use bounded::{BoundedPage, LOOKED_AT_MAX, cost_of_row};
pub use commands::{CommandFilter, TimelineItem, TimelineKey};
pub use feeds::{BoundedFeedPage, DeliveryFilter, EventFilter, FeedKey, FeedOrder};
pub use rollouts::FoundRollouts;
pub use stats::{COUNTED_DEVICES_MAX, CountsOfStatus, StatsOf, StatsQuery};

use bounded::{ScannedSource, bounded};
use merge::merge;

use crate::Engine;
use crate::refusals::{unknown_client, unknown_device};

/// The readers' side of the engine. Calls are short but may read the disk.
#[derive(Clone, Debug)]
pub struct Queries {
    engine: Engine,
    cost_max: usize,
}

/// A device with what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceDetails {
    /// What was registered.
    pub profile: DeviceProfile,
    /// What it is like.
    pub state: DeviceState,
    /// Its latest sign of life.
    pub seen: Option<LastSeen>,
    /// Whether a session of its own lives.
    pub connected: bool,
}

/// Which devices a list shows.
#[derive(Clone, Debug, Default)]
pub struct DeviceFilter {
    /// Of this kind.
    pub kind: Option<base::Kind>,
    /// With each of these labels.
    pub labels: Vec<(String, String)>,
    /// In this connection.
    pub connection: Option<Connection>,
    /// With a session of their own, or without.
    pub connected: Option<bool>,
    /// With commands that have not ended, or without.
    pub waiting: Option<bool>,
    /// With a latest sign of life before that time. One that never gave any is none of them.
    pub last_seen_before: Option<Timestamp>,
    /// With an id that begins so.
    pub id_prefix: Option<String>,
    /// With a report among the newest refused ones, as many as a page may look at; or without.
    pub quarantined: Option<bool>,
    /// Meant by this.
    pub selection: Option<Selection>,
}

/// A partition as it is now.
type PartitionView = (PartitionId, Box<dyn View>);

impl Queries {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, cost_max: LOOKED_AT_MAX }
    }

    /// Lists that filter behind their index cost so many rows at most in a call, where that is less
    /// than [`LOOKED_AT_MAX`]. But they look at one row at least.
    #[must_use]
    pub fn within(self, cost_max: usize) -> Self {
        Self { cost_max: cost_max.clamp(1, LOOKED_AT_MAX), ..self }
    }

    /// A client.
    #[must_use]
    pub fn client(&self, id: &ClientId) -> Option<Arc<Client>> {
        self.engine.directory().by_id(id)
    }

    /// Clients in order of id.
    #[must_use]
    pub fn clients(&self, after: Option<&ClientId>, limit: usize) -> Vec<Arc<Client>> {
        self.engine.directory().page(after, limit)
    }

    /// Since when no notification has got through to a client, as far as this process knows. `None`
    /// for a client without devices whose newest notification has failed for good.
    #[must_use]
    pub fn stale_since(&self, client: &Client) -> Option<Timestamp> {
        self.engine.stale_since(client.incarnation)
    }

    /// A device.
    ///
    /// # Errors
    /// 503 when the store cannot be read; the same for every method here.
    pub fn device(&self, id: &DeviceId) -> Result<Option<DeviceDetails>, Problem> {
        let view = self.view(self.partition_of(id))?;
        let profile = view.device(id).map_err(unreadable)?;
        profile.map(|profile| self.with_state(self.partition_of(id), &*view, profile)).transpose()
    }

    /// Where a device's records are, for who follows its feeds; `None` for an unknown one.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn place(&self, id: &DeviceId) -> Result<Option<(PartitionId, DeviceSlot)>, Problem> {
        let partition = self.partition_of(id);
        let profile = self.view(partition)?.device(id).map_err(unreadable)?;
        Ok(profile.map(|profile| (partition, profile.slot)))
    }

    /// Devices in order of id. Where no index answers all that is asked, as far as a bounded number
    /// of devices that are looked at leads.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn devices(
        &self,
        filter: &DeviceFilter,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<BoundedPage<DeviceDetails, DeviceId>, Problem> {
        if filter.is_indexed() {
            let found = self.merge_devices(after, limit, |(_, view), after, limit| {
                filter.read(view, after, limit).map_err(unreadable)
            })?;
            return Ok(BoundedPage::indexed(found));
        }
        let refused = filter.quarantined.map(|_| self.refused_devices()).transpose()?;
        if let (Some(refused), Some(true)) = (&refused, filter.quarantined) {
            return self.devices_refused(refused, filter, after, limit);
        }
        if let Some(few) = self.few_selected(filter) {
            return self.devices_among(&few, (filter, refused.as_ref()), after, limit);
        }
        let views = self.views()?;
        let chunk = bounded(
            views.len(),
            (limit, self.cost_max),
            |a: &DeviceId, b| a < b,
            |at, behind, rows| {
                let (partition, view) = &views[at];
                let suits = |profile: &_| self.suits(filter, (*partition, &**view), profile);
                let mut looked = look_at_devices(&**view, filter, &suits, behind.or(after), rows)?;
                looked.found.retain(|(id, _)| !refused.as_ref().is_some_and(|refused| refused.contains(id)));
                Ok(looked)
            },
        )?;
        let shown = |(at, _, profile): (usize, DeviceId, DeviceProfile)| {
            let (partition, view) = &views[at];
            self.with_state(*partition, &**view, profile)
        };
        let found = chunk.found.into_iter().map(shown).collect::<Result<_, _>>()?;
        Ok(BoundedPage { found, next: chunk.next, looked_at: chunk.looked_at, cost: chunk.cost })
    }

    /// Devices linked to a client, in order of id.
    ///
    /// # Errors
    /// 404 for an unknown client; see [`Queries::device`].
    pub fn devices_of(
        &self,
        client: &ClientId,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceDetails>, Problem> {
        let client = self.known_client(client)?;
        self.merge_devices(after, limit, |(_, view), after, limit| {
            view.devices_of(client, after, limit).map_err(unreadable)
        })
    }

    /// The clients that a device is linked to, in order of id.
    ///
    /// # Errors
    /// 404 for an unknown device; see [`Queries::device`].
    pub fn clients_of(&self, device: &DeviceId) -> Result<Vec<Arc<Client>>, Problem> {
        let (_, profile) = self.known_device(device)?;
        let mut clients: Vec<_> =
            profile.clients.iter().filter_map(|client| self.engine.directory().get(*client)).collect();
        clients.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(clients)
    }

    /// A device's readings by `ts`.
    ///
    /// # Errors
    /// 404 for an unknown device; see [`Queries::device`].
    pub fn readings(&self, device: &DeviceId, page: Page<ReadingKey>) -> Result<Vec<Reading>, Problem> {
        let (view, profile) = self.known_device(device)?;
        view.readings(profile.slot, page).map_err(unreadable)
    }

    /// A refused report.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn quarantined(&self, id: EntityId) -> Result<Option<Quarantined>, Problem> {
        let view = self.view(self.engine.partition_of(id.routing))?;
        let found = view.quarantined_one(QuarantineKey::from(id)).map_err(unreadable)?;
        Ok(found.filter(|report| report.id == id))
    }

    /// A delivery with its attempts, oldest first.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn delivery(&self, id: EntityId) -> Result<Option<(Delivery, Vec<Attempt>)>, Problem> {
        let view = self.view(self.engine.partition_of(id.routing))?;
        let key = DeliveryKey::from(id);
        let Some(delivery) = view.delivery(key).map_err(unreadable)?.filter(|delivery| delivery.id == id)
        else {
            return Ok(None);
        };
        Ok(Some((delivery, view.attempts(key).map_err(unreadable)?)))
    }

    /// The body of a notification that failed for good, while it is the newest of its device and
    /// client; `None` for any other.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn body_of_failed(&self, of: &Delivery) -> Result<Option<Arc<[u8]>>, Problem> {
        if of.progress.status != DeliveryStatus::Failed {
            return Ok(None);
        }
        let view = self.view(self.engine.partition_of(of.id.routing))?;
        view.job_body(NotificationState::body_of_failed(of.id)).map_err(unreadable)
    }

    /// A page of devices over all partitions; what is known of a device is read only if it is on
    /// the page.
    fn merge_devices(
        &self,
        after: Option<&DeviceId>,
        limit: usize,
        read: impl Fn((PartitionId, &dyn View), Option<&DeviceId>, usize) -> Result<Vec<DeviceProfile>, Problem>,
    ) -> Result<Vec<DeviceDetails>, Problem> {
        let views = self.views()?;
        let merged = merge(
            views.len(),
            limit,
            |a, b| a < b,
            |at, last: Option<&DeviceId>, limit| {
                let (partition, view) = &views[at];
                let profiles = read((*partition, &**view), last.or(after), limit)?;
                Ok(profiles.into_iter().map(|profile| (profile.id.clone(), profile)).collect())
            },
        )?;
        let shown = |(at, _, profile): (usize, _, _)| {
            let (partition, view) = &views[at];
            self.with_state(*partition, &**view, profile)
        };
        merged.into_iter().map(shown).collect()
    }

    fn views(&self) -> Result<Vec<PartitionView>, Problem> {
        self.partitions().map(|partition| Ok((partition, self.view(partition)?))).collect()
    }

    fn with_state(
        &self,
        partition: PartitionId,
        view: &dyn View,
        profile: DeviceProfile,
    ) -> Result<DeviceDetails, Problem> {
        let state = view.state(profile.slot).map_err(unreadable)?;
        let seen = view.seen(profile.slot).map_err(unreadable)?;
        let connected = self.is_connected(partition, profile.slot);
        Ok(DeviceDetails { profile, state, seen, connected })
    }

    fn is_connected(&self, partition: PartitionId, slot: DeviceSlot) -> bool {
        self.engine.fleet().is_connected(partition, slot)
    }

    fn known_client(&self, id: &ClientId) -> Result<Incarnation, Problem> {
        self.client(id).map(|client| client.incarnation).ok_or_else(|| unknown_client(id))
    }

    fn known_device(&self, id: &DeviceId) -> Result<(Box<dyn View>, DeviceProfile), Problem> {
        let view = self.view(self.partition_of(id))?;
        match view.device(id).map_err(unreadable)? {
            Some(profile) => Ok((view, profile)),
            None => Err(unknown_device(id)),
        }
    }

    fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.engine.store().partitions()).map(PartitionId)
    }

    fn partition_of(&self, id: &DeviceId) -> PartitionId {
        hash::device_partition(id, self.engine.store().partitions())
    }

    fn view(&self, partition: PartitionId) -> Result<Box<dyn View>, Problem> {
        self.engine.store().view(partition).map_err(unreadable)
    }
}

/// Looks at some profiles of a partition for those that match a filter.
fn look_at_devices(
    view: &dyn View,
    filter: &DeviceFilter,
    suits: &dyn Fn(&DeviceProfile) -> Result<bool, Problem>,
    after: Option<&DeviceId>,
    rows: usize,
) -> Result<ScannedSource<DeviceId, DeviceProfile>, Problem> {
    let first = filter.first_of_prefix(after);
    let exact = first.as_ref().map(|id| view.device(id)).transpose().map_err(unreadable)?.flatten();
    let profiles = filter.read(view, first.as_ref().or(after), rows).map_err(unreadable)?;
    let looked_at = profiles.len();
    let last = profiles.last().filter(|_| looked_at == rows).map(|profile| profile.id.clone());
    let mut found = Vec::new();
    for profile in exact.into_iter().chain(profiles) {
        if suits(&profile)? {
            found.push((profile.id.clone(), profile));
        }
    }
    // Behind the prefix there is nothing more.
    let until = last.filter(|last| filter.may_be_behind(last));
    Ok(ScannedSource { found, rows: looked_at, cost: looked_at, until })
}

impl DeviceFilter {
    /// Devices that may match: by label or by kind, as far as there is an index for what is asked.
    fn read(
        &self,
        view: &dyn View,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError> {
        match (self.labels.first(), &self.kind) {
            (Some((key, value)), _) => view.devices_with((key, value), after, limit),
            (None, Some(kind)) => view.devices_of_kind(kind, after, limit),
            (None, None) => view.devices(after, limit),
        }
    }

    /// The id that is the prefix itself, where the devices behind `after` begin with it or later.
    fn first_of_prefix(&self, after: Option<&DeviceId>) -> Option<DeviceId> {
        let first = DeviceId::new(self.id_prefix.as_deref()?)?;
        after.is_none_or(|after| *after < first).then_some(first)
    }

    /// Whether a device that comes behind this one in order of id may match.
    fn may_be_behind(&self, id: &DeviceId) -> bool {
        self.id_prefix.as_deref().is_none_or(|prefix| {
            let length = id.as_str().len().min(prefix.len());
            id.as_str().as_bytes()[..length] <= prefix.as_bytes()[..length]
        })
    }

    /// Whether an index, or the order of ids, answers all that is asked: nothing is read in vain.
    fn is_indexed(&self) -> bool {
        let asked = self.labels.len() + usize::from(self.kind.is_some());
        let state_is_asked = self.connection.is_some()
            || self.connected.is_some()
            || self.waiting.is_some()
            || self.last_seen_before.is_some();
        asked <= 1
            && !state_is_asked
            && self.id_prefix.is_none()
            && self.quarantined.is_none()
            && self.selection.is_none()
    }

    fn suits(&self, profile: &DeviceProfile) -> bool {
        self.kind.as_ref().is_none_or(|kind| profile.kind == *kind)
            && self.id_prefix.as_deref().is_none_or(|prefix| profile.id.as_str().starts_with(prefix))
            && has_all(profile, &self.labels)
    }

    /// Whether the rows say of what a device is like now what is asked for.
    fn suits_state(&self, view: &dyn View, profile: &DeviceProfile) -> Result<bool, Problem> {
        let slot = profile.slot;
        let is_so = match self.connection {
            None => true,
            Some(wanted) => view.state(slot).map_err(unreadable)?.connection == wanted,
        };
        let is_older = match self.last_seen_before {
            None => true,
            Some(before) => view.seen(slot).map_err(unreadable)?.is_some_and(|seen| seen.at < before),
        };
        Ok(is_so
            && is_older
            && match self.waiting {
                None => true,
                Some(wanted) => view.has_open_commands(slot).map_err(unreadable)? == wanted,
            })
    }
}

/// Whether a device has each of these labels.
fn has_all(profile: &DeviceProfile, labels: &[(String, String)]) -> bool {
    labels.iter().all(|label| profile.labels.contains(label))
}

#[expect(clippy::needless_pass_by_value, reason = "it ends the error")]
pub(crate) fn unreadable(error: StoreError) -> Problem {
    tracing::error!(%error, "a query could not be answered");
    Problem::unavailable("the store cannot be read now; the server's log says why")
}
