//! Who may call: the tokens of a namespace, and those of the REST API where they reach as far.
//!
//! A token is looked up as it is: it is long and random, and what a guess costs does not depend on how near it comes.

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use subtle::ConstantTimeEq;

use super::answer::Answer;
use super::limit::{Reached, Taken};
use super::query::Query;
use super::route::Target;
use super::{POOL, Shared};
use crate::access::{Digest, Scope};

/// The pool and the token of `[pool:]token`.
pub(super) fn in_parts(token: &str) -> (&str, &str) {
    token.split_once(':').unwrap_or((POOL, token))
}

/// Whether there is such a pool; none is the default.
pub(super) fn is_pool(name: &str) -> bool {
    name.is_empty() || name == POOL
}

impl Shared {
    /// Lets a call through, with what it takes of the token's limit.
    ///
    /// # Errors
    /// 404 for an unknown pool, 401 for an unknown token, 429 when its limit is reached.
    pub(super) fn let_in(
        &self,
        target: &Target<'_>,
        headers: &HeaderMap,
        query: Query<'_>,
    ) -> Result<Option<Taken>, Answer> {
        let in_header = headers.get("x-token").and_then(|token| token.to_str().ok()).unwrap_or_default();
        let in_query =
            if in_header.is_empty() { query.get("token").unwrap_or_default() } else { in_header.into() };
        let (pool, token) = in_parts(&in_query);
        if !is_pool(pool) {
            return Err(Answer::error(StatusCode::NOT_FOUND, "pool not found"));
        }
        if !target.call.takes_a_token() {
            return Ok(None);
        }
        if token.is_empty() {
            return Err(Answer::error(StatusCode::UNAUTHORIZED, "token not found"));
        }
        let (book, namespace) = (self.tokens.now(), target.namespace);
        if !book.knows(namespace, token) && !self.is_owner(token, |scope| may_use(scope, namespace)) {
            return Err(Answer::error(StatusCode::UNAUTHORIZED, "invalid token"));
        }
        let Some(action) = target.call.action() else { return Ok(None) };
        let Some(throttle) = book.throttle(namespace, token) else { return Ok(None) };
        throttle.take(action, self.now()).map_err(|Reached| {
            self.figures.limited(action);
            let text = format!("token({token}) {} reach the limit rate, please retry later", action.as_str());
            Answer::told(StatusCode::TOO_MANY_REQUESTS, &text)
        })
    }

    /// Whether somebody may ask the admin API: anybody where the REST API has no tokens; otherwise who has one of these, as a bearer
    /// token or as the password of any user.
    pub(super) fn may_administer(&self, parts: &Parts, changes: bool) -> bool {
        if self.owners.is_empty() {
            return true;
        }
        let given = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((scheme, value)) = given.and_then(|given| given.split_once(' ')) else { return false };
        let suffices = |scope: &Scope| *scope == Scope::Admin || (*scope == Scope::Read && !changes);
        let value = value.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.is_owner(value, suffices);
        }
        let login = BASE64_STANDARD.decode(value).ok().and_then(|login| String::from_utf8(login).ok());
        let password = login.as_deref().and_then(|login| login.split_once(':')).map(|(_, password)| password);
        scheme.eq_ignore_ascii_case("basic") && password.is_some_and(|token| self.is_owner(token, suffices))
    }

    /// All are compared, each whole, so that the time it takes says nothing of how near a guess was.
    fn is_owner(&self, token: &str, suffices: impl Fn(&Scope) -> bool) -> bool {
        if self.owners.is_empty() {
            return false;
        }
        let digest = Digest::of(token.as_bytes());
        let mut found = false;
        for owner in &self.owners {
            found |= bool::from(owner.digest.ct_eq(&digest)) && owner.scopes.iter().any(&suffices);
        }
        found
    }
}

fn may_use(scope: &Scope, namespace: &str) -> bool {
    match scope {
        Scope::Admin => true,
        Scope::Jobs(own) => own.as_str() == namespace,
        Scope::Read | Scope::Report | Scope::Client(_) => false,
    }
}
