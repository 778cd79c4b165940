//! Wrong tokens and passwords: a few are refused at once, more wait for their answer, and many more
//! are told to come back.
//!
//! A token is looked at before any of this, so nobody with a right one waits or is refused because
//! of somebody who guesses.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Wrong tokens in a second that are refused at once, and so many at once: callers with an old
/// token are told so.
const PER_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("not 0");
pub(crate) const AT_ONCE: NonZeroU32 = NonZeroU32::new(100).expect("not 0");
/// How long the others wait.
const WAIT: Duration = Duration::from_secs(1);
/// Those that wait at the same time.
const WAITING_MAX: usize = 256;

/// Attempts that failed lately.
#[derive(Debug)]
pub struct FailedAuth<C: Clock = DefaultClock> {
    pace: RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<C::Instant>>,
    waiting: Semaphore,
}

/// Too many wrong tokens wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyWrongTokens;

impl<C: Clock> FailedAuth<C> {
    /// None yet.
    #[must_use]
    pub fn new(clock: C) -> Self {
        let quota = Quota::per_second(PER_SECOND).allow_burst(AT_ONCE);
        Self { pace: RateLimiter::direct_with_clock(quota, clock), waiting: Semaphore::new(WAITING_MAX) }
    }

    /// How long one more has to wait for its refusal, where something else bounds how many wait.
    #[must_use]
    pub fn delay(&self) -> Duration {
        if self.pace.check().is_ok() { Duration::ZERO } else { WAIT }
    }

    /// Resolves when one more may be refused.
    ///
    /// # Errors
    /// When too many wait for that.
    pub async fn wait(&self) -> Result<(), TooManyWrongTokens> {
        let delay = self.delay();
        if delay.is_zero() {
            return Ok(());
        }
        let _place = self.waiting.try_acquire().map_err(|_| TooManyWrongTokens)?;
        sleep(delay).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use governor::clock::FakeRelativeClock;
    use tokio::time::{Instant, pause};

    use super::*;

    #[tokio::test]
    async fn a_few_are_quick_more_are_slow_and_many_are_too_many() {
        pause();
        let (failed, start) = (FailedAuth::new(FakeRelativeClock::default()), Instant::now());
        for _ in 0..AT_ONCE.get() {
            assert_eq!(failed.wait().await, Ok(()));
        }
        assert!(start.elapsed().is_zero());
        let many = join_all((0..WAITING_MAX + 20).map(|_| failed.wait())).await;
        assert!(start.elapsed() >= WAIT);
        assert_eq!(many.iter().filter(|one| one.is_err()).count(), 20);
    }
}
