//! `/openapi.json`: the document that tells of all routes, itself too.

use std::sync::OnceLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use net::problem::Refused;

use crate::ApiState;
use crate::openapi::refusals::OF_A_READ;
use crate::openapi::{Call, Documented, document};

const PATH: &str = "/openapi.json";
/// Made when somebody asks for the first time: that takes tens of megabytes for a moment, which a
/// weak device is to be spared.
static TEXT: OnceLock<Bytes> = OnceLock::new();

pub(super) fn routes() -> Router<ApiState> {
    Router::new().route(PATH, get(show))
}

async fn show(State(api): State<ApiState>) -> Result<Response, Refused> {
    let text = api.shared.lookups.run(|| Ok(TEXT.get_or_init(text).clone())).await?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

fn text() -> Bytes {
    let call = Call::new("This document")
        .gives_text("application/json", "an OpenAPI 3.1 document")
        .refuses(OF_A_READ);
    let own = Documented { method: Method::GET, path: PATH, call };
    document(super::documented().into_iter().chain([own]).collect()).into()
}
