//! Connections between two notifications, kept for the next one to the same origin.
//!
//! The newest of an origin is taken first, so that those a busy hour left behind grow old and are closed. All origins share
//! one limit, at which the oldest connection of all makes room: a thousand quiet receivers cost no more than a busy one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::lanes::IN_FLIGHT_MAX;
use crate::target::Origin;

/// Most connections that are kept for all origins together.
const IDLE_CONNECTIONS_MAX: usize = 2_048;
/// How long a connection is kept. Less than the minute that many receivers and middleboxes give an idle connection.
const IDLE_MAX: Duration = Duration::from_secs(30);

const _: () = assert!(IDLE_CONNECTIONS_MAX >= IN_FLIGHT_MAX, "a steady load never has to connect anew");

/// The kept connections; `C` is a connection.
#[derive(Debug)]
pub(crate) struct Pool<C> {
    idle: Mutex<Idle<C>>,
    limit: usize,
}

#[derive(Debug)]
struct Idle<C> {
    /// By the order in which they were kept, which is the order of their ends.
    kept: BTreeMap<u64, Kept<C>>,
    /// The numbers of an origin's connections, oldest first; never empty.
    by_origin: HashMap<Origin, VecDeque<u64>>,
    next_number: u64,
}

#[derive(Debug)]
struct Kept<C> {
    origin: Origin,
    connection: C,
    until: Instant,
}

impl<C> Pool<C> {
    pub(crate) fn new() -> Self {
        Self::with_limit(IDLE_CONNECTIONS_MAX)
    }

    fn with_limit(limit: usize) -> Self {
        let idle = Idle { kept: BTreeMap::new(), by_origin: HashMap::new(), next_number: 0 };
        Self { idle: Mutex::new(idle), limit }
    }

    /// The newest connection that is kept for `origin`.
    pub(crate) fn take(&self, origin: &Origin, now: Instant) -> Option<C> {
        let mut idle = self.idle();
        let number = *idle.by_origin.get(origin)?.back()?;
        let kept = idle.remove(number)?;
        // Past its end, and so are the older ones: the next sweep closes them.
        (kept.until > now).then_some(kept.connection)
    }

    /// Keeps a connection.
    pub(crate) fn keep(&self, origin: &Origin, connection: C, now: Instant) {
        let mut idle = self.idle();
        let crowded_out = if idle.kept.len() >= self.limit { idle.remove_oldest() } else { None };
        idle.insert(Kept { origin: origin.clone(), connection, until: now + IDLE_MAX });
        drop(idle);
        // Closed outside the lock.
        drop(crowded_out);
    }

    /// Closes those whose time is over.
    pub(crate) fn sweep(&self, now: Instant) {
        while let Some(over) = self.idle().remove_oldest_if(|kept| kept.until <= now) {
            drop(over);
        }
    }

    /// How many connections are kept.
    pub(crate) fn len(&self) -> usize {
        self.idle().kept.len()
    }

    fn idle(&self) -> MutexGuard<'_, Idle<C>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Idle<C> {
    fn insert(&mut self, kept: Kept<C>) {
        let number = self.next_number;
        self.next_number += 1;
        match self.by_origin.get_mut(&kept.origin) {
            Some(numbers) => numbers.push_back(number),
            None => {
                self.by_origin.insert(kept.origin.clone(), VecDeque::from([number]));
            }
        }
        self.kept.insert(number, kept);
    }

    fn remove_oldest(&mut self) -> Option<Kept<C>> {
        self.remove_oldest_if(|_| true)
    }

    fn remove_oldest_if(&mut self, condition: impl FnOnce(&Kept<C>) -> bool) -> Option<Kept<C>> {
        let (number, kept) = self.kept.first_key_value()?;
        let number = condition(kept).then_some(*number)?;
        self.remove(number)
    }

    /// Removes the newest of its origin or the oldest of all, which is the oldest of its origin.
    fn remove(&mut self, number: u64) -> Option<Kept<C>> {
        let kept = self.kept.remove(&number)?;
        let numbers =
            self.by_origin.get_mut(&kept.origin).expect("a kept connection is listed at its origin");
        if numbers.back() == Some(&number) {
            numbers.pop_back();
        } else {
            let oldest = numbers.pop_front();
            debug_assert_eq!(oldest, Some(number), "the oldest of all is the oldest of its origin");
        }
        if numbers.is_empty() {
            self.by_origin.remove(&kept.origin);
        }
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    fn origin(name: &str) -> Origin {
        Target::parse(&format!("http://{name}/")).expect("a target").origin
    }

    #[test]
    fn the_newest_connection_of_the_origin_is_taken() {
        let (pool, now) = (Pool::with_limit(10), Instant::now());
        let (a, b) = (origin("a.example"), origin("b.example"));
        for (at, connection) in [(&a, 1), (&b, 2), (&a, 3)] {
            pool.keep(at, connection, now);
        }
        let taken = [&a, &b, &a, &a, &b].map(|at| pool.take(at, now));
        assert_eq!(taken, [Some(3), Some(2), Some(1), None, None]);
        assert!(pool.idle().by_origin.is_empty());
    }

    #[test]
    fn the_oldest_of_all_makes_room() {
        let (pool, now) = (Pool::with_limit(2), Instant::now());
        let (a, b) = (origin("a.example"), origin("b.example"));
        for (at, connection) in [(&a, 1), (&a, 2), (&b, 3)] {
            pool.keep(at, connection, now);
        }
        assert_eq!(pool.len(), 2);
        assert_eq!([&a, &a, &b].map(|at| pool.take(at, now)), [Some(2), None, Some(3)]);
    }

    #[test]
    fn a_connection_past_its_time_is_not_taken_and_swept() {
        let (pool, now) = (Pool::with_limit(10), Instant::now());
        let (a, b) = (origin("a.example"), origin("b.example"));
        pool.keep(&a, 1, now);
        pool.keep(&b, 2, now);
        pool.keep(&b, 3, now + IDLE_MAX / 2);
        pool.sweep(now + IDLE_MAX / 2);
        assert_eq!(pool.len(), 3);
        assert_eq!(pool.take(&a, now + IDLE_MAX), None);
        pool.sweep(now + IDLE_MAX);
        assert_eq!(pool.len(), 1);
        assert_eq!(pool.take(&b, now + IDLE_MAX), Some(3));
    }
}
