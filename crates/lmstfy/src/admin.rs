//! The admin API: tokens of namespaces and their limits, and what there is.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use base::limits::QUEUE_NAME_CHARS_MAX;
use base::random::unguessable;
use engine::queues::id_text;
use engine::records::JobId;
use net::body::whole;
use net::exposition::{self, ExpositionForm};
use net::memory_budget::FREE_BYTES;
use net::shares::SenderKey;
use serde::Serialize;
use serde_json::json;
use tracing::field::display;
use tracing::{error, info};

use crate::answer::{LmstfyAnswer, set_out};
use crate::guard::{in_parts, is_pool, peer};
use crate::limit::Limit;
use crate::query::Query;
use crate::refusals::shown;
use crate::route::is_plain;
use crate::tokens::Unchanged;
use crate::{LmstfyState, POOL, calls, decoding, sizes};

/// Largest form and largest limit: they take nothing of the memory budget.
const BODY_BYTES_MAX: usize = FREE_BYTES;
/// A token that somebody made up is at least so long.
const TOKEN_BYTES_MIN: usize = 20;
/// Longest token and longest description.
const TEXT_BYTES_MAX: usize = 1_024;
/// Most queues that `/info` names.
const INFO_QUEUES_MAX: usize = 100_000;

/// What is asked.
enum AdminCall<'a> {
    Info,
    Version,
    Metrics,
    Pools,
    Limits,
    Tokens(&'a str),
    NewToken(&'a str),
    DeleteToken(&'a str, &'a str),
    LimitOf(&'a str, &'a str),
    AddLimit(&'a str, &'a str),
    SetLimit(&'a str, &'a str),
    DeleteLimit(&'a str, &'a str),
    AccessLog,
    SetAccessLog,
}

fn call<'a>(method: &Method, path: &'a str) -> Option<AdminCall<'a>> {
    let mut segments = path.strip_prefix('/')?.split('/');
    // A slash is in no segment, so it stands for none.
    let segments = [(); 5].map(|()| segments.next().unwrap_or("/"));
    let call = match (method.as_str(), segments) {
        ("GET", ["info", "/", ..]) => AdminCall::Info,
        ("GET", ["version", "/", ..]) => AdminCall::Version,
        ("GET", ["metrics", "/", ..]) => AdminCall::Metrics,
        ("GET", ["pools", "/", ..]) => AdminCall::Pools,
        ("GET", ["limits", "/", ..]) => AdminCall::Limits,
        ("GET", ["accesslog", "/", ..]) => AdminCall::AccessLog,
        ("POST", ["accesslog", "/", ..]) => AdminCall::SetAccessLog,
        (_, ["token", "" | "/", ..] | ["token", _, "", ..]) => return None,
        ("GET", ["token", namespace, "/", ..]) => AdminCall::Tokens(namespace),
        ("POST", ["token", namespace, "/", ..]) => AdminCall::NewToken(namespace),
        ("DELETE", ["token", namespace, token, "/", _]) if token != "/" => {
            AdminCall::DeleteToken(namespace, token)
        }
        ("GET", ["token", namespace, token, "limit", "/"]) => AdminCall::LimitOf(namespace, token),
        ("POST", ["token", namespace, token, "limit", "/"]) => AdminCall::AddLimit(namespace, token),
        ("PUT", ["token", namespace, token, "limit", "/"]) => AdminCall::SetLimit(namespace, token),
        ("DELETE", ["token", namespace, token, "limit", "/"]) => AdminCall::DeleteLimit(namespace, token),
        _ => return None,
    };
    Some(call)
}

impl<'a> AdminCall<'a> {
    /// What it changes, and of which namespace; `None` for one that only looks.
    fn change(&self) -> Option<(&'static str, Option<&'a str>)> {
        match *self {
            Self::NewToken(namespace) => Some(("a token was made", Some(namespace))),
            Self::DeleteToken(namespace, _) => Some(("a token was deleted", Some(namespace))),
            Self::AddLimit(namespace, _) | Self::SetLimit(namespace, _) => {
                Some(("a limit was set", Some(namespace)))
            }
            Self::DeleteLimit(namespace, _) => Some(("a limit was deleted", Some(namespace))),
            Self::SetAccessLog => Some(("the access log was switched", None)),
            Self::Info
            | Self::Version
            | Self::Metrics
            | Self::Pools
            | Self::Limits
            | Self::Tokens(_)
            | Self::LimitOf(..)
            | Self::AccessLog => None,
        }
    }
}

