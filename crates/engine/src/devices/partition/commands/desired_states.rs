//! Desired entries: what an application wishes of a device, and what the device has confirmed.

use std::sync::Arc;

use base::limits::DESIRED_STATES_PER_DEVICE_MAX;
use base::{DeviceId, Problem};
use commands::{CommandStore, How, Moved};
use records::{
    CommandCause, CommandKey, CommandPhase, CommandStatus, DesiredState, DeviceSlot, Op, OpenCommand,
    RolloutCause,
};
use store::StoreError;

use super::super::{DevicePartition, DeviceStep};
use crate::commands::NewCommand;
use crate::commands::check::DESIRED_KEY_PREFIX;
use crate::kernel::pending_writes::PendingWrites;
use crate::kernel::reply::InputFailure;
use crate::refusals::unknown_device;

/// Unanswered commands that are looked through for those of an entry.
const UNANSWERED_MAX: usize = 1_000;

/// Desired states that are not durable yet.
pub(in crate::devices::partition) type PendingDesiredStates =
    PendingWrites<(DeviceSlot, Box<str>), DesiredState>;

impl DevicePartition {
    /// Sets what an entry of a device is to be; `None` if it is not to be there. A command brings
    /// the device there.
    pub(in crate::devices::partition) fn set_desired(
        &mut self,
        id: &DeviceId,
        key: &str,
        value: Option<Box<str>>,
        turn: Option<RolloutCause>,
        step: &mut DeviceStep<'_>,
    ) -> Result<DesiredState, InputFailure> {
        let slot = self.devices.slot_of(id).ok_or_else(|| unknown_device(id))?;
        let present = self.stored_desired_state(slot, key, step)?;
        let is_new = present.is_none();
        if is_new {
            self.check_room_for_desired_state(slot, step)?;
        }
        let (confirmed, confirmed_at) = match present {
            Some(desired_state) => (desired_state.confirmed, desired_state.confirmed_at),
            None => (None, None),
        };
        let cause = match turn {
            None => CommandCause::DesiredState { key: key.into(), value: value.clone() },
            Some(turn) => CommandCause::RolloutEntry { key: key.into(), value: value.clone(), turn },
        };
        let command = self.new_command(id, command_to_set(key, value.as_deref()), cause, step)?;
        let desired_state = DesiredState {
            slot,
            key: key.into(),
            desired: value,
            desired_at: step.now,
            confirmed,
            confirmed_at,
            command: Some(command.id.into()),
        };
        self.put_desired_state(desired_state.clone(), is_new, step);
        self.give(command, step)?;
        // Giving the command may have changed the entry, so it is read again.
        Ok(self.stored_desired_state(slot, key, step)?.unwrap_or(desired_state))
    }

    fn check_room_for_desired_state(
        &mut self,
        slot: DeviceSlot,
        step: &DeviceStep<'_>,
    ) -> Result<(), InputFailure> {
        if usize::from(self.count_desired_states(slot, step)?) < DESIRED_STATES_PER_DEVICE_MAX {
            return Ok(());
        }
        let detail =
            format!("a device has at most {DESIRED_STATES_PER_DEVICE_MAX} desired entries; delete some");
        Err(Problem::conflict("too_many_entries", detail).into())
    }

    /// How many entries a device has. They are read once; then the count is kept with the device.
    fn count_desired_states(&mut self, slot: DeviceSlot, step: &DeviceStep<'_>) -> Result<u16, StoreError> {
        if let Some(known) = self.devices.desired_state_count(slot) {
            return Ok(known);
        }
        let durable = step.fetch.view()?.desired_states(slot)?;
        let is_settled = |desired_state: &&DesiredState| {
            self.commands.desired_states.get(&(slot, desired_state.key.clone())).is_none()
        };
        let settled = durable.iter().filter(is_settled).count();
        let pending =
            self.commands.desired_states.present().filter(|desired_state| desired_state.slot == slot).count();
        let count = u16::try_from(settled + pending).unwrap_or(u16::MAX);
        self.devices.set_desired_state_count(slot, count);
        Ok(count)
    }

    /// An entry was changed at the device. What is desired otherwise is older, and gives way.
    pub(in crate::devices::partition) fn confirmed(
        &mut self,
        slot: DeviceSlot,
        key: &str,
        value: Option<Box<str>>,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), InputFailure> {
        let present = self.stored_desired_state(slot, key, step)?;
        let known = present.is_some();
        if !known && value.is_some() {
            self.check_room_for_desired_state(slot, step)?;
        }
        let mut desired_state = present.unwrap_or_else(|| DesiredState {
            slot,
            key: key.into(),
            desired: None,
            desired_at: step.now,
            confirmed: None,
            confirmed_at: None,
            command: None,
        });
        if !known && value.is_none() {
            return Ok(());
        }
        // What was known already is no change: an older command may have brought it.
        let changed = desired_state.confirmed != value;
        desired_state.confirmed_at = Some(step.now);
        if changed {
            let fulfilled = desired_state.desired == value;
            desired_state.confirmed = value;
            if !fulfilled {
                desired_state.desired = None;
                desired_state.command = None;
            }
            self.put_desired_state(desired_state, !known, step);
            self.call_off_commands_of(slot, key, fulfilled, step)?;
        } else {
            self.put_desired_state(desired_state, !known, step);
        }
        Ok(())
    }

