//! Any number of devices that keep a timetable and repeat themselves exactly.
//!
//! Devices take turns, round after round. In its turn a device may change its value or send a
//! flawed report. After it, the device may break the connection or fall silent for some rounds.
//! What it does depends on the seed, the device and the round alone: not on the number of lanes,
//! nor on how the server answers. So the same seed gives the same reports of each device, in the
//! same order; only their times are those of the run. Twelve bytes a device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::timetable::Timetable;
use super::{DeviceIds, Flaw, LaneAction, LaneTraffic, SimulatedReport};
use crate::random::{Probability, SeededRandom};

/// Values of devices that are no locks are whole numbers below this.
const VALUES: u64 = 100;

/// How devices behave, per report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficProfile {
    /// What is random depends on this alone.
    pub seed: u64,
    /// That the value differs from the one before.
    pub change: Probability,
    /// That the device falls silent after it.
    pub silence: Probability,
    /// How long it is silent then, in whole rounds.
    pub silence_for: Duration,
    /// That something is wrong with it.
    pub flaw: Probability,
    /// That the device breaks the connection as soon as it has said it.
    pub cut: Probability,
}

/// One lane's part of a fleet: every `lanes`th device.
#[derive(Debug)]
pub struct PacedTraffic {
    profile: TrafficProfile,
    timetable: Arc<Timetable>,
    devices: u32,
    are_locks: bool,
    lane: u32,
    lanes: u32,
    members: Vec<TrafficMember>,
    /// Whose turn it is, of the members, and in which round.
    place: usize,
    round: u32,
    silence_rounds: u32,
    left: u64,
    has_asked: bool,
}

#[derive(Debug, Clone, Copy)]
struct TrafficMember {
    value: u8,
    reports: u32,
    /// The round in which it speaks again.
    silent_until: u32,
}

impl PacedTraffic {
    /// The part of lane `lane` of `lanes`.
    #[must_use]
    pub fn new(
        devices: &DeviceIds,
        profile: TrafficProfile,
        timetable: Arc<Timetable>,
        lane: u32,
        lanes: u32,
    ) -> Self {
        let are_locks = devices.are_locks();
        let first_value = |device: u32| {
            let values = if are_locks { 2 } else { VALUES };
            SeededRandom::part(profile.seed, device.into()).below(values) as u8
        };
        let member = |device| TrafficMember { value: first_value(device), reports: 0, silent_until: 0 };
        let round_time = timetable.round_time(devices.count()).as_secs_f64();
        Self {
            members: (lane..devices.count()).step_by(lanes.max(1) as usize).map(member).collect(),
            silence_rounds: (profile.silence_for.as_secs_f64() / round_time).ceil() as u32,
            left: timetable.share(lane),
            profile,
            timetable,
            devices: devices.count(),
            are_locks,
            lane,
            lanes,
            place: 0,
            round: 0,
            has_asked: false,
        }
    }

    fn device(&self) -> u32 {
        self.lane + self.place as u32 * self.lanes
    }

    /// The turn of the device whose turn it is, among those of all lanes.
    fn turn(&self) -> u64 {
        u64::from(self.round) * u64::from(self.devices) + u64::from(self.device())
    }

    fn pass_on(&mut self) {
        self.place += 1;
        if self.place == self.members.len() {
            self.place = 0;
            self.round += 1;
        }
    }

