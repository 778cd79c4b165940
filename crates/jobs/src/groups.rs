//! Groups: jobs of a queue that run one at a time, in the order of when they were first due.
//!
//! A group has one active job, which is ready, with a worker, or waits for its retry. Behind it are
//! others whose time has come as well. Who is not due yet is not in it. An active job that was
//! never leased gives way to one that was due earlier; a started one does not. Nothing is kept of a
//! group without jobs that are due or started.

use std::collections::BTreeMap;

use base::{Timestamp, hash};
use hashbrown::HashTable;
use records::{GroupKey, QueueOrder};

use crate::entry::JobEntry;
use crate::parked::horizon::Horizon;
use crate::queues::QueueEntry;
use crate::slab::Handle;
use crate::table::{Entries, is_sparse};

/// A group.
struct Group {
    queue: Handle<QueueEntry>,
    key: GroupKey,
    active: Option<Handle<JobEntry>>,
    /// By when they were first due, and by publish number.
    behind: BTreeMap<(Timestamp, u64), Handle<JobEntry>>,
    /// How far those that are due are resident; `None` if all of them are.
    line: Option<GroupLine>,
}

/// How far a group is resident, as long as anything of its queue that waits for a worker has been
/// parked without a break.
#[derive(Clone, Copy)]
pub(crate) struct GroupLine {
    pub(crate) to: Horizon,
    /// Which such time it is.
    pub(crate) epoch: u64,
}

/// The first of the jobs behind the active one of a group.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    /// When it was first due, and its publish number.
    pub(crate) order: (Timestamp, u64),
    pub(crate) job: Handle<JobEntry>,
    /// The job that goes first until now.
    pub(crate) active: Option<Handle<JobEntry>>,
}

impl Candidate {
    /// Whether it goes first: no other does, or one that was due later and never started.
    pub(crate) fn goes_first(&self, entries: &Entries) -> bool {
        self.active.is_none_or(|active| {
            let active = &entries[active];
            !active.is_started() && self.order < active.order_in_group()
        })
    }
}

/// The groups of all queues.
#[derive(Default)]
pub(crate) struct Groups(HashTable<Group>);

impl Groups {
    fn find(&mut self, queue: Handle<QueueEntry>, key: GroupKey) -> Option<&mut Group> {
        self.0.find_mut(hash_of(queue, key), |group| group.queue == queue && group.key == key)
    }

    /// The group, made if need be: then this is how far it is resident.
    fn enter(&mut self, queue: Handle<QueueEntry>, key: GroupKey, line: Option<GroupLine>) -> &mut Group {
        let place = self.0.entry(
            hash_of(queue, key),
            |group| group.queue == queue && group.key == key,
            |group| hash_of(group.queue, group.key),
        );
        place.or_insert_with(|| Group { queue, key, active: None, behind: BTreeMap::new(), line }).into_mut()
    }

    pub(crate) fn forget(&mut self, queue: Handle<QueueEntry>, key: GroupKey) {
        let is_it = |group: &Group| group.queue == queue && group.key == key;
        if let Ok(found) = self.0.find_entry(hash_of(queue, key), is_it) {
            found.remove();
        }
        if is_sparse(&self.0) {
            self.0.shrink_to(2 * self.0.len(), |group| hash_of(group.queue, group.key));
        }
    }

    /// A started job of a group goes before all others.
    pub(crate) fn start(
        &mut self,
        queue: Handle<QueueEntry>,
        key: GroupKey,
        job: Handle<JobEntry>,
        line: Option<GroupLine>,
    ) {
        let before = self.enter(queue, key, line).active.replace(job);
        debug_assert!(before.is_none_or(|before| before == job), "one job of a group runs at a time");
    }

    /// A job that is due, and was never started, waits for its turn.
    pub(crate) fn insert_behind(
        &mut self,
        queue: Handle<QueueEntry>,
        key: GroupKey,
        (order, job): ((Timestamp, u64), Handle<JobEntry>),
        line: Option<GroupLine>,
    ) {
        self.enter(queue, key, line).behind.insert(order, job);
    }

