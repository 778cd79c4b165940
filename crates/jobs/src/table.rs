//! The jobs that are in memory, found by id and by alias, with what some of them have and most have
//! not.
//!
//! A successor has no entry of its own: its id leads to the job before it. Where a job waits is not
//! decided here.

mod changes;
mod entries;
mod indexes;

use std::ops::Index;

use base::Timestamp;
use records::{
    AliasKey, GroupKey, HeadState, JobHead, JobId, JobTerms, QueueKey, Recurrence, Reservation, Successor,
};

use crate::entry::{Claim, Extra, JobEntry, JobLease, JobPlace, Links, Succession, head_of_successor};
use crate::queues::QueueEntry;
use crate::slab::{Handle, Slab};
pub(crate) use entries::Entries;
use indexes::Indexes;
pub(crate) use indexes::is_sparse;

/// What an id stands for.
#[derive(Clone, Copy)]
pub(crate) enum FoundJob {
    Job(Handle<JobEntry>),
    /// The successor of this one.
    SuccessorOf(Handle<JobEntry>),
}

/// The jobs.
#[derive(Default)]
pub(crate) struct JobTable {
    records: Records,
    leases: Slab<JobLease>,
    extras: Slab<Extra>,
    indexes: Indexes,
}

/// The records that hold ids and aliases.
#[derive(Default)]
struct Records {
    entries: Entries,
    claims: Slab<Claim>,
}

impl Records {
    fn claim(&self, job: Handle<JobEntry>) -> Option<&Claim> {
        self.entries[job].claim.map(|claim| &self.claims[claim])
    }
}

/// A job that was taken out.
pub(crate) struct Removed {
    pub(crate) id: JobId,
    pub(crate) claim: Option<Claim>,
}

impl JobTable {
    /// How many jobs there are.
    pub(crate) fn len(&self) -> usize {
        self.records.entries.len()
    }

    /// How many of them are with a worker.
    pub(crate) fn reserved(&self) -> usize {
        self.leases.len()
    }

    /// How many no worker has: only these can be parked.
    pub(crate) fn waiting(&self) -> usize {
        self.len() - self.reserved()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle<JobEntry>, &JobEntry)> {
        self.records.entries.iter()
    }

    /// The entries, for the priority queues that are linked through them.
    pub(crate) fn entries(&self) -> &Entries {
        &self.records.entries
    }

    /// The same, to be linked otherwise.
    pub(crate) fn entries_mut(&mut self) -> &mut Entries {
        &mut self.records.entries
    }

    pub(crate) fn find(&self, id: JobId) -> Option<FoundJob> {
        self.indexes.find_id(&self.records, id)
    }

    /// The job of that queue that holds an alias.
    pub(crate) fn by_alias(&self, queue: Handle<QueueEntry>, alias: AliasKey) -> Option<Handle<JobEntry>> {
        self.indexes.find_alias(&self.records, queue, alias)
    }

    /// The job that a reservation holds, if it still does.
    pub(crate) fn by_reservation(
        &self,
        now: Timestamp,
        reservation: Reservation,
    ) -> Option<Handle<JobEntry>> {
        let Some(FoundJob::Job(job)) = self.find(reservation.job) else { return None };
        let holds = self.lease(job).is_some_and(|lease| lease.number == reservation.lease)
            && now < self[job].visible_at;
        holds.then_some(job)
    }

    /// Takes a job of `queue` in, in no heap yet. Neither its id nor its alias may be there.
    pub(crate) fn insert(&mut self, head: &JobHead, queue: Handle<QueueEntry>) -> Handle<JobEntry> {
        debug_assert!(self.find(head.id).is_none(), "an id is given out once");
        let claim = head.alias.map(|alias| {
            debug_assert!(self.by_alias(queue, alias).is_none(), "an alias is held by one job");
            self.records.claims.insert(Claim { alias, next: Succession::Nobody })
        });
        let lease = match head.state {
            HeadState::Waiting => None,
            HeadState::Reserved { lease: number, holder } => {
                Some(self.leases.insert(JobLease { number, holder, visible_at_before: None }))
            }
        };
        let job = self.records.entries.insert(JobEntry {
            id: head.id,
            queue,
            number: head.number,
            run_at: head.run_at,
            visible_at: head.visible_at,
            attempt: head.attempt,
            tries: head.tries,
            lease,
            claim,
            extra: None,
            clock: head.terms.clock,
            links: Links::default(),
            rank: 0,
            place: JobPlace::Nowhere,
        });
        self.set_terms(job, &head.terms);
        self.indexes.insert_job(&self.records, job);
        if head.alias.is_some() {
            self.indexes.insert_alias(&self.records, job);
        }
        self.set_next(job, Succession::from_stored(head.successor.clone()));
        job
    }

