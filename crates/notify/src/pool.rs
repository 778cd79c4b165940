//! Connections between two notifications, kept for the next one to the same origin.
//!
//! The newest of an origin is taken first, so that those a busy hour left behind grow old and are
//! closed. All origins share one limit, at which the oldest connection of all makes room: a
//! thousand quiet receivers cost no more than a busy one. (That is why it is our own: hyper-util's
//! pool has a limit for each origin, and none for all.)

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::locks::locked;

use crate::target::Origin;

/// How long a connection is kept. Less than the minute that many receivers and middleboxes give an
/// idle connection.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// How much earlier than the receiver would close a connection we do: a notification sent into a
/// closing connection is lost.
const CLOSE_BEFORE: Duration = Duration::from_secs(1);

/// The kept connections; `C` is a connection.
#[derive(Debug)]
pub(crate) struct Pool<C> {
    idle: Mutex<Idle<C>>,
    limit: usize,
}

#[derive(Debug)]
struct Idle<C> {
    /// In the order in which they were kept.
    kept: BTreeMap<u64, IdleConnection<C>>,
    /// The numbers of an origin's connections, oldest first. One without any stays for a while: a
    /// connection that was taken is kept again soon.
    by_origin: HashMap<Arc<Origin>, VecDeque<u64>>,
    next_number: u64,
}

#[derive(Debug)]
struct IdleConnection<C> {
    origin: Arc<Origin>,
    connection: C,
    until: Instant,
}

impl<C> Pool<C> {
    /// A pool of at most `limit` connections.
    pub(crate) fn new(limit: usize) -> Self {
        let idle = Idle { kept: BTreeMap::new(), by_origin: HashMap::new(), next_number: 0 };
        Self { idle: Mutex::new(idle), limit }
    }

    /// The newest connection that is kept for `origin` and whose time is not over.
    pub(crate) fn take(&self, origin: &Origin, now: Instant) -> Option<C> {
        let mut idle = locked(&self.idle);
        let Idle { kept, by_origin, .. } = &mut *idle;
        let numbers = by_origin.get_mut(origin)?;
        while let Some(number) = numbers.pop_back() {
            let kept = kept.remove(&number).expect("a listed connection is kept");
            if kept.until > now {
                return Some(kept.connection);
            }
        }
        None
    }

    /// Keeps a connection until it is taken, crowded out, or not taken for as long as the receiver
    /// and we want to keep it.
    pub(crate) fn keep(
        &self,
        origin: &Arc<Origin>,
        connection: C,
        now: Instant,
        receiver_keeps: Option<Duration>,
    ) {
        let keep = receiver_keeps.map_or(IDLE_MAX, |keeps| keeps.saturating_sub(CLOSE_BEFORE).min(IDLE_MAX));
        let mut idle = locked(&self.idle);
        let crowded_out = if idle.kept.len() >= self.limit { idle.remove_oldest() } else { None };
        if idle.by_origin.len() >= self.limit.saturating_mul(2) {
            idle.forget_unused_origins();
        }
        idle.insert(IdleConnection { origin: Arc::clone(origin), connection, until: now + keep });
        drop(idle);
        // Closed outside the lock.
        drop(crowded_out);
    }

    /// Closes those whose time is over, but for one that was kept after another that has more time
    /// left. Forgets the origins without any.
    pub(crate) fn sweep(&self, now: Instant) {
        while let Some(over) = locked(&self.idle).remove_oldest_if(|kept| kept.until <= now) {
            drop(over);
        }
        locked(&self.idle).forget_unused_origins();
    }

    /// How many connections are kept.
    pub(crate) fn len(&self) -> usize {
        locked(&self.idle).kept.len()
    }
}

impl<C> Idle<C> {
    fn insert(&mut self, kept: IdleConnection<C>) {
        let number = self.next_number;
        self.next_number += 1;
        match self.by_origin.get_mut(&kept.origin) {
            Some(numbers) => numbers.push_back(number),
            None => {
                self.by_origin.insert(Arc::clone(&kept.origin), VecDeque::from([number]));
            }
        }
        self.kept.insert(number, kept);
    }

    fn remove_oldest(&mut self) -> Option<IdleConnection<C>> {
        self.remove_oldest_if(|_| true)
    }

