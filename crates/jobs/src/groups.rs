//! Groups: jobs of a queue that run one at a time, in the order of when they were first due.
//!
//! A group has one active job, which is ready, with a worker, or waits for its retry, and others behind it whose time has
//! come as well. Who is not due yet is not in it. An active job that was never leased gives way to one that was due
//! earlier; a started one does not. Nothing is kept of a group without jobs that are due or started.

use std::collections::BTreeMap;

use base::{Timestamp, hash};
use hashbrown::HashTable;
use records::{GroupKey, JobClock, QueueOrder};

use crate::entry::{Entry, Place};
use crate::jobs::Jobs;
use crate::parked::Horizon;
use crate::queues::Queue;
use crate::slab::Handle;
use crate::step::StepContext;
use crate::table::is_sparse;

/// A group.
pub(crate) struct Group {
    queue: Handle<Queue>,
    key: GroupKey,
    active: Option<Handle<Entry>>,
    /// By when they were first due, and by publish number.
    behind: BTreeMap<(Timestamp, u64), Handle<Entry>>,
    /// How far those that are due are resident; `None` if all of them are.
    line: Option<GroupLine>,
}

/// How far a group is resident, as long as anything of its queue that waits for a worker has been parked without a break.
#[derive(Clone, Copy)]
pub(crate) struct GroupLine {
    pub(crate) to: Horizon,
    /// Which such time it is.
    pub(crate) epoch: u64,
}

/// The groups of all queues.
#[derive(Default)]
pub(crate) struct Groups(HashTable<Group>);

impl Groups {
    fn find(&mut self, queue: Handle<Queue>, key: GroupKey) -> Option<&mut Group> {
        self.0.find_mut(hash_of(queue, key), |group| group.queue == queue && group.key == key)
    }

    /// The group, made if need be: then this is how far it is resident.
    fn enter(&mut self, queue: Handle<Queue>, key: GroupKey, line: Option<GroupLine>) -> &mut Group {
        let place = self.0.entry(
            hash_of(queue, key),
            |group| group.queue == queue && group.key == key,
            |group| hash_of(group.queue, group.key),
        );
        place.or_insert_with(|| Group { queue, key, active: None, behind: BTreeMap::new(), line }).into_mut()
    }

    pub(crate) fn forget(&mut self, queue: Handle<Queue>, key: GroupKey) {
        let is_it = |group: &Group| group.queue == queue && group.key == key;
        if let Ok(found) = self.0.find_entry(hash_of(queue, key), is_it) {
            found.remove();
        }
        if is_sparse(&self.0) {
            self.0.shrink_to(2 * self.0.len(), |group| hash_of(group.queue, group.key));
        }
    }

    /// A job of a group is the one that goes first.
    fn activate(&mut self, queue: Handle<Queue>, key: GroupKey, job: Handle<Entry>) {
        if let Some(group) = self.find(queue, key) {
            group.active = Some(job);
        }
    }

    /// Drops what is kept of a group, if no job of it is due or started.
    pub(crate) fn forget_if_empty(&mut self, queue: Handle<Queue>, key: GroupKey) {
        if self.find(queue, key).is_some_and(|group| group.active.is_none() && group.behind.is_empty()) {
            self.forget(queue, key);
        }
    }

    /// A job is active no longer. Who comes next is for [`Jobs::regroup`] to say.
    pub(crate) fn leave(&mut self, queue: Handle<Queue>, key: GroupKey, job: Handle<Entry>) {
        if let Some(group) = self.find(queue, key)
            && group.active == Some(job)
        {
            group.active = None;
        }
    }

    /// A job is behind no longer.
    pub(crate) fn remove_behind(&mut self, queue: Handle<Queue>, key: GroupKey, order: (Timestamp, u64)) {
        let removed = self.find(queue, key).and_then(|group| group.behind.remove(&order));
        debug_assert!(removed.is_some(), "who is behind is known to its group");
    }

    fn get(&self, queue: Handle<Queue>, key: GroupKey) -> Option<&Group> {
        self.0.find(hash_of(queue, key), |group| group.queue == queue && group.key == key)
    }

    /// How far a group is resident; `None` if nothing is known of it.
    pub(crate) fn line(&self, queue: Handle<Queue>, key: GroupKey) -> Option<Option<GroupLine>> {
        self.get(queue, key).map(|group| group.line)
    }

    pub(crate) fn set_line(&mut self, queue: Handle<Queue>, key: GroupKey, line: Option<GroupLine>) {
        if let Some(group) = self.find(queue, key) {
            group.line = line;
        }
    }

    /// Whether a job of the group is known that goes first.
    pub(crate) fn has_active(&self, queue: Handle<Queue>, key: GroupKey) -> bool {
        self.get(queue, key).is_some_and(|group| group.active.is_some())
    }

    /// Whether a job goes first, and no other that is resident comes behind it.
    pub(crate) fn is_alone(&self, queue: Handle<Queue>, key: GroupKey, job: Handle<Entry>) -> bool {
        self.get(queue, key).is_some_and(|group| group.active == Some(job) && group.behind.is_empty())
    }

