//! The pace of a body: while others wait for what it holds, so much of it has to move in so long.
//!
//! Whoever sends or takes nothing at all is given up in any case. Who moves a little now and then
//! would hold its memory for as long as it likes. While there is enough, it is in nobody's way.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// How much has to move, and in what time.
#[derive(Clone, Copy, Debug)]
pub struct MinimumPace {
    /// How often it is looked at.
    pub every: Duration,
    /// What has to have moved since the last look, in bytes.
    pub bytes_min: usize,
}

/// Of a body that is received: 16 KiB a second.
pub const RECEIVING: MinimumPace =
    MinimumPace { every: Duration::from_secs(5), bytes_min: 5 * BYTES_PER_SECOND_MIN };
/// Of an answer that is taken: 64 KiB in 10 seconds.
pub const TAKING: MinimumPace = MinimumPace { every: Duration::from_secs(10), bytes_min: 64 * 1_024 };
/// Even where nobody waits, a sender gets a second more only for so many bytes.
pub const BYTES_PER_SECOND_MIN: usize = 16 * 1_024;
/// A look that comes later than this does not count: it is we who did not read meanwhile.
const NOT_WATCHED: Duration = Duration::from_secs(1);

/// Looks whether a body keeps its pace, and whether it is over in time.
#[derive(Debug)]
pub struct PaceWatch {
    pace: MinimumPace,
    at_latest: Option<Instant>,
    /// At the next look, or when the time is over.
    sleep: Pin<Box<Sleep>>,
    /// What moved since the last look, in bytes.
    moved: usize,
}

impl PaceWatch {
    /// Begins now, and lasts as long as the body does.
    #[must_use]
    pub fn new(pace: MinimumPace) -> Self {
        let sleep = Box::pin(sleep_until(Instant::now() + pace.every));
        Self { pace, at_latest: None, sleep, moved: 0 }
    }

    /// Begins now; the body has to be over within this time.
    #[must_use]
    pub fn within(pace: MinimumPace, time: Duration) -> Self {
        let now = Instant::now();
        let sleep = Box::pin(sleep_until(now + time.min(pace.every)));
        Self { pace, at_latest: Some(now + time), sleep, moved: 0 }
    }

    /// So much more of the body moved.
    pub fn moved(&mut self, bytes: usize) {
        self.moved += bytes;
    }

    /// What was waited for since the last look was not the sender's fault.
    pub fn excuse(&mut self) {
        self.moved = self.pace.bytes_min;
    }

    /// Ready when the body takes too long: altogether, or for those who wait.
    pub fn poll_too_slow(&mut self, cx: &mut Context<'_>, others_wait: impl Fn() -> bool) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let now = Instant::now();
            let late = now.duration_since(self.sleep.deadline());
            if late > NOT_WATCHED {
                self.at_latest = self.at_latest.map(|at| at + late);
            } else if self.at_latest.is_some_and(|at| now >= at)
                || (self.moved < self.pace.bytes_min && others_wait())
            {
                return Poll::Ready(());
            }
            self.moved = 0;
            let look = now + self.pace.every;
            self.sleep.as_mut().reset(self.at_latest.map_or(look, |at| at.min(look)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt;
    use tokio::time::{advance, pause};

    use super::*;

    /// Whether it is too slow after each of so many looks, before which so many bytes moved.
    async fn looks(bytes: usize, waits: bool, looks: usize) -> bool {
        let mut watch = PaceWatch::new(RECEIVING);
        for _ in 0..looks {
            watch.moved(bytes);
            advance(RECEIVING.every + Duration::from_millis(1)).await;
            if poll_fn(|cx| watch.poll_too_slow(cx, || waits)).now_or_never().is_some() {
                return true;
            }
        }
        false
    }

    #[tokio::test]
    async fn who_moves_little_is_too_slow_only_while_others_wait() {
        pause();
        let enough = RECEIVING.bytes_min;
        for (bytes, waits, expect) in
            [(0, false, false), (enough - 1, true, true), (enough, true, false), (0, true, true)]
        {
            assert_eq!(looks(bytes, waits, 5).await, expect, "{bytes} bytes, others wait: {waits}");
        }
    }

    #[tokio::test]
    async fn time_in_which_nobody_looks_does_not_count() {
        pause();
        let mut watch = PaceWatch::within(RECEIVING, Duration::from_secs(30));
        let mut is_slow = || poll_fn(|cx| watch.poll_too_slow(cx, || true)).now_or_never().is_some();
        assert!(!is_slow());
        advance(Duration::from_secs(3_600)).await;
        assert!(!is_slow());
        advance(RECEIVING.every + Duration::from_millis(1)).await;
        assert!(is_slow());
    }
}
