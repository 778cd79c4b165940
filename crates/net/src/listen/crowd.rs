//! Admission of connections: without room for a new one, those that move least are closed.
//!
//! So half-open, trickling and idle connections stay only while there is room. A connection that
//! makes progress keeps its place; when all do, the listener decides what happens to the new one.
//! An address (see [`Source`]) has a share of the places. Above its share its connections are
//! closed first, and for an address below its share even those that make progress.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::address;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::room::{Place, Room};
use super::watched::Watched;

/// How long a connection may take for its handshake (TLS, then CONNECT or the like) before it can
/// be closed: longer than a slow link takes for one answer.
const GREETING_MIN: Duration = Duration::from_secs(5);
/// The same for connections of an address that has more than its share.
const GREETING_OF_MANY_MIN: Duration = Duration::from_secs(2);
/// How long a connection may be silent before it can be closed: an honest caller speaks at once.
const SILENT_MIN: Duration = Duration::from_secs(1);
/// A request that is under way is left in peace for this long.
const UNDER_WAY_MIN: Duration = Duration::from_secs(30);
/// Progress, in bytes a second: even a poor radio link moves more.
const PACE_MIN: u64 = 64;
/// The pace is measured over the window that runs and the one before it: what a connection moved
/// long ago is no progress.
const PACE_WINDOW_MS: u64 = 30_000;
/// The share of one address: one place in this many.
const SHARE_PART: usize = 8;
/// So large a part of the crowd is shown out at a time: finding out who moves least means to look at all of them.
const PART: usize = 32;
/// How long somebody who is shown out may take to leave; then it is looked again.
const LEAVING_MAX: Duration = Duration::from_millis(100);
/// How long a newcomer of an address that has its share waits for connections that were asked to
/// leave: on a busy machine that takes a while.
const ASKED_TO_LEAVE_MAX: Duration = Duration::from_secs(1);
/// How long such a newcomer waits where nobody may be asked yet: a little longer than connections of
/// its address are left in peace.
const STANDSTILL_MAX: Duration = Duration::from_millis(2_500);
/// Once in this time: a host that keeps coming holds up the others for a tenth of it.
const STANDSTILL_EVERY: Duration = Duration::from_secs(25);
const _: () = assert!(STANDSTILL_MAX.as_millis() > GREETING_OF_MANY_MIN.as_millis());
/// How often it is looked for one newcomer.
const LOOKS_MAX: usize = 5;

/// The connections of a listener.
#[derive(Debug)]
pub struct Crowd {
    room: Arc<Room>,
    table: Mutex<Table>,
    start: Instant,
    enters_as: Doing,
    /// Places of one address before its connections go first.
    share: usize,
}

#[derive(Debug, Default)]
struct Table {
    seats: HashMap<u64, Arc<Seat>>,
    by_source: HashMap<Source, usize>,
    entered: u64,
    /// From when on the next newcomer of an address at its share may wait.
    next_standstill: Option<Instant>,
}

/// Where connections come from: an address, or the IPv6 network of one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Source(IpAddr);

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Doing {
    /// It introduces itself.
    Greeting,
    /// It asks nothing.
    Silent,
    /// It has not shown yet that it may ask anything; whatever it moves until then is no progress.
    Unadmitted,
    /// Its request is under way.
    UnderWay,
}

#[derive(Debug)]
pub(crate) struct Seat {
    peer: SocketAddr,
    /// The crowd's start.
    start: Instant,
    /// Milliseconds from the crowd's start to when it began what it does.
    since_ms: AtomicU64,
    /// The number of the window that runs, and bytes that it moved in it and in the one before, as
    /// far as that was since then.
    window: AtomicU64,
    moved: AtomicU64,
    moved_before: AtomicU64,
    doing: AtomicU8,
    /// It showed that it may ask something.
    admitted: AtomicBool,
    leave: Notify,
    /// It is to leave for somebody whose address has less than its share.
    leaves_for_few: AtomicBool,
}

/// A connection's seat; free again when this is dropped.
#[derive(Debug)]
pub struct Guest {
    crowd: Arc<Crowd>,
    number: u64,
    seat: Arc<Seat>,
    place: Option<Place>,
}

/// Whether an address has more than its share, and whether the newcomer's has less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    of_many: bool,
    for_few: bool,
}

/// In which order connections are shown out: the least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Who makes progress goes only where nobody else can.
    makes_progress: bool,
    /// Then who never showed that it may be here.
    admitted: bool,
    within_share: bool,
    /// Bytes a second.
    pace: u64,
    since_ms: u64,
}

impl Crowd {
    /// As many as there is room for.
    #[must_use]
    pub fn new(room: Room) -> Self {
        Self::entered_as(Doing::Silent, room)
    }

    /// Connections that introduce themselves and then leave.
    #[must_use]
    pub fn of_greetings(room: Room) -> Self {
        Self::entered_as(Doing::Greeting, room)
    }

    fn entered_as(enters_as: Doing, room: Room) -> Self {
        let share = (room.places_max() / SHARE_PART).max(1);
        Self { room: Arc::new(room), table: Mutex::default(), start: Instant::now(), enters_as, share }
    }

