//! How far a copy has come, which of its messages goes next, and when.
//!
//! A position says that every message up to it is durable at the other end. It moves with an answer
//! from there and with nothing else. It is true of the stream that gave the answer. Where the
//! stream at the other end is another one, the copy begins anew, and what is there already is a
//! duplicate.
//!
//! ```text
//!   kept ------------|############|......................|######|.....
//!                    start        position               from   position
//!                                 (backlog goes on here) (live lane)
//! ```
//!
//! With a live lane new messages go beside the backlog. Once the backlog has come to where the lane
//! began, both are one again.

use std::time::Duration;

use base::{Timestamp, hash};
use records::{CopyDirection, LiveLane, StreamBlock, StreamCopy};

/// A copy that is further behind has a live lane, if it is to have one.
pub const LIVE_WHEN_BEHIND: Duration = Duration::from_secs(10);
/// How long a copy shows that the stream at the other end was made anew.
pub const RESET_SHOWN: Duration = Duration::from_secs(5);
/// First and longest pause between tries. With the time that a connection or an answer takes, a
/// copy goes on within 5 s of the peer's return.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Tries until the longest pause, and some.
const DOUBLINGS_MAX: u32 = 6;
/// The time for which a pace lets messages go ahead.
const PACE_AHEAD: Duration = Duration::from_millis(250);

/// Which messages of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyLane {
    /// The oldest that are not copied.
    Backlog,
    /// Those that came since the live lane was begun.
    Live,
}

/// Messages that are durable at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedSpan {
    /// Of which lane they are.
    pub lane: CopyLane,
    /// They are behind this id,
    pub from: u64,
    /// up to this one; what is between and was not sent is of other segments, or gone.
    pub to: u64,
    /// Messages that were new there.
    pub copied: u64,
    /// Messages that were there already.
    pub duplicates: u64,
    /// Reports that were refused for good.
    pub refused: u64,
    /// Who answered; nobody where nothing was sent, and it is not known who is there.
    pub peer: PeerIdentity,
}

/// Who is at the other end, by their own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerIdentity {
    /// The node.
    pub node: Box<str>,
    /// The stream: another one after it was made anew or restored.
    pub stream: Box<str>,
}

impl PeerIdentity {
    /// Whether anybody said who it is.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.stream.is_empty()
    }
}

impl CopiedSpan {
    /// One in which nothing was sent.
    #[must_use]
    pub fn of_nothing(lane: CopyLane, (from, to): (u64, u64), peer: PeerIdentity) -> Self {
        Self { lane, from, to, copied: 0, duplicates: 0, refused: 0, peer }
    }
}

/// What a step did to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyProgress {
    /// It moved on.
    Moved,
    /// The stream at the other end is another one than before: the copy begins anew.
    Reset,
    /// The copy is elsewhere by now: nothing was changed.
    Elsewhere,
}

/// Moves a copy on.
pub fn advance(copy: &mut StreamCopy, step: &CopiedSpan, now: Timestamp) -> CopyProgress {
    let is_other = copy.peer.as_deref().is_some_and(|peer| *peer != *step.peer.stream);
    if is_other && step.peer.is_known() {
        reset(copy, now);
        know(copy, &step.peer);
        return CopyProgress::Reset;
    }
    let at = match step.lane {
        CopyLane::Backlog => Some(copy.position),
        CopyLane::Live => copy.live.map(|live| live.position),
    };
    if at != Some(step.from) || step.to < step.from {
        return CopyProgress::Elsewhere;
    }
    match step.lane {
        CopyLane::Backlog => copy.position = step.to,
        CopyLane::Live => copy.live = copy.live.map(|live| LiveLane { position: step.to, ..live }),
    }
    copy.copied += step.copied;
    copy.duplicates += step.duplicates;
    if let Some(reports) = &mut copy.reports {
        reports.refused += step.refused;
    }
    if step.peer.is_known() {
        know(copy, &step.peer);
    }
    merge(copy);
    CopyProgress::Moved
}

/// The stream at the other end is not the one that is called `known` any more, and nobody has said
/// which one there is now. A copy `to` begins anew, and takes whoever answers next.
pub fn forget_peer(copy: &mut StreamCopy, known: &str, now: Timestamp) -> CopyProgress {
    if copy.direction != CopyDirection::To || copy.peer.as_deref() != Some(known) {
        return CopyProgress::Elsewhere;
    }
    reset(copy, now);
    (copy.peer, copy.peer_node) = (None, None);
    CopyProgress::Reset
}

fn know(copy: &mut StreamCopy, peer: &PeerIdentity) {
    remember(&mut copy.peer, &peer.stream);
    remember(&mut copy.peer_node, &peer.node);
}

fn remember(known: &mut Option<Box<str>>, now: &str) {
    if known.as_deref() != Some(now) {
        *known = Some(now.into());
    }
}

/// The backlog has come to where the live lane began.
fn merge(copy: &mut StreamCopy) {
    if let Some(live) = copy.live.filter(|live| copy.position >= live.from) {
        copy.position = copy.position.max(live.position);
        copy.live = None;
    }
}

