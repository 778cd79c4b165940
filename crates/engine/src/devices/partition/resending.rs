//! A delivery sent again by hand: the same one while it is not told, a new one with the present
//! picture once it is.

use base::{EntityId, Incarnation, Problem, Timestamp};
use records::{
    Connection, Delivery, DeliveryKey, DeliveryProgress, DeliveryStatus, DeviceSlot, EventKind, JobClock,
    JobPurpose, NotificationState, Op,
};

use super::{DevicePartition, DeviceStep, pending};
use crate::kernel::reply::InputFailure;

impl DevicePartition {
    /// Sends a delivery again now, if it is the newest of its device and client.
    pub(super) fn retry_delivery(
        &mut self,
        id: EntityId,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), InputFailure> {
        let delivery = self.linked_delivery(id, step)?;
        let place = (delivery.slot, delivery.client);
        let known = self.notification_states.get(&place);
        let waits = known.and_then(|state| state.pending).map(|waiting| waiting.delivery);
        let flight = known.and_then(|state| state.in_flight.as_ref());
        let flies = flight.filter(|flight| !flight.is_cancelled()).map(|flight| flight.delivery);
        let failed = known.and_then(|state| state.failed).map(|waiting| waiting.delivery);
        match waits.or(flies).or(failed) {
            Some(newest) if newest != id => Err(superseded().into()),
            Some(_) if waits.is_some() => {
                self.send_now(place.0, place.1, id, step);
                Ok(())
            }
            Some(_) if flies.is_some() => Ok(()),
            Some(_) => self.revive(place.0, place.1, id, step),
            None => self.repeat(&delivery, step),
        }
    }

    fn linked_delivery(&self, id: EntityId, step: &DeviceStep<'_>) -> Result<Delivery, InputFailure> {
        let Some(delivery) = step.fetch.view()?.delivery(DeliveryKey::from(id))? else {
            return Err(unknown_delivery().into());
        };
        if delivery.id != id {
            return Err(unknown_delivery().into());
        }
        let device = self.devices.get(delivery.slot);
        if device.is_some_and(|device| self.groups.are_linked(device.group, delivery.client)) {
            return Ok(delivery);
        }
        let detail =
            format!("client {} is no longer linked to device {}", delivery.client_id, delivery.device);
        Err(Problem::conflict("not_linked", detail).into())
    }

    /// Makes a waiting notification due now.
    pub(super) fn send_now(
        &mut self,
        slot: DeviceSlot,
        client: Incarnation,
        id: EntityId,
        step: &mut DeviceStep<'_>,
    ) {
        let purpose = JobPurpose::Notification(slot, client);
        let job = self.jobs.by_alias(purpose.line().key(), purpose.alias()).map(|head| head.id);
        let Some(job) = job else { return };
        if self.jobs.reschedule(job, JobClock::Engine, step.now, &mut step.jobs()).is_ok() {
            let attempts = self
                .notification_states
                .get(&(slot, client))
                .and_then(|state| state.pending)
                .map_or(0, |w| w.attempts);
            step.push(due_now(id, attempts, step.now));
        }
    }

    /// A notification that failed for good starts its attempts anew, with the body it had.
    fn revive(
        &mut self,
        slot: DeviceSlot,
        client: Incarnation,
        id: EntityId,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), InputFailure> {
        let body = self.stored_body(NotificationState::body_of_failed(id), step)?;
        let job = self.publish(slot, client, step);
        if let Some(body) = body {
            self.put_body(job, body, step);
        }
        step.push(Op::DeleteJob(NotificationState::body_of_failed(id)));
        let Some(mut state) = self.notification_states.get_mut(&(slot, client)) else { return Ok(()) };
        let Some(failed) = state.failed.take() else { return Ok(()) };
        state.pending = Some(failed);
        state.skipped = state.skipped.saturating_sub(1);
        step.push(Op::PutNotificationState(Box::new(state.clone())));
        drop(state);
        step.push(due_now(id, failed.attempts, step.now));
        self.is_no_longer_stale(slot, client, step);
        Ok(())
    }

    /// A notification that was delivered goes out again under a new id, with the present picture.
    /// The device may have changed while nobody was linked. Nothing becomes untold by this.
    fn repeat(&mut self, delivery: &Delivery, step: &mut DeviceStep<'_>) -> Result<(), InputFailure> {
        let place = (delivery.slot, delivery.client);
        let read = || pending::newest_delivery(step.fetch, place.0, place.1);
        let newest = self.pending.newest_cancelled.get_or_read(&place, read)?;
        if newest.is_some_and(|newest| newest != delivery.id) {
            return Err(superseded().into());
        }
        let state = self.state(place.0);
        let is_change = delivery.kind == EventKind::Changed && state.connection != Connection::Lost;
        let previous = match self.newest_event(place.0, step)? {
            Some(event) => event.previous.clone(),
            // It is too old to be kept.
            None if is_change => None,
            None => state.value,
        };
        self.notification_states.get_or_new(place).previous = previous;
        self.tell_again(place.0, place.1, Some(delivery.id), step);
        Ok(())
    }
}

fn due_now(id: EntityId, attempts: u32, now: Timestamp) -> Op {
    let progress = DeliveryProgress { status: DeliveryStatus::Pending, attempts, next_attempt_at: Some(now) };
    Op::PutProgress(DeliveryKey::from(id), progress)
}

fn superseded() -> Problem {
    let detail = "a newer notification of this device to this client has taken its place";
    Problem::conflict("superseded", detail)
}

fn unknown_delivery() -> Problem {
    Problem::unknown("unknown_delivery", "there is no delivery of that id")
}