    /// A seat. Somebody may be shown out for it; `None` if everybody makes progress.
    pub(crate) async fn enter(self: &Arc<Self>, peer: SocketAddr) -> Option<Guest> {
        for _ in 0..LOOKS_MAX {
            let leaving = self.room.somebody_leaves();
            if let Some(place) = self.room.take() {
                return Some(self.seat(place, peer));
            }
            if self.show_out(peer, Instant::now()) == 0 {
                break;
            }
            // Late or not, it is looked again.
            let _late = timeout(LEAVING_MAX, leaving).await;
        }
        None
    }

    /// A seat, however long that takes for a newcomer whose address has less than its share. For
    /// another one only as long as [`Crowd::wait_max`] says; then `None`.
    pub async fn enter_in_turn(self: &Arc<Self>, peer: SocketAddr) -> Option<Guest> {
        let mut waits_until = None;
        loop {
            let leaving = self.room.somebody_leaves();
            if let Some(place) = self.room.take() {
                return Some(self.seat(place, peer));
            }
            let now = Instant::now();
            let somebody_leaves = self.show_out(peer, now) > 0;
            if self.table().has(peer) >= self.share {
                let until = *waits_until.get_or_insert_with(|| now + self.wait_max(somebody_leaves, now));
                if now >= until {
                    return None;
                }
            }
            let _late = timeout(LEAVING_MAX, leaving).await;
        }
    }

    /// How long a newcomer of an address that has its share may wait. Others wait behind it, so it
    /// waits for connections that were asked to leave, and now and then for those of its own address
    /// that say nothing to become old enough for that.
    fn wait_max(&self, somebody_leaves: bool, now: Instant) -> Duration {
        if somebody_leaves {
            return ASKED_TO_LEAVE_MAX;
        }
        let mut table = self.table();
        if table.next_standstill.is_some_and(|next| now < next) {
            return Duration::ZERO;
        }
        table.next_standstill = Some(now + STANDSTILL_EVERY);
        STANDSTILL_MAX
    }

    /// Resolves when nobody is here.
    pub async fn all_left(&self) {
        self.room.all_left().await;
    }

    fn seat(self: &Arc<Self>, place: Place, peer: SocketAddr) -> Guest {
        let seat = Arc::new(Seat::new(peer, self.start, self.enters_as));
        let mut table = self.table();
        table.entered += 1;
        let number = table.entered;
        *table.by_source.entry(Source::of(peer)).or_default() += 1;
        table.seats.insert(number, Arc::clone(&seat));
        Guest { crowd: Arc::clone(self), number, seat, place: Some(place) }
    }

    /// Asks those who move least to leave for a newcomer: how many. An address that has more than
    /// its share goes first; who makes progress goes only if nobody else can.
    fn show_out(&self, newcomer: SocketAddr, now: Instant) -> usize {
        let now_ms = millis(self.start, now);
        let (mut leaving, for_few): (Vec<_>, _) = {
            let table = self.table();
            let for_few = table.has(newcomer) < self.share;
            let ranked = table.seats.values().filter_map(|seat| {
                let shares = Shares { of_many: table.has(seat.peer) > self.share, for_few };
                Some((seat.rank(now_ms, shares)?, Arc::clone(seat)))
            });
            (ranked.collect(), for_few)
        };
        if leaving.iter().any(|(rank, _)| !rank.makes_progress) {
            leaving.retain(|(rank, _)| !rank.makes_progress);
        }
        let most = (self.room.places_max() / PART).max(1);
        if leaving.len() > most {
            leaving.select_nth_unstable_by_key(most, |(rank, _)| *rank);
            leaving.truncate(most);
        }
        for (_, seat) in &leaving {
            seat.leaves_for_few.store(for_few, Ordering::Relaxed);
            seat.leave.notify_one();
        }
        leaving.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// How many seats the address of this peer has.
    fn has(&self, peer: SocketAddr) -> usize {
        self.by_source.get(&Source::of(peer)).copied().unwrap_or(0)
    }
}

impl Source {
    fn of(peer: SocketAddr) -> Self {
        Self(address::sender(peer.ip()))
    }
}

fn millis(start: Instant, at: Instant) -> u64 {
    base::time::millis(at.duration_since(start)).cast_unsigned()
}

impl Seat {
    fn new(peer: SocketAddr, start: Instant, doing: Doing) -> Self {
        let now_ms = millis(start, Instant::now());
        Self {
            peer,
            start,
            since_ms: AtomicU64::new(now_ms),
            window: AtomicU64::new(now_ms / PACE_WINDOW_MS),
            moved: AtomicU64::new(0),
            moved_before: AtomicU64::new(0),
            doing: AtomicU8::new(doing as u8),
            admitted: AtomicBool::new(false),
            leave: Notify::new(),
            leaves_for_few: AtomicBool::new(false),
        }
    }

