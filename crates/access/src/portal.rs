//! The holder of a portal: known by a short-lived token that is limited to one client.
//!
//! Which portals are open is not known here; whoever looks one up makes its holder.

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::http::HeaderMap;
use base::{ClientId, Problem, Timestamp};
use governor::clock::DefaultClock;
use prometheus_client::metrics::gauge::Gauge;

use crate::guard::bearer;
use crate::limits::{LimitReached, OngoingRequest, TokenLimits};
use crate::{Caller, Digest, PickLimits, Token};

/// What the token of every portal begins with, and no other that the server makes.
pub const PORTAL_TOKEN_PREFIX: &str = "fpp_";
/// Requests that a portal may make in a second: its page makes a few at once when it is opened.
const REQUESTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(20).expect("not 0");
/// Requests of a portal that may be under way at a time.
const REQUESTS_IN_FLIGHT: NonZeroU32 = NonZeroU32::new(8).expect("not 0");

/// What the holder of a portal may do: with this client, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    /// The client.
    pub client: ClientId,
    /// It may see the client, its links, its deliveries and their attempts.
    pub read: bool,
    /// It may have deliveries sent again, and tests.
    pub retry: bool,
    /// It may change the client's URL and rotate its secret.
    pub url: bool,
    /// From when on it may do nothing.
    pub expires_at: Timestamp,
    /// The name of the token that opened it, where tokens were asked for.
    pub opened_by: Option<Box<str>>,
}

/// Whoever shows the token of a portal, with what it has used up.
#[derive(Debug)]
pub struct PortalHolder {
    caller: Caller,
    limits: TokenLimits,
}

impl PortalHolder {
    /// The holder of the portal of that number.
    #[must_use]
    pub fn new(portal: Portal, number: u64) -> Self {
        let token = Token {
            name: portal_name(&portal.client, number),
            // Nobody is recognised by it: that was done.
            digest: Digest::from_bytes([0; Digest::BYTES]),
            scopes: Vec::new(),
            requests_per_second: Some(REQUESTS_PER_SECOND),
            requests_in_flight: Some(REQUESTS_IN_FLIGHT),
            picks: PickLimits::default(),
        };
        let limits = TokenLimits::new(&token, &DefaultClock::default(), Gauge::default());
        Self { caller: Caller::of_portal(token, Arc::new(portal)), limits }
    }

    /// The caller that it is. It has no scope.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Takes a request in, which is under way as long as what is returned lives.
    ///
    /// # Errors
    /// When the portal has reached one of its limits.
    pub fn take(&self) -> Result<OngoingRequest, LimitReached> {
        self.limits.take()
    }

    /// What a caller is told that has reached a limit: 429.
    #[must_use]
    pub fn limited(&self, reached: &LimitReached) -> Problem {
        let detail = format!("this portal has reached its {}, {}", reached.limit, reached.most);
        Problem::new(429, "too_many_requests", detail)
    }
}

/// By which name the portal of that number is called.
#[must_use]
pub fn portal_name(client: &ClientId, number: u64) -> String {
    format!("portal:{client}:{number}")
}

/// The token of a portal that the request shows, if it shows one.
#[must_use]
pub fn portal_token(headers: &HeaderMap) -> Option<&[u8]> {
    bearer(headers).ok().filter(|token| token.starts_with(PORTAL_TOKEN_PREFIX.as_bytes()))
}
