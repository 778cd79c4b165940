//! Desired entries: what an application wishes of a device, and what the device has confirmed.

use std::sync::Arc;

use base::limits::WISHES_PER_DEVICE_MAX;
use base::{DeviceId, Problem};
use commands::{CommandStore, How, Moved};
use records::{
    CommandCause, CommandKey, CommandPhase, CommandStatus, DeviceSlot, Op, OpenCommand, RolloutCause, Wish,
};
use store::StoreError;

use super::super::{DevicePartition, DeviceStep};
use crate::commands::NewCommand;
use crate::commands::check::WISH_KEY_PREFIX;
use crate::kernel::pending_writes::PendingWrites;
use crate::kernel::reply::Stop;
use crate::refusals::unknown_device;

/// Unanswered commands that are looked through for those of an entry.
const UNANSWERED_MAX: usize = 1_000;

/// Wishes that are not durable yet.
pub(in crate::devices::partition) type PendingWishes = PendingWrites<(DeviceSlot, Box<str>), Wish>;

impl DevicePartition {
    /// Wishes an entry of a device to be this, or not to be. A command brings the device there.
    pub(in crate::devices::partition) fn wish(
        &mut self,
        id: &DeviceId,
        key: &str,
        value: Option<Box<str>>,
        turn: Option<RolloutCause>,
        step: &mut DeviceStep<'_>,
    ) -> Result<Wish, Stop> {
        let slot = self.devices.find(id).ok_or_else(|| unknown_device(id))?.slot;
        let present = self.stored_wish(slot, key, step)?;
        let is_new = present.is_none();
        if is_new {
            self.check_room_for_wish(slot, step)?;
        }
        let (confirmed, confirmed_at) = match present {
            Some(wish) => (wish.confirmed, wish.confirmed_at),
            None => (None, None),
        };
        let cause = match turn {
            None => CommandCause::Wish { key: key.into(), value: value.clone() },
            Some(turn) => CommandCause::RolloutEntry { key: key.into(), value: value.clone(), turn },
        };
        let command = self.new_command(id, wish_command(key, value.as_deref()), cause, step)?;
        let wish = Wish {
            slot,
            key: key.into(),
            desired: value,
            desired_at: step.now,
            confirmed,
            confirmed_at,
            command: Some(command.id.into()),
        };
        self.put_wish(wish.clone(), is_new, step);
        self.give(command, step)?;
        // Giving the command may have changed the entry, so it is read again.
        Ok(self.stored_wish(slot, key, step)?.unwrap_or(wish))
    }

    fn check_room_for_wish(&mut self, slot: DeviceSlot, step: &DeviceStep<'_>) -> Result<(), Stop> {
        if usize::from(self.count_wishes(slot, step)?) < WISHES_PER_DEVICE_MAX {
            return Ok(());
        }
        let detail = format!("a device has at most {WISHES_PER_DEVICE_MAX} desired entries; delete some");
        Err(Problem::conflict("too_many_entries", detail).into())
    }

    /// How many entries a device has. They are read once; then the count is kept with the device.
    fn count_wishes(&mut self, slot: DeviceSlot, step: &DeviceStep<'_>) -> Result<u16, StoreError> {
        if let Some(known) = self.devices.get(slot).and_then(|device| device.wishes) {
            return Ok(known);
        }
        let durable = step.fetch.view()?.wishes(slot)?;
        let is_settled = |wish: &&Wish| self.commands.wishes.get(&(slot, wish.key.clone())).is_none();
        let settled = durable.iter().filter(is_settled).count();
        let pending = self.commands.wishes.present().filter(|wish| wish.slot == slot).count();
        let count = u16::try_from(settled + pending).unwrap_or(u16::MAX);
        if let Some(device) = self.devices.get_mut(slot) {
            device.wishes = Some(count);
        }
        Ok(count)
    }

