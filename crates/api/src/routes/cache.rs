//! `/v1/cache`: bytes by key, in memory.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use base::Problem;
use base::limits::{CACHE_KEYS_PER_CALL_MAX, CACHED_BYTES_MAX};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::coordination::{CachedValue, CoordinationName};
use net::body::{WholeBody, whole};
use net::problem::Refused;
use net::shares::SenderKey;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::fields::{ObjectFields, strings};
use crate::openapi::refusals::OF_COORDINATION;
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::{CachedInPath, NamespaceInPath};
use crate::shape::{CachedValueShape, CachedValuesShape, DeletedValuesShape};

const VALUE: &str = "/v1/cache/{ns}/{key}";
const GET_MANY: &str = "/v1/cache/{ns}/get";
const DELETE_MANY: &str = "/v1/cache/{ns}/delete";
/// What a value is that nobody said anything of.
const ANY_BYTES: &str = "application/octet-stream";
/// Bytes of values in one answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Memory that a byte of a value takes while its answer is made: in base64, and as JSON.
const HELD_PER_BYTE: usize = 3;

pub(super) fn routes() -> Routes {
    let many_got = of_many("The values of these keys that are there")
        .gives::<CachedValuesShape>(200, "the values")
        .knows::<CachedValueShape>()
        .refuses(&[(422, "answer_too_large")]);
    let many_deleted =
        of_many("Takes the values of these keys out").gives::<DeletedValuesShape>(200, "how many were there");
    let mut routes =
        Routes::default().post(GET_MANY, get_many, many_got).post(DELETE_MANY, delete_many, many_deleted);
    // A key may be the last word of the two others.
    for path in [VALUE, GET_MANY, DELETE_MANY] {
        let got = Call::new("A value")
            .gives_text(ANY_BYTES, "the bytes, with the content type that they were put with")
            .refuses(OF_COORDINATION)
            .refuses(&[(404, "not_cached")]);
        let put = Call::new("Puts a value: the body as it is, of up to 1 MiB")
            .query("ttl", words::duration())
            .query("if_absent", words::flag())
            .gives_nothing(204, "it is there")
            .refuses(OF_COORDINATION)
            .refuses(&[
                (400, "unreadable"),
                (408, "body_too_slow"),
                (409, "exists"),
                (413, "body_too_large"),
                (422, "invalid_ttl"),
                (422, "too_long"),
                (503, "busy"),
            ]);
        let deleted =
            Call::new("Takes a value out").gives_nothing(204, "it is not there").refuses(OF_COORDINATION);
        routes = routes.get(path, get, got).put(path, put_one, put).delete(path, delete, deleted);
    }
    routes
}

fn of_many(summary: &'static str) -> Call {
    Call::new(summary)
        .takes(words::body(&[("keys", words::cache_keys())]))
        .refuses(OF_COORDINATION)
        .refuses(&[(422, "missing_field"), (422, "too_many_keys")])
}

async fn get(State(api): State<ApiState>, CachedInPath(key): CachedInPath) -> Result<Response, Refused> {
    let found = api.engine().coordination().cached(&key).await;
    let Some(CachedValue { bytes, content_type, .. }) = found else {
        return Err(Problem::unknown("not_cached", format!("nothing is cached under {key}")).into());
    };
    let mut response = Response::new(Body::from(bytes));
    let content_type = content_type.and_then(|text| HeaderValue::from_str(&text).ok());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type.unwrap_or(HeaderValue::from_static(ANY_BYTES)));
    // Whatever it is, no browser takes it for a page of this server.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    Ok(response)
}

async fn put_one(State(api): State<ApiState>, request: Request) -> Result<ApiAnswer, Refused> {
    let sender = SenderKey::of(request.extensions());
    let (mut parts, body) = request.into_parts();
    let CachedInPath(key) = CachedInPath::from_request_parts(&mut parts, &api).await?;
    let mut params = Params::from_request_parts(&mut parts, &api).await?;
    let (ttl, if_absent) = (params.duration("ttl")?, params.flag("if_absent")?.unwrap_or_default());
    params.end()?;
    let content_type = parts.headers.get(CONTENT_TYPE);
    let content_type =
        content_type.map(|text| CachedValue::read_content_type(text.as_bytes())).transpose()?;
    let body = whole(body, CACHED_BYTES_MAX, &api.shared.memory_of_bodies, &sender);
    let WholeBody { bytes, held: _held } = body.await?;
    // A copy: what was received may be a part of something larger.
    let bytes = Bytes::copy_from_slice(&bytes);
    let value = CachedValue { bytes, content_type, expires_at: None };
    api.engine().coordination().put_cached(key, value, ttl, if_absent).await?;
    Ok(ApiAnswer::nothing())
}

async fn delete(State(api): State<ApiState>, CachedInPath(key): CachedInPath) -> Result<ApiAnswer, Refused> {
    api.engine().coordination().delete_cached(&key).await;
    Ok(ApiAnswer::nothing())
}

async fn get_many(
    State(api): State<ApiState>,
    NamespaceInPath(namespace): NamespaceInPath,
    request: Request,
) -> Result<Response, Refused> {
    let whose = SenderKey::of(request.extensions());
    let body = Text::from_request(request, &api).await?;
    let keys = keys(&namespace, &body)?;
    // The answer waits for memory of its own.
    drop(body);
    let (coordination, mut found, mut bytes) = (api.engine().coordination(), Vec::new(), 0);
    for key in keys {
        let Some(value) = coordination.cached(&key).await else { continue };
        bytes += value.bytes.len();
        if bytes > ANSWER_BYTES_MAX {
            let detail = format!("the values are over {ANSWER_BYTES_MAX} bytes; ask for fewer keys");
            return Err(Problem::not_allowed("answer_too_large", detail).into());
        }
        found.push((key, value.bytes));
    }
    let held = api.shared.memory_of_pages.take_soon(&whose, HELD_PER_BYTE * bytes).await?;
    let held = held.counted_by(&api.shared.metrics.page_held_bytes);
    let value_of = |bytes: &Bytes| CachedValueShape { value_base64: STANDARD.encode(bytes) };
    let items = found.iter().map(|(key, bytes)| (key.name().to_owned(), value_of(bytes))).collect();
    Ok(held.until_sent(ApiAnswer::ok(&CachedValuesShape { items }).into_response()))
}

async fn delete_many(
    State(api): State<ApiState>,
    NamespaceInPath(namespace): NamespaceInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let (coordination, mut deleted) = (api.engine().coordination(), 0);
    for key in keys(&namespace, &body)? {
        deleted += usize::from(coordination.delete_cached(&key).await);
    }
    Ok(ApiAnswer::ok(&DeletedValuesShape { deleted }))
}

fn keys(namespace: &str, body: &str) -> Result<Vec<CoordinationName>, Problem> {
    let keys = ObjectFields::read(body, &["keys"])?.required("keys", strings)?;
    if keys.len() > CACHE_KEYS_PER_CALL_MAX {
        let detail = format!("keys are {}; a call takes at most {CACHE_KEYS_PER_CALL_MAX}", keys.len());
        return Err(Problem::not_allowed("too_many_keys", detail));
    }
    keys.iter().map(|key| CoordinationName::new(namespace, key)).collect()
}
