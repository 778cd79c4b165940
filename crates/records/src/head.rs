//! The head of a partition: what every batch carries, so that counters and clocks are never behind
//! the data.

use base::{Attended, Timestamp, WayIn};

use crate::KeptFrom;

/// Counters and clocks of a partition after its latest batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionHead {
    /// The number of the latest batch, from 1; 0 before the first. A repeated number is ignored by
    /// the store.
    pub seq: u64,
    /// The engine clock when the batch was made; never less than in the batch before.
    pub now: Timestamp,
    /// The latest stamp of an event or delivery: the order of feeds. At most a little ahead of
    /// `now`, and never less than in the batch before.
    pub stamp: Timestamp,
    /// The attended clocks at `now`.
    pub attended: AttendedReadings,
    /// The slot that the next registered device gets.
    pub next_slot: u32,
    /// The incarnation that the next registered device or client gets.
    pub next_incarnation: u64,
    /// The number that the next event gets; wraps.
    pub next_event: u32,
    /// The number that the next delivery gets; wraps.
    pub next_delivery: u32,
    /// The number that the next refused report gets in the quarantine; wraps.
    pub next_quarantined: u32,
    /// The number that the next command gets; wraps.
    pub next_command: u32,
    /// The number that the next entry of a timeline gets; wraps.
    pub next_timeline: u32,
    /// The publish number that the next job gets.
    pub next_job: u64,
    /// The number that the next lease gets.
    pub next_lease: u64,
    /// The number that the next dead letter gets.
    pub next_dead: u64,
    /// The number that the next holder of a lock gets.
    pub next_fence: u64,
    /// From when on history is kept.
    pub kept_from: KeptFrom,
}

/// Readings of a partition's attended clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttendedReadings {
    /// The clock of each way in, by [`WayIn::index`].
    pub ways: [Attended; 3],
    /// The clock that stands still while any configured way is unattended: for devices that were
    /// never seen.
    pub every: Attended,
}

impl AttendedReadings {
    /// The reading by which a device's silence is measured: its last way's, or for a device never
    /// seen the one of `every`.
    #[must_use]
    pub fn of(&self, way: Option<WayIn>) -> Attended {
        way.map_or(self.every, |way| self.ways[way.index()])
    }
}
