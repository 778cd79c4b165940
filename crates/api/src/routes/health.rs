//! `/healthz`, `/readyz` and `/metrics`: for those who keep the server running. They answer when
//! nothing else does.

use std::borrow::Cow;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use base::Problem;
use net::exposition::{self, ExpositionForm};
use net::metrics;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::openapi::Call;

/// What plain text is answered as.
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

pub(super) fn routes() -> Routes {
    let alive_told = Call::new("The process lives").gives_text(TEXT_TYPE, "it does");
    let ready_told = Call::new("What is accepted can be made durable").gives_text(TEXT_TYPE, "it can");
    let metrics_told = Call::new("Figures for Prometheus").gives_texts(
        &[ExpositionForm::OpenMetrics, ExpositionForm::Text].map(ExpositionForm::content_type),
        "OpenMetrics text, or the text form 0.0.4 for those who like it better",
    );
    Routes::default().get("/healthz", alive, alive_told).get("/readyz", ready, ready_told).get(
        "/metrics",
        metrics,
        metrics_told,
    )
}

/// The process lives and answers.
async fn alive() -> &'static str {
    "alive\n"
}

/// What is accepted can be made durable, or with syncs at intervals soon will be.
async fn ready(State(api): State<ApiState>) -> Result<Cow<'static, str>, Refused> {
    if let Some(failure) = api.engine().failure() {
        return Err(Problem::unavailable(format!("the store has failed: {failure}")).into());
    }
    Ok(match api.shared.sync_interval.get() {
        None => "ready\n".into(),
        Some(interval) => format!(
            "ready; synced every {interval:?}: the power going out may take what was acknowledged since the last sync\n"
        )
        .into(),
    })
}

async fn metrics(State(api): State<ApiState>, headers: HeaderMap) -> Result<impl IntoResponse, Refused> {
    let text = metrics::text(&api.shared.registry).await?;
    let (content_type, text) = exposition::accepted(&headers, ExpositionForm::OpenMetrics, text);
    Ok(([(CONTENT_TYPE, content_type)], text))
}
