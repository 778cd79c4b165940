//! Commands as they are shown.

use bytes::Bytes;
use engine::TrackedCommand;
use engine::commands::COMMAND_ID_PREFIX;
use engine::records::{CommandStatus, LateAnswer};

use crate::proto;
use crate::time::moment;

/// A command, and how far it has come.
pub(super) fn command(tracked: &TrackedCommand) -> proto::Command {
    let TrackedCommand { command, state } = tracked;
    proto::Command {
        id: command.id.to_text(COMMAND_ID_PREFIX),
        device_id: command.device.to_string(),
        status: status(state.status).into(),
        payload: Bytes::copy_from_slice(&command.payload),
        origin: command.origin.as_deref().map(str::to_owned),
        key: command.key.as_deref().map(str::to_owned),
        priority: command.terms.priority.into(),
        tries: state.tries,
        max_attempts: command.terms.attempts_max,
        created_at: Some(moment(command.id.at)),
        not_before: command.terms.not_before.map(moment),
        expires_at: state.expires_at.map(moment),
        published_at: state.published_at.map(moment),
        finished_at: state.finished_at.map(moment),
        progress: text(state.progress.as_deref()),
        progress_at: state.progress_at.map(moment),
        result: text(state.shown_result()),
        late: state.late.as_deref().map(late),
    }
}

fn late(late: &LateAnswer) -> proto::LateAnswer {
    proto::LateAnswer { ok: late.ok, at: Some(moment(late.at)), result: text(late.result.as_deref()) }
}

fn text(json: Option<&str>) -> Option<Bytes> {
    json.map(|json| Bytes::copy_from_slice(json.as_bytes()))
}

fn status(status: CommandStatus) -> proto::CommandStatus {
    match status {
        CommandStatus::Scheduled => proto::CommandStatus::Scheduled,
        CommandStatus::Published => proto::CommandStatus::Published,
        CommandStatus::Running => proto::CommandStatus::Running,
        CommandStatus::Acknowledged => proto::CommandStatus::Acknowledged,
        CommandStatus::Failed => proto::CommandStatus::Failed,
        CommandStatus::Expired => proto::CommandStatus::Expired,
        CommandStatus::Superseded => proto::CommandStatus::Superseded,
        CommandStatus::Cancelled => proto::CommandStatus::Cancelled,
    }
}

/// The status that is asked for; `None` for any.
pub(super) fn read_status(given: i32) -> Result<Option<CommandStatus>, base::Problem> {
    let refused = || {
        let detail = format!("status must be 0 to 8, not {given}");
        base::Problem::not_allowed("unknown_word", detail)
    };
    let asked = proto::CommandStatus::try_from(given).map_err(|_| refused())?;
    Ok(CommandStatus::ALL.into_iter().find(|of| status(*of) == asked))
}
