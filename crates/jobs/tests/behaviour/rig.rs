//! Jobs with a clock, a store and consumers that are woken; every call checks that memory and store agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{PartitionId, Timestamp};
use jobs::{
    Acked, Jobs, Lapsed, Leased, Loaded, NewJob, NoCalendar, Numbers, OnConflict, Passed, Progress, Published,
};
use jobs::{Released, Retry, Stale, Unmoved};
use records::{AliasKey, Batch, Holder, JobClock, JobHead, JobId, Op, Process, QueueKey, Reservation, Terms};

/// The queue of every test that needs only one.
pub(crate) const QUEUE: QueueKey = QueueKey(7);
/// The alias of every test that needs only one.
pub(crate) const ALIAS: AliasKey = AliasKey(77);
/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_hours(1);

pub(crate) fn id(number: u8) -> JobId {
    JobId([number; 16])
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A job that is due at 0, has 3 tries and no alias.
pub(crate) fn job(number: u8) -> NewJob {
    NewJob {
        id: id(number),
        queue: QUEUE,
        run_at: Timestamp(0),
        tries: 3,
        terms: Terms::default(),
        alias: None,
        on_conflict: OnConflict::Reject,
    }
}

pub(crate) fn job_at(number: u8, run_at: i64) -> NewJob {
    NewJob { run_at: Timestamp(run_at), ..job(number) }
}

/// A job under [`ALIAS`].
pub(crate) fn aliased(number: u8, on_conflict: OnConflict) -> NewJob {
    NewJob { alias: Some(ALIAS), on_conflict, ..job(number) }
}

pub(crate) struct Rig {
    pub(crate) jobs: Jobs,
    pub(crate) now: Timestamp,
    pub(crate) process: Process,
    /// Queues named since they were last taken.
    pub(crate) wakes: Vec<QueueKey>,
    pub(crate) stored: BTreeMap<JobId, JobHead>,
    /// Ids whose deletion was stored.
    pub(crate) deleted: BTreeSet<JobId>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let process = Process(1);
        Self {
            jobs: Jobs::new(process, Numbers::default()),
            now: Timestamp(0),
            process,
            wakes: Vec::new(),
            stored: BTreeMap::new(),
            deleted: BTreeSet::new(),
        }
    }

    pub(crate) fn publish(&mut self, job: NewJob) -> Published {
        let now = self.now;
        self.call(|jobs, batch, wakes| jobs.publish(now, job, batch, wakes))
    }

    pub(crate) fn lease_as(&mut self, holder: Holder, ttr: Duration) -> Option<Leased> {
        let now = self.now;
        self.call(|jobs, batch, _| jobs.lease(now, QUEUE, holder, ttr, batch))
    }

    /// Leases outside, for longer than the test takes.
    pub(crate) fn lease(&mut self) -> Option<Leased> {
        self.lease_as(Holder::Outside, LONG)
    }

    /// Leases what must be there.
    pub(crate) fn take(&mut self) -> Reservation {
        self.lease().expect("a job is ready").reservation
    }

    pub(crate) fn ack(&mut self, reservation: Reservation) -> Result<Acked, Stale> {
        let now = self.now;
        self.call(|jobs, batch, wakes| jobs.ack(now, reservation, &mut NoCalendar, batch, wakes))
    }

    pub(crate) fn release(&mut self, reservation: Reservation, retry: Retry) -> Result<Released, Stale> {
        let now = self.now;
        self.call(|jobs, batch, wakes| jobs.release(now, reservation, retry, &mut NoCalendar, batch, wakes))
    }

    pub(crate) fn extend(&mut self, reservation: Reservation, ttr: Duration) -> Result<Timestamp, Stale> {
        let now = self.now;
        self.call(|jobs, batch, _| jobs.extend(now, reservation, ttr, batch))
    }

    pub(crate) fn cancel(&mut self, id: JobId) -> Option<JobHead> {
        let now = self.now;
        self.call(|jobs, batch, wakes| jobs.cancel(now, id, batch, wakes))
    }

    pub(crate) fn reschedule(&mut self, id: JobId, run_at: i64) -> Result<(), Unmoved> {
        let now = self.now;
        self.call(|jobs, batch, wakes| {
            jobs.reschedule(now, id, JobClock::Engine, Timestamp(run_at), batch, wakes)
        })
    }

    /// Moves the clock and does all that is due then.
    pub(crate) fn at(&mut self, now: i64) -> Vec<Lapsed> {
        assert!(now >= self.now.0, "the clock never goes back");
        self.now = Timestamp(now);
        let (lapsed, progress) = self.advance(usize::MAX);
        assert_eq!(progress, Progress::Done);
        lapsed
    }

    pub(crate) fn advance(&mut self, limit: usize) -> (Vec<Lapsed>, Progress) {
        let (now, mut passed) = (self.now, Vec::new());
        let progress = self
            .call(|jobs, batch, wakes| jobs.advance(now, limit, &mut NoCalendar, batch, wakes, &mut passed));
        let lapsed = passed.into_iter().map(|passed| match passed {
            Passed::Lapsed(lapsed) => lapsed,
            Passed::Expired(expired) => panic!("no job here expires: {expired:?}"),
        });
        (lapsed.collect(), progress)
    }

    /// Loads what is stored, in `process`; nothing is told to be ready before the clock moves.
    pub(crate) fn restart(&mut self, process: Process) -> Vec<Loaded> {
        let numbers = self.jobs.numbers();
        self.process = process;
        self.jobs = Jobs::new(process, numbers);
        let (now, heads) = (self.now, self.stored.values().cloned().collect::<Vec<_>>());
        self.wakes.clear();
        self.call(|jobs, batch, _| heads.iter().map(|head| jobs.load(now, head, batch)).collect())
    }

    /// Leases and acknowledges everything ready; answers the ids in order.
    pub(crate) fn drain(&mut self) -> Vec<JobId> {
        std::iter::from_fn(|| {
            let reservation = self.lease()?.reservation;
            self.ack(reservation).expect("it was just leased");
            Some(reservation.job)
        })
        .collect()
    }

    pub(crate) fn taken_wakes(&mut self) -> Vec<QueueKey> {
        std::mem::take(&mut self.wakes)
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Jobs, &mut Batch, &mut Vec<QueueKey>) -> T) -> T {
        let mut batch = Batch::new(PartitionId(0));
        let answer = call(&mut self.jobs, &mut batch, &mut self.wakes);
        for op in batch.ops {
            match op {
                Op::PutJob(head) => drop(self.stored.insert(head.id, *head)),
                Op::DeleteJob(id) => {
                    self.stored.remove(&id);
                    assert!(self.deleted.insert(id), "an id is deleted once");
                }
                other => panic!("jobs change nothing but jobs: {other:?}"),
            }
        }
        for (id, head) in &self.stored {
            assert_eq!(self.jobs.get(*id).as_ref(), Some(head), "memory and store agree");
        }
        let counts = self.jobs.counts();
        assert_eq!(counts.scheduled + counts.ready + counts.reserved, self.stored.len());
        answer
    }
}
