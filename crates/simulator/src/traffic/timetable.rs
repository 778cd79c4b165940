//! When the reports of a fleet are due, whatever the server does.
//!
//! Time is divided into turns at an even rate, and turn `n` belongs to device `n` modulo the number
//! of devices. A turn's time depends on nothing but the common start. A server that answers late
//! does not slow the reports down. A report that waits is measured from when it was due. All lanes
//! of a run share one timetable; it starts when the last of them is connected, so that connecting
//! is not measured as lateness.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::wire_time::WallClock;

/// When there is nothing more to say: at whichever comes first. By default never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimetableEnd {
    /// After so many reports, shared out evenly among the lanes.
    pub reports: Option<u64>,
    /// After so long; what was due by then and has not gone out shortly after never will.
    pub after: Option<Duration>,
}

/// See the module.
#[derive(Debug)]
pub struct Timetable {
    turns_per_second: f64,
    end: TimetableEnd,
    lanes: u32,
    unconnected: AtomicU32,
    start: OnceLock<Start>,
    finishing: AtomicBool,
    behind_us: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Start {
    at: Instant,
    wall: WallClock,
}

/// A lane that waits for the others looks again after so long, and after longer the more lanes
/// there are.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOOK_EVERY_PER_LANE: Duration = Duration::from_micros(20);

/// A lane that keeps up sends the last report that was due before the end at most this much later.
/// Timers are not exact, and on a busy machine less so.
const LAST_WORDS: Duration = Duration::from_millis(100);

impl Timetable {
    /// A timetable for `lanes` lanes with so many turns a second, at least one in about three
    /// years.
    #[must_use]
    pub fn new(turns_per_second: f64, end: TimetableEnd, lanes: u32) -> Self {
        Self {
            turns_per_second: turns_per_second.max(1e-8),
            end,
            lanes,
            unconnected: AtomicU32::new(lanes),
            start: OnceLock::new(),
            finishing: AtomicBool::new(false),
            behind_us: AtomicU64::new(0),
        }
    }

    /// Starts it, unless it has started.
    pub fn start(&self) {
        self.start.get_or_init(|| Start { at: Instant::now(), wall: WallClock::start() });
    }

    /// When it started.
    #[must_use]
    pub fn started(&self) -> Option<Instant> {
        self.start.get().map(|start| start.at)
    }

    /// Lets the lanes end: nothing new is said, what was said is still brought to its answer.
    pub fn finish(&self) {
        self.finishing.store(true, Ordering::Relaxed);
    }

    /// How far a report went out behind its time, at most, since this was last asked.
    pub fn take_behind(&self) -> Duration {
        Duration::from_micros(self.behind_us.swap(0, Ordering::Relaxed))
    }

    /// One more lane is connected; the last one starts the timetable.
    pub(super) fn connected(&self) {
        if self.unconnected.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.start();
        }
    }

    /// When a lane that waits for the start is to look again.
    pub(super) fn look_again(&self, now: Instant) -> Instant {
        now + LOOK_EVERY.max(LOOK_EVERY_PER_LANE * self.lanes)
    }

    /// Reports that lane `lane` is to make before it ends.
    pub(super) fn share(&self, lane: u32) -> u64 {
        let Some(total) = self.end.reports else { return u64::MAX };
        let edge = |lane: u32| u128::from(total) * u128::from(lane) / u128::from(self.lanes.max(1));
        (edge(lane + 1) - edge(lane)) as u64
    }

    /// Whether nothing new is to be said, now being `now`.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_late = match (self.end.after, self.started()) {
            (Some(time), Some(start)) => now.saturating_duration_since(start) >= time + LAST_WORDS,
            (None, _) | (_, None) => false,
        };
        is_late || self.finishing.load(Ordering::Relaxed)
    }

    /// When turn `turn` is due, here and on the wall; `None` when that lies beyond the end.
    pub(super) fn due(&self, turn: u64) -> Option<(Instant, i64)> {
        let start = self.start.get()?;
        let offset = Duration::try_from_secs_f64(turn as f64 / self.turns_per_second).ok()?;
        if self.end.after.is_some_and(|time| offset >= time) {
            return None;
        }
        let due = start.at.checked_add(offset)?;
        Some((due, start.wall.at_ms(due)))
    }

    /// A report goes out at `now` that was due at `due`.
    pub(super) fn note(&self, due: Instant, now: Instant) {
        let behind_us = now.saturating_duration_since(due).as_micros() as u64;
        self.behind_us.fetch_max(behind_us, Ordering::Relaxed);
    }

    /// The time in which `round_turns` turns pass.
    pub(super) fn round_time(&self, round_turns: u32) -> Duration {
        Duration::try_from_secs_f64(f64::from(round_turns) / self.turns_per_second).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: TimetableEnd = TimetableEnd { reports: None, after: Some(Duration::from_secs(1)) };

    #[test]
    fn turns_are_evenly_spaced_from_the_common_start() {
        let table = Timetable::new(200.0, SECOND, 2);
        assert_eq!(table.due(0), None, "nobody is connected");
        table.connected();
        assert_eq!(table.started(), None);
        table.connected();
        let start = table.started().expect("all are connected");
        let due = |turn| table.due(turn).map(|(due, _)| due);
        assert_eq!((due(0), due(3)), (Some(start), Some(start + Duration::from_millis(15))));
        assert_eq!((due(199).is_some(), due(200)), (true, None));
    }

    #[test]
    fn lanes_share_all_reports() {
        let table = Timetable::new(1.0, TimetableEnd { reports: Some(10), after: None }, 3);
        assert_eq!((0..3).map(|lane| table.share(lane)).sum::<u64>(), 10);
        assert!(!table.is_over(Instant::now()));
        table.finish();
        assert!(table.is_over(Instant::now()));
    }

    #[test]
    fn the_greatest_lateness_is_told_once() {
        let table = Timetable::new(1.0, TimetableEnd::default(), 1);
        let due = Instant::now();
        table.note(due, due + Duration::from_millis(7));
        table.note(due, due + Duration::from_millis(3));
        assert_eq!((table.take_behind(), table.take_behind()), (Duration::from_millis(7), Duration::ZERO));
    }
}
