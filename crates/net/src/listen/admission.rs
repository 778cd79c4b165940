//! Admission of connections: without room for a new one, those that move least are closed.
//!
//! So half-open, trickling and idle connections stay only while there is room. A connection that
//! makes progress keeps its place; when all do, the listener decides what happens to the new one.
//! An address (see [`SourceNetwork`]) has a share of the places. Above its share its connections
//! are closed first, and for an address below its share even those that make progress.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::address;
use base::locks::locked;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::capacity::{Capacity, CapacityPermit};
use super::handshake_stream::HandshakeStream;

/// How long a connection may take for its handshake (TLS, then CONNECT or the like) before it can
/// be closed. That is longer than a slow link takes for one answer.
const HANDSHAKE_MIN: Duration = Duration::from_secs(5);
/// The same for connections of an address that has more than its share.
const HANDSHAKE_OF_MANY_MIN: Duration = Duration::from_secs(2);
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
/// So large a part of the connections is closed at a time: finding out which move least means to
/// look at all of them.
const PART: usize = 32;
/// How long a connection that is to close may take; then the pool is looked at again.
const LEAVING_MAX: Duration = Duration::from_millis(100);
/// How long a newcomer of an address that has its share waits for connections that were asked to
/// leave. On a busy machine that takes a while.
const ASKED_TO_LEAVE_MAX: Duration = Duration::from_secs(1);
/// How long such a newcomer waits where nobody may be asked yet: a little longer than connections
/// of its address are left in peace.
const STANDSTILL_MAX: Duration = Duration::from_millis(2_500);
/// Once in this time: a host that keeps coming holds up the others for a tenth of it.
const STANDSTILL_EVERY: Duration = Duration::from_secs(25);
const _: () = assert!(STANDSTILL_MAX.as_millis() > HANDSHAKE_OF_MANY_MIN.as_millis());
/// How often it is looked for one newcomer.
const LOOKS_MAX: usize = 5;

/// The connections of a listener.
#[derive(Debug)]
pub struct ConnectionPool {
    capacity: Arc<Capacity>,
    table: Mutex<PoolTable>,
    start: Instant,
    enters_as: Phase,
    /// Places of one address before its connections go first.
    share: usize,
}

#[derive(Debug, Default)]
struct PoolTable {
    states: HashMap<u64, Arc<ConnectionState>>,
    by_source: HashMap<SourceNetwork, usize>,
    entered: u64,
    /// From when on the next newcomer of an address at its share may wait.
    next_standstill: Option<Instant>,
}

/// Where connections come from: an address, or the IPv6 network of one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SourceNetwork(IpAddr);

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// It agrees on TLS, or says who it is.
    Handshake,
    /// It asks nothing.
    Silent,
    /// It has not shown yet that it may ask anything; whatever it moves until then is no progress.
    Unadmitted,
    /// Its request is under way.
    UnderWay,
}

#[derive(Debug)]
pub(crate) struct ConnectionState {
    peer: SocketAddr,
    /// The pool's start.
    start: Instant,
    /// Milliseconds from the pool's start to when it began what it does.
    since_ms: AtomicU64,
    /// The number of the window that runs.
    window: AtomicU64,
    /// Bytes that it moved in that window, and in the one before, since it began what it does.
    moved: AtomicU64,
    moved_before: AtomicU64,
    phase: AtomicU8,
    /// It showed that it may ask something.
    admitted: AtomicBool,
    leave: Notify,
    /// It is to leave for somebody whose address has less than its share.
    leaves_for_few: AtomicBool,
}

/// A connection's place; free again when this is dropped.
#[derive(Debug)]
pub struct PooledConnection {
    pool: Arc<ConnectionPool>,
    number: u64,
    state: Arc<ConnectionState>,
    place: Option<CapacityPermit>,
}

/// Whether an address has more than its share, and whether the newcomer's has less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AddressShares {
    of_many: bool,
    for_few: bool,
}

/// In which order connections are closed: the least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EvictionRank {
    /// Who makes progress goes only where nobody else can.
    makes_progress: bool,
    /// Then who never showed that it may be here.
    admitted: bool,
    within_share: bool,
    /// Bytes a second.
    pace: u64,
    since_ms: u64,
}

