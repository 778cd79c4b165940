//! Callers that wait until a command has ended.

use base::{EntityId, Problem};
use commands::Moved;
use records::{CommandKey, CommandState, DeviceSlot};
use smallvec::SmallVec;
use store::StoreError;

use super::super::{DevicePartition, DeviceStep};
use super::{DeviceCommands, Waiter};
use crate::commands::TrackedCommand;
use crate::devices::effect::DeviceEffect;
use crate::kernel::reply::answered;

/// Callers that wait for the ends of commands of a partition.
const WAITERS_MAX: usize = 4_096;

impl DevicePartition {
    /// Answers when a command has ended.
    pub(super) fn await_command(
        &mut self,
        id: EntityId,
        reply: Waiter,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let command = match answered(self.command_with(id, step))? {
            Ok(command) => command,
            Err(problem) => {
                step.emit(DeviceEffect::Command(reply, Err(problem)));
                return Ok(());
            }
        };
        let key = CommandKey::from(id);
        let state = self.command_state(key, step)?.unwrap_or(CommandState::WAITING);
        if state.status.has_ended() {
            step.emit(DeviceEffect::Command(reply, Ok(Box::new(TrackedCommand { command, state }))));
            return Ok(());
        }
        if self.commands.waiting >= WAITERS_MAX {
            self.commands.forget_gone_waiters();
        }
        if self.commands.waiting >= WAITERS_MAX {
            let detail = "too many callers wait for the ends of commands; ask again without wait";
            step.emit(DeviceEffect::Command(reply, Err(Problem::new(503, "too_many_waiting", detail))));
            return Ok(());
        }
        self.commands.waiting += 1;
        let (_, waiters) = self.commands.waiters.entry(key).or_insert((command.slot, SmallVec::new()));
        waiters.push(reply);
        Ok(())
    }

    /// Tells whoever waits that a command has ended.
    pub(super) fn command_ended(&mut self, moved: Moved, step: &mut DeviceStep<'_>) {
        let waiters = self.commands.waiters.remove(&CommandKey::from(moved.command.id));
        let Some((_, waiters)) = waiters else { return };
        self.commands.waiting -= waiters.len();
        let tracked = TrackedCommand { command: moved.command, state: moved.state };
        for waiter in waiters {
            step.emit(DeviceEffect::Command(waiter, Ok(Box::new(tracked.clone()))));
        }
    }
}

impl DeviceCommands {
    fn forget_gone_waiters(&mut self) {
        self.waiters.retain(|_, (_, waiters)| {
            waiters.retain(|waiter| !waiter.is_closed());
            !waiters.is_empty()
        });
        self.waiting = self.waiters.values().map(|(_, waiters)| waiters.len()).sum();
    }

    /// Whoever waits for the end of a command of a device that is gone.
    pub(super) fn forget_waiters(&mut self, slot: DeviceSlot) -> Vec<Waiter> {
        let of_device = self.waiters.extract_if(|_, (of, _)| *of == slot);
        let forgotten: Vec<Waiter> = of_device.flat_map(|(_, (_, waiters))| waiters).collect();
        self.waiting -= forgotten.len();
        forgotten
    }
}