    /// Takes a job out that is in no heap; its successor, if any, is not there any more either.
    pub(crate) fn remove(&mut self, job: Handle<JobEntry>) -> Removed {
        debug_assert_eq!(self[job].place, JobPlace::Nowhere, "a heap leads to entries that are there");
        let next = self.set_next(job, Succession::Nobody);
        debug_assert!(self[job].lease.is_none(), "a run ends before its job");
        let JobEntry { id, queue, claim, extra, .. } = self[job];
        if let Some(extra) = extra {
            self.extras.remove(extra);
        }
        self.indexes.remove_id(&self.records, id);
        if let Some(Claim { alias, .. }) = self.claim(job) {
            self.indexes.remove_alias(&self.records, queue, *alias);
        }
        let claim = claim.map(|claim| Claim { next, ..self.records.claims.remove(claim) });
        self.records.entries.remove(job);
        Removed { id, claim }
    }

    /// A job of a queue in its stored form.
    pub(crate) fn head(&self, job: Handle<JobEntry>, queue: QueueKey) -> JobHead {
        let (entry, claim) = (&self[job], self.claim(job));
        JobHead {
            id: entry.id,
            queue,
            number: entry.number,
            run_at: entry.run_at,
            visible_at: entry.visible_at,
            attempt: entry.attempt,
            tries: entry.tries,
            state: self.lease(job).map_or(HeadState::Waiting, |lease| HeadState::Reserved {
                lease: lease.number,
                holder: lease.holder,
            }),
            alias: claim.map(|claim| claim.alias),
            terms: self.terms(job),
            successor: claim.and_then(|claim| claim.next.to_stored()),
        }
    }

    /// A job's successor as the job it will be.
    pub(crate) fn head_of_successor(&self, job: Handle<JobEntry>, queue: QueueKey) -> Option<JobHead> {
        let claim = self.claim(job)?;
        let successor = claim.next.successor()?;
        Some(head_of_successor(successor, queue, claim.alias, successor.run_at))
    }

    /// Sets who takes over; answers who would have. Only a job with an alias has a successor.
    pub(crate) fn set_next(&mut self, job: Handle<JobEntry>, next: Succession) -> Succession {
        let Some(claim) = self[job].claim else {
            debug_assert!(next.successor().is_none(), "a successor takes over an alias");
            return Succession::Nobody;
        };
        if let Some(Successor { id, .. }) = self.records.claims[claim].next.successor() {
            self.indexes.remove_id(&self.records, *id);
        }
        let replaced = std::mem::replace(&mut self.records.claims[claim].next, next);
        if self.records.claims[claim].next.successor().is_some() {
            self.indexes.insert_successor(&self.records, job);
        }
        replaced
    }

    pub(crate) fn alias(&self, job: Handle<JobEntry>) -> Option<AliasKey> {
        self.claim(job).map(|claim| claim.alias)
    }

    pub(crate) fn successor(&self, job: Handle<JobEntry>) -> Option<&Successor> {
        self.claim(job)?.next.successor()
    }

    /// Whether a job is replaced when its run ends, in whatever way.
    pub(crate) fn is_superseded(&self, job: Handle<JobEntry>) -> bool {
        matches!(self.claim(job), Some(Claim { next: Succession::AfterRun(_), .. }))
    }

