//! Attempts at notifications that ended: by an answer, or because the sender hangs or is gone.
//!
//! What follows is decided here: delivered, tried again later, failed for good, or superseded by
//! what came meanwhile.

use std::time::Duration;

use base::{EntityId, Incarnation, Timestamp, hash};
use jobs::ReleaseOutcome;
use records::{
    Attempt, AttemptDetail, AttemptError, DeliveryKey, DeliveryProgress, DeliveryStatus, DeviceSlot, Flight,
    Happening, JobPurpose, NotificationState, Op, PendingDelivery, Reservation,
};
use store::StoreError;

use super::ended_job::JobEnd;
use super::{DevicePartition, DeviceStep, notification_state};
use crate::devices::effect::{DeviceEffect, GivenUp};
use crate::devices::lanes::{AttemptEnd, AttemptOutcome};
use crate::retry_delay::delay_after;

/// An attempt that ended, and what it was for.
struct Tried {
    slot: DeviceSlot,
    client: Incarnation,
    reservation: Reservation,
    flight: Flight,
}

impl DevicePartition {
    pub(super) fn attempts_ended(
        &mut self,
        ended: &[(Reservation, AttemptEnd)],
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        ended.iter().try_for_each(|(reservation, end)| self.attempt_ended(*reservation, end, step))
    }

    fn attempt_ended(
        &mut self,
        reservation: Reservation,
        end: &AttemptEnd,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(tried) = self.tried(step.now, reservation) else { return Ok(()) };
        let (status_code, error) = match end.answer {
            AttemptOutcome::Status { code, .. } => (Some(code), None),
            AttemptOutcome::Error(error) => (None, Some(error)),
            AttemptOutcome::Withheld => return self.withheld(tried, step),
        };
        let attempt = Attempt {
            delivery: DeliveryKey::from(tried.flight.delivery),
            number: tried.flight.attempts,
            at: end.at,
            duration_ms: u32::try_from(end.took.as_millis()).unwrap_or(u32::MAX),
            status_code,
            error,
            detail: end.detail.clone(),
        };
        self.put_attempt(tried.slot, tried.flight.delivery, attempt, step);
        if tried.flight.is_cancelled() {
            self.cancelled_attempt_ended(&tried, step);
            return Ok(());
        }
        let patience = match end.answer {
            AttemptOutcome::Status { code: 200..=299, .. } => {
                self.delivered(tried, step);
                return Ok(());
            }
            // The client is disabled before this arrives; the notification waits until it is
            // enabled again.
            AttemptOutcome::Status { code: 410, .. } => {
                return self.failed(&tried, jobs::ReleaseTerms::uncounted(Duration::ZERO), step);
            }
            AttemptOutcome::Status { code: 429 | 503, retry_after } => retry_after,
            AttemptOutcome::Status { .. } | AttemptOutcome::Error(_) | AttemptOutcome::Withheld => None,
        };
        let terms = self.retry(&tried, patience);
        self.failed(&tried, terms, step)
    }

    fn put_attempt(
        &mut self,
        slot: DeviceSlot,
        delivery: EntityId,
        mut attempt: Attempt,
        step: &mut DeviceStep<'_>,
    ) {
        // The stamp in the delivery's id may be some milliseconds ahead of the clock.
        attempt.at = attempt.at.max(delivery.at);
        // The timeline says that there was one; what it saw is with the delivery alone.
        let detail = std::mem::take(&mut attempt.detail);
        self.put_timeline(slot, Happening::DeliveryAttempt(delivery, Box::new(attempt.clone())), step);
        step.push(Op::PutAttempt(Box::new(Attempt { detail, ..attempt })));
    }

    /// Nothing was sent, so there was no attempt: the notification waits as before.
    fn withheld(&mut self, mut tried: Tried, step: &mut DeviceStep<'_>) -> Result<(), StoreError> {
        tried.flight.attempts = tried.flight.attempts.saturating_sub(1);
        if tried.flight.is_cancelled() {
            self.cancelled_attempt_ended(&tried, step);
            return Ok(());
        }
        self.failed(&tried, jobs::ReleaseTerms::uncounted(Duration::ZERO), step)
    }

