//! The check in front of every route: who calls, how much they call, and whether they may call
//! this.

use std::convert::Infallible;
use std::task::{Context, Poll};

use access::{
    Access, Caller, LimitReached, NotRecognised, OngoingRequest, PortalHolder, Scope, StreamRights,
    TokenHolder,
};
use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use axum::routing::future::RouteFuture;
use base::{CallerName, Problem};
use engine::records::TokenDigest;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};
use net::problem::{RETRY_AFTER_SECONDS, Refused};
use tower_service::Service;

use super::ownership::{About, is_own};
use super::portal;
use super::standing::StandingRights;
use super::table::{Needs, Ownership, is_public, needs};
use crate::ApiState;

/// Lets a request through to its route, or refuses it.
#[derive(Clone)]
pub(crate) struct AuthorizationLayer {
    api: ApiState,
    routes: Route,
}

impl AuthorizationLayer {
    pub(crate) fn new(api: ApiState, routes: Route) -> Self {
        Self { api, routes }
    }
}

impl Service<Request> for AuthorizationLayer {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request>::poll_ready(&mut self.routes, cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // In a box, because a consumer may wait for long then, and has no more use for what this
        // takes.
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

/// Where no tokens are asked for: only whoever shows the token of a portal is looked at.
#[derive(Clone)]
pub(crate) struct PortalGuard(AuthorizationLayer);

impl PortalGuard {
    pub(crate) fn new(api: ApiState, routes: Route) -> Self {
        Self(AuthorizationLayer::new(api, routes))
    }
}

impl Service<Request> for PortalGuard {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<RouteFuture<Infallible>, <AuthorizationLayer as Service<Request>>::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match access::portal_token(request.headers()) {
            None => Either::Left(self.0.routes.call(request)),
            Some(_) => Either::Right(self.0.call(request)),
        }
    }
}

/// A request that may go on, with what it takes of its token's limits.
type Judged = Result<(Request, Option<OngoingRequest>), Box<Response>>;

async fn judged(api: ApiState, request: Request) -> Judged {
    if let Some((holder, digest)) = portal::recognised(&api, &request) {
        return judge_portal(&api, (&holder, digest), request).await.map_err(Box::new);
    }
    if portal::is_unknown_portal_token(&api, &request) {
        return Err(Box::new(not_recognised(NotRecognised::Unknown)));
    }
    let Access::Guarded(guard) = &*api.shared.access else { return Ok((request, None)) };
    let route = request.extensions().get::<MatchedPath>().cloned();
    if route.as_ref().is_some_and(|route| is_public(request.method(), route.as_str())) {
        return Ok((request, None));
    }
    // What a route takes is in the document for everybody who has a token.
    let route = route.filter(|_| *request.method() != Method::OPTIONS);
    let needs = route.as_ref().map(|route| needs(request.method(), route.as_str()));
    match guard.recognise(request.headers()).await {
        Ok(holder) => judge(holder, &api, needs, request).await.map_err(Box::new),
        Err(why) => Err(Box::new(not_recognised(why))),
    }
}

/// Without a route there is nothing to forbid: everyone is told that there is none.
async fn judge(
    holder: TokenHolder<'_>,
    api: &ApiState,
    needs: Option<Needs>,
    request: Request,
) -> Result<(Request, Option<OngoingRequest>), Response> {
    let caller = holder.caller();
    let under_way = holder.take().map_err(|reached| named(caller, limited(holder, &reached)))?;
    let (mut parts, body) = request.into_parts();
    if let Some(needs) = needs {
        // No path parameters is no error here: not every route has some.
        let path = RawPathParams::from_request_parts(&mut parts, &()).await.ok();
        let about = About::of(&parts.uri, path.as_ref());
        let is_safe = parts.method.is_safe();
        let may = may(api, caller, needs, is_safe, &about).await;
        if !may.map_err(|problem| Refused(problem).into_response())? {
            holder.is_forbidden();
            return Err(named(caller, forbidden(caller, needs.description(is_safe))));
        }
        if is_safe && !scopes_suffice(caller.scopes(), needs, is_safe, &about) {
            // It is the client's own now, and may be so no longer later.
            parts.extensions.insert(StandingRights::of_token(caller, needs, about));
        }
    }
    holder.is_admitted();
    Ok(admitted(parts, body, caller, under_way))
}

/// A request of whoever holds a portal. Without a route everyone is told that there is none.
async fn judge_portal(
    api: &ApiState,
    (holder, digest): (&PortalHolder, TokenDigest),
    request: Request,
) -> Result<(Request, Option<OngoingRequest>), Response> {
    let caller = holder.caller();
    let later =
        |(problem, seconds): (Problem, u64)| named(caller, with_header(problem, RETRY_AFTER, seconds.into()));
    let under_way = portal::take(api, holder).map_err(later)?;
    let route = request.extensions().get::<MatchedPath>().cloned();
    let (mut parts, body) = request.into_parts();
    if let (Some(route), Some(portal)) = (route, caller.portal()) {
        let path = RawPathParams::from_request_parts(&mut parts, &()).await.ok();
        let about = About::of(&parts.uri, path.as_ref());
        let may = is_public(&parts.method, route.as_str())
            || portal::is_about_itself(&parts.method, route.as_str())
            || portal::may(api, portal, (&parts.method, route.as_str()), &about)
                .await
                .map_err(|problem| Refused(problem).into_response())?;
        if !may {
            api.shared.portals.judged("forbidden");
            return Err(named(caller, forbidden(caller, Needs::Admin(Ownership::Never).description(false))));
        }
        if parts.method.is_safe() {
            let rights = StandingRights::of_portal(caller, digest, route.as_str(), about);
            parts.extensions.insert(rights);
        }
        portal::take_send(api, portal, (&parts.method, route.as_str()), &mut parts.extensions)
            .map_err(later)?;
    }
    api.shared.portals.judged("admitted");
    Ok(admitted(parts, body, caller, under_way))
}

/// The request with its caller, for the route.
fn admitted(
    mut parts: Parts,
    body: Body,
    caller: &Caller,
    under_way: OngoingRequest,
) -> (Request, Option<OngoingRequest>) {
    parts.extensions.insert(caller.called());
    parts.extensions.insert(caller.clone());
    (Request::from_parts(parts, body), Some(under_way))
}

/// The refusal, with the name of whom it refuses.
fn named(caller: &Caller, mut refusal: Response) -> Response {
    refusal.extensions_mut().insert(caller.called());
    refusal
}

fn not_recognised(why: NotRecognised) -> Response {
    let (name, value) = match why.challenge() {
        Some(challenge) => (WWW_AUTHENTICATE, challenge),
        None => (RETRY_AFTER, RETRY_AFTER_SECONDS),
    };
    with_header(why.problem(), name, HeaderValue::from_static(value))
}

/// Whether one of the scopes is enough, whoever the request is about.
pub(super) fn scopes_suffice(scopes: &[Scope], needs: Needs, is_safe: bool, about: &About) -> bool {
    let suffices = |scope: &Scope| match (scope, needs) {
        (Scope::Admin, _)
        | (Scope::Read | Scope::Operate, Needs::Read(_) | Needs::Look(_))
        | (Scope::Report, Needs::Report)
        | (Scope::Commands, Needs::Look(_) | Needs::Command)
        | (Scope::Tasks, Needs::Picks | Needs::OperatePicks | Needs::Fleet)
        | (Scope::Read | Scope::Commands | Scope::Operate, Needs::Fleet)
        | (Scope::Operate, Needs::Command | Needs::Operate(_) | Needs::OperateJobs | Needs::OperatePicks) => {
            true
        }
        (Scope::Read, Needs::Operations) => is_safe,
        (Scope::Operate | Scope::Commands | Scope::Client(_), Needs::Operations) => true,
        (Scope::Read | Scope::Operate, Needs::Jobs | Needs::Queues | Needs::Picks | Needs::Control) => {
            is_safe
        }
        (Scope::Coordinate(namespace), Needs::Coordinate | Needs::Control) => {
            about.in_path("ns") == Some(namespace.as_str())
        }
        (Scope::Jobs(namespace), Needs::Jobs | Needs::OperateJobs | Needs::Control) => {
            about.in_path("ns") == Some(namespace.as_str())
        }
        (Scope::Jobs(namespace), Needs::Queues | Needs::Operations) => {
            about.in_query("namespace") == Some(namespace.as_str())
        }
        (Scope::Coordinate(namespace), Needs::CoordinationList) => {
            about.in_query("namespace") == Some(namespace.as_str())
        }
        (scope, Needs::Streams(right)) => {
            about.in_path("ns").is_some_and(|namespace| scope.may_stream(namespace, right))
        }
        (
            Scope::Read | Scope::Operate | Scope::Streams(_, StreamRights::All | StreamRights::Read),
            Needs::StreamList,
        ) => true,
        (
            Scope::Operate | Scope::Jobs(_) | Scope::Streams(_, StreamRights::All | StreamRights::Append),
            Needs::Relays,
        ) => true,
        _ => false,
    };
    needs == Needs::AnyToken || scopes.iter().any(suffices)
}

/// Whether one of the caller's scopes is enough.
pub(super) async fn may(
    api: &ApiState,
    caller: &Caller,
    needs: Needs,
    is_safe: bool,
    about: &About,
) -> Result<bool, Problem> {
    if scopes_suffice(caller.scopes(), needs, is_safe, about) {
        return Ok(true);
    }
    let (Needs::Read(own) | Needs::Look(own) | Needs::Operate(own) | Needs::Admin(own)) = needs else {
        return Ok(false);
    };
    if own == Ownership::Never {
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

fn forbidden(caller: &Caller, takes: &str) -> Response {
    let challenge = HeaderValue::from_static("Bearer realm=\"fieldpost\", error=\"insufficient_scope\"");
    with_header(caller.may_not(takes), WWW_AUTHENTICATE, challenge)
}

fn limited(holder: TokenHolder<'_>, reached: &LimitReached) -> Response {
    with_header(holder.limited(reached), RETRY_AFTER, portal::retry_after_seconds(reached).into())
}

fn with_header(problem: Problem, name: HeaderName, value: HeaderValue) -> Response {
    let mut response = Refused(problem).into_response();
    response.headers_mut().insert(name, value);
    response
}