    /// What the device whose turn it is says; nothing while it is silent.
    fn speak(&mut self, due: Instant, ts_ms: i64) -> Option<SimulatedReport> {
        let (device, round) = (self.device(), self.round);
        let Self { profile, are_locks, silence_rounds, .. } = *self;
        let member = &mut self.members[self.place];
        if round < member.silent_until {
            return None;
        }
        let mut random =
            SeededRandom::part(SeededRandom::part(profile.seed, device.into()).next_u64(), round.into());
        // Everything is drawn each time, so that one habit does not shift the dice of another.
        let (changes, step) = (random.happens(profile.change), random.below(VALUES - 1));
        let (is_flawed, flaw) = (random.happens(profile.flaw), random.below(3));
        let (then_cut, falls_silent) = (random.happens(profile.cut), random.happens(profile.silence));
        if changes && member.reports > 0 {
            member.value = changed(member.value, step, are_locks);
        }
        if falls_silent {
            member.silent_until = (round + 1).saturating_add(silence_rounds);
        }
        let (number, value) = (member.reports, member.value);
        member.reports += 1;
        let flaw = is_flawed.then(|| flaw_of(flaw, are_locks));
        Some(SimulatedReport { device, ts_ms, value, number, due: Some(due), flaw, then_cut })
    }
}

impl LaneTraffic for PacedTraffic {
    fn next(&mut self, now: Instant) -> LaneAction {
        if !std::mem::replace(&mut self.has_asked, true) {
            self.timetable.connected();
        }
        loop {
            if self.left == 0 || self.members.is_empty() || self.timetable.is_over(now) {
                return LaneAction::Finished;
            }
            if self.timetable.started().is_none() {
                return LaneAction::NotBefore(self.timetable.look_again(now));
            }
            let Some((due, ts_ms)) = self.timetable.due(self.turn()) else {
                return LaneAction::Finished;
            };
            if due > now {
                return LaneAction::NotBefore(due);
            }
            let report = self.speak(due, ts_ms);
            self.pass_on();
            if let Some(report) = report {
                self.timetable.note(due, now);
                self.left -= 1;
                return LaneAction::Report(report);
            }
        }
    }
}

/// A value that differs from `value`.
fn changed(value: u8, step: u64, is_lock: bool) -> u8 {
    if is_lock { value ^ 1 } else { ((u64::from(value) + 1 + step) % VALUES) as u8 }
}

