//! Rollouts' orders in a device's partition: commands are given once for each turn, or taken back.

use std::sync::Arc;
use std::time::Duration;

use commands::{How, Moved};
use records::{Command, CommandCause, CommandKey, MemberPlace, RolloutCause, RolloutWork};
use store::StoreError;

use super::{DevicePartition, DeviceStep};
use crate::commands::NewCommand;
use crate::devices::effect::DeviceEffect;
use crate::kernel::reply::answered;
use crate::rollouts::{CommandAt, CommandMove, OrderKind, OrderOutcome, OrderReport, RolloutOrder};

impl DevicePartition {
    pub(super) fn rollout_orders(
        &mut self,
        orders: Vec<RolloutOrder>,
        step: &mut DeviceStep<'_>,
    ) -> Result<Vec<OrderReport>, StoreError> {
        let mut reports = Vec::with_capacity(orders.len());
        for order in orders {
            let outcome = self.rollout_order(&order, step)?;
            reports.push(OrderReport { place: order.place, turn: order.turn, outcome });
        }
        Ok(reports)
    }

    fn rollout_order(
        &mut self,
        order: &RolloutOrder,
        step: &mut DeviceStep<'_>,
    ) -> Result<OrderOutcome, StoreError> {
        let Some(slot) = self.devices.slot_of(&order.place.device) else {
            return Ok(OrderOutcome::Nobody);
        };
        let turn = RolloutCause { rollout: order.place.rollout, entry: order.place.entry, turn: order.turn };
        let given = match (order.command, order.what) {
            (Some(id), _) => self.stored_command(id.into(), step)?.filter(|command| command.slot == slot),
            // Nobody was told of one that is new.
            (None, OrderKind::Give) => None,
            (None, OrderKind::Ensure | OrderKind::TakeBack) => {
                let is_its = |command: &Command| command.cause.turn() == Some(turn);
                self.command_of_order((slot, order.handed_at), is_its, step)?
            }
        };
        match (given, order.what) {
            (Some(command), OrderKind::TakeBack) => self.take_back(&command, step),
            (Some(command), OrderKind::Give | OrderKind::Ensure) => self.stands(&command, step),
            (None, OrderKind::TakeBack) => Ok(OrderOutcome::TakenBack),
            // It was deleted, with the device that had it.
            (None, _) if order.command.is_some() => Ok(OrderOutcome::Nobody),
            (None, OrderKind::Give | OrderKind::Ensure) => self.give_turn(order, turn, step),
        }
    }

    fn give_turn(
        &mut self,
        order: &RolloutOrder,
        turn: RolloutCause,
        step: &mut DeviceStep<'_>,
    ) -> Result<OrderOutcome, StoreError> {
        let device = &order.place.device;
        let given = match &order.rollout.work {
            RolloutWork::Command(of_rollout)
                if of_rollout
                    .notify
                    .as_ref()
                    .is_some_and(|receiver| self.check_room_for_outcome(receiver).is_err()) =>
            {
                return Ok(OrderOutcome::Busy);
            }
            RolloutWork::Command(of_rollout) => {
                let ms = |ms: &Option<u64>| ms.map(Duration::from_millis);
                let new = NewCommand {
                    payload: Arc::clone(&of_rollout.payload),
                    ttl: ms(&of_rollout.ttl_ms),
                    not_before: of_rollout.not_before,
                    ack_timeout: ms(&of_rollout.ack_timeout_ms),
                    run_timeout: ms(&of_rollout.run_timeout_ms),
                    attempts_max: of_rollout.attempts_max,
                    origin: of_rollout.origin.as_deref().map(str::to_owned),
                    key: of_rollout.key.as_deref().map(str::to_owned),
                    priority: of_rollout.priority,
                    notify: of_rollout.notify.clone(),
                };
                let sent = self.send_as(device, new, CommandCause::Rollout(turn), step);
                answered(sent.map(|tracked| Some(tracked.command)))?
            }
            RolloutWork::Entries(entries) => {
                let Some(entry) = entries.get(turn.entry as usize) else { return Ok(OrderOutcome::Nobody) };
                let set = self.set_desired(device, &entry.key, entry.value.clone(), Some(turn), step);
                match answered(set)? {
                    Ok(desired_state) => match desired_state.command {
                        Some(key) => Ok(self.stored_command(key, step)?),
                        None => Ok(None),
                    },
                    Err(refused) => Err(refused),
                }
            }
        };
        match given {
            Ok(Some(command)) => self.stands(&command, step),
            // Such a device takes no such entry: it has too many.
            Ok(None) | Err(_) => Ok(OrderOutcome::Nobody),
        }
    }

    fn take_back(
        &mut self,
        command: &Command,
        step: &mut DeviceStep<'_>,
    ) -> Result<OrderOutcome, StoreError> {
        if self.call_off_unsent(command, None, step)? {
            return Ok(OrderOutcome::TakenBack);
        }
        self.stands(command, step)
    }

    fn stands(&self, command: &Command, step: &DeviceStep<'_>) -> Result<OrderOutcome, StoreError> {
        let state = self.command_state(CommandKey::from(command.id), step)?;
        Ok(state.map_or(OrderOutcome::Nobody, |state| {
            OrderOutcome::Stands(CommandAt {
                id: command.id,
                status: state.status,
                was_published: state.published_at.is_some(),
            })
        }))
    }

    /// Tells the rollout of a command that it has moved on.
    pub(super) fn tell_rollout(&self, moved: &Moved, step: &mut DeviceStep<'_>) {
        let Some(RolloutCause { rollout, entry, turn }) = moved.command.cause.turn() else { return };
        if matches!(moved.how, How::Progressed | How::Late) {
            return;
        }
        let place = MemberPlace::of(rollout, &moved.command.device, entry);
        let command = CommandAt {
            id: moved.command.id,
            status: moved.state.status,
            was_published: moved.state.published_at.is_some(),
        };
        step.emit(DeviceEffect::RolloutMoved(Box::new(CommandMove { place, turn, command })));
    }
}
