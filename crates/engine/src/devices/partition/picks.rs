//! Orders of tasks and campaigns in a device's partition: a picked device is given its command
//! once, or the command is taken back.

use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use commands::{How, Moved};
use records::{
    Command, CommandCause, CommandKey, CommandState, DevicePlace, DeviceSlot, OutcomeOf, OutcomeReceiver,
    PickCause, PickOutcome,
};
use store::StoreError;

use super::{DevicePartition, DeviceStep};
use crate::campaigns::{
    OrderKind, PickMove, PickOrder, PickOrderOutcome, PickReport, PickStanding, TASK_ID_PREFIX,
};
use crate::commands::NewCommand;
use crate::devices::effect::DeviceEffect;
use crate::kernel::reply::answered;

/// What is held for so long does not go out before it is taken back in the same step.
const HELD: Duration = Duration::from_secs(3_600);

impl DevicePartition {
    pub(super) fn pick_orders(
        &mut self,
        orders: Vec<PickOrder>,
        step: &mut DeviceStep<'_>,
    ) -> Result<Vec<PickReport>, StoreError> {
        let mut reports = Vec::with_capacity(orders.len());
        for order in orders {
            let outcome = self.pick_order(&order, step)?;
            reports.push(PickReport { task: order.task, number: order.number, outcome });
        }
        Ok(reports)
    }

    fn pick_order(
        &mut self,
        order: &PickOrder,
        step: &mut DeviceStep<'_>,
    ) -> Result<PickOrderOutcome, StoreError> {
        let slot = order.place.slot;
        if self.devices.slot_of(&order.device) != Some(slot) {
            return Ok(PickOrderOutcome::Nobody);
        }
        let given = match (order.command, order.what) {
            (Some(id), _) => self.stored_command(id.into(), step)?.filter(|command| command.slot == slot),
            // Nobody was told of one that is new.
            (None, OrderKind::Give) => None,
            (None, OrderKind::Ensure | OrderKind::TakeBack) => self.command_of_pick(order, step)?,
        };
        match (given, order.what) {
            (Some(command), OrderKind::TakeBack) => self.take_pick_back(&command, order.why, step),
            (Some(command), OrderKind::Give | OrderKind::Ensure) => self.pick_stands(&command, step),
            // It is kept no longer.
            (None, _) if order.command.is_some() => Ok(PickOrderOutcome::Nobody),
            // It may have had a command that is kept no longer: it gets no second one.
            (None, OrderKind::Ensure) if order.picked_at.after(self.settings.commands.keep) <= step.now => {
                Ok(PickOrderOutcome::Nobody)
            }
            (None, OrderKind::TakeBack) => {
                self.tell_unsent(order, order.why, step)?;
                Ok(PickOrderOutcome::TakenBack)
            }
            (None, OrderKind::Give | OrderKind::Ensure) if !self.has_room_for_result(order) => {
                Ok(PickOrderOutcome::Busy)
            }
            (None, OrderKind::Give) if !self.is_connected(&order.device) => {
                self.tell_unsent(order, PickOutcome::WentAway, step)?;
                Ok(PickOrderOutcome::Away)
            }
            (None, OrderKind::Give | OrderKind::Ensure) => match self.give_pick(order, None, step)? {
                Some(command) => self.pick_stands(&command, step),
                None => {
                    self.tell_unsent(order, PickOutcome::NotSent, step)?;
                    Ok(PickOrderOutcome::Nobody)
                }
            },
        }
    }

    /// The command of a pick, if it was given before.
    fn command_of_pick(
        &self,
        order: &PickOrder,
        step: &DeviceStep<'_>,
    ) -> Result<Option<Arc<Command>>, StoreError> {
        let is_its = |command: &Command| {
            let pick = command.cause.pick().map(|turn| (turn.task, turn.number));
            pick == Some((order.task, order.number))
        };
        self.command_of_order((order.place.slot, order.picked_at), is_its, step)
    }

