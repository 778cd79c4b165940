//! Attempts at notifications: leased, with the body that every attempt at one sends.
//!
//! A lease and the fixed body are in one batch. The attempt is made only when that is durable.

use std::sync::Arc;
use std::time::Duration;

use base::{EntityId, Incarnation, Timestamp};
use jobs::Leased;
use records::{
    DeliveryStatus, DeviceSlot, DeviceState, JobId, JobLine, JobPurpose, LeaseHolder, NotificationState, Op,
};
use store::StoreError;

use super::notifications::progress_op;
use super::{DevicePartition, DeviceStep, notification_state};
use crate::devices::lanes::AttemptDue;
use crate::settings::NotificationView;

/// A lease outlives the longest attempt by this much, for the way to the sender and back.
const LEASE_MARGIN: Duration = Duration::from_secs(30);
/// Addresses that a partition keeps at hand; each has up to 256 characters.
const ADDRESSES_AT_HAND_MAX: usize = 1_024;

impl DevicePartition {
    /// Leases, for each client, up to the wanted number of its due notifications.
    pub(super) fn lease_all(
        &mut self,
        wanted: &[(Incarnation, usize)],
        step: &mut DeviceStep<'_>,
    ) -> Result<Vec<Vec<AttemptDue>>, StoreError> {
        wanted.iter().map(|(client, max)| self.lease(*client, *max, step)).collect()
    }

    fn lease(
        &mut self,
        client: Incarnation,
        max: usize,
        step: &mut DeviceStep<'_>,
    ) -> Result<Vec<AttemptDue>, StoreError> {
        let line = JobLine::Notifications(client);
        self.lease_line(line, max, step, |partition, leased, step| partition.take_off(client, leased, step))
    }