/// The answer to a request.
pub(crate) async fn answer(shared: &LmstfyState, parts: &Parts, body: Body) -> LmstfyAnswer {
    let path = decoding::path(parts.uri.path());
    let Some(call) = call(&parts.method, &path) else { return nothing_there(parts, &path) };
    // Tokens are secrets: whoever reads them may do what they may.
    let is_secret = matches!(call, AdminCall::Tokens(_) | AdminCall::Limits | AdminCall::LimitOf(..));
    let change = call.change();
    let administrator = match shared.may_administer(parts, is_secret || parts.method != Method::GET).await {
        Ok(administrator) => administrator,
        Err(refused) => return refused,
    };
    if let Err(refused) = calls::plain_only(parts, &body) {
        return refused;
    }
    let answer = match answered(shared, call, parts, body).await {
        Ok(answer) => answer,
        Err(refused) => return refused,
    };
    if let Some((change, namespace)) = change {
        let (caller, peer, namespace) = (administrator.name, peer(parts).map(display), namespace.map(shown));
        info!(way = "lmstfy_admin", caller, peer, change, namespace, "changed through the API");
    }
    answer.during(administrator.under_way)
}

/// A path as the log may show it: a token in it is a secret.
pub(crate) fn without_token(path: &str) -> String {
    let path = decoding::path(path);
    let mut segments = path.split('/').skip(1);
    let known: Vec<&str> = segments.by_ref().take(2).collect();
    let mut shown = format!("/{}", known.join("/"));
    if segments.next().is_some() {
        shown.push_str("/*");
        shown.push_str(if segments.next() == Some("limit") { "/limit" } else { "" });
    }
    shown
}

fn nothing_there(parts: &Parts, path: &str) -> LmstfyAnswer {
    let without = path.strip_suffix('/').and_then(|path| call(&parts.method, path));
    match without.and_then(|_| calls::without_slash(parts)) {
        Some(location) => LmstfyAnswer::elsewhere(calls::moved(&parts.method), location),
        None => LmstfyAnswer::text(StatusCode::NOT_FOUND, "404 page not found"),
    }
}

async fn answered(
    shared: &LmstfyState,
    call: AdminCall<'_>,
    parts: &Parts,
    body: Body,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let query = Query::new(parts.uri.query());
    match call {
        AdminCall::Info => info(shared, query).await,
        AdminCall::Version => Ok(version()),
        AdminCall::Metrics => metrics(shared, &parts.headers).await,
        AdminCall::Pools => Ok(LmstfyAnswer::indented(StatusCode::OK, &[POOL])),
        AdminCall::Limits => Ok(LmstfyAnswer::of(StatusCode::OK, &shared.tokens.now().limits())),
        AdminCall::Tokens(namespace) => tokens(shared, namespace, query),
        AdminCall::NewToken(namespace) => new_token(shared, namespace, query, body).await,
        AdminCall::DeleteToken(namespace, token) => delete_token(shared, namespace, token).await,
        AdminCall::LimitOf(namespace, token) => Ok(limit_of(shared, namespace, in_parts(token).1)),
        AdminCall::AddLimit(namespace, token) => new_limit(shared, namespace, token, body, true).await,
        AdminCall::SetLimit(namespace, token) => new_limit(shared, namespace, token, body, false).await,
        AdminCall::DeleteLimit(namespace, token) => delete_limit(shared, namespace, token).await,
        AdminCall::AccessLog => Ok(access_log(shared)),
        AdminCall::SetAccessLog => set_access_log(shared, query),
    }
}

/// Namespaces and their queues: those that have something in them, or settings.
async fn info(shared: &LmstfyState, query: Query<'_>) -> Result<LmstfyAnswer, LmstfyAnswer> {
    if !query.get("pool").is_none_or(|pool| is_pool(&pool)) {
        return Ok(LmstfyAnswer::text(StatusCode::OK, ""));
    }
    let queues = sizes::first_queues(&shared.queues, INFO_QUEUES_MAX).await?;
    let mut by_namespace: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for stats in &queues {
        by_namespace.entry(stats.name.namespace()).or_default().push(stats.name.queue());
    }
    let mut text = set_out(&by_namespace);
    text.push(b'\n');
    Ok(LmstfyAnswer::text(StatusCode::OK, text))
}

