//! Attended clocks: for how long each way in has been listening.
//!
//! They run with the engine clock or stand still, and never jump. They never make up for time in
//! which nobody listened. Such time is the restart grace, a way that is down, or a gap between two
//! calls longer than [`crate::GAP_MAX`].

use base::time::millis;
use base::{Attended, Timestamp, WayIn};
use records::AttendedReadings;

use crate::{GAP_MAX, SilenceSettings};

/// Which clock: a way's own, or for `None` the one that stands still while any configured way is
/// unattended.
pub(crate) type ClockOf = Option<WayIn>;

/// How many clocks there are.
pub(crate) const CLOCKS: usize = 4;

/// Every clock, in the order of [`clock_index`].
pub(crate) const ALL_CLOCKS: [ClockOf; CLOCKS] =
    [Some(WayIn::Mqtt), Some(WayIn::Http), Some(WayIn::Amqp), None];

/// A dense index of a clock.
pub(crate) fn clock_index(of: ClockOf) -> usize {
    of.map_or(CLOCKS - 1, WayIn::index)
}

/// The attended clocks of a partition.
#[derive(Debug)]
pub(crate) struct AttendedClocks {
    /// As they were at `at`.
    readings: AttendedReadings,
    at: Timestamp,
    /// The end of the restart grace.
    still_until: Timestamp,
    attended: [bool; 3],
    configured: [bool; 3],
}

impl AttendedClocks {
    pub(crate) fn start(settings: &SilenceSettings, readings: AttendedReadings, now: Timestamp) -> Self {
        Self {
            readings,
            at: now,
            still_until: now.after(settings.restart_grace),
            attended: [false; 3],
            configured: settings.configured,
        }
    }

    /// From the time of the latest [`AttendedClocks::advance`] on.
    pub(crate) fn attend(&mut self, way: WayIn, attended: bool) {
        self.attended[way.index()] = attended;
    }

    pub(crate) fn advance(&mut self, now: Timestamp) {
        if now > self.at {
            self.readings = self.readings_at(now);
            self.at = now;
        }
    }

    pub(crate) fn readings_at(&self, now: Timestamp) -> AttendedReadings {
        let counted = now.since(self.at.max(self.still_until)).min(GAP_MAX);
        let mut readings = self.readings;
        for way in WayIn::ALL {
            if self.is_attended(Some(way)) {
                let reading = &mut readings.ways[way.index()];
                *reading = reading.after(counted);
            }
        }
        if self.is_attended(None) {
            readings.every = readings.every.after(counted);
        }
        readings
    }

    /// A clock's reading at the latest [`AttendedClocks::advance`].
    pub(crate) fn reading(&self, of: ClockOf) -> Attended {
        self.readings.of(of)
    }

    /// Whether a clock runs at the latest [`AttendedClocks::advance`].
    pub(crate) fn runs(&self, of: ClockOf) -> bool {
        self.at >= self.still_until && self.is_attended(of)
    }

    /// When a clock will have moved on by `attended_ms`, if it goes on as it does; `None` while
    /// nobody listens.
    pub(crate) fn moment_after(&self, of: ClockOf, attended_ms: i64) -> Option<Timestamp> {
        let from = self.at.max(self.still_until);
        self.is_attended(of).then(|| Timestamp(from.0.saturating_add(attended_ms.max(0))))
    }

    /// When the next call is to come so that it is not taken for the end of a standstill. It is a
    /// multiple of [`crate::PULSE`], so that all partitions wake together.
    pub(crate) fn next_pulse(&self) -> Timestamp {
        let pulse_ms = crate::PULSE.as_millis() as i64;
        let from = self.at.max(self.still_until).0;
        Timestamp((from.div_euclid(pulse_ms) + 1).saturating_mul(pulse_ms))
    }

    /// A device whose way is no longer configured is expected by one that is: its clock runs as the
    /// one of all ways does.
    fn is_attended(&self, of: ClockOf) -> bool {
        match of {
            Some(way) if self.configured[way.index()] => self.attended[way.index()],
            _ => {
                let ways = || self.configured.iter().zip(self.attended);
                ways().any(|(configured, _)| *configured)
                    && ways().all(|(configured, attended)| attended || !configured)
            }
        }
    }
}

/// The tick, of [`crate::TICK`] each, that a reading has reached.
pub(crate) fn tick_reached(reading: Attended) -> u64 {
    u64::try_from(reading.0 / tick_ms()).unwrap_or(0)
}

/// The first tick at which a reading is reached.
pub(crate) fn tick_after(reading: Attended) -> u64 {
    let whole = tick_reached(reading);
    if reading.0 > 0 && reading.0 % tick_ms() != 0 { whole + 1 } else { whole }
}

/// The reading at which a tick is reached.
pub(crate) fn reading_of_tick(tick: u64) -> Attended {
    Attended(i64::try_from(tick).unwrap_or(i64::MAX).saturating_mul(tick_ms()))
}

fn tick_ms() -> i64 {
    millis(crate::TICK)
}
