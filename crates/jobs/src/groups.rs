//! Groups: jobs of a queue that run one at a time, in the order of when they were first due.
//!
//! A group has one active job, which is ready, with a worker, or waits for its retry, and others behind it whose time has
//! come as well. Who is not due yet is not in it. An active job that was never leased gives way to one that was due
//! earlier; a started one does not. Nothing is kept of a group without jobs that are due or started.

use std::collections::BTreeMap;

use base::{Timestamp, hash};
use hashbrown::HashTable;
use records::GroupKey;

use crate::entry::{Entry, Place};
use crate::jobs::{Jobs, Turn};
use crate::queues::Queue;
use crate::slab::Handle;
use crate::table::is_sparse;

/// A group.
pub(crate) struct Group {
    queue: Handle<Queue>,
    key: GroupKey,
    active: Option<Handle<Entry>>,
    /// By when they were first due, and by publish number.
    behind: BTreeMap<(Timestamp, u64), Handle<Entry>>,
}

/// The groups of all queues.
#[derive(Default)]
pub(crate) struct Groups(HashTable<Group>);

impl Groups {
    fn find(&mut self, queue: Handle<Queue>, key: GroupKey) -> Option<&mut Group> {
        self.0.find_mut(hash_of(queue, key), |group| group.queue == queue && group.key == key)
    }

    fn enter(&mut self, queue: Handle<Queue>, key: GroupKey) -> &mut Group {
        let place = self.0.entry(
            hash_of(queue, key),
            |group| group.queue == queue && group.key == key,
            |group| hash_of(group.queue, group.key),
        );
        place.or_insert_with(|| Group { queue, key, active: None, behind: BTreeMap::new() }).into_mut()
    }

    fn forget(&mut self, queue: Handle<Queue>, key: GroupKey) {
        let is_it = |group: &Group| group.queue == queue && group.key == key;
        if let Ok(found) = self.0.find_entry(hash_of(queue, key), is_it) {
            found.remove();
        }
        if is_sparse(&self.0) {
            self.0.shrink_to(2 * self.0.len(), |group| hash_of(group.queue, group.key));
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

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Jobs {
    /// Files a job of a group, which is in no place.
    pub(crate) fn file_in_group(
        &mut self,
        job: Handle<Entry>,
        key: GroupKey,
        is_due: bool,
        turn: &mut Turn<'_>,
    ) {
        let queue = self.table.entries[job].queue;
        if self.table.entries[job].is_started() {
            let before = self.groups.enter(queue, key).active.replace(job);
            debug_assert!(before.is_none_or(|before| before == job), "one job of a group runs at a time");
            self.file_alone(job, is_due, turn);
        } else if is_due {
            self.put_behind(job, key);
            self.regroup(queue, key, turn);
        } else {
            self.file_alone(job, is_due, turn);
        }
    }

    /// Makes the first of a group active if none is, or if one was due before the active one, which never started.
    pub(crate) fn regroup(&mut self, queue: Handle<Queue>, key: GroupKey, turn: &mut Turn<'_>) {
        let Some(group) = self.groups.find(queue, key) else { return };
        let active = group.active;
        let Some((order, first)) = group.behind.first_key_value().map(|(order, job)| (*order, *job)) else {
            if active.is_none() {
                self.groups.forget(queue, key);
            }
            return;
        };
        let gives_way = |active: Handle<Entry>| {
            let entry = &self.table.entries[active];
            !entry.is_started() && order < entry.order_in_group()
        };
        if !active.is_none_or(gives_way) {
            return;
        }
        group.active = Some(first);
        self.withdraw(first);
        self.make_ready(first, turn);
        if let Some(before) = active {
            self.withdraw(before);
            self.put_behind(before, key);
        }
    }

    fn put_behind(&mut self, job: Handle<Entry>, key: GroupKey) {
        let entry = &self.table.entries[job];
        self.groups.enter(entry.queue, key).behind.insert(entry.order_in_group(), job);
        self.queues.make_due(&mut self.table.entries, job, Place::Behind);
    }
}

fn hash_of(queue: Handle<Queue>, key: GroupKey) -> u64 {
    hash::derived(queue.number().get().into(), &key.0.to_le_bytes())
}