    /// The first of the jobs that wait for their turn, unless a parked one may come before it. A
    /// group that has no jobs any more is forgotten.
    pub(crate) fn candidate(
        &mut self,
        queue: Handle<QueueEntry>,
        key: GroupKey,
        line: Option<GroupLine>,
    ) -> Option<Candidate> {
        if line.is_some() {
            // Others of it may be parked of which nothing is known since a restart.
            self.enter(queue, key, line);
        }
        let group = self.get(queue, key)?;
        let active = group.active;
        let first = group.behind.first_key_value().map(|(order, job)| (*order, *job));
        let is_resident = |order| line.is_none_or(|line| !line.to.is_before(order, QueueOrder::Fifo));
        match first {
            Some((order, job)) if is_resident(order) => Some(Candidate { order, job, active }),
            None if active.is_none() && line.is_none() => {
                self.forget(queue, key);
                None
            }
            Some(_) | None => None,
        }
    }

    /// A job of a group is the one that goes first.
    pub(crate) fn activate(&mut self, queue: Handle<QueueEntry>, key: GroupKey, job: Handle<JobEntry>) {
        if let Some(group) = self.find(queue, key) {
            group.active = Some(job);
        }
    }

    /// A job is active no longer. Who comes next is for [`Groups::candidate`] to say.
    pub(crate) fn leave(&mut self, queue: Handle<QueueEntry>, key: GroupKey, job: Handle<JobEntry>) {
        if let Some(group) = self.find(queue, key)
            && group.active == Some(job)
        {
            group.active = None;
        }
    }

    /// A job is behind no longer.
    pub(crate) fn remove_behind(
        &mut self,
        queue: Handle<QueueEntry>,
        key: GroupKey,
        order: (Timestamp, u64),
    ) {
        let removed = self.find(queue, key).and_then(|group| group.behind.remove(&order));
        debug_assert!(removed.is_some(), "who is behind is known to its group");
    }

    fn get(&self, queue: Handle<QueueEntry>, key: GroupKey) -> Option<&Group> {
        self.0.find(hash_of(queue, key), |group| group.queue == queue && group.key == key)
    }

    /// How far a group is resident; `None` if nothing is known of it.
    pub(crate) fn line(&self, queue: Handle<QueueEntry>, key: GroupKey) -> Option<Option<GroupLine>> {
        self.get(queue, key).map(|group| group.line)
    }

    pub(crate) fn set_line(&mut self, queue: Handle<QueueEntry>, key: GroupKey, line: Option<GroupLine>) {
        if let Some(group) = self.find(queue, key) {
            group.line = line;
        }
    }

    /// Whether anything is kept of the group.
    pub(crate) fn is_known(&self, queue: Handle<QueueEntry>, key: GroupKey) -> bool {
        self.get(queue, key).is_some()
    }

    /// Whether a job of the group is known that goes first.
    pub(crate) fn has_active(&self, queue: Handle<QueueEntry>, key: GroupKey) -> bool {
        self.get(queue, key).is_some_and(|group| group.active.is_some())
    }

    /// Whether a job goes first, and no other that is resident comes behind it.
    pub(crate) fn is_alone(&self, queue: Handle<QueueEntry>, key: GroupKey, job: Handle<JobEntry>) -> bool {
        self.get(queue, key).is_some_and(|group| group.active == Some(job) && group.behind.is_empty())
    }

    /// Whether no job of the group is due or started, of those that are resident.
    pub(crate) fn has_nobody(&self, queue: Handle<QueueEntry>, key: GroupKey) -> bool {
        self.get(queue, key).is_none_or(|group| group.active.is_none() && group.behind.is_empty())
    }

    /// The head of a group was read: what is parked of the group comes behind.
    pub(crate) fn insert(&mut self, queue: Handle<QueueEntry>, key: GroupKey, line: GroupLine) {
        self.enter(queue, key, Some(line));
    }

