//! What notification states, deliveries, attempts and jobs say of each other.

use std::collections::HashSet;

use base::{EntityId, Incarnation, Timestamp};
use records::{
    Attempt, Command, CommandKey, Delivery, DeliveryKey, DeliveryProgress, DeviceSlot, JobHead, JobId,
    JobPurpose, NotificationState, OutcomeLane,
};

use super::rows::{CheckedPartition, RowCheck, Wrong};
use crate::codec::key::{self, FeedEntryKey};
use crate::table::Table;

impl RowCheck<'_, '_> {
    pub(super) fn states_and_deliveries(&mut self, within: &CheckedPartition) {
        let bodies = self.notification_states(within);
        self.deliveries(within);
        self.progress_and_attempts(within);
        self.jobs(within, &bodies);
    }

    /// Answers where the bodies of what failed for good may be.
    fn notification_states(&mut self, within: &CheckedPartition) -> HashSet<JobId> {
        let mut bodies = HashSet::new();
        self.indexed(within.partition, |check, state: &NotificationState| {
            within.is_there(state.slot)?;
            check.registered.was(state.client)?;
            bodies.extend(state.failed.map(|failed| NotificationState::body_of_failed(failed.delivery)));
            let waiting = [state.pending, state.failed].into_iter().flatten().map(|waiting| waiting.delivery);
            let mut named = waiting.chain(state.in_flight.as_ref().map(|flight| flight.delivery));
            named.try_for_each(|delivery| check.delivery_of(within, state, delivery))
        });
        bodies
    }

    fn delivery_of(
        &self,
        within: &CheckedPartition,
        state: &NotificationState,
        id: EntityId,
    ) -> Result<(), Wrong> {
        if id.at < kept(within) {
            return Ok(());
        }
        let key = key::feed_entry(DeliveryKey::from(id));
        let delivery: Option<Delivery> = self.record(within.partition, &key)?;
        let delivery = delivery.ok_or("its delivery is missing")?;
        if (delivery.id, delivery.slot, delivery.client) == (id, state.slot, state.client) {
            Ok(())
        } else {
            Err("its delivery is of another device or client".to_owned())
        }
    }

    fn deliveries(&mut self, within: &CheckedPartition) {
        let partition = within.partition;
        self.indexed(partition, |check, delivery: &Delivery| {
            within.was_given(delivery.slot)?;
            check.registered.was(delivery.client)?;
            let at = DeliveryKey::from(delivery.id);
            if at.at < kept(within) {
                Ok(())
            } else {
                check.needs(Table::Progress, partition, &key::feed_entry(at))
            }
        });
    }

    fn progress_and_attempts(&mut self, within: &CheckedPartition) {
        let partition = within.partition;
        let needs_delivery = |check: &Self, delivery: FeedEntryKey| {
            if delivery.at < kept(within) {
                return Ok(());
            }
            check.needs(Table::Deliveries, partition, &delivery.below(&[]))
        };
        self.records(Table::Progress, partition, |check, key, _: DeliveryProgress| {
            needs_delivery(check, FeedEntryKey::at_end_of(key).map_err(|error| error.to_string())?)
        });
        self.indexed(partition, |check, attempt: &Attempt| {
            needs_delivery(check, FeedEntryKey::from(attempt.delivery))
        });
    }

    /// A job is for something; a body is that of a job, or of what failed for good.
    fn jobs(&mut self, within: &CheckedPartition, bodies: &HashSet<JobId>) {
        let partition = within.partition;
        self.indexed(partition, |check, job: &JobHead| match JobPurpose::of(job.queue, job.alias) {
            Some(JobPurpose::Notification(slot, client)) => check.notification(within, slot, client),
            Some(JobPurpose::Outcome { lane, key, .. }) => check.outcome(within, lane, key),
            None => Err("its purpose is unknown".to_owned()),
        });
        self.rows(Table::JobBodies, partition, |check, key, _| {
            let id = JobId(key[..].try_into().map_err(|_| "its key is not that of a job")?);
            if bodies.contains(&id) { Ok(()) } else { check.needs(Table::JobHeads, partition, key) }
        });
    }

    /// A notification is that of a notification state with something to tell.
    fn notification(
        &self,
        within: &CheckedPartition,
        slot: DeviceSlot,
        client: Incarnation,
    ) -> Result<(), Wrong> {
        within.is_there(slot)?;
        let state: Option<NotificationState> =
            self.record(within.partition, &key::notification_state(slot, client))?;
        match state {
            Some(state) if state.pending.is_some() || state.in_flight.is_some() => Ok(()),
            Some(_) => Err("its client has nothing to be told of its device".to_owned()),
            None => Err("its pair of device and client is missing".to_owned()),
        }
    }

    /// An outcome is told to the receiver that its command names. It may outlive the command, which
    /// goes with its device, or with its age: then there is nothing to tell.
    fn outcome(
        &self,
        within: &CheckedPartition,
        lane: OutcomeLane,
        command: CommandKey,
    ) -> Result<(), Wrong> {
        if command.at > within.head.stamp.max(within.head.now) {
            return Err("its command was not given yet".to_owned());
        }
        let command: Option<Command> = self.record(within.partition, &key::feed_entry(command))?;
        match command.map(|command| command.notify) {
            Some(Some(receiver)) if OutcomeLane::of(&receiver) == lane => Ok(()),
            Some(Some(_)) => Err("the receiver of its command has another lane".to_owned()),
            Some(None) => Err("its command has no receiver".to_owned()),
            None => Ok(()),
        }
    }
}

fn kept(within: &CheckedPartition) -> Timestamp {
    within.head.kept_from.deliveries
}
