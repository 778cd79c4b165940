//! Consumers that wait for something to lease: in order of arrival by queue, and by when they have
//! waited enough. One that goes away leaves its place to others at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::Timestamp;
use records::QueueKey;
use tokio::sync::oneshot;

use crate::kernel::hashed::HashMap;
use crate::queues::QueueName;
use crate::queues::input::ConsumeCall;

/// Consumers that wait in one partition at most; one more is answered at once.
const WAITING_MAX: usize = 1 << 18;

/// The consumers.
#[derive(Debug, Default)]
pub(super) struct WaitingConsumers {
    queues: HashMap<QueueName, ConsumerLine>,
    ends: BTreeMap<(Timestamp, u64), QueueName>,
    next: u64,
    /// Queues that have something for those that wait, and had it when a step was full.
    due: BTreeSet<QueueKey>,
    /// Queues of which more has to be read, and for which a step could read no more.
    unread: BTreeSet<QueueKey>,
}

/// Those that wait for a queue, by number: in order of arrival, but for what was put back, which
/// was the first.
#[derive(Debug, Default)]
struct ConsumerLine {
    places: VecDeque<(u64, Option<Waiter>)>,
    /// Places whose waiter has left.
    left: usize,
}

impl ConsumerLine {
    fn is_empty(&self) -> bool {
        self.places.len() == self.left
    }

    fn waiter(&self, number: u64) -> Option<&Waiter> {
        let place = self.places.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.places[place].1.as_ref()
    }

    fn take_first(&mut self) -> Option<Waiter> {
        while let Some((_, waiter)) = self.places.pop_front() {
            if waiter.is_some() {
                return waiter;
            }
            self.left -= 1;
        }
        None
    }

    /// Takes one out from the middle. Its place is cleared away when most are empty, so that a
    /// crowd leaves in linear time.
    fn take(&mut self, number: u64) -> Option<Waiter> {
        let place = self.places.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        let waiter = self.places[place].1.take()?;
        self.left += 1;
        if self.left > self.places.len() / 2 {
            self.places.retain(|(_, waiter)| waiter.is_some());
            self.left = 0;
        }
        Some(waiter)
    }
}

/// One of them.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Counts them all.
    number: u64,
    until: Timestamp,
    pub(super) wants: WaiterWants,
}

/// What it waits for.
#[derive(Debug)]
pub(super) enum WaiterWants {
    /// Jobs of this queue.
    Jobs(ConsumeCall),
    /// To be told that there is something.
    Signal(oneshot::Sender<()>),
}

impl Waiter {
    /// Whether it has gone away.
    pub(super) fn has_gone(&self) -> bool {
        match &self.wants {
            WaiterWants::Jobs(call) => call.reply.is_closed(),
            WaiterWants::Signal(signal) => signal.is_closed(),
        }
    }
}

