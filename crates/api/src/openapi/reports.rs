//! What is said of `POST /v1/reports`, of answers to commands over HTTP, and of the replay of a
//! refused report, which another crate answers.

use axum::http::Method;
use serde::Serialize;
use utoipa::ToSchema;

use super::refusals::{self, Coded};
use super::{Call, Documented, words};

/// What became of reports.
#[derive(Serialize, ToSchema)]
#[schema(as = Tally)]
pub(crate) struct TallyShape {
    accepted: u64,
    rejected_count: u64,
    #[schema(max_items = 1000)]
    rejected: Vec<RejectedLineShape>,
}

/// A line that was refused.
#[derive(Serialize, ToSchema)]
#[schema(as = RejectedLine)]
pub(crate) struct RejectedLineShape {
    /// Counts from 1.
    line: u64,
    code: String,
    detail: String,
}

const OF_A_REPORT: &[Coded] = &[
    refusals::UNKNOWN_DEVICE,
    (400, "unreadable"),
    (408, "body_too_slow"),
    (413, "body_too_large"),
    (422, "invalid_id"),
    (422, "invalid_report_id"),
    (422, "invalid_ts"),
    (422, "missing_field"),
    (422, "not_an_object"),
    (422, "ts_ahead"),
    (422, "value_not_allowed"),
    (422, "value_too_deep"),
    (422, "value_too_large"),
    (422, "wrong_kind"),
];

/// The calls.
pub(crate) fn calls() -> Vec<Documented> {
    let report = words::report();
    let call = Call::new("Hands in a report, or many as lines; answered once what is accepted is durable")
        .reads(report.clone())
        .takes_lines(&report)
        .gives::<TallyShape>(200, "what became of it")
        .refuses(OF_A_REPORT);
    let again = Call::new("Hands a refused report in once more; one that is accepted leaves the quarantine")
        .gives::<TallyShape>(200, "it was accepted, with the time of its receipt if it has no ts")
        .refuses(OF_A_REPORT)
        .refuses(&[
            refusals::UNKNOWN_QUARANTINED,
            (422, "line_too_long"),
            (422, "not_allowed"),
            (422, "unknown_topic"),
        ]);
    let answered = Call::new("A device's answer to a command, or how far it is with it")
        .reads(words::answer())
        .gives::<TallyShape>(200, "it is durable")
        .refuses(OF_A_REPORT)
        .refuses(&[refusals::UNKNOWN_COMMAND, (422, "invalid_ok")]);
    vec![
        Documented { method: Method::POST, path: "/v1/devices/{id}/ack", call: answered },
        Documented { method: Method::POST, path: "/v1/reports", call },
        Documented { method: Method::POST, path: "/v1/quarantine/{id}/replay", call: again },
    ]
}
