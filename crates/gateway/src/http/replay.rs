//! Handing a refused report in once more, when what was in its way is put right. It is decoded from
//! what was received, as its way in would decode it.
//!
//! A report without a `ts` gets the time at which it was received, so that it is not taken for
//! news. One that is accepted leaves the quarantine; one that is refused again stays there as it
//! is. One that its sender might not make stays refused: nothing that is put right later tells that
//! it came from the device it speaks of.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use base::id::QUARANTINE_ID_PREFIX;
use base::{EntityId, Problem};
use engine::intake::{Received, ReportId, Slice};
use engine::records::Quarantined;
use engine::{Report, ReportContent};
use net::path::PathParameters;
use net::problem;

use super::answer::{self, BodyOutcome};
use super::refusals::HttpSender;
use super::{HttpShared, RequestRefused};
use crate::decode::kinds::KindForms;
use crate::decode::{self, DecodeRules};
use crate::mqtt::NOT_ALLOWED;

/// `POST /v1/quarantine/{id}/replay`
pub(super) async fn replay(
    State(shared): State<Arc<HttpShared>>,
    PathParameters(id): PathParameters<String>,
    request: Request,
) -> Response {
    let sender = HttpSender::of(&request);
    match hand_in_again(&shared, &sender, &id).await {
        Ok(tally) => answer::tally(&tally),
        Err(RequestRefused::NotTaken(_, problem) | RequestRefused::Report(problem)) => {
            problem::response(&problem)
        }
    }
}

/// Hands refused reports in again, as the route does. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Replayer(pub(super) Arc<HttpShared>);

impl Replayer {
    /// Hands one in; it leaves the quarantine when it is accepted.
    ///
    /// # Errors
    /// What the route answers: 404 `unknown_quarantined`, or why it is refused again.
    pub async fn replay(&self, id: EntityId) -> Result<(), Problem> {
        match hand_in_again(&self.0, &HttpSender::default(), &id.to_text(QUARANTINE_ID_PREFIX)).await {
            Ok(_) => Ok(()),
            Err(RequestRefused::NotTaken(_, problem) | RequestRefused::Report(problem)) => Err(problem),
        }
    }
}

async fn hand_in_again(
    shared: &HttpShared,
    sender: &HttpSender,
    id: &str,
) -> Result<BodyOutcome, RequestRefused> {
    let quarantined = find(shared, id).await.map_err(RequestRefused::Report)?;
    if quarantined.code == NOT_ALLOWED {
        let detail = "the login that sent it may not speak for this device; if the report is true, its device has to send it";
        let problem = Problem::not_allowed(NOT_ALLOWED, detail);
        shared.refused(sender, quarantined.device.as_ref(), &problem, "a replay");
        return Err(RequestRefused::Report(problem));
    }
    let slice = slice_of(&quarantined, &shared.kinds, DecodeRules::of(&shared.engine));
    let outcome = shared.intake.submit(slice).await?.without_quarantine().durable().await?;
    if let Some(rejection) = outcome.rejected.into_iter().next() {
        shared.refused(sender, quarantined.device.as_ref(), &rejection.problem, "a replay");
        return Err(RequestRefused::Report(rejection.problem));
    }
    match shared.engine.discard_quarantined(quarantined.id).await {
        // Somebody else has discarded it meanwhile.
        Err(problem) if problem.status != 404 => return Err(RequestRefused::Report(problem)),
        _ => {}
    }
    shared.metrics.reports.accepted(outcome.accepted.into());
    let mut tally = BodyOutcome::default();
    tally.accept(outcome.accepted.into());
    Ok(tally)
}

async fn find(shared: &HttpShared, id: &str) -> Result<Quarantined, Problem> {
    let unknown = || {
        let detail = format!("there is no refused report {}", decode::quoted(id));
        Problem::unknown("unknown_quarantined", detail)
    };
    let entity = EntityId::from_text(QUARANTINE_ID_PREFIX, id).ok_or_else(unknown)?;
    let queries = shared.engine.queries();
    let reading = tokio::task::spawn_blocking(move || queries.quarantined(entity));
    match reading.await {
        Ok(read) => read?.ok_or_else(unknown),
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(Problem::unavailable("the server is stopping")),
    }
}

fn slice_of(quarantined: &Quarantined, kinds: &KindForms, rules: DecodeRules) -> Slice {
    let Quarantined { topic, payload, .. } = quarantined;
    let decoded = match topic {
        Some(topic) => kinds.publish(topic, payload, None, rules),
        None => decode::object(payload, None, rules),
    };
    let received = Received { payload, topic: topic.as_deref() };
    let mut slice = Slice::new();
    match decoded {
        Ok(report) => slice.push(as_of_then(report, quarantined), received),
        Err(problem) => slice.push_refused(problem, received),
    }
    slice
}

/// The report with the time at which it was received, if it has no time of its own. One without an
/// id gets that of the refused report. So it has an effect once also where the server was killed
/// before it left the quarantine.
fn as_of_then(report: Report, quarantined: &Quarantined) -> Report {
    let content = match report.content {
        ReportContent::Value { value, ts: None } => {
            ReportContent::Value { value, ts: Some(quarantined.id.at) }
        }
        content => content,
    };
    let of_refusal = || ReportId::of(&quarantined.id.to_text(QUARANTINE_ID_PREFIX));
    Report { content, id: report.id.or_else(|| Some(of_refusal())), ..report }
}
