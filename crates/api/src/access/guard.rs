//! The check in front of every route: who calls, how much they call, and whether they may call this.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use base::{CallerName, Problem, time};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use governor::clock::DefaultClock;
use net::problem::Refused;
use prometheus_client::registry::Registry;
use subtle::{ConditionallySelectable, ConstantTimeEq};
use tower_service::Service;

use super::figures::Figures;
use super::guesses::Guesses;
use super::limits::{Beyond, Limits, UnderWay};
use super::own::{About, is_own};
use super::table::{Needs, Own, needs};
use super::{Access, Caller, Digest, Scope, Token};
use crate::ApiState;

mod elsewhere;
mod holder;

pub use elsewhere::{Admitted, Asked};

pub(crate) use holder::Holder;

/// The tokens that are let through, with what they have used up.
#[derive(Debug)]
pub struct Guard {
    known: Vec<Known>,
    guesses: Guesses,
    figures: Figures,
}

#[derive(Debug)]
struct Known {
    caller: Caller,
    limits: Limits,
}

impl Guard {
    /// A guard that knows these tokens.
    pub(super) fn new(tokens: Vec<Token>) -> Self {
        let (figures, clock) = (Figures::default(), DefaultClock::default());
        let known = tokens.into_iter().map(|token| Known {
            limits: Limits::new(&token, &clock, figures.in_flight(&token.name)),
            caller: Caller::new(token),
        });
        Self { known: known.collect(), guesses: Guesses::new(clock), figures }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        self.figures.register(registry);
    }

    fn recognise(&self, headers: &HeaderMap) -> Result<&Known, NotRecognised> {
        self.find(bearer(headers)?).ok_or(NotRecognised::Unknown)
    }

    fn find(&self, token: &[u8]) -> Option<&Known> {
        let digest = Digest::of(token);
        // All are compared, each whole, so that the time it takes says nothing of how near a guess was.
        let mut found = u64::MAX;
        for (index, known) in (0..).zip(&self.known) {
            found.conditional_assign(&index, known.caller.token().digest.ct_eq(&digest));
        }
        usize::try_from(found).ok().and_then(|index| self.known.get(index))
    }
}

/// Why nobody knows who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotRecognised {
    Missing,
    Malformed,
    Unknown,
}

/// The token in the one `Authorization` header.
fn bearer(headers: &HeaderMap) -> Result<&[u8], NotRecognised> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let first = given.next().ok_or(NotRecognised::Missing)?;
    let (scheme, token) = match first.as_bytes().split_first_chunk::<6>() {
        Some((scheme, [b' ', token @ ..])) => (scheme, token.trim_ascii()),
        _ => return Err(NotRecognised::Malformed),
    };
    let well_formed = scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty() && given.next().is_none();
    if well_formed { Ok(token) } else { Err(NotRecognised::Malformed) }
}

/// Lets a request through to its route, or refuses it.
#[derive(Clone)]
pub(crate) struct KeepsOut {
    api: ApiState,
    routes: Route,
}

impl KeepsOut {
    pub(crate) fn new(api: ApiState, routes: Route) -> Self {
        Self { api, routes }
    }
}

impl Service<Request> for KeepsOut {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request>::poll_ready(&mut self.routes, cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // In a box, because a consumer may wait for long then, and has no more use for what this takes.
        let (judged, mut routes) = (judged(self.api.clone(), request).boxed(), self.routes.clone());
        async move {
            let (answering, under_way, changes) = match judged.await {
                Ok((request, under_way)) => {
                    // Whoever changes something is named in the log.
                    let changes = (!request.method().is_safe())
                        .then(|| request.extensions().get::<CallerName>().cloned())
                        .flatten();
                    (routes.call(request), under_way, changes)
                }
                Err(refusal) => return Ok(*refusal),
            };
            let Ok(mut response) = answering.await;
            if let Some(name) = changes {
                response.extensions_mut().insert(name);
            }
            Ok(match under_way {
                Some(under_way) => under_way.until_answered(response),
                None => response,
            })
        }
        .boxed()
    }
}

/// A request that may go on, with what it takes of its token's limits.
type Judged = Result<(Request, Option<UnderWay>), Box<Response>>;

async fn judged(api: ApiState, request: Request) -> Judged {
    let Access::Guarded(guard) = &api.shared.access else { return Ok((request, None)) };
    let route = request.extensions().get::<MatchedPath>().cloned();
    // What a route takes is in the document for everybody who has a token.
    let route = route.filter(|_| *request.method() != Method::OPTIONS);
    let needs = route.as_ref().map(|route| needs(request.method(), route.as_str()));
    if needs == Some(Needs::Nothing) {
        return Ok((request, None));
    }
    match guard.recognise(request.headers()) {
        Ok(known) => guard.judge(known, &api, needs, request).await.map_err(Box::new),
        Err(why) => {
            let slow = why == NotRecognised::Unknown && guard.guesses.wait().await.is_err();
            Err(Box::new(if slow { guard.refuse_guess() } else { guard.refuse_unknown(why) }))
        }
    }
}