async fn metrics(shared: &LmstfyState, headers: &HeaderMap) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let mut text = net::metrics::text(&shared.registry).await?;
    sizes::add(&mut text, &shared.queues).await?;
    let (content_type, text) = exposition::accepted(headers, ExpositionForm::Text, text);
    Ok(LmstfyAnswer::text_of(content_type, text))
}

fn version() -> LmstfyAnswer {
    let version = env!("CARGO_PKG_VERSION");
    LmstfyAnswer::indented(
        StatusCode::OK,
        &json!({"build_commit": "unknown", "build_date": "unknown", "version": version}),
    )
}

fn no_pool() -> LmstfyAnswer {
    LmstfyAnswer::bad("the pool was not exists")
}

/// With their pool in front if the caller named it.
fn tokens(shared: &LmstfyState, namespace: &str, query: Query<'_>) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let pool = query.get("pool").unwrap_or_default();
    if !is_pool(&pool) {
        return Err(no_pool());
    }
    let table = shared.tokens.now();
    let shown = |token: &str| if pool.is_empty() { token.to_owned() } else { format!("{pool}:{token}") };
    let tokens: BTreeMap<String, &str> =
        table.of(namespace).map(|(token, text)| (shown(token), text)).collect();
    Ok(LmstfyAnswer::indented(StatusCode::OK, &json!({"tokens": tokens})))
}

async fn new_token(
    shared: &LmstfyState,
    namespace: &str,
    query: Query<'_>,
    body: Body,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let form = whole(body, BODY_BYTES_MAX, &shared.memory, &SenderKey::Unknown).await?.bytes;
    let form = String::from_utf8_lossy(&form);
    let form = Query::new(Some(&form));
    let given = |name| form.get(name).or_else(|| query.get(name)).unwrap_or_default().into_owned();
    let (description, token) = (given("description"), given("token"));
    let pool = query.get("pool").unwrap_or_default();
    let (pool, token) = checked(namespace, &description, &pool, &token)?;
    if !is_pool(pool) {
        return Err(no_pool());
    }
    let token = if token.is_empty() { made_up()? } else { token.to_owned() };
    let (namespace, new) = (namespace.to_owned(), token.clone());
    let change = shared.tokens.change(move |table| table.add(&namespace, &new, &description)).await;
    change.map_err(|why| match why {
        Unchanged::Exists => LmstfyAnswer::bad("the token has already existed"),
        why => not_kept(&why),
    })?;
    Ok(LmstfyAnswer::indented(StatusCode::CREATED, &json!({"token": token})))
}

/// A token that nobody can guess, with the characters and the length of those that the real server
/// makes.
fn made_up() -> Result<String, LmstfyAnswer> {
    let bytes = unguessable().map_err(|error| {
        error!(%error, "there is no chance to be had");
        failed("internal error")
    })?;
    Ok(id_text(JobId(bytes)))
}

/// The pool and the token, in the order in which the real server looks at them.
fn checked<'a>(
    namespace: &str,
    description: &str,
    pool: &'a str,
    token: &'a str,
) -> Result<(&'a str, &'a str), LmstfyAnswer> {
    let wrong = if description.is_empty() {
        "invalid description"
    } else if !token.is_empty() && token.len() < TOKEN_BYTES_MIN {
        "the user token was too short"
    } else if description.len().max(token.len()) > TEXT_BYTES_MAX {
        "the token or its description was too long"
    } else if namespace.len() > QUEUE_NAME_CHARS_MAX {
        "the namespace name was too long"
    } else if !is_plain(namespace) {
        "namespace name contains forbidden characters"
    } else {
        let with_pool = token.split_once(':').filter(|(_, token)| !token.contains(':'));
        return Ok(with_pool.unwrap_or((pool, token)));
    };
    Err(LmstfyAnswer::bad(wrong))
}

async fn delete_token(
    shared: &LmstfyState,
    namespace: &str,
    token: &str,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let (pool, token) = in_parts(token);
    if !is_pool(pool) {
        return Err(no_pool());
    }
    let (namespace, token) = (namespace.to_owned(), token.to_owned());
    let removed = shared.tokens.change(move |table| {
        table.remove(&namespace, &token);
        Ok(())
    });
    removed.await.map_err(|why| not_kept(&why))?;
    Ok(LmstfyAnswer::nothing())
}

