//! Watches that a client says something in time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The keep-alive of one connection.
pub(super) struct KeepAlive {
    grace: Duration,
    last_heard: Instant,
    /// Not later than `last_heard + grace`; it is set anew only when it ends, not with every
    /// packet.
    sleep: Pin<Box<Sleep>>,
}

impl KeepAlive {
    /// For a keep-alive in seconds; a client may be silent for half as long again.
    pub(super) fn new(seconds: u16) -> Option<Self> {
        let grace = Duration::from_millis(u64::from(seconds) * 1_500);
        let now = Instant::now();
        (seconds > 0).then(|| Self { grace, last_heard: now, sleep: Box::pin(sleep_until(now + grace)) })
    }

    pub(super) fn heard(&mut self) {
        self.last_heard = Instant::now();
    }

    /// Ready when the client was silent for too long.
    pub(super) fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let due = self.last_heard + self.grace;
            if due <= Instant::now() {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{advance, pause};

    use super::*;

    #[tokio::test]
    async fn silence_is_one_and_a_half_times_the_keep_alive() {
        pause();
        let start = Instant::now();
        let mut keep_alive = KeepAlive::new(10).expect("not 0");
        advance(Duration::from_secs(14)).await;
        keep_alive.heard();
        poll_fn(|cx| keep_alive.poll_silence(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 29);
        assert!(KeepAlive::new(0).is_none());
    }
}
