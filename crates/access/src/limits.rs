//! The limits of a token: requests in a second, and requests under way. Beyond one a caller is told
//! when to come back.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use base::Problem;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use http_body_util::BodyExt;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Token;

/// After which a caller may come back that has too much under way: nobody knows when something of
/// it ends.
const IN_FLIGHT_AGAIN: Duration = Duration::from_secs(1);

/// Why a request is not taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// Which limit, as the settings call it.
    pub limit: &'static str,
    /// How much that is.
    pub most: NonZeroU32,
    /// When the next request may be taken.
    pub again: Duration,
}

impl LimitReached {
    /// What the caller with this token is told: 429.
    pub(crate) fn problem(&self, token: &str) -> Problem {
        let detail = format!("token {token:?} has reached its {}, {}", self.limit, self.most);
        Problem::new(429, "too_many_requests", detail)
    }
}

/// The limits of one token, and what is used up of them.
#[derive(Debug)]
pub(crate) struct TokenLimits<C: Clock = DefaultClock> {
    pace: Option<RequestRate<C>>,
    places: Option<ConcurrencyLimit>,
    in_flight: Gauge,
}

#[derive(Debug)]
struct RequestRate<C: Clock> {
    per_second: NonZeroU32,
    limiter: RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<C::Instant>>,
    clock: C,
}

#[derive(Debug)]
struct ConcurrencyLimit {
    most: NonZeroU32,
    free: Arc<Semaphore>,
}

impl<C: Clock + Clone> TokenLimits<C> {
    /// The limits of `token`; `in_flight` counts its requests under way.
    pub(crate) fn new(token: &Token, clock: &C, in_flight: Gauge) -> Self {
        let pace = token.requests_per_second.map(|per_second| RequestRate {
            per_second,
            limiter: RateLimiter::direct_with_clock(Quota::per_second(per_second), clock.clone()),
            clock: clock.clone(),
        });
        let places = token.requests_in_flight.map(|most| ConcurrencyLimit {
            most,
            free: Arc::new(Semaphore::new(most.get().min(u32::MAX >> 3) as usize)),
        });
        Self { pace, places, in_flight }
    }

    /// Takes a request in, or says when to come back.
    pub(crate) fn take(&self) -> Result<OngoingRequest, LimitReached> {
        let place = self.places.as_ref().map(ConcurrencyLimit::take).transpose()?;
        self.pace.as_ref().map_or(Ok(()), RequestRate::take)?;
        Ok(OngoingRequest::new(&self.in_flight, place))
    }

    /// How many requests may be under way; `None` for any number.
    pub(crate) fn in_flight_max(&self) -> Option<usize> {
        self.places.as_ref().map(|places| places.most.get() as usize)
    }

    /// Takes in another call of a request that is under way: it counts for the pace alone.
    pub(crate) fn take_another(&self) -> Result<(), LimitReached> {
        self.pace.as_ref().map_or(Ok(()), RequestRate::take)
    }
}

impl<C: Clock> RequestRate<C> {
    fn take(&self) -> Result<(), LimitReached> {
        self.limiter.check().map_err(|not_until| LimitReached {
            limit: "requests_per_second",
            most: self.per_second,
            again: not_until.wait_time_from(self.clock.now()),
        })
    }
}

impl ConcurrencyLimit {
    fn take(&self) -> Result<OwnedSemaphorePermit, LimitReached> {
        Arc::clone(&self.free).try_acquire_owned().map_err(|_| LimitReached {
            limit: "requests_in_flight",
            most: self.most,
            again: IN_FLIGHT_AGAIN,
        })
    }
}

/// A request that was taken in. Its place is free again when this is dropped.
#[derive(Debug)]
pub struct OngoingRequest {
    in_flight: Gauge,
    _place: Option<OwnedSemaphorePermit>,
}

impl OngoingRequest {
    fn new(in_flight: &Gauge, place: Option<OwnedSemaphorePermit>) -> Self {
        in_flight.inc();
        Self { in_flight: in_flight.clone(), _place: place }
    }

    /// Lasts from now on until the answer's body has left, or is given up.
    #[must_use]
    pub fn until_answered(self, response: Response) -> Response {
        response.map(|body| {
            if body.is_end_stream() {
                return body;
            }
            Body::new(body.map_err(move |error| {
                // Never more than a name for it: the closure owns the place as long as the body
                // lives.
                let _place = &self;
                error
            }))
        })
    }
}

impl Drop for OngoingRequest {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn token(per_second: u32, in_flight: u32) -> Token {
        Token {
            requests_per_second: NonZeroU32::new(per_second),
            requests_in_flight: NonZeroU32::new(in_flight),
            ..Token::for_tests("t", &[])
        }
    }

    #[test]
    fn a_second_s_worth_may_come_at_once_and_then_one_at_a_time() {
        let clock = FakeRelativeClock::default();
        let limits = TokenLimits::new(&token(2, 0), &clock, Gauge::default());
        let take = || limits.take().map(drop).map_err(|reached| reached.again.as_millis());
        assert_eq!([take(), take(), take()], [Ok(()), Ok(()), Err(500)]);
        clock.advance(Duration::from_millis(500));
        assert_eq!([take(), take()], [Ok(()), Err(500)]);
    }

    #[test]
    fn a_place_is_free_again_once_the_answer_has_left() {
        let in_flight = Gauge::default();
        let limits = TokenLimits::new(&token(0, 1), &DefaultClock::default(), in_flight.clone());
        let taken = limits.take().expect("the first");
        let answering = taken.until_answered(Response::new(Body::from("answer")));
        let reached = limits.take().expect_err("the second");
        assert_eq!((reached.limit, reached.most.get(), in_flight.get()), ("requests_in_flight", 1, 1));
        drop(answering);
        assert_eq!(in_flight.get(), 0);
        let nothing_to_say = limits.take().expect("free").until_answered(Response::new(Body::empty()));
        assert_eq!((limits.take().is_ok(), nothing_to_say.status().as_u16()), (true, 200));
    }

    #[test]
    fn another_call_of_a_request_counts_for_the_pace_alone() {
        let clock = FakeRelativeClock::default();
        let limits = TokenLimits::new(&token(2, 1), &clock, Gauge::default());
        let _request = limits.take().expect("the first");
        assert_eq!(limits.take_another(), Ok(()));
        let reached = limits.take_another().expect_err("too soon");
        assert_eq!((reached.limit, reached.most.get()), ("requests_per_second", 2));
    }

    #[test]
    fn a_refused_request_holds_no_place() {
        let clock = FakeRelativeClock::default();
        let limits = TokenLimits::new(&token(1, 1), &clock, Gauge::default());
        drop(limits.take().expect("the first"));
        for _ in 0..2 {
            assert_eq!(limits.take().expect_err("too soon").limit, "requests_per_second");
        }
    }
}
