//! Recognises callers by their token, takes their requests in, and counts what became of them.
//!
//! What a request is about, and so which scope it takes, is for the edge to say.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base::Problem;
use governor::clock::DefaultClock;
use prometheus_client::registry::Registry;
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::failed_auth::FailedAuth;
use crate::limits::{LimitReached, OngoingRequest, TokenLimits};
use crate::metrics::TokenMetrics;
use crate::{Access, Caller, Digest, Scope, Token};

/// The tokens that are let through, with what they have used up.
#[derive(Debug)]
pub struct Guard {
    known: Vec<KnownToken>,
    failed: FailedAuth,
    metrics: TokenMetrics,
}

#[derive(Debug)]
struct KnownToken {
    caller: Caller,
    limits: Arc<TokenLimits>,
}

impl Guard {
    /// A guard that knows these tokens.
    pub(crate) fn new(tokens: Vec<Token>) -> Self {
        let (metrics, clock) = (TokenMetrics::default(), DefaultClock::default());
        let known = tokens.into_iter().map(|token| KnownToken {
            limits: Arc::new(TokenLimits::new(&token, &clock, metrics.in_flight(&token.name))),
            caller: Caller::new(token),
        });
        Self { known: known.collect(), failed: FailedAuth::new(clock), metrics }
    }

    pub(crate) fn metrics(&self) -> &TokenMetrics {
        &self.metrics
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    pub(crate) fn still_knows(&self, caller: &Caller) -> bool {
        self.known.iter().any(|known| known.caller.token() == caller.token())
    }

    /// Who calls, by the one `Authorization` header. A wrong token may have to wait for its
    /// refusal.
    ///
    /// # Errors
    /// Why nobody is known.
    pub async fn recognise(&self, headers: &HeaderMap) -> Result<TokenHolder<'_>, NotRecognised> {
        let known = bearer(headers).and_then(|token| self.find(token).ok_or(NotRecognised::Unknown));
        let why = match known {
            Ok(holder) => return Ok(holder),
            Err(NotRecognised::Unknown) if self.failed.wait().await.is_err() => NotRecognised::TooMany,
            Err(why) => why,
        };
        self.metrics.unauthorized(why.reason());
        Err(why)
    }

    fn find(&self, token: &[u8]) -> Option<TokenHolder<'_>> {
        let digest = Digest::of(token);
        // All are compared, each whole, so that the time it takes says nothing of how near a guess
        // was.
        let mut found = u64::MAX;
        for (index, known) in (0..).zip(&self.known) {
            found.conditional_assign(&index, known.caller.token().digest.ct_eq(&digest));
        }
        let known = usize::try_from(found).ok().and_then(|index| self.known.get(index))?;
        Some(TokenHolder { guard: self, known })
    }
}

impl Access {
    /// Who shows this token, in whatever way; `None` for one that is not known.
    #[must_use]
    pub fn holder(&self, token: &[u8]) -> Option<TokenHolder<'_>> {
        let Self::Guarded(guard) = self else { return None };
        guard.find(token)
    }

    /// What the token of that name may do; `None` where there is none.
    #[must_use]
    pub fn scopes_of(&self, name: &str) -> Option<&[Scope]> {
        let Self::Guarded(guard) = self else { return None };
        guard.known.iter().map(|known| &known.caller).find(|caller| caller.name() == name).map(Caller::scopes)
    }
}

/// Why nobody knows who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRecognised {
    /// There is no token.
    Missing,
    /// It cannot be read.
    Malformed,
    /// Nobody has it.
    Unknown,
    /// Nobody has it, and too many like it wait for their refusal.
    TooMany,
}

