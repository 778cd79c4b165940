//! When jobs are read by their time although there is little room.
//!
//! Of a flood of jobs that come due together, most would be read only to be parked again, in a
//! line. While jobs are leased all the time, which makes room, they are therefore left in the
//! store. Jobs of starved queues are read: these have nothing for consumers that asked.

use std::collections::BTreeSet;
use std::time::Duration;

use base::Timestamp;
use records::QueueKey;

use crate::parked::horizon::READ_AHEAD;

/// Jobs are read so often at least.
const PAUSE: Duration = Duration::from_millis(100);
/// Queues that are looked at one by one; where there are more, reading does not pause.
const QUEUES_MAX: usize = 64;

/// Whether reading pauses.
pub(crate) struct ReadThrottle {
    /// When a job was leased last.
    leased_at: Timestamp,
    /// When jobs were read by their time last.
    read_at: Timestamp,
    /// Queues whose consumers have not been told of a job, while jobs of theirs wait in the store
    /// for their time. Some may have been served since.
    starved: BTreeSet<QueueKey>,
}

impl Default for ReadThrottle {
    fn default() -> Self {
        let never = Timestamp(i64::MIN);
        Self { leased_at: never, read_at: never, starved: BTreeSet::new() }
    }
}

impl ReadThrottle {
    pub(crate) fn leased(&mut self, now: Timestamp) {
        self.leased_at = now;
    }

    /// Jobs were read by their time.
    pub(crate) fn read(&mut self, now: Timestamp) {
        self.read_at = now;
    }

    /// Notes a starved queue.
    pub(crate) fn note_starved(&mut self, queue: QueueKey) {
        if self.starved.len() <= QUEUES_MAX {
            self.starved.insert(queue);
        }
    }

    /// Keeps the queues that are starved still.
    pub(crate) fn retain_starved(&mut self, is_starved: impl Fn(QueueKey) -> bool) {
        self.starved.retain(|queue| is_starved(*queue));
    }

    /// Until when reading pauses, on the engine clock. `earliest` answers when a parked job of a
    /// queue may be due, if the queue is starved still.
    pub(crate) fn until(&self, earliest: impl Fn(QueueKey) -> Option<Timestamp>) -> Timestamp {
        if self.starved.len() > QUEUES_MAX {
            return Timestamp(i64::MIN);
        }
        let until = self.leased_at.min(self.read_at).after(PAUSE);
        let earliest = self.starved.iter().filter_map(|queue| earliest(*queue)).min();
        earliest.map_or(until, |earliest| earliest.before(READ_AHEAD).min(until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> ReadThrottle {
        let mut throttle = ReadThrottle::default();
        throttle.leased(Timestamp(5_000));
        throttle.read(Timestamp(5_050));
        throttle
    }

    #[test]
    fn reading_pauses_after_a_lease_and_a_reading_only() {
        let mut throttle = ReadThrottle::default();
        throttle.leased(Timestamp(5_000));
        assert!(throttle.until(|_| None) < Timestamp(0), "nothing was read yet");
        assert_eq!(busy().until(|_| None), Timestamp(5_100));
    }

    #[test]
    fn a_starved_queue_ends_the_pause_a_second_before_its_job_is_due() {
        let mut throttle = busy();
        throttle.note_starved(QueueKey(7));
        let due = |at| move |queue| (queue == QueueKey(7)).then_some(Timestamp(at));
        assert_eq!(throttle.until(due(6_020)), Timestamp(5_020));
        assert_eq!(throttle.until(due(9_000)), Timestamp(5_100));
        throttle.retain_starved(|_| false);
        assert_eq!(throttle.until(due(6_020)), Timestamp(5_100), "it was served");
    }

    #[test]
    fn nothing_pauses_where_too_many_queues_are_starved() {
        let mut throttle = busy();
        (0..=QUEUES_MAX as u64).for_each(|queue| throttle.note_starved(QueueKey(queue)));
        assert_eq!(throttle.until(|_| None), Timestamp(i64::MIN));
    }
}
