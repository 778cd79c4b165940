//! The start of the engine clock: only from a wall clock that can be believed. And who follows the
//! machine's clocks afterwards.
//!
//! A wall clock earlier than the program's build is a machine whose clock is not set yet: the start
//! waits. Where a recorded time is far ahead of the wall clock, the wall clock was wrong then or is
//! wrong now. A person has to say which.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use base::{ClockSteps, SystemClock, Timestamp};
use engine::Engine;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tracing::warn;

use super::readiness::Readiness;

/// How far the recorded time may be ahead of the wall clock.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How often an unbelievable wall clock is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// When the program was built.
pub(super) fn built_at() -> Timestamp {
    Timestamp(env!("FIELDPOST_BUILT_AT").parse::<i64>().unwrap_or(0).saturating_mul(1_000))
}

/// Waits for a wall clock that can be believed, and starts the engine clock at it or at `recorded`,
/// whichever is later.
pub(super) async fn start(recorded: Timestamp, readiness: &Readiness) -> Result<SystemClock, String> {
    let mut told = false;
    loop {
        match judge(wall(), built_at(), recorded) {
            ClockVerdict::Believed => return Ok(SystemClock::start(recorded)),
            ClockVerdict::Refused(why) => return Err(why),
            ClockVerdict::TooEarly(why) => {
                if !told {
                    warn!("{why}");
                    readiness.waits_for(why);
                    told = true;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }
}

/// Tells the engine when the wall clock was set or the machine has slept, until the server stops:
/// timers count neither.
pub(super) async fn follow(engine: Engine, mut stop: watch::Receiver<bool>) {
    let told = async {
        let steps = registered(ClockSteps::watch()?)?;
        loop {
            if let Ok(taken) = steps.readable().await?.try_io(|steps| steps.get_ref().take()) {
                taken?;
                engine.clocks_stepped();
            }
        }
    };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => return,
        Err::<Infallible, io::Error>(error) = told => {
            warn!(%error, "the machine does not tell when its clock is set or it has slept; what is due then may be a minute late");
        }
    }
    // The sender is gone only when the server is.
    let _stopped = stop.wait_for(|stop| *stop).await;
}

#[allow(unsafe_code, reason = "the runtime has no safe way to wait for a descriptor of our own")]
fn registered(steps: ClockSteps) -> io::Result<AsyncFd<ClockSteps>> {
    // SAFETY: it names the same descriptor whenever it is asked, and keeps it open for as long as
    // it lives.
    Ok(unsafe { AsyncFd::register_with_interest(steps, Interest::READABLE) }?)
}

#[derive(Debug, PartialEq, Eq)]
enum ClockVerdict {
    Believed,
    TooEarly(String),
    Refused(String),
}

fn judge(wall: Timestamp, built_at: Timestamp, recorded: Timestamp) -> ClockVerdict {
    if wall < built_at {
        return ClockVerdict::TooEarly(format!(
            "the wall clock says {wall}, before this program was built ({built_at}); the start waits until it is set"
        ));
    }
    if recorded.since(wall) > AHEAD_MAX {
        return ClockVerdict::Refused(format!(
            "the latest time recorded in the data directory is {recorded}, more than 24 h ahead of the wall clock, {wall}; \
             set the wall clock, or restore a backup from before it was wrong"
        ));
    }
    ClockVerdict::Believed
}

/// What the wall clock says.
pub(super) fn wall() -> Timestamp {
    use std::time::{SystemTime, UNIX_EPOCH};
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, base::time::millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn an_unset_clock_waits_and_a_wrong_one_is_refused() {
        let verdict =
            |wall: i64, recorded: i64| judge(Timestamp(wall), Timestamp(100 * HOUR), Timestamp(recorded));
        assert!(matches!(verdict(99 * HOUR, 0), ClockVerdict::TooEarly(_)));
        assert_eq!(verdict(100 * HOUR, 0), ClockVerdict::Believed);
        assert_eq!(verdict(100 * HOUR, 124 * HOUR), ClockVerdict::Believed);
        let ClockVerdict::Refused(why) = verdict(100 * HOUR, 124 * HOUR + 1) else { panic!("not refused") };
        assert!(
            why.contains("1970-01-05T04:00:00.000Z") && why.contains("1970-01-06T04:00:00.001Z"),
            "{why}"
        );
    }
}
