//! How intake is slowed when changes come faster than checkpoints write them. The committer pauses
//! after every commit, the longer the nearer the load is to its limit.
//!
//! The load is the length of the log, or the memory of the overlays, in multiples of what begins
//! checkpoints, whichever is more. A pause is a multiple of what the commit took. So the committer
//! works a share of its time that falls from all, where pacing begins, to none at the limit. That
//! holds on any machine. Somewhere in between no more comes in than checkpoints take out. What
//! waits meanwhile shares the next sync, and whoever sent it sends no more. Nothing here waits;
//! that is the driver's.

use std::time::Duration;

use super::LOG_BYTES_FACTOR_MAX;

/// Pacing begins at this load: checkpoints are due at 1, and had time to begin.
const PACED_FROM: f64 = 1.5;
/// At this load the committer makes the longest pauses. For the log it is the hard limit.
const LOAD_MAX: f64 = LOG_BYTES_FACTOR_MAX as f64;
/// The longest pause.
pub(super) const PAUSE_MAX: Duration = Duration::from_millis(500);

const _: () = assert!(PACED_FROM < LOAD_MAX);

/// How long the committer pauses after a commit that took `worked`.
pub(super) fn pause(worked: Duration, load: f64) -> Duration {
    if load <= PACED_FROM {
        return Duration::ZERO;
    }
    if load >= LOAD_MAX {
        return PAUSE_MAX;
    }
    let pause = worked.as_secs_f64() * ((load - PACED_FROM) / (LOAD_MAX - load));
    Duration::try_from_secs_f64(pause).map_or(PAUSE_MAX, |pause| pause.min(PAUSE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nothing_is_paced_before_the_load_is_half_as_much_again_as_it_should_be() {
        for load in [0.0, 0.1, 1.0, 1.5] {
            assert_eq!(pause(Duration::MAX, load), Duration::ZERO, "{load}");
        }
    }

    #[test]
    fn the_share_of_work_falls_evenly_from_all_to_none() {
        for percent in 1..100 {
            let pause = pause(MS, 1.5 + 1.5 * f64::from(percent) / 100.0);
            let works = MS.as_secs_f64() / (MS + pause).as_secs_f64();
            let expected = 1.0 - f64::from(percent) / 100.0;
            assert!((works - expected).abs() < 0.001, "{percent} %: {works} of the time, not {expected}");
        }
        assert_eq!(pause(MS, 2.0), MS / 2, "a third of the way");
        assert_eq!(pause(MS, 2.5), 2 * MS, "two thirds");
    }

    #[test]
    fn a_pause_is_bounded_also_at_the_limit_and_beyond() {
        for load in [2.999, 3.0, 4.0, f64::INFINITY] {
            assert_eq!(pause(Duration::from_secs(1), load), PAUSE_MAX, "{load}");
        }
        assert_eq!(pause(Duration::MAX, 2.0), PAUSE_MAX);
        assert_eq!(pause(Duration::ZERO, 2.0), Duration::ZERO);
    }
}
