//! Refusals on the wire: a gRPC status for the HTTP one, with the stable code in the metadata.

use base::Problem;
use tonic::metadata::MetadataValue;
use tonic::{Code, Response, Status};

/// The metadata that has the stable code of a refusal.
pub(crate) const CODE: &str = "fieldpost-code";

/// The status that says the same.
pub(crate) fn status(problem: &Problem) -> Status {
    status_of(problem.status, problem.code, &problem.detail)
}

/// The same of a problem whose code is no constant any more.
pub(crate) fn status_of(http_status: u16, code: &str, detail: &str) -> Status {
    let mut status = Status::new(code_of(http_status, code), detail);
    if let Ok(code) = MetadataValue::try_from(code) {
        status.metadata_mut().insert(CODE, code);
    }
    status
}

/// The refusal of a message by the transport, which knows no stable codes, with its code. `None`
/// for what is no such refusal: all others are made here, with theirs.
pub(crate) fn coded(status: &Status) -> Option<Status> {
    let (http_status, code) = match status.code() {
        _ if status.metadata().contains_key(CODE) => return None,
        Code::Internal => (400, "unreadable"),
        Code::OutOfRange => (413, "body_too_large"),
        _ => return None,
    };
    Some(status_of(http_status, code, status.message()))
}

/// The answer to a call.
pub(crate) fn into_response<T>(answer: Result<T, Problem>) -> Result<Response<T>, Status> {
    answer.map(Response::new).map_err(|problem| status(&problem))
}

fn code_of(status: u16, code: &str) -> Code {
    match (status, code) {
        (400 | 422, _) => Code::InvalidArgument,
        (401, _) => Code::Unauthenticated,
        (403, _) => Code::PermissionDenied,
        (404, _) => Code::NotFound,
        (409, "alias_taken" | "alias_repeated" | "exists") => Code::AlreadyExists,
        (409, "queue_full") | (503, "stream_full") | (413 | 429, _) => Code::ResourceExhausted,
        (409, _) => Code::FailedPrecondition,
        (503, _) => Code::Unavailable,
        (408, _) => Code::DeadlineExceeded,
        _ => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_the_status_that_clients_act_on() {
        for (problem, expect) in [
            (Problem::unreadable("x"), Code::InvalidArgument),
            (Problem::not_allowed("invalid_name", "x"), Code::InvalidArgument),
            (Problem::unknown("unknown_job", "x"), Code::NotFound),
            (Problem::conflict("alias_taken", "x"), Code::AlreadyExists),
            (Problem::conflict("stale_reservation", "x"), Code::FailedPrecondition),
            (Problem::conflict("queue_full", "x"), Code::ResourceExhausted),
            (Problem::unavailable("x"), Code::Unavailable),
            (Problem::new(401, "unauthorized", "x"), Code::Unauthenticated),
            (Problem::new(403, "forbidden", "x"), Code::PermissionDenied),
            (Problem::new(413, "body_too_large", "x"), Code::ResourceExhausted),
            (Problem::new(429, "too_many_requests", "x"), Code::ResourceExhausted),
            (Problem::new(500, "internal_error", "x"), Code::Internal),
        ] {
            let status = status(&problem);
            let code = status.metadata().get(CODE).map(|code| code.to_str().expect("a word").to_owned());
            assert_eq!((status.code(), code.as_deref()), (expect, Some(problem.code)), "{problem}");
            assert!(coded(&status).is_none(), "{problem}");
        }
    }

    #[test]
    fn what_the_transport_refuses_gets_its_code() {
        for (of_transport, expect) in [
            (Status::internal("x"), Some((Code::InvalidArgument, "unreadable"))),
            (Status::out_of_range("x"), Some((Code::ResourceExhausted, "body_too_large"))),
            (Status::cancelled("x"), None),
        ] {
            let told = coded(&of_transport);
            let code = |status: &Status| {
                status.metadata().get(CODE).map(|code| code.to_str().expect("a word").to_owned())
            };
            let told = told.map(|status| (status.code(), code(&status).unwrap_or_default()));
            assert_eq!(told, expect.map(|(status, code)| (status, code.to_owned())), "{of_transport}");
        }
    }
}