    /// What a reservation stands for, if it still does.
    fn tried(&self, now: Timestamp, reservation: Reservation) -> Option<Tried> {
        let head = self.jobs.held(now, reservation)?;
        let JobPurpose::Notification(slot, client) = JobPurpose::of(head.queue, head.alias)? else {
            return None;
        };
        let flight = self.notification_states.get(&(slot, client))?.in_flight.clone()?;
        Some(Tried { slot, client, reservation, flight })
    }

    fn retry(&self, tried: &Tried, patience: Option<Duration>) -> jobs::ReleaseTerms {
        let counted = self.jobs.get(tried.reservation.job).map_or(1, |head| head.attempt);
        let chance = hash::derived(tried.flight.delivery.tag, &counted.to_le_bytes());
        jobs::ReleaseTerms::counted(delay_after(&self.settings.retry, counted, patience, chance))
    }

    fn delivered(&mut self, tried: Tried, step: &mut DeviceStep<'_>) {
        if self.jobs.ack(tried.reservation, &mut step.jobs()).is_err() {
            return;
        }
        let Tried { slot, client, flight, .. } = tried;
        self.delivery_ended(slot, flight.delivery, (DeliveryStatus::Delivered, flight.attempts), step);
        step.emit(DeviceEffect::Reached(client));
        let Some(mut state) = self.notification_states.get_mut(&(slot, client)) else { return };
        state.in_flight = None;
        let more = notification_state::delivered(&mut state, flight).then(|| Box::new(state.clone()));
        drop(state);
        if let Some(state) = more {
            step.push(Op::PutNotificationState(state));
        } else {
            self.notification_states.remove(&(slot, client));
            step.push(Op::DeleteNotificationState(slot, client));
        }
    }

    /// An attempt ended whose notification was cancelled meanwhile: however it ended, it was the
    /// last.
    fn cancelled_attempt_ended(&mut self, tried: &Tried, step: &mut DeviceStep<'_>) {
        if self.jobs.ack(tried.reservation, &mut step.jobs()).is_ok() {
            self.end_cancelled((tried.slot, tried.client), &tried.flight, step);
        }
    }

    /// A cancelled notification has no attempt under way any more. What came after a new link goes
    /// now.
    fn end_cancelled(
        &mut self,
        (slot, client): (DeviceSlot, Incarnation),
        flight: &Flight,
        step: &mut DeviceStep<'_>,
    ) {
        self.delivery_ended(slot, flight.delivery, (DeliveryStatus::Cancelled, flight.attempts), step);
        let Some(state) = self.notification_states.remove(&(slot, client)) else { return };
        if state.pending.is_none() {
            step.push(Op::DeleteNotificationState(slot, client));
            return;
        }
        let left = NotificationState { in_flight: None, ..state };
        step.push(Op::PutNotificationState(Box::new(left.clone())));
        self.notification_states.insert((slot, client), left);
    }

    fn failed(
        &mut self,
        tried: &Tried,
        terms: jobs::ReleaseTerms,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let job = tried.reservation.job;
        let released = self.jobs.release(tried.reservation, terms, &mut step.jobs());
        let Ok(released) = released else { return Ok(()) };
        if is_for_good(&released)
            && let Some(body) = self.stored_body(job, step)?
        {
            self.put_body(NotificationState::body_of_failed(tried.flight.delivery), body, step);
        }
        self.not_delivered((tried.slot, tried.client), waiting_again(&tried.flight), &released, step);
        Ok(())
    }