fn limit_of(shared: &LmstfyState, namespace: &str, token: &str) -> LmstfyAnswer {
    match shared.tokens.now().throttle(namespace, token) {
        Some(throttle) => LmstfyAnswer::of(StatusCode::OK, &throttle.limit),
        None => LmstfyAnswer::json(StatusCode::NOT_FOUND, "null"),
    }
}

#[derive(Serialize)]
struct LimiterBody {
    limiter: Limit,
}

/// A limit where there is none, or in place of the one that is there.
async fn new_limit(
    shared: &LmstfyState,
    namespace: &str,
    token: &str,
    body: Body,
    only_new: bool,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let text = whole(body, BODY_BYTES_MAX, &shared.memory, &SenderKey::Unknown).await?.bytes;
    let limit: Limit =
        serde_json::from_slice(&text).map_err(|error| LmstfyAnswer::bad(&error.to_string()))?;
    check_limit(limit)?;
    let (pool, token) = in_parts(token);
    if !is_pool(pool) {
        return Err(no_pool());
    }
    let (owned, new) = (namespace.to_owned(), token.to_owned());
    let change = shared.tokens.change(move |table| {
        if only_new {
            return table.add_limit(&owned, &new, limit);
        }
        table.set_limit(&owned, &new, limit);
        Ok(())
    });
    change.await.map_err(|why| match why {
        Unchanged::Exists => failed(&format!("throttler token({token}) has already exists")),
        why => not_kept(&why),
    })?;
    let status = if only_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(LmstfyAnswer::of(status, &LimiterBody { limiter: limit }))
}

fn check_limit(limit: Limit) -> Result<(), LmstfyAnswer> {
    if limit.read == 0 && limit.write == 0 {
        return Err(LmstfyAnswer::of(StatusCode::BAD_REQUEST, &LimiterBody { limiter: limit }));
    }
    if limit.interval == 0 {
        return Err(LmstfyAnswer::bad("interval should be > 0"));
    }
    if limit.interval < 0 {
        return Err(failed("limiter interval should be > 0"));
    }
    if limit.read <= 0 && limit.write <= 0 {
        return Err(failed("the read and write of limiter can't be <= 0 at the same time"));
    }
    Ok(())
}

async fn delete_limit(
    shared: &LmstfyState,
    namespace: &str,
    token: &str,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let (namespace, token) = (namespace.to_owned(), in_parts(token).1.to_owned());
    let removed = shared.tokens.change(move |table| {
        table.remove_limit(&namespace, &token);
        Ok(())
    });
    removed.await.map_err(|why| not_kept(&why))?;
    Ok(LmstfyAnswer::message(StatusCode::OK, "success"))
}

fn failed(text: &str) -> LmstfyAnswer {
    LmstfyAnswer::error(StatusCode::INTERNAL_SERVER_ERROR, text)
}

fn not_kept(why: &Unchanged) -> LmstfyAnswer {
    match why {
        Unchanged::Exists => failed("it is there already"),
        Unchanged::TooMany(too_many) => failed(&too_many.to_string()),
        Unchanged::NotKept(error) => {
            error!(%error, "lmstfy's tokens could not be kept");
            failed("internal error")
        }
    }
}

fn access_log(shared: &LmstfyState) -> LmstfyAnswer {
    let status = if shared.access_log.load(Ordering::Relaxed) { "enabled" } else { "disabled" };
    LmstfyAnswer::of(StatusCode::OK, &json!({"status": status}))
}

fn set_access_log(shared: &LmstfyState, query: Query<'_>) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let status = query.get("status").unwrap_or_default();
    let enabled = match &*status {
        "enable" => true,
        "disable" => false,
        _ => return Err(LmstfyAnswer::bad("invalid status")),
    };
    shared.access_log.store(enabled, Ordering::Relaxed);
    Ok(access_log(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_is_in_a_path_that_is_logged() {
        for (path, expect) in [
            ("/", "/"),
            ("/info", "/info"),
            ("/token/ns", "/token/ns"),
            ("/token/ns/secret", "/token/ns/*"),
            ("/token/ns/secret/limit", "/token/ns/*/limit"),
            ("/token/ns/secret/secret/limit", "/token/ns/*"),
            ("/%74oken/ns%2Fsecret", "/token/ns/*"),
            ("/tokens/ns/secret", "/tokens/ns/*"),
        ] {
            assert_eq!(without_token(path), expect, "{path}");
        }
    }
}