    /// Leases the jobs of a line that are due, and tells the sender of each what `due_of` makes of
    /// it. Of a job that has nothing to tell it makes nothing.
    pub(super) fn lease_line<T>(
        &mut self,
        line: JobLine,
        max: usize,
        step: &mut DeviceStep<'_>,
        due_of: impl Fn(&mut Self, &Leased, &mut DeviceStep<'_>) -> Result<Option<T>, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let (mut due, line) = (Vec::new(), line.key());
        while due.len() < max {
            if !step.has_room() {
                // Asked for less than there is: the lane is named again.
                step.own.jobs.wakes.push(line);
                break;
            }
            let ttr = self.settings.attempt_timeout + LEASE_MARGIN;
            let holder = LeaseHolder::Own(self.process);
            let Some(leased) = self.jobs.lease(line, holder, ttr, &mut step.jobs()) else {
                break;
            };
            due.extend(due_of(self, &leased, step)?);
        }
        Ok(due)
    }

    /// The attempt for a lease that was just taken.
    fn take_off(
        &mut self,
        client: Incarnation,
        leased: &Leased,
        step: &mut DeviceStep<'_>,
    ) -> Result<Option<AttemptDue>, StoreError> {
        let job = leased.reservation.job;
        let purpose = self.jobs.get(job).and_then(|head| JobPurpose::of(head.queue, head.alias));
        let slot = match purpose {
            Some(JobPurpose::Notification(slot, _)) => Some(slot),
            Some(JobPurpose::Outcome { .. }) | None => None,
        };
        let Some((slot, device)) = slot.and_then(|slot| Some((slot, self.devices.get(slot)?))) else {
            self.jobs.cancel(job, &mut step.jobs());
            return Ok(None);
        };
        let device_state = self.state(slot);
        let id = device.id.clone();
        let started = self.notification_states.get_mut(&(slot, client)).and_then(|mut state| {
            let waiting =
                notification_state::start_attempt(&mut state, step.now, device_state.value.as_ref())?;
            Some((waiting, Box::new(state.clone())))
        });
        let Some((waiting, state)) = started else {
            self.jobs.cancel(job, &mut step.jobs());
            return Ok(None);
        };
        let fixed = if waiting.attempts == 0 { None } else { self.stored_body(job, step)? };
        let body = match fixed {
            Some(body) => body,
            None => self.make_body(&state, &device_state, job, &id, step)?,
        };
        step.push(Op::PutNotificationState(state));
        let attempt = waiting.attempts + 1;
        step.push(progress_op(waiting.delivery, DeliveryStatus::Pending, attempt));
        Ok(Some(AttemptDue {
            partition: self.id,
            client,
            reservation: leased.reservation,
            until: leased.until,
            delivery: waiting.delivery,
            attempt,
            body,
        }))
    }

    /// Fixes the body: the device's picture as it is now.
    fn make_body(
        &mut self,
        state: &NotificationState,
        device_state: &DeviceState,
        job: JobId,
        id: &base::DeviceId,
        step: &mut DeviceStep<'_>,
    ) -> Result<Arc<[u8]>, StoreError> {
        let address = self.address(state.slot, id, step)?;
        let body = match self.devices.get(state.slot) {
            Some(device) => {
                let flight = state.in_flight.as_ref();
                let delivery = flight.map_or(NO_ID, |flight| flight.delivery);
                let kind = notification_state::newest_kind(state, device_state);
                let repeated = std::slice::from_ref(&kind);
                (self.settings.render)(&NotificationView {
                    delivery,
                    kind,
                    timestamp: delivery.at,
                    device: &device.id,
                    device_kind: self.devices.kind(device),
                    address: address.as_deref(),
                    value: device_state.value.as_ref(),
                    previous: state.previous.as_ref(),
                    connection: device_state.connection,
                    changed_at: device_state.changed_at,
                    last_seen_at: self.watch.seen(state.slot).map(|seen| seen.at),
                    sequence: device_state.sequence,
                    types: if state.untold.is_empty() { repeated } else { &state.untold[..] },
                    skipped: state.skipped,
                })
            }
            None => Vec::new(),
        };
        let body: Arc<[u8]> = Arc::from(body);
        self.put_body(job, Arc::clone(&body), step);
        Ok(body)
    }

    /// The body of a notification of which an attempt was made and that has not ended: what the
    /// next attempt sends, too.
    pub(super) fn body_of(
        &self,
        (slot, client): (DeviceSlot, Incarnation),
        delivery: EntityId,
        step: &DeviceStep<'_>,
    ) -> Result<Option<Arc<[u8]>>, StoreError> {
        let Some(state) = self.notification_states.get(&(slot, client)) else { return Ok(None) };
        let waits = state.pending.is_some_and(|waiting| waiting.delivery == delivery && waiting.attempts > 0);
        let flies = state.in_flight.as_ref().is_some_and(|flight| flight.delivery == delivery);
        let purpose = JobPurpose::Notification(slot, client);
        let job = self.jobs.holder_of(purpose.line().key(), purpose.alias()).map(|head| head.id);
        match job {
            // While an attempt is under way, the job is that one's, whoever follows it.
            Some(job) if flies || (waits && state.in_flight.is_none()) => self.stored_body(job, step),
            _ => Ok(None),
        }
    }

    /// The registered address. Most changes concern several clients, or the same devices again.
    fn address(
        &mut self,
        slot: DeviceSlot,
        id: &base::DeviceId,
        step: &DeviceStep<'_>,
    ) -> Result<Option<Arc<str>>, StoreError> {
        if !self.devices.get(slot).is_some_and(|device| device.has_address) {
            return Ok(None);
        }
        if let Some(address) = self.addresses.get(&slot) {
            return Ok(address.clone());
        }
        let profile = self.stored_profile(id, step)?;
        let address: Option<Arc<str>> = profile.and_then(|profile| profile.address.as_deref().map(Arc::from));
        if self.addresses.len() >= ADDRESSES_AT_HAND_MAX {
            self.addresses.clear();
        }
        self.addresses.insert(slot, address.clone());
        Ok(address)
    }

    pub(super) fn put_body(&mut self, job: JobId, body: Arc<[u8]>, step: &mut DeviceStep<'_>) {
        self.pending.bodies.put(step.seq, job, Some(Arc::clone(&body)));
        step.push(Op::PutJobBody(job, body));
    }

    pub(super) fn stored_body(
        &self,
        job: JobId,
        step: &DeviceStep<'_>,
    ) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.pending.bodies.get_or_read(&job, || step.fetch.view()?.job_body(job))
    }
}

const NO_ID: EntityId = EntityId { routing: 0, at: Timestamp(0), number: 0, tag: 0 };