    fn remove_oldest_if(
        &mut self,
        condition: impl FnOnce(&IdleConnection<C>) -> bool,
    ) -> Option<IdleConnection<C>> {
        let oldest = self.kept.first_entry().filter(|oldest| condition(oldest.get()))?;
        let (number, kept) = oldest.remove_entry();
        let numbers =
            self.by_origin.get_mut(&kept.origin).expect("a kept connection is listed at its origin");
        let oldest = numbers.pop_front();
        debug_assert_eq!(oldest, Some(number), "the oldest of all is the oldest of its origin");
        Some(kept)
    }

    fn forget_unused_origins(&mut self) {
        self.by_origin.retain(|_, numbers| !numbers.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::WebhookTarget;

    fn origin(name: &str) -> Arc<Origin> {
        WebhookTarget::parse(&format!("http://{name}/")).expect("a target").origin
    }

    #[test]
    fn the_newest_connection_of_the_origin_is_taken() {
        let (pool, now) = (Pool::new(10), Instant::now());
        let (a, b) = (origin("a.example"), origin("b.example"));
        for (at, connection) in [(&a, 1), (&b, 2), (&a, 3)] {
            pool.keep(at, connection, now, None);
        }
        let taken = [&a, &b, &a, &a, &b].map(|at| pool.take(at, now));
        assert_eq!(taken, [Some(3), Some(2), Some(1), None, None]);
        pool.sweep(now);
        assert!(locked(&pool.idle).by_origin.is_empty());
    }

    #[test]
    fn an_origin_is_remembered_while_its_connection_is_in_use_and_many_are_bounded() {
        const LIMIT: usize = 4;
        let (pool, now) = (Pool::new(LIMIT), Instant::now());
        let used = origin("used.example");
        pool.keep(&used, 0, now, None);
        assert_eq!(pool.take(&used, now), Some(0));
        assert_eq!(locked(&pool.idle).by_origin.len(), 1);
        for number in 0..10 * LIMIT {
            let other = origin(&format!("o{number}.example"));
            pool.keep(&other, number, now, None);
            assert_eq!(pool.take(&other, now), Some(number));
            assert!(locked(&pool.idle).by_origin.len() <= 2 * LIMIT);
        }
        pool.keep(&used, 1, now, None);
        assert_eq!((pool.take(&used, now), pool.len()), (Some(1), 0));
    }

    #[test]
    fn the_oldest_of_all_makes_room() {
        let (pool, now) = (Pool::new(2), Instant::now());
        let (a, b) = (origin("a.example"), origin("b.example"));
        for (at, connection) in [(&a, 1), (&a, 2), (&b, 3)] {
            pool.keep(at, connection, now, None);
        }
        assert_eq!(pool.len(), 2);
        assert_eq!([&a, &a, &b].map(|at| pool.take(at, now)), [Some(2), None, Some(3)]);
    }

    #[test]
    fn a_connection_past_its_time_is_not_taken_and_swept() {
        let (pool, now) = (Pool::new(10), Instant::now());
        let (a, b) = (origin("a.example"), origin("b.example"));
        pool.keep(&a, 1, now, None);
        pool.keep(&b, 2, now, None);
        pool.keep(&b, 3, now + IDLE_MAX / 2, None);
        pool.sweep(now + IDLE_MAX / 2);
        assert_eq!(pool.len(), 3);
        assert_eq!(pool.take(&a, now + IDLE_MAX), None);
        pool.sweep(now + IDLE_MAX);
        assert_eq!(pool.len(), 1);
        assert_eq!(pool.take(&b, now + IDLE_MAX), Some(3));
    }

    #[test]
    fn a_connection_is_given_up_before_the_receiver_closes_it() {
        let (pool, now) = (Pool::new(10), Instant::now());
        let a = origin("a.example");
        let seconds = Duration::from_secs;
        for (connection, keeps) in [(1, Some(3_600)), (2, Some(0)), (3, None), (4, Some(5))] {
            pool.keep(&a, connection, now, keeps.map(seconds));
        }
        assert_eq!(pool.take(&a, now + seconds(3)), Some(4));
        pool.keep(&a, 5, now, Some(seconds(5)));
        assert_eq!(pool.take(&a, now + seconds(4)), Some(3));
        assert_eq!(pool.take(&a, now + seconds(4)), Some(1));
        assert_eq!(pool.len(), 0);
    }
}
