//! What simulated devices say, and when.
//!
//! A [`LaneTraffic`] is asked for the next report of one lane, and answers at once. A lane is one
//! connection, which speaks for a part of the devices. A [`LaneTraffic`] knows no socket.
//!
//! - [`Flood`] reports as fast as it is asked, for load.
//! - [`DoorLocks`] are paced, can fall silent and return, and choose their values at random by
//!   seed.
//! - A [`PacedTraffic`] keeps a [`Timetable`] whatever the server does. Each of its devices repeats
//!   itself exactly with the same seed.
//!
//! Every report carries a `ts` that grows per device. The `ts` of floods and locks grows strictly,
//! so that each report can be found again in the history.

mod paced_traffic;
mod timetable;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::random::SeededRandom;
use crate::wire_time::WallClock;

pub use paced_traffic::{PacedTraffic, TrafficProfile};
pub use timetable::{Timetable, TimetableEnd};

/// The kind of devices that are not said to be of another.
const USUAL_KIND: &str = "lock";

/// The devices of a run, all of one kind: `PREFIX` and a number of fixed width, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceIds {
    prefix: Arc<str>,
    kind: Arc<str>,
    digits: usize,
    count: u32,
}

impl DeviceIds {
    /// `count` locks, whose ids begin with `prefix`.
    #[must_use]
    pub fn new(prefix: &str, count: u32) -> Self {
        let digits = count.saturating_sub(1).max(1).ilog10() as usize + 1;
        Self { prefix: prefix.into(), kind: USUAL_KIND.into(), digits, count }
    }

    /// The same ids for devices of another kind.
    #[must_use]
    pub fn of_kind(self, kind: &str) -> Self {
        Self { kind: kind.into(), ..self }
    }

    /// What kind of devices they are.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Whether they are locks, which say 0 or 1 and nothing else.
    #[must_use]
    pub fn are_locks(&self) -> bool {
        &*self.kind == USUAL_KIND
    }

    /// How many devices there are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The id of device `index`.
    #[must_use]
    pub fn id(&self, index: u32) -> String {
        format!("{}{index:0digits$}", self.prefix, digits = self.digits)
    }

    /// Appends the id of device `index`.
    pub fn write(&self, index: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix.as_bytes());
        let start = out.len();
        out.resize(start + self.digits, b'0');
        let mut rest = index;
        for digit in out[start..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }

    /// Bytes in each id.
    #[must_use]
    pub fn id_bytes(&self) -> usize {
        self.prefix.len() + self.digits
    }

    /// Which device `id` names, if it is one of these.
    #[must_use]
    pub fn index(&self, id: &str) -> Option<u32> {
        let number = id.strip_prefix(&*self.prefix)?;
        if number.len() != self.digits || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        number.parse().ok().filter(|index| *index < self.count)
    }

    /// The devices of lane `lane` of `lanes`: together the lanes cover all devices, each once.
    #[must_use]
    pub fn lane(&self, lane: u32, lanes: u32) -> Range<u32> {
        let edge = |lane: u32| (u64::from(self.count) * u64::from(lane) / u64::from(lanes.max(1))) as u32;
        edge(lane)..edge(lane + 1)
    }
}

/// One thing said by one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulatedReport {
    /// Which of the [`DeviceIds`].
    pub device: u32,
    /// The device's own time, milliseconds since 1970; grows per device.
    pub ts_ms: i64,
    /// What it says: 0 or 1 if it is a lock.
    pub value: u8,
    /// Counts the device's reports of this run, from 0.
    pub number: u32,
    /// When it was to go out, where a timetable says so.
    pub due: Option<Instant>,
    /// What is wrong with it on purpose.
    pub flaw: Option<Flaw>,
    /// Whether the device breaks the connection as soon as it has said this.
    pub then_cut: bool,
}

impl SimulatedReport {
    /// A report with nothing special about it.
    #[must_use]
    pub const fn plain(device: u32, ts_ms: i64, value: u8) -> Self {
        Self { device, ts_ms, value, number: 0, due: None, flaw: None, then_cut: false }
    }
}

/// What is wrong with a report that a server must not accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It breaks off before its end.
    CutShort,
    /// A lock says something that no lock can say.
    NoSuchValue,
    /// Its time lies an hour ahead; a report that carries no time is cut short instead.
    FromTheFuture,
}

/// What a lane is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneAction {
    /// Send this.
    Report(SimulatedReport),
    /// Nothing before this time; ask again then.
    NotBefore(Instant),
    /// Nothing ever again.
    Finished,
}

/// The reports of one lane, asked for one at a time and at the speed of the lane.
pub trait LaneTraffic: Send + 'static {
    /// What comes next, now being `now`.
    fn next(&mut self, now: Instant) -> LaneAction;
}

