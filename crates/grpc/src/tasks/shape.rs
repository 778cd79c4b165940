//! Tasks and results as they are shown.

use bytes::Bytes;
use engine::campaigns::{TASK_ID_PREFIX, TrackedTask};
use engine::commands::COMMAND_ID_PREFIX;
use engine::records::{Pick, PickOutcome, TaskStanding};

use crate::proto;
use crate::time::moment;

/// A task, and its picks counted by what came of them.
pub(super) fn task(TrackedTask { task, state, .. }: &TrackedTask) -> proto::Task {
    proto::Task {
        id: task.id.to_text(TASK_ID_PREFIX),
        status: status(state.standing).into(),
        created_at: Some(moment(task.created_at)),
        ended_at: state.ended_at.map(moment),
        wanted: task.wanted,
        picked: state.counts.picked,
        answered: state.counts.answered,
        failed: state.counts.failed,
        expired: state.counts.expired,
        replaced: state.counts.replaced,
    }
}

fn status(standing: TaskStanding) -> proto::TaskStatus {
    match standing {
        TaskStanding::Running => proto::TaskStatus::Running,
        TaskStanding::Done => proto::TaskStatus::Done,
        TaskStanding::Cancelled => proto::TaskStatus::Cancelled,
    }
}

/// What came of a pick; `None` while it goes on.
pub(super) fn result(pick: &Pick) -> Option<proto::TaskResult> {
    let end = pick.end.as_ref()?;
    let outcome = outcome(end.outcome);
    let has_answered = outcome != proto::PickOutcome::Expired;
    Some(proto::TaskResult {
        device_id: pick.device.to_string(),
        picked_at: Some(moment(pick.picked_at)),
        answered_at: has_answered.then(|| moment(end.at)),
        ended_at: Some(moment(end.at)),
        outcome: outcome.into(),
        reason: end.outcome.reason().unwrap_or_default().to_owned(),
        result: end.result.as_deref().map_or_else(Bytes::new, |text| text.to_owned().into()),
        command_id: pick.command.map(|command| command.to_text(COMMAND_ID_PREFIX)),
    })
}

fn outcome(outcome: PickOutcome) -> proto::PickOutcome {
    match outcome {
        PickOutcome::Answered => proto::PickOutcome::Answered,
        PickOutcome::Refused => proto::PickOutcome::Failed,
        PickOutcome::NotSent | PickOutcome::NoAnswer | PickOutcome::WentAway | PickOutcome::Cancelled => {
            proto::PickOutcome::Expired
        }
    }
}
