//! Messages as copies between nodes send them: bodies of appends, and pages.
//!
//! Whoever may append may send such a body: nothing in it is trusted.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use base::Problem;
use base::limits::JSON_BODY_BYTES_MAX;
use engine::streams::{
    AppendTerms, OriginPage, PeerIdentity, PlaceInRun, StreamName, TransferAppended, decode_transfer,
};
use net::body::{WholeBody, whole};
use net::problem::Refused;
use net::shares::SenderKey;
use net::transfer::{
    EXPECTED_HEADER, NEWEST_HEADER, NEXT_AFTER_HEADER, NODE_HEADER, RUN_HEADER, STREAM_HEADER, TRANSFER_TYPE,
    is_json_line,
};

use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::shape::TransferredShape;

/// Whether a body is messages as copies send them.
pub(crate) fn is_transfer(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == TRANSFER_TYPE.as_bytes())
}

/// Whether a page is to be messages as copies send them.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).is_some_and(|kind| kind.as_bytes() == TRANSFER_TYPE.as_bytes())
}

/// Appends the messages of a body, all or none.
///
/// # Errors
/// 400 or 422 for what is not allowed. 503 `busy` behind an append of the same run that was not
/// taken. 409 `other_stream` where it expects another stream than there is.
pub(crate) async fn append(
    api: &ApiState,
    stream: &StreamName,
    is_durable: bool,
    request: Request,
) -> Result<Response, Refused> {
    let whose = SenderKey::of(request.extensions());
    let run = run_of(request.headers())?;
    let expected = expected_of(request.headers())?;
    let body = whole(request.into_body(), JSON_BODY_BYTES_MAX, &api.shared.memory_of_bodies, &whose);
    let WholeBody { bytes, held: _held } = body.await?;
    let messages = decode_transfer(&bytes, is_json_line)?;
    drop(bytes);
    let terms = AppendTerms { run, is_durable, ..AppendTerms::default() };
    let appended = api.streams().append_transfer(stream, messages, terms, expected.as_deref()).await?;
    let TransferAppended { appended, duplicates, identity } = appended;
    let mut response = ApiAnswer::ok(&TransferredShape { appended, duplicates }).into_response();
    name(&mut response, &identity);
    Ok(response)
}

/// A page as copies read it.
pub(crate) fn page(page: &OriginPage) -> Response {
    let body = if page.page.items.is_empty() { Vec::new() } else { page.encode() };
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TRANSFER_TYPE));
    name_page(&mut response, page);
    response
}

/// Says where a page ends, and of which stream it is.
pub(crate) fn name_page(response: &mut Response, page: &OriginPage) {
    name(response, &page.identity);
    let numbers = [(NEXT_AFTER_HEADER, page.page.next_after), (NEWEST_HEADER, page.newest_durable)];
    for (header, number) in numbers {
        response.headers_mut().insert(HeaderName::from_static(header), number.into());
    }
}

/// Says which stream of which node answers.
fn name(response: &mut Response, identity: &PeerIdentity) {
    for (header, name) in [(NODE_HEADER, &identity.node), (STREAM_HEADER, &identity.stream)] {
        if let Ok(value) = HeaderValue::from_str(name) {
            response.headers_mut().insert(HeaderName::from_static(header), value);
        }
    }
}

/// Which stream an append is meant for.
fn expected_of(headers: &HeaderMap) -> Result<Option<Box<str>>, Problem> {
    let Some(value) = headers.get(EXPECTED_HEADER) else { return Ok(None) };
    let wrong = |_| {
        let detail = format!("{EXPECTED_HEADER} must be what {STREAM_HEADER} was in an answer");
        Problem::not_allowed("unknown_word", detail)
    };
    value.to_str().map(|text| Some(text.into())).map_err(wrong)
}

/// The place of an append among those of its sender.
fn run_of(headers: &HeaderMap) -> Result<Option<PlaceInRun>, Problem> {
    let Some(value) = headers.get(RUN_HEADER) else { return Ok(None) };
    let place = value.to_str().ok().and_then(|text| {
        let (run, place) = text.split_once('-')?;
        Some(PlaceInRun::of_sender(u64::from_str_radix(run, 16).ok()?, place.parse().ok()?))
    });
    let wrong = || Problem::not_allowed("invalid_number", format!("{RUN_HEADER} must be HEX-NUMBER"));
    place.map(Some).ok_or_else(wrong)
}