/// Growing times for the devices of a lane: the wall clock, or one millisecond more than the last.
#[derive(Debug)]
struct DeviceClocks {
    wall: WallClock,
    last_ms: Vec<i64>,
}

impl DeviceClocks {
    fn new(devices: usize) -> Self {
        Self { wall: WallClock::start(), last_ms: vec![0; devices] }
    }

    fn tick(&mut self, device: usize, now: Instant) -> i64 {
        let last = &mut self.last_ms[device];
        *last = self.wall.at_ms(now).max(*last + 1);
        *last
    }
}

/// Load: the lane's devices in turn, as fast as the lane asks.
#[derive(Debug)]
pub struct Flood {
    devices: Range<u32>,
    clocks: DeviceClocks,
    change_every: u64,
    sent: u64,
    total: u64,
}

impl Flood {
    /// `total` reports of `devices`, in which a device's value changes with every `change_every`th
    /// of its own reports (1: with each; 0: never).
    #[must_use]
    pub fn new(devices: Range<u32>, total: u64, change_every: u64) -> Self {
        let clocks = DeviceClocks::new(devices.len());
        Self { devices, clocks, change_every, sent: 0, total }
    }
}

impl LaneTraffic for Flood {
    fn next(&mut self, now: Instant) -> LaneAction {
        if self.sent == self.total || self.devices.is_empty() {
            return LaneAction::Finished;
        }
        let lane_devices = self.devices.len() as u64;
        let (round, offset) = (self.sent / lane_devices, (self.sent % lane_devices) as u32);
        let value = round.checked_div(self.change_every).unwrap_or(0) % 2;
        self.sent += 1;
        let ts_ms = self.clocks.tick(offset as usize, now);
        LaneAction::Report(SimulatedReport::plain(self.devices.start + offset, ts_ms, value as u8))
    }
}

/// What can be changed about [`DoorLocks`] while they report. Shared by all lanes of a fleet.
#[derive(Debug)]
pub struct Dial {
    silent: Box<[AtomicBool]>,
    finishing: AtomicBool,
}

impl Dial {
    /// A dial for `devices`: none is silent.
    #[must_use]
    pub fn new(devices: &DeviceIds) -> Arc<Self> {
        let silent = (0..devices.count()).map(|_| AtomicBool::new(false)).collect();
        Arc::new(Self { silent, finishing: AtomicBool::new(false) })
    }

    /// Makes `devices` fall silent, or speak again.
    pub fn silence(&self, devices: Range<u32>, silent: bool) {
        for device in devices {
            self.silent[device as usize].store(silent, Ordering::Relaxed);
        }
    }

    /// Lets the lanes end: nothing new is said, what was said is still brought to its
    /// acknowledgement.
    pub fn finish(&self) {
        self.finishing.store(true, Ordering::Relaxed);
    }

    fn is_silent(&self, device: u32) -> bool {
        self.silent[device as usize].load(Ordering::Relaxed)
    }

    fn is_finishing(&self) -> bool {
        self.finishing.load(Ordering::Relaxed)
    }
}

/// Paced locks: one after the other reports at an even rate; the seed decides who turns its key.
#[derive(Debug)]
pub struct DoorLocks {
    devices: Range<u32>,
    dial: Arc<Dial>,
    random: SeededRandom,
    values: Vec<u8>,
    /// How often each has reported.
    reports: Vec<u32>,
    clocks: DeviceClocks,
    turn: usize,
    gap: Duration,
    change_per_mille: u32,
    due: Option<Instant>,
}

/// How [`DoorLocks`] behave.
#[derive(Debug, Clone, Copy)]
pub struct DoorLockProfile {
    /// Reports a second of the lane's locks together.
    pub reports_per_second: f64,
    /// In how many of 1,000 reports the value differs from the one before.
    pub change_per_mille: u32,
    /// What is random depends on this alone.
    pub seed: u64,
}

/// How long a lane rests when all its locks are silent.
const ALL_SILENT_REST: Duration = Duration::from_millis(20);

/// A lane that was cut off does not make up for more than this.
const CATCH_UP_MAX: Duration = Duration::from_millis(500);

impl DoorLocks {
    /// The locks `devices` at `pace`, under `dial`.
    #[must_use]
    pub fn new(devices: Range<u32>, pace: DoorLockProfile, dial: Arc<Dial>) -> Self {
        let mut random = SeededRandom::part(pace.seed, u64::from(devices.start));
        let values = devices.clone().map(|_| random.below(2) as u8).collect();
        Self {
            clocks: DeviceClocks::new(devices.len()),
            reports: vec![0; devices.len()],
            devices,
            dial,
            random,
            values,
            turn: 0,
            gap: Duration::from_secs_f64(1.0 / pace.reports_per_second.max(0.001)),
            change_per_mille: pace.change_per_mille,
            due: None,
        }
    }

