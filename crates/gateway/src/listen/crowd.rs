//! Connections that must not hold their places for ever: where there is no room for a newcomer, who moves least is shown out.
//!
//! That is what bounds what half-open connections, heads and bodies that trickle, and idle ones can do: they may stay while
//! there is room, and cost a newcomer nothing when there is none. Somebody who is quick is never shown out, so a crowd of such is
//! full; what happens then is for the listener to say.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

use super::room::{Place, Room};

/// Who has not begun to say anything is left in peace for this long: a caller that means it well speaks at once.
const SILENT_MIN: Duration = Duration::from_secs(1);
/// A request that is under way is left in peace for this long.
const UNDER_WAY_MIN: Duration = Duration::from_secs(30);
/// A request that moves more than this is never shown out, in bytes a second: even a poor radio link does.
const PACE_MIN: u64 = 64;
/// So large a part of the crowd is shown out at a time: finding out who moves least means to look at all of them.
const PART: usize = 32;
/// How long somebody who is shown out may take to leave; then it is looked again.
const LEAVING_MAX: Duration = Duration::from_millis(100);
/// How often it is looked for one newcomer.
const LOOKS_MAX: usize = 5;

/// The connections of a listener.
#[derive(Debug)]
pub(crate) struct Crowd {
    room: Arc<Room>,
    table: Mutex<Table>,
    start: Instant,
}

#[derive(Debug, Default)]
struct Table {
    seats: HashMap<u64, Arc<Seat>>,
    entered: u64,
}

#[derive(Debug)]
struct Seat {
    /// Milliseconds from the crowd's start to when it began to be silent, or its request began.
    since_ms: AtomicU64,
    /// Bytes that it moved since then.
    moved: AtomicU64,
    under_way: AtomicBool,
    leave: Notify,
}

/// A connection's seat; free again when this is dropped.
#[derive(Debug)]
pub struct Guest {
    crowd: Arc<Crowd>,
    number: u64,
    seat: Arc<Seat>,
    place: Option<Place>,
    peer: Option<SocketAddr>,
}

impl Crowd {
    /// As many as there is room for.
    pub(crate) fn new(room: Room) -> Self {
        Self { room: Arc::new(room), table: Mutex::default(), start: Instant::now() }
    }

    /// A seat. Somebody may be shown out for it; `None` if everybody is quick.
    pub(crate) async fn enter(self: &Arc<Self>) -> Option<Guest> {
        for _ in 0..LOOKS_MAX {
            let leaving = self.room.somebody_leaves();
            if let Some(place) = self.room.take() {
                return Some(self.seat(place));
            }
            if self.show_out(Instant::now()) == 0 {
                break;
            }
            // Late or not, it is looked again.
            let _late = timeout(LEAVING_MAX, leaving).await;
        }
        None
    }

    /// A seat, however long that takes.
    pub(crate) async fn enter_in_turn(self: &Arc<Self>) -> Guest {
        loop {
            let leaving = self.room.somebody_leaves();
            if let Some(guest) = self.enter().await {
                return guest;
            }
            let _late = timeout(LEAVING_MAX, leaving).await;
        }
    }

    /// Resolves when nobody is here.
    pub(crate) async fn all_left(&self) {
        self.room.all_left().await;
    }

    fn seat(self: &Arc<Self>, place: Place) -> Guest {
        let seat = Arc::new(Seat {
            since_ms: AtomicU64::new(self.ms(Instant::now())),
            moved: AtomicU64::new(0),
            under_way: AtomicBool::new(false),
            leave: Notify::new(),
        });
        let mut table = self.table();
        table.entered += 1;
        let number = table.entered;
        table.seats.insert(number, Arc::clone(&seat));
        Guest { crowd: Arc::clone(self), number, seat, place: Some(place), peer: None }
    }

    /// Asks those who move least to leave: how many.
    fn show_out(&self, now: Instant) -> usize {
        let now_ms = self.ms(now);
        let mut slow: Vec<_> = {
            let table = self.table();
            let slow = table.seats.values().filter_map(|seat| Some((seat.rank(now_ms)?, Arc::clone(seat))));
            slow.collect()
        };
        let most = (self.room.places_max() / PART).max(1);
        if slow.len() > most {
            slow.select_nth_unstable_by_key(most, |(rank, _)| *rank);
            slow.truncate(most);
        }
        for (_, seat) in &slow {
            seat.leave.notify_one();
        }
        slow.len()
    }