    /// Whether the store alone can have a job: nobody holds it, and nothing waits for it. The store
    /// keeps a group's line by `visible_at`, which must therefore be the time that a job's order in
    /// its group goes by. One of a group that was tried goes before that order.
    pub(crate) fn can_be_parked(&self, job: Handle<JobEntry>) -> bool {
        let entry = &self[job];
        let keeps_order = self.group(job).is_none() || entry.attempt == 0 && entry.visible_at == entry.run_at;
        entry.lease.is_none() && self.successor(job).is_none() && keeps_order
    }

    /// What holds of a job.
    pub(crate) fn terms(&self, job: Handle<JobEntry>) -> JobTerms {
        let JobEntry { clock, extra, .. } = self[job];
        let Some(extra) = extra.map(|extra| &self.extras[extra]) else {
            return JobTerms { clock, ..JobTerms::default() };
        };
        let recurrence = extra.recurrence.as_deref().copied();
        JobTerms { clock, expires_at: extra.expires_at, group: extra.group, recurrence }
    }

    /// Has other terms hold of a job, which is in no heap.
    pub(crate) fn set_terms(&mut self, job: Handle<JobEntry>, terms: &JobTerms) {
        let entry = self.records.entries.get_mut(job);
        debug_assert_eq!(entry.place, JobPlace::Nowhere, "heaps and groups go by the terms");
        entry.clock = terms.clock;
        if let Some(extra) = entry.extra.take() {
            self.extras.remove(extra);
        }
        entry.extra = Extra::of(terms).map(|extra| self.extras.insert(extra));
    }

    pub(crate) fn expires_at(&self, job: Handle<JobEntry>) -> Option<Timestamp> {
        self.extras[self[job].extra?].expires_at
    }

    /// Whether a job has expired by this time, of the engine clock.
    pub(crate) fn expires_by(&self, job: Handle<JobEntry>, time: Timestamp) -> bool {
        self.expires_at(job).is_some_and(|at| at <= time)
    }

    pub(crate) fn group(&self, job: Handle<JobEntry>) -> Option<GroupKey> {
        self.extras[self[job].extra?].group
    }

    pub(crate) fn recurrence(&self, job: Handle<JobEntry>) -> Option<Recurrence> {
        self.extras[self[job].extra?].recurrence.as_deref().copied()
    }

    pub(crate) fn lease(&self, job: Handle<JobEntry>) -> Option<JobLease> {
        self[job].lease.map(|lease| self.leases[lease])
    }

    /// How many jobs the larger index has room for.
    #[cfg(test)]
    pub(crate) fn indexed_max(&self) -> usize {
        self.indexes.capacity()
    }

    fn claim(&self, job: Handle<JobEntry>) -> Option<&Claim> {
        self.records.claim(job)
    }
}

impl Index<Handle<JobEntry>> for JobTable {
    type Output = JobEntry;

    fn index(&self, job: Handle<JobEntry>) -> &JobEntry {
        &self.records.entries[job]
    }
}

/// When a run that is due then, by the engine clock, is not worth making any more.
fn expires_at(recurrence: &Recurrence, due: Timestamp) -> Option<Timestamp> {
    recurrence.ttl_ms.map(|ttl_ms| Timestamp(due.0.saturating_add_unsigned(ttl_ms)))
}

#[cfg(test)]
mod tests {
    use records::{JobClock, LeaseHolder, Starts};

    use super::*;
    use crate::queues::QueueTable;

    const QUEUE: QueueKey = QueueKey(7);

    fn head(id: u8, alias: Option<u128>) -> JobHead {
        JobHead {
            id: JobId([id; 16]),
            queue: QUEUE,
            number: id.into(),
            run_at: Timestamp(0),
            visible_at: Timestamp(0),
            attempt: 0,
            tries: 3,
            state: HeadState::Waiting,
            alias: alias.map(AliasKey),
            terms: JobTerms::default(),
            successor: None,
        }
    }

    fn successor(id: u8, starts: Starts) -> Successor {
        let terms = JobTerms::default();
        Successor { id: JobId([id; 16]), number: 9, run_at: Timestamp(5), tries: 1, terms, starts }
    }

