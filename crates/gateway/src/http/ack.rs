//! A device's answer to a command, or how far it is with it, over HTTP. It goes the way of a
//! report: durable before it is answered, a sign of life, and kept in the quarantine if it is
//! refused.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use base::{DeviceId, Problem};
use engine::intake::{Received, Slice};
use engine::{Report, ReportContent, SliceOutcome};
use net::body::WholeBody;
use net::path::PathParameters;
use net::problem;

use super::answer::{self, BodyOutcome};
use super::refusals::HttpSender;
use super::{HttpShared, RequestRefused, body};
use crate::decode;

/// Where it was found, for the log.
const FROM: &str = "an answer to a command";

/// `POST /v1/devices/{id}/ack`
pub(super) async fn ack(
    State(shared): State<Arc<HttpShared>>,
    PathParameters(id): PathParameters<String>,
    request: Request,
) -> Response {
    let sender = HttpSender::of(&request);
    let (result, response) = match take(&shared, &sender, &id, request).await {
        Ok(tally) => ("answered", answer::tally(&tally)),
        Err(RequestRefused::NotTaken(result, problem)) => (result, problem::response(&problem)),
        Err(RequestRefused::Report(problem)) => ("answered", problem::response(&problem)),
    };
    shared.metrics.bodies.count(result);
    response
}

async fn take(
    shared: &HttpShared,
    sender: &HttpSender,
    id: &str,
    request: Request,
) -> Result<BodyOutcome, RequestRefused> {
    let Some(device) = DeviceId::new(id) else {
        let detail =
            format!("device {} is not registered; POST /v1/devices registers one", decode::quoted(id));
        let problem = Problem::unknown("unknown_device", detail);
        shared.refused(sender, None, &problem, FROM);
        return Err(RequestRefused::Report(problem));
    };
    let body = body::whole(request.into_body(), &shared.memory, &sender.key);
    let WholeBody { bytes, held: _held } = body.await?;
    shared.metrics.received_bytes.inc_by(bytes.len() as u64);
    let content = decode::answer(&bytes).unwrap_or_else(|problem| ReportContent::Refused(Box::new(problem)));
    let report = Report { device: device.clone(), kind: None, content, id: None };
    let mut slice = Slice::new();
    slice.push(report, Received { payload: &bytes, topic: None });
    let SliceOutcome { accepted, rejected } = shared.intake.submit(slice).await?.durable().await?;
    if let Some(rejection) = rejected.into_iter().next() {
        shared.refused(sender, Some(&device), &rejection.problem, FROM);
        return Err(RequestRefused::Report(rejection.problem));
    }
    shared.metrics.reports.accepted(accepted.into());
    let mut tally = BodyOutcome::default();
    tally.accept(accepted.into());
    Ok(tally)
}
