//! How intake is slowed when the log grows faster than checkpoints free it: the committer pauses after every commit, the
//! longer the nearer the log is to its hard limit.
//!
//! A pause is a multiple of what the commit took. Of its time the committer so works a share that falls from all, where
//! pacing begins, to none at the limit, whatever the machine: somewhere in between no more comes in than checkpoints
//! take out. What waits meanwhile shares the next sync, and whoever sent it sends no more. Nothing here waits; that is the driver's.

use std::time::Duration;

use super::LOG_BYTES_FACTOR_MAX;

/// Pacing begins when the log is so many halves of the length at which checkpoints begin: they are due then, and had time
/// to begin.
const PACED_FROM_HALVES: u64 = 3;
/// The longest pause. Beyond it the hard limit holds intake back, until a checkpoint has made room.
pub(super) const PAUSE_MAX: Duration = Duration::from_millis(500);

const _: () = assert!(PACED_FROM_HALVES < 2 * LOG_BYTES_FACTOR_MAX);

/// How long the committer pauses after a commit that took `worked`, with so many bytes of log that no checkpoint covers.
pub(super) fn pause(worked: Duration, log_bytes: u64, checkpoint_log_bytes: u64) -> Duration {
    let from = checkpoint_log_bytes.saturating_mul(PACED_FROM_HALVES) / 2;
    let most = checkpoint_log_bytes.saturating_mul(LOG_BYTES_FACTOR_MAX);
    let Some(over) = log_bytes.checked_sub(from).filter(|over| *over > 0) else { return Duration::ZERO };
    let Some(room) = most.checked_sub(log_bytes).filter(|room| *room > 0) else { return PAUSE_MAX };
    let pause = worked.as_secs_f64() * (over as f64 / room as f64);
    Duration::try_from_secs_f64(pause).map_or(PAUSE_MAX, |pause| pause.min(PAUSE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TRIGGER: u64 = 64 << 20;

    fn at(halves: u64) -> Duration {
        pause(MS, TRIGGER * halves / 2, TRIGGER)
    }

    #[test]
    fn nothing_is_paced_before_the_log_is_half_as_long_again_as_it_should_be() {
        for log_bytes in [0, 1, TRIGGER, TRIGGER * 3 / 2] {
            assert_eq!(pause(Duration::MAX, log_bytes, TRIGGER), Duration::ZERO, "{log_bytes}");
        }
    }

    #[test]
    fn the_share_of_work_falls_evenly_from_all_to_none() {
        for percent in 1..100 {
            let log_bytes = TRIGGER * 3 / 2 + TRIGGER * 3 / 2 * percent / 100;
            let pause = pause(MS, log_bytes, TRIGGER);
            let works = MS.as_secs_f64() / (MS + pause).as_secs_f64();
            let expected = 1.0 - percent as f64 / 100.0;
            assert!((works - expected).abs() < 0.001, "{percent} %: {works} of the time, not {expected}");
        }
        assert_eq!(at(4), MS / 2, "a third of the way");
        assert_eq!(at(5), 2 * MS, "two thirds");
    }

    #[test]
    fn a_pause_is_bounded_also_at_the_limit_and_beyond() {
        for log_bytes in [TRIGGER * 3 - 1, TRIGGER * 3, TRIGGER * 4, u64::MAX] {
            assert_eq!(pause(MS, log_bytes, TRIGGER), PAUSE_MAX, "{log_bytes}");
        }
        assert_eq!(pause(Duration::MAX, TRIGGER * 2, TRIGGER), PAUSE_MAX);
        assert_eq!(pause(Duration::ZERO, TRIGGER * 2, TRIGGER), Duration::ZERO);
    }
}