impl WaitingConsumers {
    pub(super) fn has_room(&self) -> bool {
        self.ends.len() < WAITING_MAX
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn add(&mut self, queue: QueueName, until: Timestamp, wants: WaiterWants) {
        let number = self.next;
        self.next += 1;
        self.ends.insert((until, number), queue.clone());
        let waiter = Waiter { number, until, wants };
        self.queues.entry(queue).or_default().places.push_back((number, Some(waiter)));
    }

    /// Takes the one that has waited longest for a queue.
    pub(super) fn take(&mut self, queue: &QueueName) -> Option<Waiter> {
        let line = self.queues.get_mut(queue)?;
        let waiter = line.take_first();
        if line.is_empty() {
            self.queues.remove(queue);
        }
        let waiter = waiter?;
        self.ends.remove(&(waiter.until, waiter.number));
        Some(waiter)
    }

    /// Puts one back that was taken last.
    pub(super) fn put_back(&mut self, queue: QueueName, waiter: Waiter) {
        self.ends.insert((waiter.until, waiter.number), queue.clone());
        self.queues.entry(queue).or_default().places.push_front((waiter.number, Some(waiter)));
    }

    /// Takes one that has waited enough at `now`.
    pub(super) fn take_late(&mut self, now: Timestamp) -> Option<Waiter> {
        let ((until, number), _) = self.ends.first_key_value().filter(|((until, _), _)| *until <= now)?;
        self.remove(*until, *number)
    }

    /// Lets those go that would have waited for a queue until then, and are not there any more.
    pub(super) fn let_go(&mut self, queue: &QueueName, until: Timestamp) {
        let Some(line) = self.queues.get(queue) else { return };
        let has_gone = |number: u64| line.waiter(number).is_some_and(Waiter::has_gone);
        let same_end = self.ends.range((until, 0)..=(until, u64::MAX)).filter(|(_, of)| *of == queue);
        let gone: Vec<u64> =
            same_end.map(|((_, number), _)| *number).filter(|number| has_gone(*number)).collect();
        for number in gone {
            self.remove(until, number);
        }
    }

    fn remove(&mut self, until: Timestamp, number: u64) -> Option<Waiter> {
        let queue = self.ends.remove(&(until, number))?;
        let line = self.queues.get_mut(&queue)?;
        let waiter = line.take(number);
        if line.is_empty() {
            self.queues.remove(&queue);
        }
        waiter
    }

    /// A queue has something for those that wait, for which this step has no room.
    pub(super) fn set_due(&mut self, queue: QueueKey) {
        self.due.insert(queue);
    }

    /// A queue may have something for those that wait once the next step has read more.
    pub(super) fn set_unread(&mut self, queue: QueueKey) {
        self.unread.insert(queue);
    }

    /// The queues of which an earlier step, or this one, could read no more.
    pub(super) fn take_unread(&mut self) -> BTreeSet<QueueKey> {
        std::mem::take(&mut self.unread)
    }

    /// Whether there is something to do for those that wait at once.
    pub(super) fn want_a_step(&self) -> bool {
        !self.due.is_empty() || !self.unread.is_empty()
    }

    /// The queues that have something since an earlier step.
    pub(super) fn take_due(&mut self) -> BTreeSet<QueueKey> {
        std::mem::take(&mut self.due)
    }

    /// Whether there are such queues.
    pub(super) fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// When the next one has waited enough.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.ends.first_key_value().map(|((until, _), _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal() -> WaiterWants {
        WaiterWants::Signal(oneshot::channel().0)
    }

    #[test]
    fn they_are_served_in_order_and_sent_home_in_time() {
        let mut waiting = WaitingConsumers::default();
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

    #[test]
    fn whoever_has_gone_leaves_its_place_and_nobody_elses() {
        let mut waiting = WaitingConsumers::default();
        let (queue, other) = (QueueName::unchecked("a", "b"), QueueName::unchecked("a", "c"));
        let mut receivers = Vec::new();
        for number in 0..10 {
            let (signal, receiver) = oneshot::channel::<()>();
            let queue = if number == 9 { &other } else { &queue };
            waiting.add(queue.clone(), Timestamp(number / 5), WaiterWants::Signal(signal));
            receivers.push(Some(receiver));
        }
        let left = |waiting: &WaitingConsumers, queue| {
            let line = &waiting.queues[queue];
            (waiting.len(), line.places.len(), line.left)
        };
        for gone in [1, 3, 6, 9] {
            receivers[gone] = None;
        }
        waiting.let_go(&queue, Timestamp(0));
        assert_eq!(left(&waiting, &queue), (8, 9, 2));
        waiting.let_go(&queue, Timestamp(1));
        assert_eq!(left(&waiting, &queue), (7, 9, 3));
        waiting.let_go(&other, Timestamp(1));
        assert_eq!((waiting.len(), waiting.queues.len()), (6, 1));
        receivers.drain(7..);
        waiting.let_go(&queue, Timestamp(1));
        assert_eq!(left(&waiting, &queue), (4, 4, 0), "empty places are cleared away");
        let rest = std::iter::from_fn(|| waiting.take(&queue).map(|waiter| waiter.number));
        assert_eq!(rest.collect::<Vec<_>>(), [0, 2, 4, 5]);
        assert_eq!((waiting.len(), waiting.queues.len()), (0, 0));
    }
}
