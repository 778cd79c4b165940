//! What `watch` noticed becomes an event, and a notification for every linked client.

use std::sync::Arc;

use base::{EntityId, Incarnation, hash};
use jobs::{ConflictPolicy, NewJobHead, PublishOutcome};
use records::{
    Delivery, DeliveryKey, DeliveryProgress, DeliveryStatus, DeviceSlot, Event, EventKind, Happening, JobId,
    JobPurpose, JobTerms, Metric, NotificationState, Op, PendingDelivery,
};
use smallvec::SmallVec;
use watch::Noticed;

use super::devices::ResidentDevice;
use super::{DevicePartition, DeviceStep, notification_state};

/// What distinguishes the ids of events from those of deliveries.
const CAUSE_EVENT: u64 = 1;
const CAUSE_DELIVERY: u64 = 2;

impl DevicePartition {
    pub(super) fn tell_noticed(&mut self, step: &mut DeviceStep<'_>) {
        let mut noticed = std::mem::take(&mut step.own.noticed);
        for event in noticed.drain(..) {
            self.tell(&event, step);
        }
        step.own.noticed = noticed;
    }

    fn tell(&mut self, noticed: &Noticed, step: &mut DeviceStep<'_>) {
        let Some(device) = self.devices.get(noticed.slot) else { return };
        let number = self.head.next_event;
        self.head.next_event = number.wrapping_add(1);
        let event = Event {
            id: self.entity_id(device, number, &[CAUSE_EVENT, noticed.sequence]),
            slot: noticed.slot,
            device: device.id.clone(),
            kind: noticed.kind,
            sequence: noticed.sequence,
            value: noticed.value.clone(),
            previous: noticed.previous.clone(),
        };
        let metric = match noticed.kind {
            EventKind::Changed => Some(Metric::Changes),
            EventKind::Lost => Some(Metric::Losses),
            EventKind::Restored => None,
        };
        if let Some(metric) = metric {
            step.own.counted.add(device.group, metric, event.id.at);
        }
        if noticed.kind == EventKind::Lost && self.settings.notices.lost_together.is_some() {
            let one = || (0, device.id.clone());
            step.own.lost.entry(device.group).or_insert_with(one).0 += 1;
        }
        let clients: SmallVec<[Incarnation; 4]> = self.groups.clients(device.group).collect();
        for client in clients {
            let mut state = self.notification_states.get_or_new((noticed.slot, client));
            notification_state::add_event(&mut state, noticed.kind, noticed.previous.as_ref());
            drop(state);
            self.queue_notification(noticed.slot, client, (noticed.kind, noticed.sequence), None, step);
        }
        self.pending.newest_events.put(step.seq, noticed.slot, Some(Arc::new(event.clone())));
        step.push(Op::PutEvent(Box::new(event)));
    }

    /// Queues a notification of everything untold; where all is told, of the newest event again. It
    /// replaces the pending one. Its state must be there.
    pub(super) fn queue_notification(
        &mut self,
        slot: DeviceSlot,
        client: Incarnation,
        (kind, sequence): (records::EventKind, u64),
        resend_of: Option<EntityId>,
        step: &mut DeviceStep<'_>,
    ) {
        let Some(device) = self.devices.get(slot) else { return };
        let number = self.head.next_delivery;
        self.head.next_delivery = number.wrapping_add(1);
        let id = self.entity_id(device, number, &[CAUSE_DELIVERY, client.0, sequence]);
        let delivery = Delivery {
            id,
            slot,
            device: device.id.clone(),
            client,
            client_id: self.client_id(client),
            kind,
            sequence,
            progress: DeliveryProgress {
                status: DeliveryStatus::Pending,
                attempts: 0,
                next_attempt_at: Some(step.now),
            },
            resend_of,
        };
        step.own.counted.add_delivery(device.group, client, id.at);
        step.push(Op::PutDelivery(Box::new(delivery)));
        self.publish(slot, client, step);
        let Some(mut state) = self.notification_states.get_mut(&(slot, client)) else { return };
        let replaced = state.pending.replace(PendingDelivery { delivery: id, attempts: 0 });
        let failed = state.failed.take();
        if replaced.is_some() {
            state.skipped = state.skipped.saturating_add(1);
        }
        step.push(Op::PutNotificationState(Box::new(state.clone())));
        drop(state);
        if let Some(PendingDelivery { delivery, attempts }) = replaced {
            self.delivery_ended(slot, delivery, (DeliveryStatus::Superseded, attempts), step);
        }
        if let Some(failed) = failed {
            step.push(Op::DeleteJob(NotificationState::body_of_failed(failed.delivery)));
            self.is_no_longer_stale(slot, client, step);
        }
    }

    /// The job of a device and client: due now, once, whatever was there before.
    pub(super) fn publish(
        &mut self,
        slot: DeviceSlot,
        client: Incarnation,
        step: &mut DeviceStep<'_>,
    ) -> JobId {
        let (id, purpose) = (self.next_job_id(), JobPurpose::Notification(slot, client));
        let job = NewJobHead {
            id,
            queue: purpose.line().key(),
            run_at: step.now,
            tries: self.settings.retry.attempts_max,
            terms: JobTerms::default(),
            alias: Some(purpose.alias()),
            on_conflict: ConflictPolicy::Replace,
        };
        let published = self.jobs.publish(job, &mut step.jobs());
        debug_assert!(
            !matches!(published, PublishOutcome::Conflict(_) | PublishOutcome::Kept(_)),
            "replace never declines"
        );
        id
    }

    /// A delivery has ended, after so many attempts.
    pub(super) fn delivery_ended(
        &mut self,
        slot: DeviceSlot,
        delivery: EntityId,
        (status, attempts): (DeliveryStatus, u32),
        step: &mut DeviceStep<'_>,
    ) {
        step.push(progress_op(delivery, status, attempts));
        self.put_timeline(slot, Happening::Delivery(delivery, status), step);
    }

    pub(super) fn next_job_id(&self) -> JobId {
        let number = self.jobs.numbers().next_job;
        let mut bytes = [0; 16];
        let tag = hash::derived(self.lineage.0 ^ u64::from(self.id.0), &number.to_le_bytes());
        bytes[..8].copy_from_slice(&tag.to_be_bytes());
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        JobId(bytes)
    }

    pub(super) fn entity_id(&self, device: &ResidentDevice, number: u32, cause: &[u64]) -> EntityId {
        let routing = hash::routing_hash(hash::device_hash(device.id.as_str()));
        EntityId::derive(self.lineage, routing, device.incarnation, self.head.stamp, number, cause)
    }
}

/// A delivery that waits for no time.
pub(super) fn progress_op(delivery: EntityId, status: DeliveryStatus, attempts: u32) -> Op {
    Op::PutProgress(DeliveryKey::from(delivery), DeliveryProgress { status, attempts, next_attempt_at: None })
}
