//! Refused callers: the reason, a counter, and log lines with a limit.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tracing::field::display;
use tracing::info;

/// Log lines a second, and in one burst: outsiders can cause any number of refusals.
const LINES_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("not 0");
const LINES_AT_ONCE: NonZeroU32 = NonZeroU32::new(100).expect("not 0");
/// Most of a name that the log shows, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// Why somebody is not let in: the word for it in figures and in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Missing,
    Malformed,
    Unknown,
    /// Known, but not for this.
    Forbidden,
    /// Unknown, and more of them wait for their answer than may.
    TooMany,
}

impl Reason {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Forbidden => "forbidden",
            Self::TooMany => "too_many",
        }
    }
}

/// Somebody who is not let in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal<'a> {
    pub(super) why: Reason,
    /// The name of a token that may not do this.
    pub(super) login: Option<&'a str>,
}

impl From<Reason> for Refusal<'_> {
    fn from(why: Reason) -> Self {
        Self { why, login: None }
    }
}

/// The log of refusals.
#[derive(Debug)]
pub(super) struct RefusalLog<C: Clock = DefaultClock> {
    pace: RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<C::Instant>>,
    left_out: AtomicU64,
}

impl<C: Clock> RefusalLog<C> {
    pub(super) fn new(clock: C) -> Self {
        let quota = Quota::per_second(LINES_PER_SECOND).allow_burst(LINES_AT_ONCE);
        Self { pace: RateLimiter::direct_with_clock(quota, clock), left_out: AtomicU64::new(0) }
    }

    /// Writes a line; tokens are in none.
    pub(super) fn write(
        &self,
        way: &'static str,
        refusal: Refusal<'_>,
        namespace: Option<&str>,
        peer: Option<SocketAddr>,
    ) {
        let Some(left_out) = self.take() else { return };
        let Refusal { why, login } = refusal;
        let (code, namespace, peer) = (why.as_str(), namespace.map(shown), peer.map(display));
        info!(way, login, code, peer, namespace, left_out, "refused a caller");
    }

    /// Whether a line may be written now, and how many were left out since the last one.
    fn take(&self) -> Option<u64> {
        if self.pace.check().is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.left_out.swap(0, Ordering::Relaxed))
    }
}

/// The beginning of a name, which its caller may have made up.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn a_flood_of_refusals_leaves_a_few_lines_that_count_the_others() {
        let clock = FakeRelativeClock::default();
        let log = RefusalLog::new(clock.clone());
        let lines: Vec<_> = (0..250).filter_map(|_| log.take()).collect();
        assert_eq!(lines, vec![0; 100]);
        clock.advance(Duration::from_millis(100));
        assert_eq!([log.take(), log.take()], [Some(150), None]);
    }

    #[test]
    fn a_name_in_the_log_is_cut() {
        assert_eq!(shown(&"\u{20ac}".repeat(200)).chars().count(), SHOWN_CHARS_MAX);
    }
}