fn flaw_of(drawn: u64, is_lock: bool) -> Flaw {
    match drawn {
        0 => Flaw::FromTheFuture,
        1 if is_lock => Flaw::NoSuchValue,
        _ => Flaw::CutShort,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::TimetableEnd;
    use super::*;

    const DEVICES: u32 = 23;
    const SECOND: TimetableEnd = TimetableEnd { reports: None, after: Some(Duration::from_secs(1)) };
    const TURNS_PER_SECOND: f64 = 1_000.0;

    fn profile(seed: u64) -> TrafficProfile {
        let often = |share| Probability::new(share).expect("a share");
        TrafficProfile {
            seed,
            change: often(0.3),
            silence: often(0.05),
            silence_for: Duration::from_millis(60),
            flaw: often(0.1),
            cut: often(0.02),
        }
    }

    type ReportsByDevice = BTreeMap<u32, Vec<(u8, u32, Option<Flaw>, bool, Duration)>>;

    /// What each device says within a second on so many lanes, each of which looks at its clock so
    /// often.
    fn said(ids: &DeviceIds, profile: TrafficProfile, lanes: u32, look_every: Duration) -> ReportsByDevice {
        let timetable = Timetable::new(TURNS_PER_SECOND, SECOND, lanes);
        timetable.start();
        let timetable = Arc::new(timetable);
        let start = timetable.started().expect("it has");
        let mut said = ReportsByDevice::new();
        for lane in 0..lanes {
            let mut traffic = PacedTraffic::new(ids, profile, Arc::clone(&timetable), lane, lanes);
            let mut now = start;
            loop {
                match traffic.next(now) {
                    LaneAction::Report(report) => {
                        let at = report.due.expect("a timetable") - start;
                        let what = (report.value, report.number, report.flaw, report.then_cut, at);
                        said.entry(report.device).or_default().push(what);
                    }
                    LaneAction::NotBefore(time) => now = time.max(now + look_every),
                    LaneAction::Finished => break,
                }
            }
        }
        said
    }

    #[test]
    fn the_same_seed_gives_the_same_reports_whatever_the_lanes_and_their_speed() {
        for kind in ["lock", "thermometer"] {
            let ids = DeviceIds::new("d", DEVICES).of_kind(kind);
            let once = said(&ids, profile(7), 1, Duration::ZERO);
            assert_eq!(once.len(), DEVICES as usize);
            assert_eq!(once, said(&ids, profile(7), 4, Duration::ZERO));
            let hurried = said(&ids, profile(7), 3, Duration::from_millis(1));
            assert_eq!(once, hurried);
            assert_ne!(once, said(&ids, profile(8), 1, Duration::ZERO));
        }
    }

    #[test]
    fn a_device_that_falls_silent_misses_its_rounds() {
        let ids = DeviceIds::new("d", 10);
        let profile = TrafficProfile {
            silence: Probability::ALWAYS,
            silence_for: Duration::from_millis(25),
            ..profile(1)
        };
        let said = said(&ids, profile, 2, Duration::ZERO);
        let rounds: Vec<u128> = said[&0].iter().map(|report| report.4.as_millis() / 10).take(4).collect();
        assert_eq!(rounds, [0, 4, 8, 12], "a round is 10 ms, and three of them are 25 ms");
        assert!(said[&0].iter().map(|report| report.1).eq(0..said[&0].len() as u32));
    }

    #[test]
    fn habits_come_about_as_often_as_told() {
        let ids = DeviceIds::new("d", DEVICES);
        let profile = TrafficProfile { silence: Probability::NEVER, ..profile(3) };
        let said = said(&ids, profile, 1, Duration::ZERO);
        let all: Vec<_> = said.values().flatten().collect();
        assert_eq!(all.len(), 1_000);
        let flawed = all.iter().filter(|report| report.2.is_some()).count();
        let changes: usize =
            said.values().map(|of| of.windows(2).filter(|two| two[0].0 != two[1].0).count()).sum();
        assert!((60..140).contains(&flawed) && (230..360).contains(&changes), "{flawed} {changes}");
    }

    #[test]
    fn never_means_never_and_a_value_that_changes_is_another() {
        let ids = DeviceIds::new("d", DEVICES).of_kind("thermometer");
        let never = TrafficProfile { seed: 2, ..TrafficProfile::default() };
        assert!(
            said(&ids, never, 1, Duration::ZERO)
                .values()
                .all(|of| { of.iter().all(|report| report.0 == of[0].0 && report.2.is_none() && !report.3) })
        );
        let always = TrafficProfile { seed: 2, change: Probability::ALWAYS, ..TrafficProfile::default() };
        assert!(
            said(&ids, always, 1, Duration::ZERO)
                .values()
                .all(|of| of.windows(2).all(|two| two[0].0 != two[1].0))
        );
    }

    #[test]
    fn a_lane_that_is_behind_says_at_once_what_is_due_and_ends_in_time() {
        let ids = DeviceIds::new("d", 1);
        let timetable = Arc::new(Timetable::new(100.0, SECOND, 1));
        let mut traffic = PacedTraffic::new(&ids, TrafficProfile::default(), Arc::clone(&timetable), 0, 1);
        timetable.start();
        let start = timetable.started().expect("it has");
        let late = start + Duration::from_millis(500);
        let at_once = std::iter::from_fn(|| match traffic.next(late) {
            LaneAction::Report(report) => Some(report),
            LaneAction::NotBefore(_) | LaneAction::Finished => None,
        });
        assert_eq!(at_once.count(), 51, "turns 0 to 50");
        assert_eq!(timetable.take_behind(), Duration::from_millis(500));
        assert_eq!(traffic.next(start + Duration::from_secs(2)), LaneAction::Finished);
    }

    #[test]
    fn a_million_devices_take_some_megabytes() {
        assert!(size_of::<TrafficMember>() <= 12);
    }
}