    fn ms(&self, at: Instant) -> u64 {
        base::time::millis(at.duration_since(self.start)).cast_unsigned()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Who is least is shown out first: bytes a second, and since when. `None` if it is left in peace.
    fn rank(&self, now_ms: u64) -> Option<(u64, u64)> {
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        let span_ms = now_ms.saturating_sub(since_ms);
        let pace = self.moved.load(Ordering::Relaxed) * 1_000 / span_ms.max(1);
        let span = Duration::from_millis(span_ms);
        let slow = match self.under_way.load(Ordering::Relaxed) {
            false => span >= SILENT_MIN,
            true => span >= UNDER_WAY_MIN && pace < PACE_MIN,
        };
        slow.then_some((pace, since_ms))
    }
}

impl Guest {
    /// The same, from that address.
    pub(crate) fn from(mut self, peer: SocketAddr) -> Self {
        self.peer = Some(peer);
        self
    }

    /// The address that it came from.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Its request has begun.
    pub fn begins(&self) {
        self.turn(true);
    }

    /// Its request is answered, and it may be silent.
    pub fn pauses(&self) {
        self.turn(false);
    }

    fn turn(&self, under_way: bool) {
        self.seat.since_ms.store(self.crowd.ms(Instant::now()), Ordering::Relaxed);
        self.seat.moved.store(0, Ordering::Relaxed);
        self.seat.under_way.store(under_way, Ordering::Relaxed);
    }

    /// It received or sent something.
    pub(crate) fn moved(&self, bytes: usize) {
        self.seat.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Leaves, and keeps its open file.
    pub(crate) fn into_file(mut self) -> Option<Place> {
        self.place.take().and_then(Place::into_file)
    }

    /// Resolves when it must leave. Who began to be quick meanwhile stays.
    pub(crate) async fn shown_out(&self) {
        loop {
            self.seat.leave.notified().await;
            if self.seat.rank(self.crowd.ms(Instant::now())).is_some() {
                return;
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.crowd.table().seats.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(places: usize) -> Arc<Crowd> {
        Arc::new(Crowd::new(Room::new(places)))
    }

    /// Makes it so that the guest began whatever it does so long ago.
    fn ago(crowd: &mut Arc<Crowd>, span: Duration) {
        let crowd = Arc::get_mut(crowd).expect("nobody is here");
        crowd.start = crowd.start.checked_sub(span).expect("this machine has run for a while");
    }

    fn seat(since_ms: u64, moved: u64, under_way: bool) -> Seat {
        let (since_ms, moved) = (AtomicU64::new(since_ms), AtomicU64::new(moved));
        Seat { since_ms, moved, under_way: AtomicBool::new(under_way), leave: Notify::new() }
    }

    #[test]
    fn who_moves_least_goes_first_and_who_is_quick_stays() {
        for (since_ms, moved, under_way, expect) in [
            (59_500, 0, false, None),
            (59_000, 0, false, Some((0, 59_000))),
            (59_000, 50, false, Some((50, 59_000))),
            (31_000, 0, true, None),
            (30_000, 0, true, Some((0, 30_000))),
            (30_000, 30 * 63, true, Some((63, 30_000))),
            (30_000, 30 * 64, true, None),
        ] {
            assert_eq!(
                seat(since_ms, moved, under_way).rank(60_000),
                expect,
                "{since_ms} {moved} {under_way}"
            );
        }
    }

    #[tokio::test]
    async fn a_newcomer_takes_the_place_of_who_says_nothing() {
        let mut crowd = crowd(2);
        ago(&mut crowd, Duration::from_secs(60));
        let (silent, quick) = (crowd.enter().await.expect("room"), crowd.enter().await.expect("room"));
        silent.seat.since_ms.store(0, Ordering::Relaxed);
        quick.begins();
        let leaves = tokio::spawn(async move { silent.shown_out().await });
        let newcomer = crowd.enter().await;
        assert!(newcomer.is_some());
        leaves.await.expect("shown out");
        assert!(crowd.enter().await.is_none(), "everybody is quick");
    }

    #[tokio::test]
    async fn who_speaks_up_in_time_stays() {
        let mut crowd = crowd(1);
        ago(&mut crowd, Duration::from_secs(60));
        let guest = crowd.enter().await.expect("room");
        guest.seat.since_ms.store(0, Ordering::Relaxed);
        assert_eq!(crowd.show_out(Instant::now()), 1);
        guest.begins();
        let left = timeout(Duration::ZERO, guest.shown_out()).await;
        assert!(left.is_err());
    }

    #[tokio::test]
    async fn whose_turn_it_is_enters_when_somebody_leaves() {
        let crowd = crowd(1);
        let guest = crowd.enter().await.expect("room");
        let next = tokio::spawn({
            let crowd = Arc::clone(&crowd);
            async move { drop(crowd.enter_in_turn().await) }
        });
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        drop(guest);
        next.await.expect("no panic");
        crowd.all_left().await;
        assert!(crowd.table().seats.is_empty());
    }
}
