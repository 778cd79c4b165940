//! What orders of rollouts and of campaigns have in common in a device's partition. The command of
//! an order is found again, and called off unless it went out.

use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use records::{Command, CommandKey, CommandStatus, DeviceSlot, OutcomeOf};
use store::{Page, StoreError};

use super::{DevicePartition, DeviceStep};
use crate::kernel::reply::answered;

/// The clocks of two partitions differ by no more.
const CLOCKS_APART: Duration = Duration::from_secs(60);

impl DevicePartition {
    /// The command of an order that was made then, if it was given before.
    pub(super) fn command_of_order(
        &self,
        (slot, ordered_at): (DeviceSlot, Timestamp),
        is_its: impl Fn(&Command) -> bool,
        step: &DeviceStep<'_>,
    ) -> Result<Option<Arc<Command>>, StoreError> {
        let is_its = |command: &Command| command.slot == slot && is_its(command);
        if let Some(pending) = self.commands.pending.find(is_its) {
            return Ok(Some(pending));
        }
        let from = ordered_at.before(CLOCKS_APART);
        let page = Page { from, to: Timestamp::MAX, ascending: true, after: None, limit: 1 };
        let found = step.fetch.view()?.commands(Some(slot), page, &|command, _| is_its(command))?;
        Ok(found.into_iter().next().map(|(command, _)| Arc::new(command)))
    }

    /// Calls a command off, unless it went out; its receiver is told that of it. Whether it was
    /// called off.
    pub(super) fn call_off_unsent(
        &mut self,
        command: &Command,
        told: Option<OutcomeOf>,
        step: &mut DeviceStep<'_>,
    ) -> Result<bool, StoreError> {
        let state = self.command_state(CommandKey::from(command.id), step)?;
        if state.is_none_or(|state| state.status != CommandStatus::Scheduled) {
            return Ok(false);
        }
        self.commands.taking_back = Some((command.id.into(), told));
        let cancelled = self.cancel_command(command.id, step);
        self.commands.taking_back = None;
        Ok(answered(cancelled)?.is_ok())
    }
}
