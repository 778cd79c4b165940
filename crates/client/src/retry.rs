//! What is asked again when it fails, and when.
//!
//! A call whose outcome is unknown is repeated only where a second time changes nothing; one that
//! was certainly not carried out is repeated always. The waits double, are spread by chance, and
//! end with the call's deadline.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderValue;
use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::request::Request;
use crate::transport::Transport;

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// The longest wait that is chosen here; the server may ask for more.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Whether a call may be carried out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The second time changes nothing.
    Harmless,
    /// The second time would be another call.
    Harmful,
}

/// A good answer.
#[derive(Debug)]
pub(crate) struct AcceptedAnswer {
    pub(crate) body: Bytes,
    /// An earlier try of it may have been carried out.
    pub(crate) perhaps_twice: bool,
}

/// A call that failed for good.
#[derive(Debug)]
pub(crate) struct FailedCall {
    pub(crate) error: Error,
    /// An earlier try of it may have been carried out.
    pub(crate) perhaps_done: bool,
}

impl From<FailedCall> for Error {
    fn from(failed: FailedCall) -> Self {
        failed.error
    }
}

/// Asks until there is an answer that another try would not change, or until there is no time for
/// another try.
pub(crate) async fn ask(
    transport: &Transport,
    request: &Request,
    repeat: Repeat,
    until: Instant,
) -> Result<AcceptedAnswer, FailedCall> {
    let mut perhaps_done = false;
    let mut waits = RetryWaits::new();
    loop {
        let error = match transport.exchange(request).await {
            Ok(body) => return Ok(AcceptedAnswer { body, perhaps_twice: perhaps_done }),
            Err(error) => error,
        };
        let may_repeat = error.may_pass() && (error.is_undone() || repeat == Repeat::Harmless);
        let wait = waits.next(&error);
        if !may_repeat || Instant::now() + wait >= until {
            return Err(FailedCall { error, perhaps_done });
        }
        perhaps_done |= !error.is_undone();
        sleep(wait).await;
    }
}

/// How long to wait after each failure in a row.
#[derive(Debug)]
pub(crate) struct RetryWaits {
    next: Duration,
}

impl RetryWaits {
    pub(crate) fn new() -> Self {
        Self { next: FIRST_WAIT }
    }

    /// The wait after this failure: half of it certain, half by chance, and never shorter than the
    /// server asks for.
    pub(crate) fn next(&mut self, error: &Error) -> Duration {
        self.next_by_chance().max(error.retry_after().unwrap_or_default())
    }

    /// The same where nothing was said.
    pub(crate) fn next_by_chance(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST_WAIT);
        wait / 2 + (wait / 2).mul_f64(chance())
    }
}

/// A key that nobody else uses; `None` where the system has no chance to give.
pub(crate) fn idempotency_key() -> Option<HeaderValue> {
    HeaderValue::from_str(&unique_text()?).ok()
}

/// A text that nobody else has; `None` where the system has no chance to give.
pub(crate) fn unique_text() -> Option<String> {
    let (high, low) = (getrandom::u64().ok()?, getrandom::u64().ok()?);
    Some(format!("{high:016x}{low:016x}"))
}

/// A number from 0 to 1. Without a source of chance the waits are only less spread.
pub(crate) fn chance() -> f64 {
    f64::from(getrandom::u32().unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Refusal;

    #[test]
    fn waits_double_up_to_the_longest_and_heed_the_server() {
        let error = Error::TimedOut { server: String::new(), limit: Duration::ZERO };
        let mut waits = RetryWaits::new();
        let mut longest = FIRST_WAIT;
        for _ in 0..12 {
            let wait = waits.next(&error);
            assert!(wait >= longest / 2 && wait <= longest, "{wait:?} of {longest:?}");
            longest = (longest * 2).min(LONGEST_WAIT);
        }
        let hour = Duration::from_secs(3_600);
        let refusal = Refusal::read(429, Some(hour), b"");
        assert_eq!(RetryWaits::new().next(&Error::Refused(Box::new(refusal))), hour);
    }
}
