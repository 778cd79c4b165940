//! Commands are called off, or tried anew, by a caller.

use base::{EntityId, Problem};
use commands::CommandRefusal;
use records::{Command, CommandStatus};
use store::StoreError;

use super::super::{DevicePartition, DeviceStep};
use crate::commands::unknown_command;
use crate::kernel::reply::InputFailure;

impl DevicePartition {
    pub(in crate::devices::partition) fn cancel_command(
        &mut self,
        id: EntityId,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), InputFailure> {
        let key = self.command_with(id, step)?.id.into();
        let outcome =
            self.with_lanes(step, |lanes, now, store, moved| lanes.cancel(now, key, store, moved))?;
        outcome.map_err(|refused| match refused {
            CommandRefusal::Unknown => unknown_command(id).into(),
            CommandRefusal::GivesWay => gives_way().into(),
            CommandRefusal::Stands(status) => {
                let detail = format!("the command has ended: it is {}", status.as_str());
                Problem::conflict("finished", detail).into()
            }
        })
    }

    pub(in crate::devices::partition) fn retry_command(
        &mut self,
        id: EntityId,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), InputFailure> {
        let command = self.command_with(id, step)?;
        if command.cause.pick().is_some() {
            let detail = "what came of a pick does not change; begin another task for the device";
            return Err(Problem::conflict("not_retryable", detail).into());
        }
        if self.is_wished_otherwise(&command, step)? {
            let detail = "the entry of this command has another wished value now; set the entry again";
            return Err(Problem::conflict("superseded", detail).into());
        }
        let (key, slot) = (command.id.into(), command.slot);
        self.open_if_reachable(slot, step)?;
        let outcome =
            self.with_lanes(step, |lanes, now, store, moved| lanes.retry(now, key, store, moved))?;
        self.close_if_wide(slot, step)?;
        outcome.map_err(|refused| match refused {
            CommandRefusal::Unknown => unknown_command(id).into(),
            CommandRefusal::GivesWay => gives_way().into(),
            CommandRefusal::Stands(status) => {
                let detail = format!(
                    "only a failed, expired or cancelled command is tried anew; this one is {}",
                    status.as_str()
                );
                if status.has_ended() {
                    Problem::conflict("not_retryable", detail).into()
                } else {
                    Problem::conflict("not_finished", detail).into()
                }
            }
        })
    }

    /// Whether retrying the command would set its entry to a value that is no longer wished.
    fn is_wished_otherwise(&self, command: &Command, step: &DeviceStep<'_>) -> Result<bool, StoreError> {
        let Some((key, value)) = command.cause.desired_state() else { return Ok(false) };
        let state = self.command_state(command.id.into(), step)?;
        let is_retryable = state.is_some_and(|state| {
            matches!(state.status, CommandStatus::Failed | CommandStatus::Expired | CommandStatus::Cancelled)
        });
        let desired = self.stored_desired_state(command.slot, key, step)?.and_then(|known| known.desired);
        Ok(is_retryable && desired.as_deref() != value)
    }
}

fn gives_way() -> Problem {
    let detail = "a newer command with the same key waits for the device; this one would only take its place \
                  back: cancel the newer one first, or send a new command";
    Problem::conflict("superseded", detail)
}
