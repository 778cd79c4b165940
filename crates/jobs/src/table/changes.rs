//! What happens to a job that stays: it is replaced, put off, leased, tried again, or made anew for
//! its next run. It is in no heap meanwhile, for the heaps go by what is changed here.

use base::Timestamp;
use records::{JobClock, JobTerms, LeaseHolder, Recurrence};

use super::{JobTable, expires_at};
use crate::clocks::ClockTimes;
use crate::entry::{JobEntry, JobLease, JobPlace};
use crate::slab::Handle;

impl JobTable {
    /// Has a waiting job be another one, of the same id and alias. Its attempts begin anew.
    pub(crate) fn replace(
        &mut self,
        job: Handle<JobEntry>,
        number: u64,
        (run_at, tries): (Timestamp, u32),
        terms: &JobTerms,
    ) {
        let entry = self.entry_mut(job);
        (entry.run_at, entry.visible_at) = (run_at, run_at);
        (entry.number, entry.attempt, entry.tries) = (number, 0, tries);
        self.set_terms(job, terms);
    }

    /// Gives a waiting job another time, which is `on_engine` by the engine clock. One that waits
    /// for a retry keeps the time that it was first due at.
    pub(crate) fn reschedule(
        &mut self,
        job: Handle<JobEntry>,
        clock: JobClock,
        run_at: Timestamp,
        on_engine: Timestamp,
    ) {
        let entry = self.entry_mut(job);
        if entry.attempt > 0 {
            entry.visible_at = on_engine;
            return;
        }
        (entry.clock, entry.run_at, entry.visible_at) = (clock, run_at, run_at);
        self.set_ttl_from(job, on_engine);
    }

    /// Gives the successor of a job another time, which is `on_engine` by the engine clock.
    pub(crate) fn reschedule_successor(
        &mut self,
        job: Handle<JobEntry>,
        clock: JobClock,
        run_at: Timestamp,
        on_engine: Timestamp,
    ) {
        let Some(claim) = self[job].claim else { return };
        let Some(successor) = self.records.claims[claim].next.successor_mut() else { return };
        successor.run_at = run_at;
        successor.terms.clock = clock;
        if let Some(recurrence) = &successor.terms.recurrence {
            successor.terms.expires_at = expires_at(recurrence, on_engine);
        }
    }

    /// Begins a run of a job that waits: it is with a worker `until` then, of the engine clock.
    pub(crate) fn begin_lease(
        &mut self,
        job: Handle<JobEntry>,
        number: u64,
        holder: LeaseHolder,
        until: Timestamp,
    ) {
        let visible_at_before = Some(self[job].visible_at);
        let lease = self.leases.insert(JobLease { number, holder, visible_at_before });
        let entry = self.entry_mut(job);
        entry.lease = Some(lease);
        entry.attempt = entry.attempt.saturating_add(1);
        entry.visible_at = until;
    }

    /// Has a lease end then, of the engine clock.
    pub(crate) fn extend_lease(&mut self, job: Handle<JobEntry>, until: Timestamp) {
        debug_assert!(self[job].lease.is_some(), "a job that waits has no lease");
        self.entry_mut(job).visible_at = until;
    }

    /// Takes the lease from a job, if there is one: whether there was.
    pub(crate) fn end_lease(&mut self, job: Handle<JobEntry>) -> bool {
        let lease = self.entry_mut(job).lease.take();
        lease.map(|lease| self.leases.remove(lease)).is_some()
    }

    /// Has a job whose run has ended wait for its next try.
    pub(crate) fn retry(&mut self, job: Handle<JobEntry>, is_counted: bool, until: ClockTimes) {
        let entry = self.entry_mut(job);
        if !is_counted {
            entry.attempt = entry.attempt.saturating_sub(1);
        }
        entry.visible_at = until.on(entry.clock_of_wait());
    }

    /// Has a job whose run has ended wait where it did before that, as if it had not been leased.
    pub(crate) fn take_run_back(&mut self, job: Handle<JobEntry>, visible_at: Timestamp) {
        let entry = self.entry_mut(job);
        entry.attempt = entry.attempt.saturating_sub(1);
        entry.visible_at = visible_at;
    }

    /// Has a job that comes again wait for its next run. That is due then, which is `on_engine` by
    /// the engine clock.
    pub(crate) fn begin_next_run(
        &mut self,
        job: Handle<JobEntry>,
        number: u64,
        (clock, due, on_engine): (JobClock, Timestamp, Timestamp),
        recurrence: Recurrence,
    ) {
        let entry = self.entry_mut(job);
        (entry.clock, entry.run_at, entry.visible_at) = (clock, due, due);
        (entry.number, entry.attempt) = (number, 0);
        let extra = entry.extra;
        if let Some(extra) = extra {
            self.extras[extra].recurrence = Some(Box::new(recurrence));
        }
        self.set_ttl_from(job, on_engine);
    }

    /// Has a run that comes again expire as long after it is due, by the engine clock, as its runs
    /// are worth making. Other jobs expire when they would have.
    fn set_ttl_from(&mut self, job: Handle<JobEntry>, due: Timestamp) {
        let Some(extra) = self[job].extra else { return };
        let extra = &mut self.extras[extra];
        if let Some(recurrence) = &extra.recurrence {
            extra.expires_at = expires_at(recurrence, due);
        }
    }

    /// A job that changes. It is in no heap.
    fn entry_mut(&mut self, job: Handle<JobEntry>) -> &mut JobEntry {
        debug_assert_eq!(self[job].place, JobPlace::Nowhere, "heaps, timers and groups go by what changes");
        self.records.entries.get_mut(job)
    }
}