fn reset(copy: &mut StreamCopy, now: Timestamp) {
    copy.position = match copy.direction {
        CopyDirection::To => copy.start,
        CopyDirection::From => 0,
    };
    (copy.live, copy.begins, copy.reset_at) = (None, None, Some(now));
}

/// Begins the live lane behind the newest message of the source, if there is none yet. If the
/// source is the other end, its ids mean something only in that stream: another one is refused.
pub fn begin_live(copy: &mut StreamCopy, newest: u64, source: &PeerIdentity) -> CopyProgress {
    if copy.direction == CopyDirection::From {
        if copy.peer.as_deref().is_some_and(|peer| *peer != *source.stream) {
            return CopyProgress::Elsewhere;
        }
        know(copy, source);
    }
    if copy.live.is_none() && newest > copy.position {
        copy.live = Some(LiveLane { from: newest, position: newest });
    }
    CopyProgress::Moved
}

/// Whether a message is durable at the other end: of the segments that are copied.
#[must_use]
pub fn is_taken(copy: &StreamCopy, id: u64) -> bool {
    let is_live = copy.live.is_some_and(|live| id > live.from && id <= live.position);
    id > copy.start && (id <= copy.position || is_live)
}

/// Messages of a block that a copy has not taken, where the block goes: at most so many.
#[must_use]
pub fn dropped(copy: &StreamCopy, block: &StreamBlock) -> u64 {
    let is_of_others = !copy.segments.is_empty()
        && !block.any_segment
        && !block.segments.iter().any(|segment| copy.segments.contains(segment));
    if copy.direction != CopyDirection::To || is_of_others {
        return 0;
    }
    let untaken = |from: u64, to: u64| {
        let from = from.max(copy.position.saturating_add(1));
        let live =
            copy.live.map_or(0, |live| (live.position.min(to) + 1).saturating_sub((live.from + 1).max(from)));
        (to + 1).saturating_sub(from).saturating_sub(live)
    };
    untaken(block.first, block.last).min(block.messages.into())
}

/// Bytes of both lanes over which their shares are kept.
const SHARED_BYTES: u64 = 8 << 20;

/// Bytes that went by either lane lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneBytes {
    /// The backlog.
    pub backlog: u64,
    /// New messages.
    pub live: u64,
}

impl LaneBytes {
    /// Counts bytes.
    pub fn add(&mut self, lane: CopyLane, bytes: u64) {
        match lane {
            CopyLane::Backlog => self.backlog = self.backlog.saturating_add(bytes),
            CopyLane::Live => self.live = self.live.saturating_add(bytes),
        }
        // What went long ago is no credit for ever.
        if self.backlog.saturating_add(self.live) > SHARED_BYTES {
            (self.backlog, self.live) = (self.backlog / 2, self.live / 2);
        }
    }

    /// Which lane is next where both have messages: the live one while it has not had its share.
    #[must_use]
    pub fn next(&self, live_permille: u32) -> CopyLane {
        let share = u128::from(live_permille.min(1_000));
        let is_below = u128::from(self.live) * (1_000 - share) <= u128::from(self.backlog) * share;
        if is_below && share > 0 { CopyLane::Live } else { CopyLane::Backlog }
    }
}

/// When messages may go, so that no more go than a rate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPace {
    bytes_per_second: Option<u64>,
    /// All that went is paid for at this time.
    paid_at: Timestamp,
}

impl CopyPace {
    /// So many bytes in a second; `None` without a bound.
    #[must_use]
    pub fn new(bytes_per_second: Option<u64>, now: Timestamp) -> Self {
        Self { bytes_per_second: bytes_per_second.map(|rate| rate.max(1)), paid_at: now }
    }

    /// Bytes went.
    pub fn spend(&mut self, bytes: u64, now: Timestamp) {
        let Some(rate) = self.bytes_per_second else { return };
        let took_ms = u64::try_from(u128::from(bytes) * 1_000 / u128::from(rate)).unwrap_or(u64::MAX);
        self.paid_at = self.paid_at.max(now).after(Duration::from_millis(took_ms));
    }

    /// When the next ones may go.
    #[must_use]
    pub fn next_at(&self) -> Timestamp {
        let ahead_ms = i64::try_from(PACE_AHEAD.as_millis()).unwrap_or(0);
        match self.bytes_per_second {
            Some(_) => Timestamp(self.paid_at.0.saturating_sub(ahead_ms)),
            None => Timestamp(i64::MIN),
        }
    }

    /// Most bytes that are sent together: a quarter of a second's.
    #[must_use]
    pub fn bytes_together(&self, most: usize) -> usize {
        let Some(rate) = self.bytes_per_second else { return most };
        usize::try_from(rate / 4).unwrap_or(usize::MAX).clamp(1, most)
    }
}

/// The pause before the next try after so many failures, one after the other: it grows, up to 1 s.
/// `seed` spreads the tries of many copies.
#[must_use]
pub fn pause(failures: u32, seed: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX);
    let whole = PAUSE.0.saturating_mul(1 << doublings).min(PAUSE.1);
    let spread = hash::derived(seed, &failures.to_le_bytes()) % 256;
    whole / 2 + whole / 2 * (spread as u32) / 256
}

#[cfg(test)]
mod tests;
