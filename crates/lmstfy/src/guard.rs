//! Who may call: the tokens of a namespace, and those of the REST API where they reach as far.
//!
//! A namespace's token is looked up in plain text: it is long and random, and a guess takes the
//! same time however close it is. A REST token keeps its limits here. Unknown tokens are answered
//! late when there are many. Refusals are logged without the token, up to the log's limit.

use std::net::SocketAddr;

use access::{OngoingRequest, Scope, TokenHolder};
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use base::{CallerName, hash};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::answer::LmstfyAnswer;
use crate::limit::{CountedCall, Reached};
use crate::query::Query;
use crate::refusals::{Reason, RefusedCaller};
use crate::route::CallTarget;
use crate::{LmstfyState, POOL};

/// The pool and the token of `[pool:]token`.
pub(crate) fn in_parts(token: &str) -> (&str, &str) {
    token.split_once(':').unwrap_or((POOL, token))
}

/// Whether there is such a pool; none is the default.
pub(crate) fn is_pool(name: &str) -> bool {
    name.is_empty() || name == POOL
}

/// What a token of a namespace is called in the log, and where shares of memory are counted: never
/// the token.
fn caller_of(namespace: &str, token: &str) -> CallerName {
    let number = hash::derived(hash::derived(0, namespace.as_bytes()), token.as_bytes());
    CallerName(format!("lmstfy:{number:016x}").into())
}

/// The address that a request came from, if the listener told it.
pub(crate) fn peer(parts: &Parts) -> Option<SocketAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer)
}

/// A call that was let through.
#[derive(Debug, Default)]
pub(crate) struct GuardedCall {
    /// What it takes of a limit that was set over the admin API.
    pub(crate) taken: Option<CountedCall>,
    /// What it takes of the limits of a token of the REST API.
    pub(crate) under_way: Option<OngoingRequest>,
    /// For whom its body counts; `None` for its address.
    pub(crate) caller: Option<CallerName>,
}

/// A call of the admin API that was let through.
#[derive(Debug)]
pub(crate) struct Administrator<'a> {
    /// The name of the token; `None` where none is asked for.
    pub(crate) name: Option<&'a str>,
    pub(crate) under_way: Option<OngoingRequest>,
}

impl LmstfyState {
    /// Lets a call through, with what it takes of its token's limits.
    ///
    /// # Errors
    /// 404 for an unknown pool, 401 for an unknown token, 429 when its limit is reached or too many
    /// are unknown.
    pub(crate) async fn let_in(
        &self,
        target: &CallTarget<'_>,
        parts: &Parts,
        query: Query<'_>,
    ) -> Result<GuardedCall, LmstfyAnswer> {
        let in_header =
            parts.headers.get("x-token").and_then(|token| token.to_str().ok()).unwrap_or_default();
        let in_query =
            if in_header.is_empty() { query.get("token").unwrap_or_default() } else { in_header.into() };
        let (pool, token) = in_parts(&in_query);
        if !is_pool(pool) {
            return Err(LmstfyAnswer::error(StatusCode::NOT_FOUND, "pool not found"));
        }
        if !target.call.takes_a_token() {
            return Ok(GuardedCall::default());
        }
        let (table, namespace) = (self.tokens.now(), target.namespace);
        let (under_way, caller) = if !token.is_empty() && table.knows(namespace, token) {
            (None, caller_of(namespace, token))
        } else {
            let held = self.held(token, |scope| may_use(scope, namespace)).await;
            let holder = held.map_err(|refusal| {
                self.note_refused("lmstfy", refusal, Some(namespace), parts);
                not_let_in(refusal.why)
            })?;
            (Some(admitted(holder)?), holder.caller().called())
        };
        let taken = target.call.action().and_then(|action| Some((action, table.throttle(namespace, token)?)));
        let taken = taken.map(|(action, throttle)| {
            throttle.take(action, self.now()).map_err(|Reached| {
                self.metrics.limited(action);
                let text =
                    format!("token({token}) {} reach the limit rate, please retry later", action.as_str());
                LmstfyAnswer::message(StatusCode::TOO_MANY_REQUESTS, &text)
            })
        });
        Ok(GuardedCall { taken: taken.transpose()?.flatten(), under_way, caller: Some(caller) })
    }