    /// When it would be shown out. `None` if it is left in peace.
    fn rank(&self, now_ms: u64, Shares { of_many, for_few }: Shares) -> Option<Rank> {
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        let pace = self.pace(now_ms, since_ms);
        let admitted = self.admitted.load(Ordering::Relaxed);
        let moves = pace >= PACE_MIN;
        let (peace, makes_progress) = match self.doing() {
            Doing::Greeting if of_many && !moves => (GREETING_OF_MANY_MIN, false),
            Doing::Greeting => (GREETING_MIN, moves),
            Doing::Unadmitted if of_many => (GREETING_OF_MANY_MIN, false),
            Doing::Unadmitted => (GREETING_MIN, false),
            Doing::Silent => (SILENT_MIN, false),
            Doing::UnderWay => (UNDER_WAY_MIN, moves),
        };
        let gives_way = match (makes_progress, admitted) {
            (true, _) => of_many && for_few,
            // Whoever crowds in from one address does not have an idle caller with a token closed.
            (false, true) => of_many || for_few,
            (false, false) => true,
        };
        let within_share = !of_many;
        (gives_way && Duration::from_millis(now_ms.saturating_sub(since_ms)) >= peace).then_some(Rank {
            makes_progress,
            admitted,
            within_share,
            pace,
            since_ms,
        })
    }

    /// Bytes a second, over the window that runs and the one before it.
    fn pace(&self, now_ms: u64, since_ms: u64) -> u64 {
        self.turn_window(now_ms);
        let moved = self.moved.load(Ordering::Relaxed) + self.moved_before.load(Ordering::Relaxed);
        let window_before_ms = (now_ms / PACE_WINDOW_MS).saturating_sub(1) * PACE_WINDOW_MS;
        moved * 1_000 / now_ms.saturating_sub(since_ms.max(window_before_ms)).max(1)
    }

    /// What was moved counts for its window, and for the next one.
    fn turn_window(&self, now_ms: u64) {
        let now = now_ms / PACE_WINDOW_MS;
        let last = self.window.swap(now, Ordering::Relaxed);
        if last != now {
            let moved = self.moved.swap(0, Ordering::Relaxed);
            self.moved_before.store(if last + 1 == now { moved } else { 0 }, Ordering::Relaxed);
        }
    }

    fn doing(&self) -> Doing {
        match self.doing.load(Ordering::Relaxed) {
            doing if doing == Doing::Greeting as u8 => Doing::Greeting,
            doing if doing == Doing::Silent as u8 => Doing::Silent,
            doing if doing == Doing::Unadmitted as u8 => Doing::Unadmitted,
            _ => Doing::UnderWay,
        }
    }

    fn turn(&self, doing: Doing) {
        let now_ms = millis(self.start, Instant::now());
        self.since_ms.store(now_ms, Ordering::Relaxed);
        self.window.store(now_ms / PACE_WINDOW_MS, Ordering::Relaxed);
        self.moved.store(0, Ordering::Relaxed);
        self.moved_before.store(0, Ordering::Relaxed);
        self.doing.store(doing as u8, Ordering::Relaxed);
    }

    /// It received or sent something.
    pub(crate) fn moved(&self, bytes: usize) {
        self.turn_window(millis(self.start, Instant::now()));
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Guest {
    /// Where it comes from.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.seat.peer
    }

    /// Its request has begun.
    pub fn begins(&self) {
        self.seat.turn(Doing::UnderWay);
    }

    /// Its request is answered, and it may be silent.
    pub fn pauses(&self) {
        self.seat.turn(Doing::Silent);
    }

    /// It speaks, and goes first until [`Guest::is_admitted`].
    pub fn awaits_admission(&self) {
        self.seat.turn(Doing::Unadmitted);
    }

    /// It showed that it may ask something, and counts as one long request from now on.
    pub fn is_admitted(&self) {
        if !self.seat.admitted.swap(true, Ordering::Relaxed) {
            self.seat.turn(Doing::UnderWay);
        }
    }

    /// It received or sent something.
    pub(crate) fn moved(&self, bytes: usize) {
        self.seat.moved(bytes);
    }

    /// Its stream, of which it is told what it moves.
    pub fn watch<S>(&self, stream: S) -> Watched<S> {
        Watched::new(stream, Arc::clone(&self.seat))
    }

    /// Leaves, and keeps its open file.
    #[must_use]
    pub fn into_file(mut self) -> Option<Place> {
        self.place.take().and_then(Place::into_file)
    }

    /// Resolves when it must leave. Who makes progress meanwhile stays.
    pub async fn shown_out(&self) {
        loop {
            self.seat.leave.notified().await;
            let of_many = self.crowd.table().has(self.seat.peer) > self.crowd.share;
            let for_few = self.seat.leaves_for_few.load(Ordering::Relaxed);
            let now_ms = millis(self.crowd.start, Instant::now());
            if self.seat.rank(now_ms, Shares { of_many, for_few }).is_some() {
                return;
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut table = self.crowd.table();
        table.seats.remove(&self.number);
        let source = Source::of(self.seat.peer);
        if let Some(seats) = table.by_source.get_mut(&source) {
            *seats -= 1;
            if *seats == 0 {
                table.by_source.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests;
