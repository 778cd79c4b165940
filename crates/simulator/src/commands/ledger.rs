//! What was sent, what reached a device, what it answered, and how long that took.
//!
//! A command is known by a hash of its id. It may reach its device before its sender has read the
//! answer that names it. So either end notes what it sees, and whoever is second measures.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::LOOK_EVERY;
use crate::fleet::Reasons;
use crate::latency::Latency;

/// Parts of the ledger that are written apart from each other.
const SHARDS: usize = 64;
/// So many kinds of trouble are told apart.
const TROUBLES_MAX: usize = 32;
/// What the others are counted as.
const FURTHER: &str = "other reasons";

/// See the module. It keeps some 100 bytes for each command.
#[derive(Debug)]
pub struct CommandLedger {
    shards: Vec<Mutex<Shard>>,
    sent: AtomicU64,
    unsent: AtomicU64,
    subscribed: AtomicU64,
    broken: AtomicU64,
    left: AtomicU64,
    received: AtomicU64,
    repeated: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    settled: AtomicU64,
    begun: Instant,
    /// When a device had a command for the first time, last; since it was begun.
    last_received_us: AtomicU64,
    troubles: Mutex<Reasons>,
}

#[derive(Debug, Default)]
struct Shard {
    commands: HashMap<u64, CommandTimes, BuildHasherDefault<DefaultHasher>>,
    latencies: CommandLatencies,
}

/// When a command came to each point, as far as it has.
#[derive(Debug, Clone, Copy, Default)]
struct CommandTimes {
    asked: Option<Instant>,
    accepted: Option<Instant>,
    received: Option<Instant>,
    settled: Option<Instant>,
}

/// How long commands took.
#[derive(Debug, Clone, Default)]
pub struct CommandLatencies {
    /// From the server's 201, as its sender read it, to the device's first reading of the command;
    /// nothing if the device was first.
    pub accepted_to_received: Latency,
    /// From the sender's request to the device's first reading of the command.
    pub asked_to_received: Latency,
    /// From the server's 201 to its acknowledgement of the device's answer.
    pub accepted_to_settled: Latency,
}

/// How many commands came how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandCounts {
    /// Commands that the server accepted.
    pub sent: u64,
    /// Commands that it did not accept.
    pub unsent: u64,
    /// Devices that are subscribed now.
    pub subscribed: u64,
    /// Connections of devices that broke or could not be made.
    pub broken: u64,
    /// Connections that a device broke instead of answering.
    pub left: u64,
    /// Commands that reached their device, each counted once.
    pub received: u64,
    /// Times that a device got a command again.
    pub repeated: u64,
    /// Commands that a device answered, each time counted.
    pub answered: u64,
    /// Of those, refusals.
    pub refused: u64,
    /// Commands whose answer the server has acknowledged, each counted once.
    pub settled: u64,
}

impl Default for CommandLedger {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            sent: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            subscribed: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            left: AtomicU64::new(0),
            received: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            begun: Instant::now(),
            last_received_us: AtomicU64::new(0),
            troubles: Mutex::default(),
        }
    }
}