    /// Whether fewer than `low` jobs wait in a group for their step.
    pub(crate) fn is_short(&self, queue: Handle<QueueEntry>, key: GroupKey, low: usize) -> bool {
        self.get(queue, key).is_some_and(|group| group.behind.len() < low)
    }

    /// Whether a group has no active job because its first one was not resident when that was last
    /// looked at. The group is resident as far as `line`, or all of it.
    pub(crate) fn is_headless(
        &self,
        queue: Handle<QueueEntry>,
        key: GroupKey,
        line: Option<Horizon>,
    ) -> bool {
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

fn hash_of(queue: Handle<QueueEntry>, key: GroupKey) -> u64 {
    hash::derived(queue.number().get().into(), &key.0.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    const KEY: GroupKey = GroupKey(5);

    fn queue() -> Handle<QueueEntry> {
        Handle::from_number(NonZeroU32::MIN)
    }

    /// A group with a job behind for each time it was first due.
    fn group(times: &[i64]) -> (Groups, Entries) {
        let (mut groups, mut entries) = (Groups::default(), Entries::default());
        for (number, at) in (0..).zip(times) {
            let job = entries.add(JobEntry::sample(*at, number));
            groups.insert_behind(queue(), KEY, (entries[job].order_in_group(), job), None);
        }
        (groups, entries)
    }

    fn activate(groups: &mut Groups) -> Candidate {
        let first = groups.candidate(queue(), KEY, None).expect("a job is behind");
        groups.remove_behind(queue(), KEY, first.order);
        groups.activate(queue(), KEY, first.job);
        first
    }

    #[test]
    fn the_job_that_was_due_first_goes_first() {
        let (mut groups, entries) = group(&[30, 10, 20]);
        let first = groups.candidate(queue(), KEY, None).expect("three are behind");
        assert!(first.goes_first(&entries) && first.order.0 == Timestamp(10));
        assert!(groups.candidate(queue(), GroupKey(6), None).is_none());
    }

    #[test]
    fn an_active_job_gives_way_to_an_earlier_one_unless_it_started() {
        let (mut groups, mut entries) = group(&[20]);
        let active = activate(&mut groups);
        for (at, goes_first) in [(30, false), (10, true)] {
            let job = entries.add(JobEntry::sample(at, 9));
            groups.insert_behind(queue(), KEY, (entries[job].order_in_group(), job), None);
            let next = groups.candidate(queue(), KEY, None).expect("one is behind");
            assert_eq!(next.goes_first(&entries), goes_first, "due at {at}");
        }
        entries.begin_attempt(active.job);
        let next = groups.candidate(queue(), KEY, None).expect("two are behind");
        assert!(!next.goes_first(&entries), "the active one has started");
    }

    #[test]
    fn who_is_behind_the_horizon_waits_for_the_parked_jobs_before_it() {
        let (mut groups, _) = group(&[20]);
        let line = |at| Some(GroupLine { to: Horizon { at: Timestamp(at), number: 0 }, epoch: 1 });
        assert!(groups.candidate(queue(), KEY, line(10)).is_none());
        assert!(groups.is_headless(queue(), KEY, line(10).map(|line| line.to)));
        assert!(groups.candidate(queue(), KEY, line(20)).is_some());
    }

    #[test]
    fn a_group_without_jobs_is_forgotten_unless_some_are_parked() {
        let (mut groups, _) = group(&[20]);
        let last = activate(&mut groups);
        assert!(groups.is_alone(queue(), KEY, last.job));
        groups.leave(queue(), KEY, last.job);
        let parked = Some(GroupLine { to: Horizon::LEAST, epoch: 1 });
        assert!(groups.candidate(queue(), KEY, parked).is_none() && groups.is_known(queue(), KEY));
        assert!(groups.candidate(queue(), KEY, None).is_none() && !groups.is_known(queue(), KEY));
        assert_eq!(groups.len(), 0);
    }
}