    /// Authorizes a call of the admin API. Without REST tokens every caller may; otherwise a caller
    /// presents one, as bearer token or as the password of any user name.
    ///
    /// # Errors
    /// 401 for who has none that suffices, 429 when its limit is reached or too many are unknown.
    pub(crate) async fn may_administer(
        &self,
        parts: &Parts,
        changes: bool,
    ) -> Result<Administrator<'_>, LmstfyAnswer> {
        if self.access.is_open() {
            return Ok(Administrator { name: None, under_way: None });
        }
        let suffices = |scope: &Scope| *scope == Scope::Admin || (*scope == Scope::Read && !changes);
        let held = match password(parts) {
            Ok(token) => self.held(&token, suffices).await,
            Err(why) => Err(why.into()),
        };
        let holder = held.map_err(|refusal| {
            self.note_refused("lmstfy_admin", refusal, None, parts);
            if refusal.why == Reason::TooMany {
                not_let_in(refusal.why)
            } else {
                LmstfyAnswer::password_wanted()
            }
        })?;
        Ok(Administrator { name: Some(holder.name()), under_way: Some(admitted(holder)?) })
    }

    /// Who shows a token of the REST API that suffices. Who guesses waits.
    async fn held(
        &self,
        token: &str,
        suffices: impl Fn(&Scope) -> bool,
    ) -> Result<TokenHolder<'_>, RefusedCaller<'_>> {
        if token.is_empty() {
            return Err(Reason::Missing.into());
        }
        match self.access.holder(token.as_bytes()) {
            Some(holder) if holder.scopes().iter().any(suffices) => Ok(holder),
            Some(holder) => {
                holder.is_forbidden();
                Err(RefusedCaller { why: Reason::Forbidden, login: Some(holder.name()) })
            }
            None if self.failed.wait().await.is_ok() => Err(Reason::Unknown.into()),
            None => Err(Reason::TooMany.into()),
        }
    }

    fn note_refused(
        &self,
        way: &'static str,
        refusal: RefusedCaller<'_>,
        namespace: Option<&str>,
        parts: &Parts,
    ) {
        self.metrics.unauthorized(refusal.why.as_str());
        self.refusals.write(way, refusal, namespace, peer(parts));
    }
}

/// The token that somebody shows to the admin API.
fn password(parts: &Parts) -> Result<String, Reason> {
    let given = parts.headers.get(AUTHORIZATION).ok_or(Reason::Missing)?;
    let given = given.to_str().ok().and_then(|given| given.split_once(' '));
    let (scheme, value) = given.ok_or(Reason::Malformed)?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(value.to_owned());
    }
    let login = BASE64_STANDARD.decode(value).ok().and_then(|login| String::from_utf8(login).ok());
    let login = login.filter(|_| scheme.eq_ignore_ascii_case("basic"));
    let password = login.as_deref().and_then(|login| login.split_once(':')).map(|(_, password)| password);
    password.map(str::to_owned).ok_or(Reason::Malformed)
}

fn admitted(holder: TokenHolder<'_>) -> Result<OngoingRequest, LmstfyAnswer> {
    let under_way = holder.take().map_err(|reached| {
        LmstfyAnswer::message(StatusCode::TOO_MANY_REQUESTS, &holder.limited(&reached).detail)
    })?;
    holder.is_admitted();
    Ok(under_way)
}

fn not_let_in(why: Reason) -> LmstfyAnswer {
    match why {
        Reason::Missing => LmstfyAnswer::error(StatusCode::UNAUTHORIZED, "token not found"),
        Reason::Malformed | Reason::Unknown | Reason::Forbidden => {
            LmstfyAnswer::error(StatusCode::UNAUTHORIZED, "invalid token")
        }
        Reason::TooMany => {
            let text = "too many requests come with a token that this server does not know";
            LmstfyAnswer::message(StatusCode::TOO_MANY_REQUESTS, text)
        }
    }
}

fn may_use(scope: &Scope, namespace: &str) -> bool {
    match scope {
        Scope::Admin => true,
        Scope::Jobs(own) => own.as_str() == namespace,
        Scope::Read
        | Scope::Report
        | Scope::Commands
        | Scope::Tasks
        | Scope::Operate
        | Scope::Coordinate(_)
        | Scope::Streams(..)
        | Scope::Client(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn parts(authorization: Option<&str>) -> Parts {
        let mut request = Request::builder().uri("/");
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn a_token_is_a_bearer_token_or_a_password() {
        for (authorization, expect) in [
            (None, Err(Reason::Missing)),
            (Some("Bearer abc"), Ok("abc")),
            (Some("bearer  abc "), Ok("abc")),
            // any:secret
            (Some("Basic YW55OnNlY3JldA=="), Ok("secret")),
            (Some("Bearer"), Err(Reason::Malformed)),
            (Some("Basic ?"), Err(Reason::Malformed)),
            (Some("Digest YW55OnNlY3JldA=="), Err(Reason::Malformed)),
        ] {
            assert_eq!(
                password(&parts(authorization)).as_deref().map_err(|why| *why),
                expect,
                "{authorization:?}"
            );
        }
    }

    #[test]
    fn tokens_of_a_namespace_are_callers_of_their_own_and_not_named_by_their_text() {
        let all = [("a", "secret"), ("a", "other"), ("b", "secret")].map(|(namespace, token)| {
            let CallerName(name) = caller_of(namespace, token);
            assert!(!name.contains(token), "{name}");
            assert_eq!(caller_of(namespace, token).0, name);
            name
        });
        assert!(all[0] != all[1] && all[0] != all[2], "{all:?}");
    }

    #[test]
    fn the_peer_is_the_one_that_the_listener_tells() {
        let mut parts = parts(None);
        assert_eq!(peer(&parts), None);
        let address = SocketAddr::from(([127, 0, 0, 1], 4_711));
        parts.extensions.insert(ConnectInfo(address));
        assert_eq!(peer(&parts), Some(address));
    }
}