    /// An entry was changed at the device. A wish that says otherwise is older, and gives way.
    pub(in crate::devices::partition) fn confirmed(
        &mut self,
        slot: DeviceSlot,
        key: &str,
        value: Option<Box<str>>,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), Stop> {
        let present = self.stored_wish(slot, key, step)?;
        let known = present.is_some();
        if !known && value.is_some() {
            self.check_room_for_wish(slot, step)?;
        }
        let mut wish = present.unwrap_or_else(|| Wish {
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
        let changed = wish.confirmed != value;
        wish.confirmed_at = Some(step.now);
        if changed {
            let fulfilled = wish.desired == value;
            wish.confirmed = value;
            if !fulfilled {
                wish.desired = None;
                wish.command = None;
            }
            self.put_wish(wish, !known, step);
            self.call_off_wishes(slot, key, fulfilled, step)?;
        } else {
            self.put_wish(wish, !known, step);
        }
        Ok(())
    }

    /// Calls off the commands of an entry that was changed at the device. Where that is what was
    /// wished, one that is with the device is left to be answered.
    fn call_off_wishes(
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

    /// The command of a wish is given, or tried anew by hand: it is the wish's if that still says
    /// so.
    pub(super) fn wish_scheduled(
        &mut self,
        moved: &Moved,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let Some((key, value)) = moved.command.cause.wish() else { return Ok(()) };
        let key_of_command = CommandKey::from(moved.command.id);
        let wish = self.stored_wish(moved.command.slot, key, step)?;
        if let Some(wish) =
            wish.filter(|wish| wish.desired.as_deref() == value && wish.command != Some(key_of_command))
        {
            self.put_wish(Wish { command: Some(key_of_command), ..wish }, false, step);
        }
        Ok(())
    }

    /// The command of a wish has ended.
    pub(super) fn wish_ended(&mut self, moved: &Moved, step: &mut DeviceStep<'_>) -> Result<(), StoreError> {
        let Some((key, value)) = moved.command.cause.wish() else { return Ok(()) };
        debug_assert_eq!(moved.how, How::Ended);
        let Some(mut wish) = self.stored_wish(moved.command.slot, key, step)? else { return Ok(()) };
        let is_latest = wish.command == Some(CommandKey::from(moved.command.id));
        if is_latest {
            wish.command = None;
        }
        if moved.state.status == CommandStatus::Acknowledged {
            wish.confirmed = value.map(Box::from);
            wish.confirmed_at = Some(step.now);
        } else if !is_latest {
            return Ok(());
        }
        self.put_wish(wish, false, step);
        Ok(())
    }

    pub(super) fn stored_wish(
        &self,
        slot: DeviceSlot,
        key: &str,
        step: &DeviceStep<'_>,
    ) -> Result<Option<Wish>, StoreError> {
        let place = (slot, Box::from(key));
        self.commands.wishes.get_or_read(&place, || step.fetch.view()?.wish(slot, key))
    }

    /// Puts a wish; one that says nothing any more is deleted.
    fn put_wish(&mut self, wish: Wish, is_new: bool, step: &mut DeviceStep<'_>) {
        let place = (wish.slot, wish.key.clone());
        let says_something = wish.desired.is_some() || wish.confirmed.is_some() || wish.command.is_some();
        let count = self.devices.get_mut(wish.slot).and_then(|device| device.wishes.as_mut());
        if let Some(count) = count {
            *count = *count + u16::from(is_new) - u16::from(!says_something);
        }
        self.commands.wishes.put(step.seq, place, says_something.then(|| wish.clone()));
        step.push(match says_something {
            true => Op::PutWish(Box::new(wish)),
            false => Op::DeleteWish(wish.slot, wish.key),
        });
    }
}

/// The key of the commands of an entry: callers can give none that begins so.
fn command_key(entry: &str) -> String {
    format!("{WISH_KEY_PREFIX}{entry}")
}

/// The command that brings a device to a wish. A key has nothing that JSON writes otherwise.
fn wish_command(key: &str, value: Option<&str>) -> NewCommand {
    let payload = match value {
        Some(value) => format!(r#"{{"op":"set","key":"{key}","value":{value}}}"#),
        None => format!(r#"{{"op":"delete","key":"{key}","value":null}}"#),
    };
    NewCommand { key: Some(command_key(key)), ..NewCommand::new(Arc::from(payload.into_bytes())) }
}