    /// Gives a device the command of a pick, unless it takes no such command.
    fn give_pick(
        &mut self,
        order: &PickOrder,
        not_before: Option<Timestamp>,
        step: &mut DeviceStep<'_>,
    ) -> Result<Option<Arc<Command>>, StoreError> {
        let answer_timeout = Some(Duration::from_millis(order.terms.answer_timeout_ms));
        let new = NewCommand {
            payload: Arc::clone(&order.terms.payload),
            // One that is held never goes out: its end is told at once.
            ttl: answer_timeout.filter(|_| not_before.is_none()),
            not_before,
            ack_timeout: answer_timeout,
            run_timeout: answer_timeout,
            attempts_max: Some(1),
            origin: Some(origin_of(order)),
            key: None,
            priority: 0,
            notify: receiver_of(order).cloned(),
        };
        let slot = order.slot.as_ref().map(|(campaign, slot)| (Box::from(&**campaign), *slot));
        let turn = PickCause { task: order.task, number: order.number, picked_at: order.picked_at, slot };
        let sent = self.send_as(&order.device, new, CommandCause::Pick(Box::new(turn)), step);
        Ok(answered(sent)?.ok().map(|tracked| tracked.command))
    }

    /// Whether the receiver of a pick's result may be told one more.
    fn has_room_for_result(&self, order: &PickOrder) -> bool {
        receiver_of(order).is_none_or(|receiver| self.check_room_for_outcome(receiver).is_ok())
    }

    /// A pick ends whose device was given no command: its receiver is told by one that never goes
    /// out. Where too many wait to be told, it is not told.
    fn tell_unsent(
        &mut self,
        order: &PickOrder,
        why: PickOutcome,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        if receiver_of(order).is_none() {
            return Ok(());
        }
        if !self.has_room_for_result(order) {
            step.emit(DeviceEffect::PickResultDropped);
            return Ok(());
        }
        let held = Some(step.wall.after(HELD));
        if let Some(command) = self.give_pick(order, held, step)? {
            self.take_pick_back(&command, why, step)?;
        }
        Ok(())
    }

    fn take_pick_back(
        &mut self,
        command: &Command,
        why: PickOutcome,
        step: &mut DeviceStep<'_>,
    ) -> Result<PickOrderOutcome, StoreError> {
        let told = if why == PickOutcome::WentAway { OutcomeOf::WentAway } else { OutcomeOf::End };
        if self.call_off_unsent(command, Some(told), step)? {
            return Ok(PickOrderOutcome::TakenBack);
        }
        self.pick_stands(command, step)
    }

    fn pick_stands(&self, command: &Command, step: &DeviceStep<'_>) -> Result<PickOrderOutcome, StoreError> {
        let state = self.command_state(CommandKey::from(command.id), step)?;
        let stands = |state| PickOrderOutcome::Stands(self.standing(command, &state));
        Ok(state.map_or(PickOrderOutcome::Nobody, stands))
    }

    /// Tells the task of a command that it has moved on.
    pub(super) fn tell_task(&self, moved: &Moved, step: &mut DeviceStep<'_>) {
        let Some(turn) = moved.command.cause.pick() else { return };
        // An order is answered with how its command stands.
        if let How::Published | How::Ended | How::Late = moved.how {
            let standing = self.standing(&moved.command, &moved.state);
            let moved = PickMove { task: turn.task, number: turn.number, standing };
            step.emit(DeviceEffect::PickMoved(Box::new(moved)));
        }
    }

    /// Tells running tasks that a device has a session, or none any more.
    pub(super) fn tell_tasks_who_is_there(
        &self,
        slot: DeviceSlot,
        is_connected: bool,
        step: &mut DeviceStep<'_>,
    ) {
        let place = DevicePlace { partition: self.id, slot };
        step.emit(if is_connected { DeviceEffect::Came(place) } else { DeviceEffect::WentAway(place) });
    }

    /// Where the command of a pick stands.
    fn standing(&self, command: &Command, state: &CommandState) -> PickStanding {
        PickStanding {
            command: command.id,
            status: state.status,
            is_connected: self.is_connected(&command.device),
            was_sent: state.published_at.is_some(),
            was_answered: state.was_answered(),
            result: state.result.as_deref().map(Arc::from),
            late: state.late.as_deref().cloned(),
        }
    }
}

/// Who is told of each pick: those of a campaign. A task tells its end itself.
fn receiver_of(order: &PickOrder) -> Option<&OutcomeReceiver> {
    order.slot.as_ref().and(order.terms.receiver.as_ref())
}

/// Who asks for the command of a pick, as people are shown it.
fn origin_of(order: &PickOrder) -> String {
    match &order.slot {
        Some((campaign, slot)) => format!("campaign {campaign} slot {}", slot.number),
        None => format!("task {}", order.id.to_text(TASK_ID_PREFIX)),
    }
}
