//! Gathers the sender's inputs for each partition while the previous exchange is under way.
//!
//! A lease is answered when it is durable, a commit away. Each partition has one exchange at a
//! time, and inputs that come meanwhile share the next one. So under load one commit carries many
//! ended attempts and leases, and a lone input leaves at once. The gathered inputs are bounded:
//! every ended attempt belongs to a lease, and a partition records all known ends before it leases
//! more.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use base::PartitionId;
use engine::records::Reservation;
use engine::{AttemptDue, AttemptEnd, Engine};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::lanes::LaneLease;

/// A lease, and what it gave.
type Leased = (LaneLease, Vec<AttemptDue>);

/// An exchange with a partition.
type UnderWay = Pin<Box<dyn Future<Output = (PartitionId, Vec<Leased>)> + Send>>;

/// The exchanges with all partitions.
pub(super) struct Exchanges {
    engine: Engine,
    partitions: HashMap<PartitionId, Gathered>,
    /// Partitions for which something is gathered and no exchange is under way.
    to_start: Vec<PartitionId>,
    under_way: FuturesUnordered<UnderWay>,
}

/// For one partition.
#[derive(Default)]
struct Gathered {
    ended: Vec<(Reservation, AttemptEnd)>,
    leases: Vec<LaneLease>,
    /// It is among those to start, or an exchange is under way.
    is_busy: bool,
}

impl Gathered {
    fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.leases.is_empty()
    }
}

impl Exchanges {
    pub(super) fn new(engine: Engine) -> Self {
        let (partitions, to_start) = (HashMap::new(), Vec::new());
        Self { engine, partitions, to_start, under_way: FuturesUnordered::new() }
    }

    /// An attempt ended.
    pub(super) fn ended(&mut self, partition: PartitionId, ended: (Reservation, AttemptEnd)) {
        self.gather(partition).ended.push(ended);
    }

    /// A lease is wanted.
    pub(super) fn lease(&mut self, lease: LaneLease) {
        self.gather(lease.partition).leases.push(lease);
    }

    fn gather(&mut self, partition: PartitionId) -> &mut Gathered {
        let gathered = self.partitions.entry(partition).or_default();
        if !std::mem::replace(&mut gathered.is_busy, true) {
            self.to_start.push(partition);
        }
        gathered
    }

    /// Begins the exchanges that can begin.
    pub(super) fn start(&mut self) {
        for partition in self.to_start.drain(..) {
            let gathered = self.partitions.get_mut(&partition).expect("what is to start has gathered");
            let (ended, leases) = (std::mem::take(&mut gathered.ended), std::mem::take(&mut gathered.leases));
            let engine = self.engine.clone();
            self.under_way.push(Box::pin(async move {
                let wanted = leases.iter().map(|lease| (lease.client, lease.max)).collect();
                let due = engine.exchange(partition, ended, wanted).await;
                (partition, leases.into_iter().zip(due).collect())
            }));
        }
    }

    /// What the exchange leased that ends next; `None` if none is under way.
    pub(super) async fn next(&mut self) -> Option<Vec<Leased>> {
        let (partition, leased) = self.under_way.next().await?;
        let gathered = self.partitions.entry(partition).or_default();
        gathered.is_busy = !gathered.is_empty();
        if gathered.is_busy {
            self.to_start.push(partition);
        }
        Some(leased)
    }

    /// Drops the leases that are gathered: nobody is going to send.
    pub(super) fn forget_leases(&mut self) {
        self.partitions.values_mut().for_each(|gathered| gathered.leases.clear());
    }

    /// Whether nothing is under way or to be handed in.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.to_start.is_empty()
    }
}
