//! Clients with devices whose newest notification has failed for good, and when they are told
//! again.
//!
//! Partitions say which clients are stale in them. One success anywhere, being enabled, or a probe
//! then orders each of these partitions to queue the present picture. Nothing here is durable.
//! Partitions say it again when they are loaded. An order that is lost comes again with the
//! client's next success or probe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::locks::locked;
use base::{Incarnation, PartitionId, Timestamp};
use tokio::sync::Notify;

/// Tell a client again of its stale devices in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleOrder {
    /// The partition.
    pub partition: PartitionId,
    /// The client.
    pub client: Incarnation,
    /// Only of one device: whether the client is reached at all is what is asked.
    pub probe: bool,
}

/// All stale clients. Bounded by partitions times clients.
#[derive(Debug)]
pub struct StaleClients {
    probe_every: Duration,
    state: Mutex<StaleState>,
    /// How many clients are stale.
    clients: AtomicUsize,
    /// How many are, or were when they were last tried: almost always none, and then a success
    /// costs no lock.
    known: AtomicUsize,
    changed: Notify,
}

#[derive(Debug, Default)]
struct StaleState {
    clients: BTreeMap<Incarnation, StaleClient>,
    /// Clients that are told again at this moment, of which nobody knows yet whether it gets
    /// through: since when they were stale, and until when.
    tried: BTreeMap<Incarnation, (Timestamp, Timestamp)>,
    orders: BTreeSet<StaleOrder>,
}

#[derive(Debug)]
struct StaleClient {
    partitions: BTreeSet<PartitionId>,
    probe_at: Timestamp,
    /// Since when no notification got through.
    since: Timestamp,
}

impl StaleClients {
    /// None is stale. A stale client is probed every `probe_every`.
    #[must_use]
    pub fn new(probe_every: Duration) -> Self {
        Self {
            probe_every,
            state: Mutex::default(),
            clients: AtomicUsize::new(0),
            known: AtomicUsize::new(0),
            changed: Notify::new(),
        }
    }

    /// A client has stale devices in a partition, or none any more.
    pub(crate) fn set(&self, partition: PartitionId, client: Incarnation, stale: bool, now: Timestamp) {
        let mut state = locked(&self.state);
        if stale {
            let probe_at = now.after(self.probe_every);
            // A probe that failed has changed nothing.
            let before = state.tried.remove(&client).map(|(since, _)| since);
            let since = before.unwrap_or(now);
            let known = state.clients.entry(client);
            let known = known.or_insert_with(|| StaleClient { partitions: BTreeSet::new(), probe_at, since });
            known.partitions.insert(partition);
        } else if let Some(known) = state.clients.get_mut(&client) {
            known.partitions.remove(&partition);
            if known.partitions.is_empty() {
                let since = known.since;
                state.clients.remove(&client);
                let recent = now.before(self.probe_every);
                state.tried.retain(|_, (_, until)| *until >= recent);
                state.tried.insert(client, (since, now));
            }
        }
        self.clients.store(state.clients.len(), Ordering::Release);
        self.known.store(state.clients.len() + state.tried.len(), Ordering::Release);
        self.changed.notify_one();
    }

    /// A client was told something, or is enabled: now it can be told the rest.
    pub(crate) fn reached(&self, client: Incarnation) {
        if self.known.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = locked(&self.state);
        state.tried.remove(&client);
        self.known.store(state.clients.len() + state.tried.len(), Ordering::Release);
        let Some(stale) = state.clients.get(&client) else { return };
        let orders: Vec<_> =
            stale.partitions.iter().map(|partition| StaleOrder::all(*partition, client)).collect();
        state.orders.extend(orders);
        self.changed.notify_one();
    }

    /// A partition has more to tell than it told at once.
    pub(crate) fn go_on(&self, partition: PartitionId, client: Incarnation) {
        locked(&self.state).orders.insert(StaleOrder::all(partition, client));
        self.changed.notify_one();
    }