    /// What becomes of a notification whose attempt came to nothing.
    fn not_delivered(
        &mut self,
        (slot, client): (DeviceSlot, Incarnation),
        waiting: PendingDelivery,
        released: &ReleaseOutcome,
        step: &mut DeviceStep<'_>,
    ) {
        let Some(mut state) = self.notification_states.get_mut(&(slot, client)) else { return };
        let PendingDelivery { delivery, attempts } = waiting;
        state.in_flight.take_if(|flight| flight.delivery == delivery);
        let progress = match released {
            ReleaseOutcome::Waiting { until } | ReleaseOutcome::Recurs { next_run: until, .. } => {
                state.pending = Some(waiting);
                DeliveryProgress { status: DeliveryStatus::Pending, attempts, next_attempt_at: Some(*until) }
            }
            ReleaseOutcome::Dead | ReleaseOutcome::Expired => {
                state.failed = Some(waiting);
                state.skipped = state.skipped.saturating_add(1);
                DeliveryProgress { status: DeliveryStatus::Failed, attempts, next_attempt_at: None }
            }
            ReleaseOutcome::Superseded { .. } => {
                state.skipped = state.skipped.saturating_add(1);
                DeliveryProgress { status: DeliveryStatus::Superseded, attempts, next_attempt_at: None }
            }
        };
        step.push(Op::PutNotificationState(Box::new(state.clone())));
        drop(state);
        if progress.status.has_ended() {
            self.delivery_ended(slot, delivery, (progress.status, attempts), step);
        } else {
            step.push(Op::PutProgress(DeliveryKey::from(delivery), progress));
        }
        if is_for_good(released) {
            let device = self.devices.get(slot).map(|device| device.id.clone());
            let given_up = GivenUp { delivery, client, device, attempts };
            step.emit(DeviceEffect::GivenUp(Box::new(given_up)));
            self.becomes_stale(slot, client, step);
        }
    }

    /// A notification's job ended without a word of the sender.
    pub(super) fn notification_ended(
        &mut self,
        slot: DeviceSlot,
        client: Incarnation,
        end: JobEnd,
        step: &mut DeviceStep<'_>,
    ) {
        match end {
            // The sender hangs.
            JobEnd::Lapsed(released) => {
                self.attempt_cut(slot, client, &released, AttemptError::TimedOut, step);
            }
            JobEnd::Cut(released) => {
                self.attempt_cut(slot, client, &released, AttemptError::Interrupted, step);
            }
            JobEnd::Expired(next_run) => self.notification_expired(slot, client, next_run, step),
        }
    }

    /// No notification is made with a time to live. A stored one that has one, and waited for too
    /// long, failed for good.
    fn notification_expired(
        &mut self,
        slot: DeviceSlot,
        client: Incarnation,
        next_run: Option<Timestamp>,
        step: &mut DeviceStep<'_>,
    ) {
        let waiting =
            self.notification_states.get_mut(&(slot, client)).and_then(|mut state| state.pending.take());
        let Some(waiting) = waiting else { return };
        let released = next_run
            .map_or(ReleaseOutcome::Expired, |next_run| ReleaseOutcome::Recurs { died: false, next_run });
        self.not_delivered((slot, client), waiting, &released, step);
    }

    /// An attempt ended without an answer and without its sender.
    fn attempt_cut(
        &mut self,
        slot: DeviceSlot,
        client: Incarnation,
        released: &ReleaseOutcome,
        error: AttemptError,
        step: &mut DeviceStep<'_>,
    ) {
        let Some(flight) =
            self.notification_states.get(&(slot, client)).and_then(|state| state.in_flight.clone())
        else {
            return;
        };
        let attempt = Attempt {
            delivery: DeliveryKey::from(flight.delivery),
            number: flight.attempts,
            at: flight.since,
            duration_ms: match error {
                // How long it went on in the process that ended is not known.
                AttemptError::Interrupted => 0,
                _ => u32::try_from(step.now.since(flight.since).as_millis()).unwrap_or(u32::MAX),
            },
            status_code: None,
            error: Some(error),
            detail: AttemptDetail::default(),
        };
        self.put_attempt(slot, flight.delivery, attempt, step);
        if flight.is_cancelled() {
            if matches!(released, ReleaseOutcome::Waiting { .. }) {
                self.cancel_job(slot, client, step);
            }
            self.end_cancelled((slot, client), &flight, step);
            return;
        }
        self.not_delivered((slot, client), waiting_again(&flight), released, step);
    }
}

/// What was in flight, as it waits for its next attempt.
fn waiting_again(flight: &Flight) -> PendingDelivery {
    PendingDelivery { delivery: flight.delivery, attempts: flight.attempts }
}

/// Whether there is no attempt after this one.
fn is_for_good(released: &ReleaseOutcome) -> bool {
    matches!(released, ReleaseOutcome::Dead | ReleaseOutcome::Expired)
}
