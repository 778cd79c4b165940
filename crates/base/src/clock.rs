//! The two clocks: the engine clock that orders, schedules and stamps, and the wall clock of the
//! outside world.
//!
//! The engine clock never goes back and never jumps. It runs on `CLOCK_BOOTTIME` (time asleep
//! counts) and is slewed by at most a tenth towards the wall clock. So a wall clock set by an hour,
//! either way, makes no false loss and no early retry.

use std::sync::Mutex;
use std::time::Duration;

use crate::time::{Timestamp, millis};

/// A source of time. Production has one, the simulation another.
pub trait Clock: Send + Sync + 'static {
    /// The engine clock.
    fn now(&self) -> Timestamp;
    /// The wall clock: for `webhook-timestamp`, certificates and the check on a report's `ts`.
    fn wall(&self) -> Timestamp;
}

/// The slew is at most one part in this many.
const SLEW_DIVISOR: i64 = 10;

/// The engine clock over the machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    state: Mutex<Slewed>,
}

impl SystemClock {
    /// A clock that starts at the later of the wall clock and `recorded`, the last time that was
    /// stored.
    #[must_use]
    pub fn start(recorded: Timestamp) -> Self {
        let start = Timestamp(wall_ms()).max(recorded);
        Self { state: Mutex::new(Slewed { engine: start.0, boot: boot_ms() }) }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Timestamp(state.advance(boot_ms(), wall_ms()))
    }

    fn wall(&self) -> Timestamp {
        Timestamp(wall_ms())
    }
}

/// The rule of the slew, on numbers.
#[derive(Debug)]
struct Slewed {
    engine: i64,
    boot: i64,
}

impl Slewed {
    fn advance(&mut self, boot: i64, wall: i64) -> i64 {
        let elapsed = (boot - self.boot).max(0);
        let slew_max = elapsed / SLEW_DIVISOR;
        // Below a few milliseconds nothing can be slewed; leave the remainder for the next call.
        if slew_max == 0 {
            return self.engine + elapsed;
        }
        let correction = (wall - (self.engine + elapsed)).clamp(-slew_max, slew_max);
        self.engine += elapsed + correction;
        self.boot = boot;
        self.engine
    }
}

fn wall_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, millis)
}

/// Milliseconds since the machine was started, time asleep included.
#[allow(unsafe_code, reason = "clock_gettime has no safe wrapper in std for CLOCK_BOOTTIME")]
fn boot_ms() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec for the whole call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    assert_eq!(failed, 0, "CLOCK_BOOTTIME exists on every Linux since 2.6.39");
    millis(Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_wall_clock_is_slewed_and_never_goes_back() {
        for step in [-3_600_000, 3_600_000] {
            let mut clock = Slewed { engine: 1_000_000, boot: 0 };
            let mut last = clock.engine;
            for boot in (0..100_000).step_by(37) {
                let now = clock.advance(boot, 1_000_000 + boot + step);
                assert!(now >= last, "went back at {boot}");
                let drift = (now - 1_000_000 - boot).abs();
                assert!(drift <= boot / SLEW_DIVISOR, "slewed by {drift} in {boot}");
                last = now;
            }
        }
    }

    #[test]
    fn a_small_difference_is_slewed_away() {
        let mut clock = Slewed { engine: 0, boot: 0 };
        let last = (1..=200).map(|n| clock.advance(n * 100, n * 100 + 500)).last();
        assert_eq!(last, Some(200 * 100 + 500));
    }

    #[test]
    fn frequent_readings_do_not_stop_the_clock() {
        let mut clock = Slewed { engine: 0, boot: 0 };
        let last = (1..=1_000).map(|boot| clock.advance(boot, boot)).last();
        assert_eq!(last, Some(1_000));
    }

    #[test]
    fn the_clock_starts_no_earlier_than_what_was_recorded() {
        let recorded = Timestamp(wall_ms() + 60_000);
        assert!(SystemClock::start(recorded).now() >= recorded);
    }
}