    /// Some stale clients, at most so many.
    #[must_use]
    pub fn some(&self, limit: usize) -> Vec<Incarnation> {
        if self.clients.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        locked(&self.state).clients.keys().copied().take(limit).collect()
    }

    /// What is to be told again now.
    pub fn take(&self, now: Timestamp) -> Vec<StaleOrder> {
        let mut state = locked(&self.state);
        let mut orders = std::mem::take(&mut state.orders);
        for (client, stale) in &mut state.clients {
            if stale.probe_at <= now
                && let Some(partition) = stale.partitions.first()
            {
                stale.probe_at = now.after(self.probe_every);
                orders.insert(StaleOrder { partition: *partition, client: *client, probe: true });
            }
        }
        orders.into_iter().collect()
    }

    /// When the next probe is due.
    #[must_use]
    pub fn next_probe(&self) -> Option<Timestamp> {
        locked(&self.state).clients.values().map(|stale| stale.probe_at).min()
    }

    /// Waits until there may be more to take than a probe.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Since when no notification has got through to a client: since this process knows of it;
    /// `None` for one without stale devices.
    pub(crate) fn since(&self, client: Incarnation) -> Option<Timestamp> {
        if self.clients.load(Ordering::Acquire) == 0 {
            return None;
        }
        locked(&self.state).clients.get(&client).map(|stale| stale.since)
    }

    /// Clients with stale devices.
    pub(crate) fn len(&self) -> usize {
        self.clients.load(Ordering::Acquire)
    }
}

impl StaleOrder {
    fn all(partition: PartitionId, client: Incarnation) -> Self {
        Self { partition, client, probe: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const HOUR_MS: i64 = 3_600_000;
    const CLIENT: Incarnation = Incarnation(7);

    fn stale_in(partitions: [u16; 2]) -> StaleClients {
        let stale = StaleClients::new(HOUR);
        for partition in partitions {
            stale.set(PartitionId(partition), CLIENT, true, Timestamp(0));
        }
        stale
    }

    fn told(stale: &StaleClients, now: i64) -> Vec<(u16, bool)> {
        stale.take(Timestamp(now)).iter().map(|order| (order.partition.0, order.probe)).collect()
    }

    #[test]
    fn one_success_orders_every_partition_that_is_stale() {
        let stale = stale_in([3, 1]);
        stale.reached(Incarnation(8));
        assert_eq!(told(&stale, 1), []);
        stale.reached(CLIENT);
        assert_eq!(told(&stale, 1), [(1, false), (3, false)]);
        assert_eq!(told(&stale, 1), []);
    }

    #[test]
    fn a_client_that_is_not_reached_is_probed_once_an_hour_in_one_partition() {
        let stale = stale_in([3, 1]);
        assert_eq!(stale.next_probe(), Some(Timestamp(HOUR_MS)));
        assert_eq!(told(&stale, HOUR_MS - 1), []);
        assert_eq!(told(&stale, HOUR_MS), [(1, true)]);
        assert_eq!(told(&stale, HOUR_MS + 1), []);
        stale.set(PartitionId(1), CLIENT, false, Timestamp(HOUR_MS));
        assert_eq!(told(&stale, 2 * HOUR_MS), [(3, true)]);
        stale.set(PartitionId(3), CLIENT, false, Timestamp(HOUR_MS));
        assert_eq!((stale.next_probe(), stale.len()), (None, 0));
    }

    #[test]
    fn a_client_is_stale_since_its_first_failure_whatever_probes_come_to() {
        let stale = StaleClients::new(HOUR);
        let set = |is, at| stale.set(PartitionId(1), CLIENT, is, Timestamp(at));
        set(true, 10);
        set(false, 500);
        assert_eq!(stale.since(CLIENT), None, "it is tried");
        set(true, 600);
        assert_eq!(stale.since(CLIENT), Some(Timestamp(10)), "in vain");
        set(false, 700);
        stale.reached(CLIENT);
        set(true, 800);
        assert_eq!(stale.since(CLIENT), Some(Timestamp(800)), "it was told meanwhile");
    }
}