impl CommandLedger {
    /// The counts now.
    #[must_use]
    pub fn counts(&self) -> CommandCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CommandCounts {
            sent: read(&self.sent),
            unsent: read(&self.unsent),
            subscribed: read(&self.subscribed),
            broken: read(&self.broken),
            left: read(&self.left),
            received: read(&self.received),
            repeated: read(&self.repeated),
            answered: read(&self.answered),
            refused: read(&self.refused),
            settled: read(&self.settled),
        }
    }

    /// Waits until the counts satisfy `done`; false when they have not within `patience`.
    pub async fn until(&self, patience: Duration, mut done: impl FnMut(CommandCounts) -> bool) -> bool {
        let satisfied = async {
            while !done(self.counts()) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(patience, satisfied).await.is_ok()
    }

    /// The latencies so far.
    #[must_use]
    pub fn latencies(&self) -> CommandLatencies {
        let mut all = CommandLatencies::default();
        for shard in &self.shards {
            let shard = locked(shard);
            all.accepted_to_received.merge(&shard.latencies.accepted_to_received);
            all.asked_to_received.merge(&shard.latencies.asked_to_received);
            all.accepted_to_settled.merge(&shard.latencies.accepted_to_settled);
        }
        all
    }

    /// When a device had a command for the first time, last; when the ledger was begun, if none
    /// had.
    #[must_use]
    pub fn last_received(&self) -> Instant {
        self.begun + Duration::from_micros(self.last_received_us.load(Ordering::Relaxed))
    }

    /// When a command first reached its device.
    #[must_use]
    pub fn received_at(&self, id: &str) -> Option<Instant> {
        let command = hash_of(id);
        locked(&self.shards[command as usize % SHARDS]).commands.get(&command)?.received
    }

    /// Commands that were accepted and have not reached their device.
    #[must_use]
    pub fn unreceived(&self) -> u64 {
        let is_open = |times: &&CommandTimes| times.accepted.is_some() && times.received.is_none();
        let count = |shard: &Mutex<Shard>| locked(shard).commands.values().filter(is_open).count() as u64;
        self.shards.iter().map(count).sum()
    }

    /// Why commands were not accepted, and why connections broke.
    #[must_use]
    pub fn troubles(&self) -> Reasons {
        locked(&self.troubles).clone()
    }

    /// The server has accepted a command that it was asked for.
    pub(super) fn accepted(&self, id: &str, asked: Instant, at: Instant) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.note(hash_of(id), |times| (times.asked, times.accepted) = (Some(asked), Some(at)));
    }

    /// The server has not accepted a command.
    pub(super) fn not_accepted(&self, why: &str) {
        self.unsent.fetch_add(1, Ordering::Relaxed);
        self.trouble(why);
    }

    /// A command has reached its device, for the first time or again.
    pub(super) fn received(&self, command: u64, at: Instant) {
        let mut is_first = false;
        self.note(command, |times| is_first = times.received.replace(times.received.unwrap_or(at)).is_none());
        if is_first {
            let since = at.saturating_duration_since(self.begun).as_micros() as u64;
            self.last_received_us.fetch_max(since, Ordering::Relaxed);
        }
        let counter = if is_first { &self.received } else { &self.repeated };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A device has answered a command.
    pub(super) fn answered(&self, ok: bool) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.refused.fetch_add(u64::from(!ok), Ordering::Relaxed);
    }

    /// The server has acknowledged an answer.
    pub(super) fn settled(&self, command: u64, at: Instant) {
        let mut is_first = false;
        self.note(command, |times| is_first = times.settled.replace(times.settled.unwrap_or(at)).is_none());
        self.settled.fetch_add(u64::from(is_first), Ordering::Relaxed);
    }

    /// So many devices are subscribed.
    pub(super) fn subscribed(&self, devices: u64) {
        self.subscribed.fetch_add(devices, Ordering::Relaxed);
    }

    /// So many devices are subscribed no longer.
    pub(super) fn unsubscribed(&self, devices: u64) {
        self.subscribed.fetch_sub(devices, Ordering::Relaxed);
    }

    /// No device is subscribed any longer.
    pub(super) fn all_vanished(&self) {
        self.subscribed.store(0, Ordering::Relaxed);
    }

    /// A connection broke or could not be made.
    pub(super) fn broke(&self, why: &str) {
        self.broken.fetch_add(1, Ordering::Relaxed);
        self.trouble(why);
    }

    /// A device broke its connection instead of answering.
    pub(super) fn left(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    fn trouble(&self, why: &str) {
        let mut troubles = locked(&self.troubles);
        let is_known = troubles.contains_key(why);
        let why = if is_known || troubles.len() < TROUBLES_MAX { why } else { FURTHER };
        *troubles.entry(why.to_owned()).or_default() += 1;
    }

    /// Notes something about a command, and measures what can be measured from then on.
    fn note(&self, command: u64, change: impl FnOnce(&mut CommandTimes)) {
        let mut shard = locked(&self.shards[command as usize % SHARDS]);
        let Shard { commands, latencies } = &mut *shard;
        let times = commands.entry(command).or_default();
        let before = *times;
        change(times);
        let spans = [
            (times.asked, before.received, times.received, &mut latencies.asked_to_received),
            (times.accepted, before.received, times.received, &mut latencies.accepted_to_received),
            (times.accepted, before.settled, times.settled, &mut latencies.accepted_to_settled),
        ];
        for (begin, end_before, end, latency) in spans {
            let was_known = before.accepted.is_some() && end_before.is_some();
            if let (Some(begin), Some(end), false) = (begin, end, was_known) {
                latency.record(end.saturating_duration_since(begin));
            }
        }
    }
}

/// By what a command is known here.
pub(super) fn hash_of(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// What is behind these locks is counted up in one step, so it is whole even if somebody panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_end_may_be_first_and_each_command_is_measured_once() {
        let ledger = CommandLedger::default();
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        ledger.accepted("a", begin, begin);
        for late in [5, 9] {
            ledger.received(hash_of("a"), begin + ms(late));
            ledger.settled(hash_of("a"), begin + ms(late + 10));
        }
        ledger.received(hash_of("b"), begin);
        ledger.accepted("b", begin, begin + ms(3));
        ledger.accepted("c", begin, begin);
        let counts = ledger.counts();
        assert_eq!((counts.sent, counts.received, counts.repeated, counts.settled), (3, 2, 1, 1));
        let latencies = ledger.latencies();
        assert_eq!((latencies.accepted_to_received.count(), latencies.asked_to_received.count()), (2, 2));
        assert!(latencies.accepted_to_received.percentile(100.0).abs_diff(ms(5)) < ms(1));
        assert!(latencies.accepted_to_settled.percentile(100.0).abs_diff(ms(15)) < ms(1));
        assert_eq!(ledger.unreceived(), 1);
        assert_eq!((ledger.received_at("a"), ledger.received_at("c")), (Some(begin + ms(5)), None));
        let last = ledger.last_received();
        assert!(last > begin + ms(4) && last <= begin + ms(5), "the repeat counts no more");
    }
}
