//! `/openapi.json`: the document that tells of all routes, itself too.

use axum::Router;
use axum::body::Bytes;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;

use crate::ApiState;
use crate::openapi::{Call, Documented, document};

const PATH: &str = "/openapi.json";

pub(super) fn routes(mut calls: Vec<Documented>) -> Router<ApiState> {
    let call = Call::new("This document").gives_text("application/json", "an OpenAPI 3.1 document");
    calls.push(Documented { method: Method::GET, path: PATH, call });
    let text = Bytes::from(document(calls));
    let show = async move || ([(CONTENT_TYPE, "application/json")], text.clone()).into_response();
    Router::new().route(PATH, get(show))
}