impl ConnectionPool {
    /// As many as there is room for.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        Self::entered_as(Phase::Silent, capacity)
    }

    /// Connections that introduce themselves and then leave.
    #[must_use]
    pub fn of_handshakes(capacity: Capacity) -> Self {
        Self::entered_as(Phase::Handshake, capacity)
    }

    fn entered_as(enters_as: Phase, capacity: Capacity) -> Self {
        let share = (capacity.places_max() / SHARE_PART).max(1);
        Self {
            capacity: Arc::new(capacity),
            table: Mutex::default(),
            start: Instant::now(),
            enters_as,
            share,
        }
    }

    /// A place. A connection may be closed for it; `None` if all of them make progress.
    pub(crate) async fn enter(self: &Arc<Self>, peer: SocketAddr) -> Option<PooledConnection> {
        for _ in 0..LOOKS_MAX {
            let leaving = self.capacity.somebody_leaves();
            if let Some(place) = self.capacity.take() {
                return Some(self.admit(place, peer));
            }
            if self.evict(peer, Instant::now()) == 0 {
                break;
            }
            // Late or not, it is looked again.
            let _late = timeout(LEAVING_MAX, leaving).await;
        }
        None
    }

    /// A place, however long that takes for a newcomer whose address has less than its share. For
    /// another one only as long as [`ConnectionPool::wait_max`] says; then `None`.
    pub async fn enter_in_turn(self: &Arc<Self>, peer: SocketAddr) -> Option<PooledConnection> {
        let mut waits_until = None;
        loop {
            let leaving = self.capacity.somebody_leaves();
            if let Some(place) = self.capacity.take() {
                return Some(self.admit(place, peer));
            }
            let now = Instant::now();
            let somebody_leaves = self.evict(peer, now) > 0;
            if locked(&self.table).has(peer) >= self.share {
                let until = *waits_until.get_or_insert_with(|| now + self.wait_max(somebody_leaves, now));
                if now >= until {
                    return None;
                }
            }
            let _late = timeout(LEAVING_MAX, leaving).await;
        }
    }

    /// How long a newcomer of an address that has its share may wait. Others wait behind it, so it
    /// waits for connections that were asked to leave. Now and then it also waits until silent ones
    /// of its own address are old enough to be asked.
    fn wait_max(&self, somebody_leaves: bool, now: Instant) -> Duration {
        if somebody_leaves {
            return ASKED_TO_LEAVE_MAX;
        }
        let mut table = locked(&self.table);
        if table.next_standstill.is_some_and(|next| now < next) {
            return Duration::ZERO;
        }
        table.next_standstill = Some(now + STANDSTILL_EVERY);
        STANDSTILL_MAX
    }

    /// Resolves when nobody is here.
    pub async fn all_left(&self) {
        self.capacity.all_left().await;
    }

    fn admit(self: &Arc<Self>, place: CapacityPermit, peer: SocketAddr) -> PooledConnection {
        let state = Arc::new(ConnectionState::new(peer, self.start, self.enters_as));
        let mut table = locked(&self.table);
        table.entered += 1;
        let number = table.entered;
        *table.by_source.entry(SourceNetwork::of(peer)).or_default() += 1;
        table.states.insert(number, Arc::clone(&state));
        PooledConnection { pool: Arc::clone(self), number, state, place: Some(place) }
    }

    /// Asks those who move least to leave for a newcomer: how many. An address that has more than
    /// its share goes first; who makes progress goes only if nobody else can.
    fn evict(&self, newcomer: SocketAddr, now: Instant) -> usize {
        let now_ms = millis(self.start, now);
        let (mut leaving, for_few): (Vec<_>, _) = {
            let table = locked(&self.table);
            let for_few = table.has(newcomer) < self.share;
            let ranked = table.states.values().filter_map(|state| {
                let shares = AddressShares { of_many: table.has(state.peer) > self.share, for_few };
                Some((state.rank(now_ms, shares)?, Arc::clone(state)))
            });
            (ranked.collect(), for_few)
        };
        if leaving.iter().any(|(rank, _)| !rank.makes_progress) {
            leaving.retain(|(rank, _)| !rank.makes_progress);
        }
        let most = (self.capacity.places_max() / PART).max(1);
        if leaving.len() > most {
            leaving.select_nth_unstable_by_key(most, |(rank, _)| *rank);
            leaving.truncate(most);
        }
        for (_, state) in &leaving {
            state.leaves_for_few.store(for_few, Ordering::Relaxed);
            state.leave.notify_one();
        }
        leaving.len()
    }
}

impl PoolTable {
    /// How many places the address of this peer has.
    fn has(&self, peer: SocketAddr) -> usize {
        self.by_source.get(&SourceNetwork::of(peer)).copied().unwrap_or(0)
    }
}

impl SourceNetwork {
    fn of(peer: SocketAddr) -> Self {
        Self(address::sender(peer.ip()))
    }
}

fn millis(start: Instant, at: Instant) -> u64 {
    base::time::millis(at.duration_since(start)).cast_unsigned()
}