impl NotRecognised {
    fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::TooMany => "too_many",
        }
    }

    /// What the caller is told.
    #[must_use]
    pub fn problem(self) -> Problem {
        let detail = match self {
            Self::Missing => "this call takes a token: Authorization: Bearer TOKEN",
            Self::Malformed => "the Authorization header must be there once and read: Bearer TOKEN",
            Self::Unknown => "the token is not one that this server knows",
            Self::TooMany => {
                let detail = "too many requests come with a token that this server does not know";
                return Problem::new(429, "too_many_requests", detail);
            }
        };
        Problem::new(401, "unauthorized", detail)
    }

    /// The challenge beside a 401; `None` where another token would not help now.
    #[must_use]
    pub fn challenge(self) -> Option<&'static str> {
        match self {
            Self::Missing => Some("Bearer realm=\"fieldpost\""),
            Self::Malformed => Some("Bearer realm=\"fieldpost\", error=\"invalid_request\""),
            Self::Unknown => Some("Bearer realm=\"fieldpost\", error=\"invalid_token\""),
            Self::TooMany => None,
        }
    }
}

/// The token in the one `Authorization` header.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<&[u8], NotRecognised> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let first = given.next().ok_or(NotRecognised::Missing)?;
    let (scheme, token) = match first.as_bytes().split_first_chunk::<6>() {
        Some((scheme, [b' ', token @ ..])) => (scheme, token.trim_ascii()),
        _ => return Err(NotRecognised::Malformed),
    };
    let well_formed = scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty() && given.next().is_none();
    if well_formed { Ok(token) } else { Err(NotRecognised::Malformed) }
}

/// Whoever shows one of the tokens.
#[derive(Clone, Copy, Debug)]
pub struct TokenHolder<'a> {
    guard: &'a Guard,
    known: &'a KnownToken,
}

impl<'a> TokenHolder<'a> {
    /// The caller that the token stands for.
    #[must_use]
    pub fn caller(self) -> &'a Caller {
        &self.known.caller
    }

    /// The token's name.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.known.caller.name()
    }

    /// What the token may do.
    #[must_use]
    pub fn scopes(self) -> &'a [Scope] {
        self.known.caller.scopes()
    }

    /// Takes a request in, which is under way as long as what is returned lives.
    ///
    /// # Errors
    /// When the token has reached one of its limits.
    pub fn take(self) -> Result<OngoingRequest, LimitReached> {
        self.known.limits.take().inspect_err(|_| self.count_request("limited"))
    }

    /// The request does what its token may do.
    pub fn is_admitted(self) {
        self.count_request("admitted");
    }

    /// The token may not do what it was shown for.
    pub fn is_forbidden(self) {
        self.count_request("forbidden");
    }

    /// What a caller is told that has reached a limit: 429.
    #[must_use]
    pub fn limited(self, reached: &LimitReached) -> Problem {
        reached.problem(self.name())
    }

    pub(crate) fn limits(self) -> Arc<TokenLimits> {
        Arc::clone(&self.known.limits)
    }

    fn count_request(self, result: &'static str) {
        self.guard.metrics.count_request(self.name(), result);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_that_may_do_less_than_before_is_another() {
        let guard = Guard::new(vec![Token::for_tests("ops", &["read"])]);
        for (scopes, expect) in [(&["read"][..], true), (&["admin"], false)] {
            let caller = Caller::new(Token::for_tests("ops", scopes));
            assert_eq!(guard.still_knows(&caller), expect, "{scopes:?}");
        }
    }

    #[test]
    fn one_well_formed_header_has_a_token() {
        for (given, expect) in [
            (&["Bearer abc"][..], Ok(&b"abc"[..])),
            (&["bearer  abc "], Ok(b"abc")),
            (&[], Err(NotRecognised::Missing)),
            (&["Basic abc"], Err(NotRecognised::Malformed)),
            (&["Bearer"], Err(NotRecognised::Malformed)),
            (&["Bearer "], Err(NotRecognised::Malformed)),
            (&["Bearerabc"], Err(NotRecognised::Malformed)),
            (&["Bearer abc", "Bearer abc"], Err(NotRecognised::Malformed)),
        ] {
            let mut headers = HeaderMap::new();
            for value in given {
                headers.append(AUTHORIZATION, HeaderValue::from_static(value));
            }
            assert_eq!(bearer(&headers), expect, "{given:?}");
        }
    }
}
