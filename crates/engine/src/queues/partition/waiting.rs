//! Consumers that wait for something to lease: in order of arrival by queue, and by when they have waited enough.

use std::collections::{BTreeMap, VecDeque};

use base::Timestamp;
use tokio::sync::oneshot;

use crate::hashed::HashMap;
use crate::queues::QueueName;
use crate::queues::input::Asking;

/// Consumers that wait in one partition at most; one more is answered at once.
const WAITING_MAX: usize = 1 << 18;

/// The consumers.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    queues: HashMap<QueueName, VecDeque<Waiter>>,
    ends: BTreeMap<(Timestamp, u64), QueueName>,
    next: u64,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Counts them all.
    number: u64,
    until: Timestamp,
    pub(super) wants: Wants,
}

/// What it waits for.
#[derive(Debug)]
pub(super) enum Wants {
    /// Jobs of this queue.
    Jobs(Asking),
    /// To be told that there is something.
    Signal(oneshot::Sender<()>),
}

impl Waiter {
    /// Whether it has gone away.
    pub(super) fn has_gone(&self) -> bool {
        match &self.wants {
            Wants::Jobs(asking) => asking.reply.is_closed(),
            Wants::Signal(signal) => signal.is_closed(),
        }
    }
}

impl Waiting {
    pub(super) fn has_room(&self) -> bool {
        self.ends.len() < WAITING_MAX
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn add(&mut self, queue: QueueName, until: Timestamp, wants: Wants) {
        let number = self.next;
        self.next += 1;
        self.ends.insert((until, number), queue.clone());
        self.queues.entry(queue).or_default().push_back(Waiter { number, until, wants });
    }

    /// Takes the one that has waited longest for a queue.
    pub(super) fn take(&mut self, queue: &QueueName) -> Option<Waiter> {
        let line = self.queues.get_mut(queue)?;
        let waiter = line.pop_front()?;
        if line.is_empty() {
            self.queues.remove(queue);
        }
        self.ends.remove(&(waiter.until, waiter.number));
        Some(waiter)
    }

    /// Puts one back that was taken last.
    pub(super) fn put_back(&mut self, queue: QueueName, waiter: Waiter) {
        self.ends.insert((waiter.until, waiter.number), queue.clone());
        self.queues.entry(queue).or_default().push_front(waiter);
    }

    /// Takes one that has waited enough at `now`.
    pub(super) fn take_late(&mut self, now: Timestamp) -> Option<Waiter> {
        let ((_, number), queue) = self.ends.first_key_value().filter(|((until, _), _)| *until <= now)?;
        let (number, queue) = (*number, queue.clone());
        self.ends.pop_first();
        let line = self.queues.get_mut(&queue)?;
        // In order of arrival, but for what was put back, which was the first.
        let place = line.binary_search_by_key(&number, |waiter| waiter.number).ok()?;
        let waiter = line.remove(place);
        if line.is_empty() {
            self.queues.remove(&queue);
        }
        waiter
    }

    /// When the next one has waited enough.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.ends.first_key_value().map(|((until, _), _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal() -> Wants {
        Wants::Signal(oneshot::channel().0)
    }

    #[test]
    fn they_are_served_in_order_and_sent_home_in_time() {
        let mut waiting = Waiting::default();
        let queue = QueueName::unchecked("a", "b");
        for until in [30, 10, 20] {
            waiting.add(queue.clone(), Timestamp(until), signal());
        }
        assert_eq!(waiting.next_end(), Some(Timestamp(10)));
        assert_eq!(waiting.take_late(Timestamp(9)).map(|waiter| waiter.number), None);
        assert_eq!(waiting.take_late(Timestamp(10)).map(|waiter| waiter.number), Some(1));
        let first = waiting.take(&queue).expect("two are left");
        assert_eq!(first.number, 0);
        waiting.put_back(queue.clone(), first);
        assert_eq!(waiting.take(&queue).map(|waiter| waiter.number), Some(0));
        assert_eq!(waiting.take(&queue).map(|waiter| waiter.number), Some(2));
        assert_eq!((waiting.take(&queue).is_none(), waiting.len(), waiting.queues.len()), (true, 0, 0));
    }
}
