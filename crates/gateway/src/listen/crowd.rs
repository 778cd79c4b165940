//! Admission of connections: without room for a new one, those that move least are closed.
//!
//! So half-open, trickling and idle connections stay only while there is room. A connection that
//! makes progress keeps its place; when all do, the listener decides what happens to the new one.
//! An address (see [`Source`]) has a share of the places. Above its share its connections are
//! closed first, and for an address below its share even those that make progress.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
/// The share of one address: one place in this many.
const SHARE_PART: usize = 8;
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
    enters_as: Doing,
    share: usize,
}

#[derive(Debug, Default)]
struct Table {
    seats: HashMap<u64, Arc<Seat>>,
    by_source: HashMap<Source, usize>,
    entered: u64,
}

/// Where connections come from: an address, or what one host usually has of IPv6, a network of 64
/// bits.
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
    /// Its request is under way.
    UnderWay,
}

#[derive(Debug)]
pub(crate) struct Seat {
    peer: SocketAddr,
    /// Milliseconds from the crowd's start to when it began what it does.
    since_ms: AtomicU64,
    /// Bytes that it moved since then.
    moved: AtomicU64,
    doing: AtomicU8,
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

impl Crowd {
    /// As many as there is room for.
    pub(crate) fn new(room: Room) -> Self {
        Self::entered_as(Doing::Silent, room)
    }

    /// Connections that introduce themselves and then leave.
    pub(crate) fn of_greetings(room: Room) -> Self {
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

    /// A seat, however long that takes.
    pub(crate) async fn enter_in_turn(self: &Arc<Self>, peer: SocketAddr) -> Guest {
        loop {
            let leaving = self.room.somebody_leaves();
            if let Some(guest) = self.enter(peer).await {
                return guest;
            }
            let _late = timeout(LEAVING_MAX, leaving).await;
        }
    }

    /// Resolves when nobody is here.
    pub(crate) async fn all_left(&self) {
        self.room.all_left().await;
    }

    fn seat(self: &Arc<Self>, place: Place, peer: SocketAddr) -> Guest {
        let seat = Arc::new(Seat {
            peer,
            since_ms: AtomicU64::new(self.ms(Instant::now())),
            moved: AtomicU64::new(0),
            doing: AtomicU8::new(self.enters_as as u8),
            leave: Notify::new(),
            leaves_for_few: AtomicBool::new(false),
        });
        let mut table = self.table();
        table.entered += 1;
        let number = table.entered;
        *table.by_source.entry(Source::of(peer)).or_default() += 1;
        table.seats.insert(number, Arc::clone(&seat));
        Guest { crowd: Arc::clone(self), number, seat, place: Some(place) }
    }

    /// Asks those who move least to leave for a newcomer: how many. An address that has more than
    /// its share goes first.
    fn show_out(&self, newcomer: SocketAddr, now: Instant) -> usize {
        let now_ms = self.ms(now);
        let (mut slow, for_few): (Vec<_>, _) = {
            let table = self.table();
            let for_few = table.has(newcomer) < self.share;
            let ranked = table.seats.values().filter_map(|seat| {
                let shares = Shares { of_many: table.has(seat.peer) > self.share, for_few };
                let (pace, since_ms) = seat.rank(now_ms, shares)?;
                Some(((!shares.of_many, pace, since_ms), Arc::clone(seat)))
            });
            (ranked.collect(), for_few)
        };
        let most = (self.room.places_max() / PART).max(1);
        if slow.len() > most {
            slow.select_nth_unstable_by_key(most, |(rank, _)| *rank);
            slow.truncate(most);
        }
        for (_, seat) in &slow {
            seat.leaves_for_few.store(for_few, Ordering::Relaxed);
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

impl Table {
    /// How many seats the address of this peer has.
    fn has(&self, peer: SocketAddr) -> usize {
        self.by_source.get(&Source::of(peer)).copied().unwrap_or(0)
    }
}

impl Source {
    fn of(peer: SocketAddr) -> Self {
        match peer.ip().to_canonical() {
            IpAddr::V6(ip) => Self(IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)))),
            ip @ IpAddr::V4(_) => Self(ip),
        }
    }
}

impl Seat {
    /// Who is least is shown out first: bytes a second, and since when. `None` if it is left in peace.
    fn rank(&self, now_ms: u64, Shares { of_many, for_few }: Shares) -> Option<(u64, u64)> {
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        let span_ms = now_ms.saturating_sub(since_ms);
        let pace = self.moved.load(Ordering::Relaxed) * 1_000 / span_ms.max(1);
        let (peace, makes_progress) = match self.doing() {
            Doing::Greeting if of_many => (GREETING_OF_MANY_MIN, pace >= PACE_MIN),
            Doing::Greeting => (GREETING_MIN, pace >= PACE_MIN),
            Doing::Silent => (SILENT_MIN, false),
            Doing::UnderWay => (UNDER_WAY_MIN, pace >= PACE_MIN),
        };
        let gives_way = !makes_progress || (of_many && for_few);
        (gives_way && Duration::from_millis(span_ms) >= peace).then_some((pace, since_ms))
    }

    fn doing(&self) -> Doing {
        match self.doing.load(Ordering::Relaxed) {
            doing if doing == Doing::Greeting as u8 => Doing::Greeting,
            doing if doing == Doing::Silent as u8 => Doing::Silent,
            _ => Doing::UnderWay,
        }
    }

    /// It received or sent something.
    pub(crate) fn moved(&self, bytes: usize) {
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
        self.turn(Doing::UnderWay);
    }

    /// Its request is answered, and it may be silent.
    pub fn pauses(&self) {
        self.turn(Doing::Silent);
    }

    fn turn(&self, doing: Doing) {
        self.seat.since_ms.store(self.crowd.ms(Instant::now()), Ordering::Relaxed);
        self.seat.moved.store(0, Ordering::Relaxed);
        self.seat.doing.store(doing as u8, Ordering::Relaxed);
    }

    /// It received or sent something.
    pub(crate) fn moved(&self, bytes: usize) {
        self.seat.moved(bytes);
    }

    /// Its stream, of which it is told what it moves.
    pub(crate) fn watch<S>(&self, stream: S) -> Watched<S> {
        Watched::new(stream, Arc::clone(&self.seat))
    }

    /// Leaves, and keeps its open file.
    pub(crate) fn into_file(mut self) -> Option<Place> {
        self.place.take().and_then(Place::into_file)
    }

    /// Resolves when it must leave. Who makes progress meanwhile stays.
    pub(crate) async fn shown_out(&self) {
        loop {
            self.seat.leave.notified().await;
            let of_many = self.crowd.table().has(self.seat.peer) > self.crowd.share;
            let for_few = self.seat.leaves_for_few.load(Ordering::Relaxed);
            if self.seat.rank(self.crowd.ms(Instant::now()), Shares { of_many, for_few }).is_some() {
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