    #[test]
    fn a_job_is_found_by_id_and_alias_until_it_is_taken_out() {
        let (mut table, mut queues) = (JobTable::default(), QueueTable::default());
        let (queue, other) = (queues.enter(QUEUE), queues.enter(QueueKey(8)));
        let job = table.insert(&head(1, Some(77)), queue);
        assert!(matches!(table.find(JobId([1; 16])), Some(FoundJob::Job(found)) if found == job));
        assert!(table.by_alias(queue, AliasKey(77)) == Some(job));
        assert!(table.by_alias(other, AliasKey(77)).is_none(), "an alias is one of its queue");
        assert_eq!(table.head(job, QUEUE), head(1, Some(77)));
        table.remove(job);
        assert!(table.find(JobId([1; 16])).is_none() && table.by_alias(queue, AliasKey(77)).is_none());
        assert_eq!((table.len(), table.reserved()), (0, 0));
    }

    #[test]
    fn the_id_of_a_successor_leads_to_the_job_before_it() {
        let (mut table, mut queues) = (JobTable::default(), QueueTable::default());
        let queue = queues.enter(QUEUE);
        let job = table.insert(&head(1, Some(77)), queue);
        for (id, starts, supersedes) in [(2, Starts::AfterJob, false), (3, Starts::AfterRun, true)] {
            table.set_next(job, Succession::from_stored(Some(successor(id, starts).into())));
            assert!(
                matches!(table.find(JobId([id; 16])), Some(FoundJob::SuccessorOf(found)) if found == job)
            );
            assert_eq!(table.is_superseded(job), supersedes);
            assert!(!table.can_be_parked(job), "something waits for it");
        }
        assert!(table.find(JobId([2; 16])).is_none(), "it was replaced");
        let next = table.head_of_successor(job, QUEUE).expect("it has one");
        assert_eq!(
            (next.id, next.alias, next.visible_at),
            (JobId([3; 16]), Some(AliasKey(77)), Timestamp(5))
        );
        let removed = table.remove(job);
        assert_eq!(
            removed.claim.and_then(|claim| claim.next.to_stored()),
            Some(successor(3, Starts::AfterRun).into())
        );
        assert!(table.find(JobId([3; 16])).is_none());
    }

    #[test]
    fn a_reservation_holds_until_its_time_or_the_end_of_its_lease() {
        let (mut table, mut queues) = (JobTable::default(), QueueTable::default());
        let job = table.insert(&head(1, None), queues.enter(QUEUE));
        table.begin_lease(job, 40, LeaseHolder::Outside, Timestamp(100));
        let reservation = Reservation { job: JobId([1; 16]), lease: 40 };
        assert!(table.by_reservation(Timestamp(99), reservation) == Some(job));
        assert!(table.by_reservation(Timestamp(100), reservation).is_none());
        let other = Reservation { lease: 41, ..reservation };
        assert!(table.by_reservation(Timestamp(99), other).is_none());
        assert_eq!((table[job].attempt, table.reserved()), (1, 1));
        assert_eq!(table.lease(job).and_then(|lease| lease.visible_at_before), Some(Timestamp(0)));
        assert!(table.end_lease(job) && !table.end_lease(job));
        assert!(table.by_reservation(Timestamp(99), reservation).is_none());
    }

    #[test]
    fn terms_that_most_jobs_lack_cost_nothing_until_they_are_set() {
        let (mut table, mut queues) = (JobTable::default(), QueueTable::default());
        let job = table.insert(&head(1, None), queues.enter(QUEUE));
        assert_eq!(table.extras.len(), 0);
        let terms = JobTerms {
            clock: JobClock::Wall,
            expires_at: Some(Timestamp(50)),
            group: Some(GroupKey(3)),
            recurrence: None,
        };
        table.set_terms(job, &terms);
        assert_eq!((table.terms(job), table.extras.len()), (terms, 1));
        assert!(table.expires_by(job, Timestamp(50)) && !table.expires_by(job, Timestamp(49)));
        table.set_terms(job, &JobTerms::default());
        assert_eq!((table.terms(job), table.extras.len()), (JobTerms::default(), 0));
    }
}