    fn next_speaker(&mut self) -> Option<usize> {
        for _ in 0..self.devices.len() {
            let offset = self.turn;
            self.turn = (self.turn + 1) % self.devices.len();
            if !self.dial.is_silent(self.devices.start + offset as u32) {
                return Some(offset);
            }
        }
        None
    }
}

impl LaneTraffic for DoorLocks {
    fn next(&mut self, now: Instant) -> LaneAction {
        if self.dial.is_finishing() {
            return LaneAction::Finished;
        }
        let due = self.due.unwrap_or(now);
        if due > now {
            return LaneAction::NotBefore(due);
        }
        let Some(offset) = self.next_speaker() else {
            return LaneAction::NotBefore(now + ALL_SILENT_REST);
        };
        let earliest = now.checked_sub(CATCH_UP_MAX).unwrap_or(now);
        self.due = Some(due.max(earliest) + self.gap);
        if self.random.chance(self.change_per_mille) {
            self.values[offset] ^= 1;
        }
        let (ts_ms, number) = (self.clocks.tick(offset, now), self.reports[offset]);
        self.reports[offset] += 1;
        let report = SimulatedReport::plain(self.devices.start + offset as u32, ts_ms, self.values[offset]);
        LaneAction::Report(SimulatedReport { number, ..report })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(traffic: &mut impl LaneTraffic, now: Instant, count: usize) -> Vec<SimulatedReport> {
        let step = |_| match traffic.next(now) {
            LaneAction::Report(report) => Some(report),
            LaneAction::NotBefore(_) | LaneAction::Finished => None,
        };
        (0..count).map_while(step).collect()
    }

    #[test]
    fn ids_have_one_width_and_are_found_again() {
        let ids = DeviceIds::new("lk", 300);
        assert_eq!((ids.id(7), ids.id_bytes()), ("lk007".to_owned(), 5));
        let mut written = Vec::new();
        ids.write(299, &mut written);
        assert_eq!(written, b"lk299");
        let found = ["lk299", "lk300", "lk07", "xx007", "lk+07"].map(|id| ids.index(id));
        assert_eq!(found, [Some(299), None, None, None, None]);
        assert_eq!(DeviceIds::new("d", 1).id(0), "d0");
        assert_eq!(DeviceIds::new("d", 10).id(9), "d9");
        assert_eq!(DeviceIds::new("d", 11).id(9), "d09");
    }

    #[test]
    fn lanes_share_out_every_device_once() {
        let ids = DeviceIds::new("lk", 10);
        let all: Vec<u32> = (0..3).flat_map(|lane| ids.lane(lane, 3)).collect();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_flood_ends_after_its_total_and_changes_as_told() {
        let mut flood = Flood::new(4..6, 8, 2);
        let sent = reports(&mut flood, Instant::now(), 100);
        let values: Vec<_> = sent.iter().map(|report| (report.device, report.value)).collect();
        assert_eq!(values, [(4, 0), (5, 0), (4, 0), (5, 0), (4, 1), (5, 1), (4, 1), (5, 1)]);
        assert!(sent[0].ts_ms < sent[2].ts_ms && sent[2].ts_ms < sent[4].ts_ms);
    }

    #[test]
    fn paced_locks_wait_for_their_turn() {
        let ids = DeviceIds::new("lk", 4);
        let pace = DoorLockProfile { reports_per_second: 100.0, change_per_mille: 500, seed: 1 };
        let mut locks = DoorLocks::new(0..4, pace, Dial::new(&ids));
        let now = Instant::now();
        assert_eq!(reports(&mut locks, now, 10).len(), 1);
        assert_eq!(locks.next(now), LaneAction::NotBefore(now + Duration::from_millis(10)));
        assert_eq!(reports(&mut locks, now + Duration::from_millis(30), 10).len(), 3);
        let again = reports(&mut locks, now + Duration::from_millis(50), 10);
        assert_eq!(
            again.iter().map(|report| (report.device, report.number)).collect::<Vec<_>>(),
            [(0, 1), (1, 1)]
        );
    }

    #[test]
    fn silent_locks_are_passed_over_and_finishing_ends_the_lane() {
        let ids = DeviceIds::new("lk", 3);
        let dial = Dial::new(&ids);
        let pace = DoorLockProfile { reports_per_second: 1e6, change_per_mille: 0, seed: 1 };
        let mut locks = DoorLocks::new(0..3, pace, Arc::clone(&dial));
        dial.silence(1..2, true);
        let mut now = Instant::now();
        let mut speakers = Vec::new();
        for _ in 0..4 {
            speakers.extend(reports(&mut locks, now, 1).iter().map(|report| report.device));
            now += Duration::from_millis(1);
        }
        assert_eq!(speakers, [0, 2, 0, 2]);
        dial.silence(0..3, true);
        assert_eq!(locks.next(now), LaneAction::NotBefore(now + ALL_SILENT_REST));
        dial.finish();
        assert_eq!(locks.next(now), LaneAction::Finished);
    }
}