    /// Whether no job of the group is due or started, of those that are resident.
    pub(crate) fn has_nobody(&self, queue: Handle<Queue>, key: GroupKey) -> bool {
        self.get(queue, key).is_none_or(|group| group.active.is_none() && group.behind.is_empty())
    }

    /// A group is known by its head, which was parked: what is parked of it comes behind.
    pub(crate) fn know(&mut self, queue: Handle<Queue>, key: GroupKey, line: GroupLine) {
        self.enter(queue, key, Some(line));
    }

    /// Whether fewer than `low` jobs wait in a group for their step.
    pub(crate) fn is_short(&self, queue: Handle<Queue>, key: GroupKey, low: usize) -> bool {
        self.get(queue, key).is_some_and(|group| group.behind.len() < low)
    }

    /// Whether a group that is resident as far as this, or all of it, has no active job because its first one was not when that was
    /// last looked at.
    pub(crate) fn is_headless(&self, queue: Handle<Queue>, key: GroupKey, line: Option<Horizon>) -> bool {
        let Some(group) = self.get(queue, key).filter(|group| group.active.is_none()) else { return false };
        match (line, group.behind.first_key_value()) {
            (Some(line), Some((first, _))) => line.is_before(*first, QueueOrder::Fifo),
            (line, first) => line.is_some() || first.is_some(),
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Jobs {
    /// Files a job of a group, which is in no place.
    pub(crate) fn place_in_group(
        &mut self,
        job: Handle<Entry>,
        key: GroupKey,
        is_due: bool,
        step: &mut StepContext<'_>,
    ) {
        let queue = self.table[job].queue;
        if self.table[job].is_started() {
            let line = self.group_line(queue, key);
            let before = self.groups.enter(queue, key, line).active.replace(job);
            debug_assert!(before.is_none_or(|before| before == job), "one job of a group runs at a time");
            self.place_alone(job, is_due, step);
        } else if is_due {
            self.put_behind(job, key);
            self.regroup(queue, key, step);
        } else {
            self.place_alone(job, is_due, step);
        }
    }

    /// Makes the first of a group active if none is, or if one was due before the active one, which never started.
    pub(crate) fn regroup(&mut self, queue: Handle<Queue>, key: GroupKey, step: &mut StepContext<'_>) {
        self.choose_active(queue, key, step);
        self.schedule_read(queue, Some(key));
        // Leases of the queue may have waited for this group to be read, and do so no more.
        self.announce_if_open(queue, step);
    }

    fn choose_active(&mut self, queue: Handle<Queue>, key: GroupKey, step: &mut StepContext<'_>) {
        let line = self.line(queue, Some(key));
        if line.is_some() {
            // Others of it may be parked of which nothing is known since a restart.
            let known = self.group_line(queue, key);
            self.groups.enter(queue, key, known);
        }
        let Some(group) = self.groups.get(queue, key) else { return };
        let (active, is_alone) = (group.active, group.behind.is_empty());
        let first = group.behind.first_key_value().map(|(order, job)| (*order, *job));
        // One that is parked may come before it.
        let is_resident = |order| line.is_none_or(|line: Horizon| !line.is_before(order, QueueOrder::Fifo));
        let Some((order, first)) = first.filter(|(order, _)| is_resident(*order)) else {
            if active.is_none() && is_alone && line.is_none() {
                self.groups.forget(queue, key);
            }
            return;
        };
        if self.may_miss_before(queue, order) {
            self.block_line(queue, Some(key), order);
            return;
        }
        let gives_way = |active: Handle<Entry>| {
            let entry = &self.table[active];
            !entry.is_started() && order < entry.order_in_group()
        };
        if active.is_none_or(gives_way) {
            self.groups.activate(queue, key, first);
            self.withdraw(first);
            // Nobody gets one that has expired: it blocks the others until time moves on.
            let has_expired = self.table.expires_by(first, step.time.now);
            self.place_alone(first, !has_expired, step);
            if let Some(before) = active {
                self.withdraw(before);
                self.put_behind(before, key);
            }
        }
    }

    /// A job was loaded by which its group is known, if others of that are parked. Where it waits for the wall clock, its time had
    /// come before if the clock has gone back since, and the others do not wait for it to come again.
    pub(crate) fn restore_group(&mut self, job: Handle<Entry>, step: &mut StepContext<'_>) {
        let entry = &self.table[job];
        let (queue, clock) = (entry.queue, entry.clock_of_wait());
        if let Some(group) = self.table.group(job).filter(|_| clock == JobClock::Wall) {
            self.regroup(queue, group, step);
        }
    }

    fn put_behind(&mut self, job: Handle<Entry>, key: GroupKey) {
        let entry = &self.table[job];
        let line = self.group_line(entry.queue, key);
        self.groups.enter(entry.queue, key, line).behind.insert(entry.order_in_group(), job);
        self.queues.make_due(self.table.entries_mut(), job, Place::Behind);
    }
}

fn hash_of(queue: Handle<Queue>, key: GroupKey) -> u64 {
    hash::derived(queue.number().get().into(), &key.0.to_le_bytes())
}
