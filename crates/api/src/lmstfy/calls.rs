//! One request to the API, from its path to its answer: which call it is, who makes it, whether there may be one more.

use std::slice;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use engine::queues::QueueName;

use super::answer::Answer;
use super::query::Query;
use super::route::{Call, Target, target};
use super::{Shared, consume, dead, decoding, look, publish};

/// The answer, and the word for the call in figures.
pub(super) async fn answer(shared: &Shared, parts: &Parts, body: Body) -> (&'static str, Answer) {
    let path = decoding::path(parts.uri.path());
    match target(&parts.method, &path) {
        None => ("none", nothing_there(parts, &path)),
        Some(target) => {
            let answer = called(shared, &target, parts, body).await;
            (target.call.as_str(), answer.unwrap_or_else(|refused| refused))
        }
    }
}

/// A slash too many is taken off by asking the caller to come again, as the real server does.
fn nothing_there(parts: &Parts, path: &str) -> Answer {
    let without = path.strip_suffix('/').and_then(|path| target(&parts.method, path));
    match without.and_then(|_| without_slash(parts)) {
        Some(location) => Answer::elsewhere(moved(&parts.method), location),
        None => Answer::error(StatusCode::NOT_FOUND, "api not found"),
    }
}

/// The path without the slash at its end, with the query.
pub(super) fn without_slash(parts: &Parts) -> Option<HeaderValue> {
    let path = parts.uri.path().strip_suffix('/')?;
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    HeaderValue::try_from(format!("{path}{query}")).ok()
}

/// A method with a body is to be repeated as it is.
pub(super) fn moved(method: &Method) -> StatusCode {
    if *method == Method::GET { StatusCode::MOVED_PERMANENTLY } else { StatusCode::TEMPORARY_REDIRECT }
}

async fn called(shared: &Shared, target: &Target<'_>, parts: &Parts, body: Body) -> Result<Answer, Answer> {
    let names = target.names()?;
    let query = Query::new(parts.uri.query());
    let taken = shared.let_in(target, &parts.headers, query)?;
    let answer = match &names[..] {
        [queue] => about_one(shared, target.call, queue, parts, body).await?,
        several => consume::consume(shared, several, query).await?,
    };
    if let Some(taken) = taken {
        taken.counts();
    }
    Ok(answer)
}

async fn about_one(
    shared: &Shared,
    call: Call<'_>,
    queue: &QueueName,
    parts: &Parts,
    body: Body,
) -> Result<Answer, Answer> {
    let query = Query::new(parts.uri.query());
    match call {
        Call::Consume => consume::consume(shared, slice::from_ref(queue), query).await,
        Call::Publish => publish::one(shared, queue, query, &parts.headers, body).await,
        Call::Bulk => publish::many(shared, queue, query, &parts.headers, body).await,
        Call::Republish(id) => publish::again(shared, queue, id, query, &parts.headers, body).await,
        Call::Delete(id) => dead::delete_job(shared, queue, id).await,
        Call::Job(id) => look::job(shared, queue, id).await,
        Call::Peek => look::peek(shared, queue).await,
        Call::Size => look::size(shared, queue).await,
        Call::Destroy => look::destroy(shared, queue).await,
        Call::DeadHead => dead::head(shared, queue).await,
        Call::DeadSize => dead::size(shared, queue).await,
        Call::Respawn => dead::respawn(shared, queue, query).await,
        Call::DeleteDead => dead::delete(shared, queue, query).await,
    }
}
