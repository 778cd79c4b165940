//! Tasks as they come in to be begun.

use base::{DeviceId, EntityId, Problem};
use engine::Engine;
use engine::campaigns::{NAMED_MAX, NewPickTerms, NewTask, TASK_ID_PREFIX};
use engine::commands::receiver_queue;
use engine::queues::{IdempotencyKey, JobPayload};
use engine::records::{OutcomeReceiver, PickClass, TaskRelation};
use engine::rollouts::request_hash;
use net::problem::quoted;
use prost::Message;

use crate::payload::read_json;
use crate::proto::{
    self,
    new_task::{Notify, Relation},
};
use crate::publish::once_for;
use crate::time::read_some_span;

/// Reads a task, and checks its ranges.
pub(super) fn read(given: proto::NewTask, engine: &Engine) -> Result<NewTask, Problem> {
    let request = request_hash(&given.encode_to_vec());
    let JobPayload::Json(payload) = read_json(&given.payload)? else {
        return Err(Problem::unreadable("payload is not JSON"));
    };
    let mut terms = NewPickTerms::new(payload.as_bytes().into(), given.count);
    terms.selection = engine.selection(given.selector.as_deref(), given.place.as_deref())?;
    if let Some(exclude) = &given.exclude {
        let read = engine.selection(Some(exclude), None);
        terms.exclude =
            read.map_err(|problem| Problem { detail: format!("exclude: {}", problem.detail), ..problem })?;
    }
    terms.devices = given.devices.map(|devices| named(&devices.ids)).transpose()?;
    terms.relation = given.relation.map(|relation| read_relation(&relation)).transpose()?;
    terms.spread_by = given.spread_by.map(String::into_boxed_str);
    if let Some(timeout) = &given.answer_timeout {
        terms.answer_timeout = read_some_span("answer_timeout", timeout)?;
    }
    terms.class = class(given.class)?;
    terms.receiver = receiver(given.notify, &given.notify_secret, engine)?;
    let deadline = given.deadline.as_ref().map(|span| read_some_span("deadline", span)).transpose()?;
    let new = NewTask { request, terms, deadline: deadline.unwrap_or(NewTask::DEADLINE) };
    new.check()?;
    Ok(new)
}

fn named(ids: &[String]) -> Result<Vec<DeviceId>, Problem> {
    if ids.len() > NAMED_MAX {
        let detail = format!("devices has {} items; it may have {NAMED_MAX}", ids.len());
        return Err(Problem::not_allowed("too_many_devices", detail));
    }
    let id = |text: &String| {
        DeviceId::new(text).ok_or_else(|| {
            let detail = format!("devices has {}, which cannot be a device's id", quoted(text));
            Problem::not_allowed("invalid_id", detail)
        })
    };
    ids.iter().map(id).collect()
}

fn read_relation(given: &Relation) -> Result<TaskRelation, Problem> {
    let read = |field: &str, text: &str| {
        EntityId::from_text(TASK_ID_PREFIX, text).ok_or_else(|| {
            let detail = format!("{field} is {}; it must be the id of a task", quoted(text));
            Problem::not_allowed("invalid_id", detail)
        })
    };
    match given {
        Relation::SameAs(id) => read("same_as", id).map(TaskRelation::SameAs),
        Relation::NotAs(id) => read("not_as", id).map(TaskRelation::NotAs),
    }
}

fn class(given: i32) -> Result<PickClass, Problem> {
    match proto::PickClass::try_from(given) {
        Ok(proto::PickClass::Unspecified) => Ok(PickClass::default()),
        Ok(proto::PickClass::Large) => Ok(PickClass::Large),
        Ok(proto::PickClass::Enterprise) => Ok(PickClass::Enterprise),
        Ok(proto::PickClass::Ordinary) => Ok(PickClass::Ordinary),
        Err(_) => {
            let detail = format!("class must be 0 to 3, not {given}");
            Err(Problem::not_allowed("unknown_word", detail))
        }
    }
}

fn receiver(
    given: Option<Notify>,
    secret: &[u8],
    engine: &Engine,
) -> Result<Option<OutcomeReceiver>, Problem> {
    let secret = (!secret.is_empty()).then(|| secret.to_vec());
    match given {
        Some(Notify::NotifyUrl(url)) => engine.commands().receiver_at(url, secret).map(Some),
        Some(Notify::NotifyQueue(queue)) if secret.is_none() => receiver_queue(&queue).map(Some),
        None if secret.is_none() => Ok(None),
        Some(Notify::NotifyQueue(_)) | None => {
            let detail = "notify_secret is there without notify_url, to which it belongs";
            Err(Problem::not_allowed("conflicting_fields", detail))
        }
    }
}

/// What makes a request that may be repeated the same as before.
pub(super) fn once(request: &proto::RunTaskRequest, caller: &str) -> Result<Option<IdempotencyKey>, Problem> {
    let belongs = format!("grpc Tasks.Run\n{caller}");
    once_for(&request.idempotency_key, &belongs, || request.encode_to_vec())
}

/// A key makes the id of its task: one that is taken is that of another request.
pub(super) fn reused(problem: Problem, has_key: bool) -> Problem {
    if has_key && problem.code == "exists" {
        let detail = "the idempotency_key came with another task before; use a new one";
        return Problem::not_allowed("idempotency_key_reused", detail);
    }
    problem
}
