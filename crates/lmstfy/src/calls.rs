//! One request to the API, from its path to its answer: which call it is, who makes it, whether
//! there may be one more.

use std::sync::Arc;

use access::OngoingRequest;
use axum::body::{Body, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use base::CallerName;
use net::content_encoding::is_encoded;
use tracing::field::display;
use tracing::info;

use crate::answer::LmstfyAnswer;
use crate::consume::JobConsumer;
use crate::guard::{GuardedCall, peer};
use crate::query::Query;
use crate::refusals::shown;
use crate::route::{CallTarget, JobCall, target};
use crate::{LmstfyState, dead, decoding, look, publish};

/// A request that was read.
pub(crate) enum TakenIn {
    /// With the word for the call in metrics.
    Answered(&'static str, LmstfyAnswer),
    /// It may wait.
    Consumes(JobConsumer),
}

/// Reads a request, and answers it unless it may have to wait. It is under way until its answer has
/// left.
pub(crate) async fn take_in(
    shared: Arc<LmstfyState>,
    mut parts: Parts,
    body: Body,
) -> (TakenIn, Option<OngoingRequest>) {
    let uri = parts.uri.clone();
    let path = decoding::path(uri.path());
    let Some(target) = target(&parts.method, &path) else {
        return (TakenIn::Answered("none", nothing_there(&parts, &path)), None);
    };
    let taken_in = called(&shared, &target, &mut parts, body).await;
    taken_in.unwrap_or_else(|refused| (TakenIn::Answered(target.call.as_str(), refused), None))
}

/// A slash too many is taken off by asking the caller to come again, as the real server does.
fn nothing_there(parts: &Parts, path: &str) -> LmstfyAnswer {
    let without = path.strip_suffix('/').and_then(|path| target(&parts.method, path));
    match without.and_then(|_| without_slash(parts)) {
        Some(location) => LmstfyAnswer::elsewhere(moved(&parts.method), location),
        None => LmstfyAnswer::error(StatusCode::NOT_FOUND, "api not found"),
    }
}

/// Refuses an encoded body: it is stored as the payload, and no consumer learns its encoding.
pub(crate) fn plain_only(parts: &Parts, body: &Body) -> Result<(), LmstfyAnswer> {
    if body.is_end_stream() || !is_encoded(&parts.headers) {
        return Ok(());
    }
    let text = "Content-Encoding is not supported: send the body as it is";
    Err(LmstfyAnswer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, text))
}

/// The path without the slash at its end, with the query.
pub(crate) fn without_slash(parts: &Parts) -> Option<HeaderValue> {
    let path = parts.uri.path().strip_suffix('/')?;
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    HeaderValue::try_from(format!("{path}{query}")).ok()
}

/// A method with a body is to be repeated as it is.
pub(crate) fn moved(method: &Method) -> StatusCode {
    if *method == Method::GET { StatusCode::MOVED_PERMANENTLY } else { StatusCode::TEMPORARY_REDIRECT }
}

async fn called(
    shared: &LmstfyState,
    target: &CallTarget<'_>,
    parts: &mut Parts,
    body: Body,
) -> Result<(TakenIn, Option<OngoingRequest>), LmstfyAnswer> {
    let names = target.names()?;
    let GuardedCall { taken, under_way, caller } =
        shared.let_in(target, parts, Query::new(parts.uri.query())).await?;
    // Its body counts for its token.
    if let Some(caller) = caller {
        parts.extensions.insert(caller);
    }
    let (parts, query) = (&*parts, Query::new(parts.uri.query()));
    plain_only(parts, &body)?;
    let answer = match (target.call, names.first()) {
        (JobCall::Consume, _) => {
            let consumer = JobConsumer::new(names, query, taken)?;
            return Ok((TakenIn::Consumes(consumer), under_way));
        }
        (_, None) => Err(LmstfyAnswer::bad("invalid queue name(s)")),
        (JobCall::Publish, Some(queue)) => publish::one(shared, queue, query, parts, body).await,
        (JobCall::Bulk, Some(queue)) => publish::many(shared, queue, query, parts, body).await,
        (JobCall::Republish(id), Some(queue)) => publish::again(shared, queue, id, query, parts, body).await,
        (JobCall::Delete(id), Some(queue)) => dead::delete_job(shared, queue, id).await,
        (JobCall::Job(id), Some(queue)) => look::job(shared, queue, id).await,
        (JobCall::Peek, Some(queue)) => look::peek(shared, queue).await,
        (JobCall::Size, Some(queue)) => look::size(shared, queue).await,
        (JobCall::Destroy, Some(queue)) => look::destroy(shared, queue).await,
        (JobCall::DeadHead, Some(queue)) => dead::head(shared, queue).await,
        (JobCall::DeadSize, Some(queue)) => dead::size(shared, queue).await,
        (JobCall::Respawn, Some(queue)) => dead::respawn(shared, queue, query).await,
        (JobCall::DeleteDead, Some(queue)) => dead::delete(shared, queue, query).await,
    }?;
    if let Some(taken) = taken {
        taken.counts();
    }
    if answer.has_changed {
        log_change(target, parts);
    }
    Ok((TakenIn::Answered(target.call.as_str(), answer), under_way))
}

/// Names the token of a namespace by a number: the token is a secret.
fn log_change(target: &CallTarget<'_>, parts: &Parts) {
    let Some(change) = target.call.change() else { return };
    let caller = parts.extensions.get::<CallerName>().map(|CallerName(name)| &**name);
    let (peer, namespace, queue) = (peer(parts).map(display), shown(target.namespace), shown(target.queue));
    info!(way = "lmstfy", caller, peer, change, namespace, queue, "changed through the API");
}