impl Guard {
    /// Without a route there is nothing to forbid: everyone is told that there is none.
    async fn judge(
        &self,
        known: &Known,
        api: &ApiState,
        needs: Option<Needs>,
        request: Request,
    ) -> Result<(Request, Option<UnderWay>), Response> {
        let caller = &known.caller;
        let under_way = known.limits.take().map_err(|beyond| {
            self.figures.judged(caller.name(), "limited");
            named(caller, limited(caller, beyond))
        })?;
        let (mut parts, body) = request.into_parts();
        if let Some(needs) = needs {
            // No path parameters is no error here: not every route has some.
            let path = RawPathParams::from_request_parts(&mut parts, &()).await.ok();
            let about = About::of(&parts.uri, path.as_ref());
            let may = may(api, caller, needs, parts.method.is_safe(), &about).await;
            if !may.map_err(|problem| Refused(problem).into_response())? {
                self.figures.judged(caller.name(), "forbidden");
                return Err(named(caller, forbidden(caller, needs)));
            }
        }
        self.figures.judged(caller.name(), "admitted");
        parts.extensions.insert(caller.called());
        parts.extensions.insert(caller.clone());
        Ok((Request::from_parts(parts, body), Some(under_way)))
    }

    fn refuse_guess(&self) -> Response {
        self.figures.unauthorized("too_many");
        with_header(too_many_guesses(), RETRY_AFTER, HeaderValue::from_static("1"))
    }

    fn refuse_unknown(&self, why: NotRecognised) -> Response {
        let (reason, problem, challenge) = not_recognised(why);
        self.figures.unauthorized(reason);
        with_header(problem, WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
    }
}

/// The refusal, with the name of whom it refuses.
fn named(caller: &Caller, mut refusal: Response) -> Response {
    refusal.extensions_mut().insert(caller.called());
    refusal
}

fn too_many_guesses() -> Problem {
    let detail = "too many requests come with a token that this server does not know";
    Problem::new(429, "too_many_requests", detail)
}

/// The reason that is counted, what is told, and the challenge beside it.
fn not_recognised(why: NotRecognised) -> (&'static str, Problem, &'static str) {
    let (reason, detail, challenge) = match why {
        NotRecognised::Missing => {
            ("missing", "this call takes a token: Authorization: Bearer TOKEN", "Bearer realm=\"fieldpost\"")
        }
        NotRecognised::Malformed => (
            "malformed",
            "the Authorization header must be there once and read: Bearer TOKEN",
            "Bearer realm=\"fieldpost\", error=\"invalid_request\"",
        ),
        NotRecognised::Unknown => (
            "unknown",
            "the token is not one that this server knows",
            "Bearer realm=\"fieldpost\", error=\"invalid_token\"",
        ),
    };
    (reason, Problem::new(401, "unauthorized", detail), challenge)
}

/// Whether one of the caller's scopes is enough.
async fn may(
    api: &ApiState,
    caller: &Caller,
    needs: Needs,
    is_safe: bool,
    about: &About,
) -> Result<bool, Problem> {
    let suffices = |scope: &Scope| match (scope, needs) {
        (Scope::Admin, _) | (Scope::Read, Needs::Read(_)) | (Scope::Report, Needs::Report) => true,
        (Scope::Read, Needs::Jobs | Needs::Queues) => is_safe,
        (Scope::Jobs(namespace), Needs::Jobs) => about.in_path("ns") == Some(namespace.as_str()),
        (Scope::Jobs(namespace), Needs::Queues) => about.in_query("namespace") == Some(namespace.as_str()),
        _ => false,
    };
    if caller.scopes().iter().any(suffices) {
        return Ok(true);
    }
    let (Needs::Read(own) | Needs::Admin(own)) = needs else { return Ok(false) };
    if own == Own::Never {
        return Ok(false);
    }
    for scope in caller.scopes() {
        if let Scope::Client(client) = scope
            && is_own(api, client, own, about).await?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn forbidden(caller: &Caller, needs: Needs) -> Response {
    let challenge = HeaderValue::from_static("Bearer realm=\"fieldpost\", error=\"insufficient_scope\"");
    with_header(may_not(caller, needs), WWW_AUTHENTICATE, challenge)
}

fn may_not(caller: &Caller, needs: Needs) -> Problem {
    let detail = format!("token {:?} may not do this; it takes the scope {}", caller.name(), needs.told());
    Problem::new(403, "forbidden", detail)
}

fn limited(caller: &Caller, limit: Beyond) -> Response {
    let seconds = time::millis(limit.again).max(1).cast_unsigned().div_ceil(1_000);
    with_header(beyond(caller, limit), RETRY_AFTER, seconds.into())
}

fn beyond(caller: &Caller, beyond: Beyond) -> Problem {
    let detail = format!("token {:?} has reached its {}, {}", caller.name(), beyond.limit, beyond.most);
    Problem::new(429, "too_many_requests", detail)
}

fn with_header(problem: Problem, name: axum::http::HeaderName, value: HeaderValue) -> Response {
    let mut response = Refused(problem).into_response();
    response.headers_mut().insert(name, value);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

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