    /// Calls off the commands of an entry that was changed at the device. Where that is what was
    /// wished, one that is with the device is left to be answered.
    fn call_off_commands_of(
        &mut self,
        slot: DeviceSlot,
        key: &str,
        fulfilled: bool,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let key_of_command = command_key(key);
        self.with_lanes(step, |lanes, now, store, moved| {
            let mut open = store.with_key(slot, OpenCommand::key_hash(&key_of_command))?;
            if !fulfilled {
                open.extend(store.first(slot, CommandPhase::Unanswered, UNANSWERED_MAX)?);
            }
            for row in open {
                let command = store.command(row.key)?;
                if command.is_some_and(|command| command.key.as_deref() == Some(&*key_of_command)) {
                    // One that has ended meanwhile has nothing to call off.
                    let _ended = lanes.cancel(now, row.key, store, moved)?;
                }
            }
            Ok(())
        })
    }

    /// The command of a desired state is given, or tried anew by hand. It is that state's if what
    /// is desired is still the same.
    pub(super) fn desired_state_scheduled(
        &mut self,
        moved: &Moved,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let Some((key, value)) = moved.command.cause.desired_state() else { return Ok(()) };
        let key_of_command = CommandKey::from(moved.command.id);
        let desired_state = self.stored_desired_state(moved.command.slot, key, step)?;
        if let Some(desired_state) = desired_state.filter(|desired_state| {
            desired_state.desired.as_deref() == value && desired_state.command != Some(key_of_command)
        }) {
            self.put_desired_state(
                DesiredState { command: Some(key_of_command), ..desired_state },
                false,
                step,
            );
        }
        Ok(())
    }

    /// The command of a desired state has ended.
    pub(super) fn desired_state_ended(
        &mut self,
        moved: &Moved,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let Some((key, value)) = moved.command.cause.desired_state() else { return Ok(()) };
        debug_assert_eq!(moved.how, How::Ended);
        let Some(mut desired_state) = self.stored_desired_state(moved.command.slot, key, step)? else {
            return Ok(());
        };
        let is_latest = desired_state.command == Some(CommandKey::from(moved.command.id));
        if is_latest {
            desired_state.command = None;
        }
        if moved.state.status == CommandStatus::Acknowledged {
            desired_state.confirmed = value.map(Box::from);
            desired_state.confirmed_at = Some(step.now);
        } else if !is_latest {
            return Ok(());
        }
        self.put_desired_state(desired_state, false, step);
        Ok(())
    }

    pub(super) fn stored_desired_state(
        &self,
        slot: DeviceSlot,
        key: &str,
        step: &DeviceStep<'_>,
    ) -> Result<Option<DesiredState>, StoreError> {
        let place = (slot, Box::from(key));
        self.commands.desired_states.get_or_read(&place, || step.fetch.view()?.desired_state(slot, key))
    }

    /// Puts a desired state; one that says nothing any more is deleted.
    fn put_desired_state(&mut self, desired_state: DesiredState, is_new: bool, step: &mut DeviceStep<'_>) {
        let place = (desired_state.slot, desired_state.key.clone());
        let says_something = desired_state.desired.is_some()
            || desired_state.confirmed.is_some()
            || desired_state.command.is_some();
        if let Some(count) = self.devices.desired_state_count_mut(desired_state.slot) {
            *count = *count + u16::from(is_new) - u16::from(!says_something);
        }
        self.commands.desired_states.put(step.seq, place, says_something.then(|| desired_state.clone()));
        step.push(match says_something {
            true => Op::PutDesiredState(Box::new(desired_state)),
            false => Op::DeleteDesiredState(desired_state.slot, desired_state.key),
        });
    }
}

/// The key of the commands of an entry: callers can give none that begins so.
fn command_key(entry: &str) -> String {
    format!("{DESIRED_KEY_PREFIX}{entry}")
}

/// The command that brings a device there. A key has nothing that JSON writes otherwise.
fn command_to_set(key: &str, value: Option<&str>) -> NewCommand {
    let payload = match value {
        Some(value) => format!(r#"{{"op":"set","key":"{key}","value":{value}}}"#),
        None => format!(r#"{{"op":"delete","key":"{key}","value":null}}"#),
    };
    NewCommand { key: Some(command_key(key)), ..NewCommand::new(Arc::from(payload.into_bytes())) }
}
