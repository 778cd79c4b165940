//! The answer to `Send` in the form in which it is kept for a repeat.
//!
//! A zero and the message, or a one, the HTTP status, the code, a zero and the detail.

use std::sync::Arc;

use base::Problem;
use engine::TrackedCommand;
use prost::Message;
use tonic::Status;

use super::{secret_of, shape};
use crate::proto;
use crate::status::{status, status_of};

/// Writes an answer down.
pub(super) fn keep(made: &Result<TrackedCommand, Problem>) -> Arc<[u8]> {
    match made {
        Ok(command) => {
            let notify_secret = secret_of(command.command.notify.as_deref());
            let command = Some(shape::command(&command.as_given()));
            let answer = proto::SendCommandResponse { command, notify_secret };
            let mut bytes = vec![0];
            answer.encode(&mut bytes).expect("a Vec takes every write");
            bytes.into()
        }
        Err(problem) => {
            let status = problem.status.to_be_bytes();
            [&[1], &status[..], problem.code.as_bytes(), &[0], problem.detail.as_bytes()].concat().into()
        }
    }
}

/// Reads an answer that was kept.
pub(super) fn kept(bytes: &[u8]) -> Result<proto::SendCommandResponse, Status> {
    let unreadable = || {
        status(&Problem::new(500, "internal_error", "the answer that is kept of this request cannot be read"))
    };
    match bytes {
        [0, answer @ ..] => proto::SendCommandResponse::decode(answer).map_err(|_| unreadable()),
        [1, high, low, refusal @ ..] => {
            let text = std::str::from_utf8(refusal).ok().and_then(|text| text.split_once('\0'));
            let (code, detail) = text.ok_or_else(unreadable)?;
            Err(status_of(u16::from_be_bytes([*high, *low]), code, detail))
        }
        _ => Err(unreadable()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_same_again() {
        let problem = Problem::unknown("unknown_device", "device \"0xA\" is not registered");
        let again = kept(&keep(&Err(problem.clone()))).expect_err("a refusal");
        let first = status(&problem);
        assert_eq!((again.code(), again.message()), (first.code(), first.message()));
        assert_eq!(again.metadata().get("fieldpost-code"), first.metadata().get("fieldpost-code"));
        for bytes in [&[][..], &[2], &[1, 0], &[1, 0, 0, b'x'], &[0, 255]] {
            assert_eq!(kept(bytes).expect_err("none").code(), tonic::Code::Internal, "{bytes:?}");
        }
    }
}
