//! What a fleet has done so far: counters that lanes move and anybody reads while they run.
//!
//! Latencies lie in a few shards. A histogram for each connection would be too large when every
//! device has its own. Each shard has its own lock, which is held for a moment and never waited for
//! across anything.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::latency::Latency;

/// Shards of latencies; more than there are cores on the machines where this runs hot.
const SHARDS: usize = 16;

/// Different reasons that are counted apart. They come from the server, so their number must not be
/// its choice.
const REASONS_MAX: usize = 64;

/// Bytes of a reason.
const REASON_BYTES_MAX: usize = 200;

/// Under what further reasons are counted.
const FURTHER_REASONS: &str = "for further reasons";

/// How often something happened, by reason.
pub type Reasons = BTreeMap<String, u64>;

/// How long answers took.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    /// From first going out to the acknowledgement.
    pub since_sent: Latency,
    /// From the time a report was due to its acknowledgement: what it waited behind others counts.
    /// One that went out within the precision of the timers counts from then.
    pub since_due: Latency,
}

/// See the module.
#[derive(Debug, Default)]
pub struct FleetProgress {
    pub(super) sent: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) acknowledged: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) broken: AtomicU64,
    pub(super) cut: AtomicU64,
    pub(super) disordered: AtomicU64,
    pub(super) flawed: AtomicU64,
    pub(super) flawed_acknowledged: AtomicU64,
    pub(super) flawed_refused: AtomicU64,
    pub(super) confirmed_lanes: AtomicU64,
    latencies: [Mutex<Latencies>; SHARDS],
    refusals: Mutex<Reasons>,
    troubles: Mutex<Reasons>,
}

/// A [`FleetProgress`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FleetStats {
    /// Reports that went out, each counted once.
    pub sent: u64,
    /// Times that a report went out again after a broken connection.
    pub repeated: u64,
    /// Reports acknowledged.
    pub acknowledged: u64,
    /// Reports refused with a reason.
    pub refused: u64,
    /// Connections that broke or could not be made.
    pub broken: u64,
    /// Connections that devices broke on purpose.
    pub cut: u64,
    /// Acknowledgements that came out of order, which the server promises not to do.
    pub disordered: u64,
    /// Of those sent, reports that were flawed on purpose.
    pub flawed: u64,
    /// Of those acknowledged, the flawed.
    pub flawed_acknowledged: u64,
    /// Of those refused, the flawed.
    pub flawed_refused: u64,
}

impl FleetProgress {
    /// The figures now.
    #[must_use]
    pub fn stats(&self) -> FleetStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FleetStats {
            sent: read(&self.sent),
            repeated: read(&self.repeated),
            acknowledged: read(&self.acknowledged),
            refused: read(&self.refused),
            broken: read(&self.broken),
            cut: read(&self.cut),
            disordered: read(&self.disordered),
            flawed: read(&self.flawed),
            flawed_acknowledged: read(&self.flawed_acknowledged),
            flawed_refused: read(&self.flawed_refused),
        }
    }

    /// Lanes whose present connection has brought an acknowledgement.
    #[must_use]
    pub fn confirmed_lanes(&self) -> u64 {
        self.confirmed_lanes.load(Ordering::Relaxed)
    }

    /// The latencies so far.
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        for shard in &self.latencies {
            let shard = locked(shard);
            all.since_sent.merge(&shard.since_sent);
            all.since_due.merge(&shard.since_due);
        }
        all
    }

    /// Why reports were refused.
    #[must_use]
    pub fn refusals(&self) -> Reasons {
        locked(&self.refusals).clone()
    }

    /// Why connections broke or could not be made.
    #[must_use]
    pub fn troubles(&self) -> Reasons {
        locked(&self.troubles).clone()
    }

    /// Where lane `lane` notes its latencies.
    pub(super) fn latencies_of(&self, lane: u64) -> MutexGuard<'_, Latencies> {
        locked(&self.latencies[lane as usize % SHARDS])
    }

    /// A report was refused.
    pub(super) fn refused_for(&self, reason: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        count(&mut locked(&self.refusals), reason);
    }

    /// A connection broke or could not be made.
    pub(super) fn broke_for(&self, reason: &str) {
        self.broken.fetch_add(1, Ordering::Relaxed);
        count(&mut locked(&self.troubles), reason);
    }
}

fn count(reasons: &mut Reasons, reason: &str) {
    let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
    if let Some(times) = reasons.get_mut(reason) {
        *times += 1;
    } else {
        let reason = if reasons.len() < REASONS_MAX { reason } else { FURTHER_REASONS };
        *reasons.entry(reason.to_owned()).or_default() += 1;
    }
}

/// What is behind these locks is counted up in one step, so it is whole even if somebody panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_apart_up_to_a_limit() {
        let progress = FleetProgress::default();
        for number in 0..1000 {
            progress.refused_for("unknown_device");
            progress.refused_for(&format!("reason {number}"));
        }
        let refusals = progress.refusals();
        assert_eq!((refusals.len(), refusals["unknown_device"]), (REASONS_MAX + 1, 1000));
        assert_eq!((refusals.values().sum::<u64>(), progress.stats().refused), (2000, 2000));
        assert_eq!(progress.troubles().len(), 0);
    }
}
