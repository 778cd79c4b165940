//! Waiting for a time of the engine clock.
//!
//! The runtime's timers count `CLOCK_MONOTONIC`, which stands still while the machine sleeps; the
//! engine clock may run up to a tenth faster. So a sleep is shorter than the remaining time, at
//! most [`LOOK_AGAIN_AFTER`], and ends when [`Alarm::clocks_stepped`] is called.
//!
//! Partitions also have work that is due by the wall clock. The engine clock follows a step of it
//! slowly. So a partition that is told of a step does not go on waiting: it looks for itself.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Timestamp};
use tokio::sync::watch;
use tokio::time::sleep;

/// Longest sleep before the clock is looked at again, where nobody tells of steps.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Up to so long before its time a sleep takes all of what is left: late by a tenth of this at
/// most.
const LAST_SLEEP: Duration = Duration::from_millis(100);
/// A timer may fire a little early; a millisecond later nothing is.
const SLEEP_MIN: Duration = Duration::from_millis(1);

/// Wakes whoever waits for a time of the engine clock.
pub(crate) struct Alarm {
    clock: Arc<dyn Clock>,
    stepped: watch::Sender<()>,
}

impl Alarm {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, stepped: watch::Sender::new(()) }
    }

    /// Returns when the engine clock says `at`, a millisecond from now at the earliest.
    pub(crate) async fn until(&self, at: Timestamp) {
        // Before the clock is looked at: a step behind the look is told.
        let mut steps = self.steps();
        loop {
            let left = at.since(self.clock.now());
            tokio::select! {
                () = sleep(sleep_for(left)) => {}
                () = steps.next() => {}
            }
            if self.clock.now() >= at {
                return;
            }
        }
    }

    /// Steps of the clocks from now on, for [`Alarm::until_or_step`].
    pub(crate) fn steps(&self) -> Steps {
        Steps(self.stepped.subscribe())
    }

    /// Returns when the engine clock says `at`, or at the first of `steps` that was not waited for
    /// before.
    pub(crate) async fn until_or_step(&self, at: Timestamp, steps: &mut Steps) {
        tokio::select! {
            biased;
            () = steps.next() => {}
            () = self.until(at) => {}
        }
    }

    /// Has everybody look at the clock: the wall clock was set, or the machine has slept.
    pub(crate) fn clocks_stepped(&self) {
        self.stepped.send_replace(());
    }
}

/// Steps of the clocks. One that comes while nobody waits is told at the next wait.
pub(crate) struct Steps(watch::Receiver<()>);

impl Steps {
    async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The alarm is gone, and no step comes any more.
            std::future::pending::<()>().await;
        }
    }
}

/// How long to sleep when this much is left: ten elevenths of it, since the engine clock gains a
/// tenth at most.
fn sleep_for(left: Duration) -> Duration {
    if left <= LAST_SLEEP { left.max(SLEEP_MIN) } else { (left * 10 / 11).min(LOOK_AGAIN_AFTER) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3_600);

    /// However fast the engine clock runs, nobody sleeps past a time by more than a tenth of the
    /// last sleep.
    #[test]
    fn a_clock_that_is_slewed_makes_nobody_late() {
        for (gains, left) in [(11, DAY), (10, DAY), (9, DAY), (11, Duration::from_secs(30))] {
            let (mut left, mut late, mut sleeps) = (left, Duration::ZERO, 0);
            while !left.is_zero() {
                let slept = sleep_for(left);
                assert!(slept <= LOOK_AGAIN_AFTER && slept >= SLEEP_MIN);
                let passed = slept * gains / 10;
                late = passed.saturating_sub(left);
                left = left.saturating_sub(passed);
                sleeps += 1;
            }
            assert!(late <= LAST_SLEEP / 10, "{gains} tenths as fast: late by {late:?}");
            assert!(sleeps < 24 * 60 * 2, "{gains} tenths as fast: {sleeps} sleeps in a day");
        }
    }

    #[derive(Debug, Default)]
    struct SetClock(AtomicI64);

    impl Clock for SetClock {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::SeqCst))
        }

        fn wall(&self) -> Timestamp {
            self.now()
        }
    }

    #[tokio::test]
    async fn whoever_waits_for_tomorrow_wakes_when_the_machine_has_slept_until_then() {
        let clock = Arc::new(SetClock::default());
        let alarm = Arc::new(Alarm::new(Arc::<SetClock>::clone(&clock)));
        let tomorrow = Timestamp(0).after(DAY);
        let waiting = tokio::spawn({
            let alarm = Arc::clone(&alarm);
            async move { alarm.until(tomorrow).await }
        });
        // a step that does not bring it about, told until somebody waits
        clock.0.store(1, Ordering::SeqCst);
        alarm.clocks_stepped();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        clock.0.store(tomorrow.0, Ordering::SeqCst);
        let told = async {
            while !waiting.is_finished() {
                alarm.clocks_stepped();
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(20), told).await.is_ok(), "it sleeps on");
    }

    /// The wall clock was put forward, which the engine clock follows slowly.
    #[tokio::test]
    async fn whoever_follows_the_wall_clock_looks_at_once_when_it_steps() {
        let alarm = Alarm::new(Arc::new(SetClock::default()));
        let (tomorrow, mut steps) = (Timestamp(0).after(DAY), alarm.steps());
        // told before it waits, and while it waits
        alarm.clocks_stepped();
        alarm.until_or_step(tomorrow, &mut steps).await;
        let waiting = alarm.until_or_step(tomorrow, &mut steps);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            () = &mut waiting => panic!("a step is told once"),
            () = std::future::ready(()) => {}
        }
        alarm.clocks_stepped();
        let told = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        assert!(told.is_ok(), "it sleeps on");
    }
}