impl ConnectionState {
    fn new(peer: SocketAddr, start: Instant, phase: Phase) -> Self {
        let now_ms = millis(start, Instant::now());
        Self {
            peer,
            start,
            since_ms: AtomicU64::new(now_ms),
            window: AtomicU64::new(now_ms / PACE_WINDOW_MS),
            moved: AtomicU64::new(0),
            moved_before: AtomicU64::new(0),
            phase: AtomicU8::new(phase as u8),
            admitted: AtomicBool::new(false),
            leave: Notify::new(),
            leaves_for_few: AtomicBool::new(false),
        }
    }

    /// When it would be closed. `None` if it may stay.
    fn rank(&self, now_ms: u64, AddressShares { of_many, for_few }: AddressShares) -> Option<EvictionRank> {
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        let pace = self.pace(now_ms, since_ms);
        let admitted = self.admitted.load(Ordering::Relaxed);
        let moves = pace >= PACE_MIN;
        let (peace, makes_progress) = match self.phase() {
            Phase::Handshake if of_many && !moves => (HANDSHAKE_OF_MANY_MIN, false),
            Phase::Handshake => (HANDSHAKE_MIN, moves),
            Phase::Unadmitted if of_many => (HANDSHAKE_OF_MANY_MIN, false),
            Phase::Unadmitted => (HANDSHAKE_MIN, false),
            Phase::Silent => (SILENT_MIN, false),
            Phase::UnderWay => (UNDER_WAY_MIN, moves),
        };
        let gives_way = match (makes_progress, admitted) {
            (true, _) => of_many && for_few,
            // Many connections of one address do not have an idle caller with a token closed.
            (false, true) => of_many || for_few,
            (false, false) => true,
        };
        let within_share = !of_many;
        (gives_way && Duration::from_millis(now_ms.saturating_sub(since_ms)) >= peace)
            .then_some(EvictionRank { makes_progress, admitted, within_share, pace, since_ms })
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

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            phase if phase == Phase::Handshake as u8 => Phase::Handshake,
            phase if phase == Phase::Silent as u8 => Phase::Silent,
            phase if phase == Phase::Unadmitted as u8 => Phase::Unadmitted,
            _ => Phase::UnderWay,
        }
    }

    fn turn(&self, phase: Phase) {
        let now_ms = millis(self.start, Instant::now());
        self.since_ms.store(now_ms, Ordering::Relaxed);
        self.window.store(now_ms / PACE_WINDOW_MS, Ordering::Relaxed);
        self.moved.store(0, Ordering::Relaxed);
        self.moved_before.store(0, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// It received or sent something.
    pub(crate) fn moved(&self, bytes: usize) {
        self.turn_window(millis(self.start, Instant::now()));
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl PooledConnection {
    /// Where it comes from.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.state.peer
    }

    /// Its request has begun.
    pub fn begins(&self) {
        self.state.turn(Phase::UnderWay);
    }

    /// Its request is answered, and it may be silent.
    pub fn pauses(&self) {
        self.state.turn(Phase::Silent);
    }

    /// It speaks, and goes first until [`PooledConnection::is_admitted`].
    pub fn awaits_admission(&self) {
        self.state.turn(Phase::Unadmitted);
    }

    /// It showed that it may ask something, and counts as one long request from now on.
    pub fn is_admitted(&self) {
        if !self.state.admitted.swap(true, Ordering::Relaxed) {
            self.state.turn(Phase::UnderWay);
        }
    }

    /// It received or sent something.
    pub(crate) fn moved(&self, bytes: usize) {
        self.state.moved(bytes);
    }

    /// Its stream, of which it is told what it moves.
    pub fn watch<S>(&self, stream: S) -> HandshakeStream<S> {
        HandshakeStream::new(stream, Arc::clone(&self.state))
    }

    /// Leaves, and keeps its open file.
    #[must_use]
    pub fn into_file(mut self) -> Option<CapacityPermit> {
        self.place.take().and_then(CapacityPermit::into_file)
    }

    /// Resolves when it must leave. Who makes progress meanwhile stays.
    pub async fn evicted(&self) {
        loop {
            self.state.leave.notified().await;
            let of_many = locked(&self.pool.table).has(self.state.peer) > self.pool.share;
            let for_few = self.state.leaves_for_few.load(Ordering::Relaxed);
            let now_ms = millis(self.pool.start, Instant::now());
            if self.state.rank(now_ms, AddressShares { of_many, for_few }).is_some() {
                return;
            }
        }
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let mut table = locked(&self.pool.table);
        table.states.remove(&self.number);
        let source = SourceNetwork::of(self.state.peer);
        if let Some(states) = table.by_source.get_mut(&source) {
            *states -= 1;
            if *states == 0 {
                table.by_source.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests;
