//! Rollouts as they come in to be begun.

use base::Problem;
use engine::records::{RolloutStage, RolloutStop, RolloutWindow, RolloutWork};
use engine::rollouts::{NewRollout, named_devices, request_hash, share_ppm};
use engine::{Engine, queues::IdempotencyKey};
use prost::Message;

use crate::commands::new_command;
use crate::proto;
use crate::publish::once_for;
use crate::time::{read_some_span, read_span};

/// Reads a rollout, and checks its ranges.
pub(super) fn read(given: proto::NewRollout, engine: &Engine) -> Result<NewRollout, Problem> {
    let request = request_hash(&given.encode_to_vec());
    let command = new_command::read(given.command.unwrap_or_default(), engine)?;
    let mut new = NewRollout::of(RolloutWork::Command(Box::new(command.into())), request);
    new.selection = engine.selection(given.selector.as_deref(), given.place.as_deref())?;
    new.devices = given.devices.map(|devices| named_devices(&devices.ids)).transpose()?;
    new.include_later = given.include_later;
    new.rate = given.rate;
    new.in_flight = given.in_flight;
    new.stages = given.stages.iter().map(stage).collect::<Result<_, _>>()?;
    new.window = given.window.map(window).transpose()?;
    new.stop = given.stop.map(|given| stop(&given)).transpose()?;
    new.check()?;
    Ok(new)
}

fn stage(given: &proto::RolloutStage) -> Result<RolloutStage, Problem> {
    let soak = given.soak.as_ref().map(|soak| read_span("soak", soak)).transpose()?.unwrap_or_default();
    Ok(RolloutStage {
        share_ppm: share_ppm("share", given.share, f64::MIN_POSITIVE)?,
        soak_ms: u64::try_from(soak.as_millis()).unwrap_or(u64::MAX),
        approve: given.approve,
    })
}

fn window(given: proto::RolloutWindow) -> Result<RolloutWindow, Problem> {
    let open_for = given.open_for.ok_or_else(|| {
        Problem::not_allowed("missing_field", "the field open_for of window has to be there")
    })?;
    let open_for = read_some_span("open_for", &open_for)?;
    Ok(RolloutWindow {
        cron: given.cron.into(),
        for_ms: u64::try_from(open_for.as_millis()).unwrap_or(u64::MAX),
        tz: (!given.tz.is_empty()).then(|| given.tz.into()),
    })
}

fn stop(given: &proto::RolloutStop) -> Result<RolloutStop, Problem> {
    let failed_ppm = share_ppm("failed_share", given.failed_share, 0.0)?;
    Ok(RolloutStop { failed_ppm, after: given.after.unwrap_or(1) })
}

/// What makes a request that may be repeated the same as before.
pub(super) fn once(
    request: &proto::CreateRolloutRequest,
    caller: &str,
) -> Result<Option<IdempotencyKey>, Problem> {
    let belongs = format!("grpc Rollouts.Create\n{caller}");
    let idempotency = once_for(&request.idempotency_key, &belongs, || request.encode_to_vec())?;
    if idempotency.is_some() && !request.id.is_empty() {
        let detail = "id stands beside idempotency_key; either makes the request safe to repeat";
        return Err(Problem::not_allowed("conflicting_fields", detail));
    }
    Ok(idempotency)
}

/// A key makes the id of its rollout: one that is taken is that of another request.
pub(super) fn reused(problem: Problem, has_key: bool) -> Problem {
    if has_key && problem.code == "exists" {
        let detail = "the idempotency_key came with another rollout before; use a new one";
        return Problem::not_allowed("idempotency_key_reused", detail);
    }
    problem
}
