//! The outbox relay inside the server: its calls go through the API's own routes, without a socket.
//!
//! So the same rules hold as for a relay of its own process. They say what a row may be, how it is
//! refused and what makes it take effect once.

use std::sync::Arc;
use std::time::Duration;

use ::relay::{CallAnswer, CallMaker, OutgoingCall, RelayConfig};
use api::ApiState;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{Method, Request};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower_service::Service;

use crate::config;

/// What `GET /v1/relays` shows it as.
const NAME: &str = "server";
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1_024 * 1_024;

/// Starts the relay, if there is a database; it ends when `stop` is true.
pub(super) fn open(
    settings: &config::RelaySettings,
    api: &ApiState,
    edges: &mut JoinSet<()>,
    stop: &watch::Sender<bool>,
) {
    let Some(database) = settings.database.clone() else { return };
    let config = RelayConfig {
        database,
        table: settings.table.clone(),
        on_refused: settings.on_refused,
        make_call: within(api::router_within(api)),
        name: NAME.to_owned(),
    };
    edges.spawn(::relay::run(config, stop.subscribe()));
}

fn within(router: Router) -> CallMaker {
    Arc::new(move |call| {
        let router = router.clone();
        Box::pin(answered(router, call))
    })
}

async fn answered(mut router: Router, call: OutgoingCall) -> Result<CallAnswer, String> {
    // Names of queues and streams, and of this relay, have no character that a path has otherwise.
    let query = call.parameter.map(|(name, value)| format!("?{name}={value}"));
    let path = format!("/v1/{}{}", call.path.join("/"), query.unwrap_or_default());
    let method = if call.is_put { Method::PUT } else { Method::POST };
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
    let request = request.body(Body::from(call.body)).map_err(|error| error.to_string())?;
    let Ok(response) = router.call(request).await;
    let (status, seconds) = (response.status().as_u16(), response.headers().get(RETRY_AFTER));
    let retry_after =
        seconds.and_then(|seconds| seconds.to_str().ok()?.parse().ok()).map(Duration::from_secs);
    let body = to_bytes(response.into_body(), ANSWER_BYTES_MAX).await.map_err(|error| error.to_string())?;
    Ok(CallAnswer { status, body: body.to_vec(), retry_after })
}
