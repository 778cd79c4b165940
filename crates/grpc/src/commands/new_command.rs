//! Commands as they come in to be sent.

use base::Problem;
use engine::commands::receiver_queue;
use engine::queues::{IdempotencyKey, JobPayload};
use engine::{Engine, NewCommand};
use prost::Message;

use crate::payload::read_json;
use crate::proto::{self, new_command::Notify};
use crate::publish::once_for;
use crate::time::{read_moment, read_some_span};

/// Reads a command, and checks its ranges.
pub(crate) fn read(given: proto::NewCommand, engine: &Engine) -> Result<NewCommand, Problem> {
    let JobPayload::Json(payload) = read_json(&given.payload)? else {
        return Err(Problem::unreadable("payload is not JSON"));
    };
    let mut command = NewCommand::new(payload.as_bytes().into());
    command.ttl = given.ttl.map(|ttl| read_some_span("ttl", &ttl)).transpose()?;
    command.not_before = given.not_before.map(|at| read_moment("not_before", &at)).transpose()?;
    command.ack_timeout = given.ack_timeout.map(|span| read_some_span("ack_timeout", &span)).transpose()?;
    command.run_timeout = given.run_timeout.map(|span| read_some_span("run_timeout", &span)).transpose()?;
    command.attempts_max = given.max_attempts;
    command.origin = given.origin;
    command.key = given.key;
    command.priority = i8::try_from(given.priority).map_err(|_| {
        let detail = format!("priority is {}; it must be -100 to 100", given.priority);
        Problem::not_allowed("invalid_number", detail)
    })?;
    let secret = (!given.notify_secret.is_empty()).then(|| given.notify_secret.to_vec());
    command.notify = match given.notify {
        Some(Notify::NotifyUrl(url)) => Some(engine.commands().receiver_at(url, secret)?),
        Some(Notify::NotifyQueue(queue)) if secret.is_none() => Some(receiver_queue(&queue)?),
        None if secret.is_none() => None,
        Some(Notify::NotifyQueue(_)) | None => {
            let detail = "notify_secret is there without notify_url, to which it belongs";
            return Err(Problem::not_allowed("conflicting_fields", detail));
        }
    };
    command.check(engine.clock().wall())?;
    Ok(command)
}

/// What makes a request that may be repeated the same as before: its key, which belongs to the
/// device and the caller, and its command.
pub(super) fn once(
    request: &proto::SendCommandRequest,
    caller: &str,
) -> Result<Option<IdempotencyKey>, Problem> {
    let belongs = format!("grpc Commands.Send\n{}\n{caller}", request.device_id);
    once_for(&request.idempotency_key, &belongs, || request.encode_to_vec())
}
