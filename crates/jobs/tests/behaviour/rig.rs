//! Jobs with a clock, a store and consumers that are woken; every call checks that memory and store
//! agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{PartitionId, Timestamp};
use jobs::{
    AckedJob, Calendar, ConflictPolicy, Horizon, Jobs, JobsProgress, JobsStep, Lapsed, Leased, LoadOutcome,
    NewJobHead, Numbers, Passed, PublishOutcome, QueueRules, ReadRequest,
};
use jobs::{ReleaseOutcome, ReleaseTerms, RescheduleError, Stale};
use records::{
    AliasKey, Batch, JobClock, JobHead, JobId, JobTerms, LeaseHolder, Op, ParkedJob, Parking, Process,
    QueueKey, Reservation,
};

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
pub(crate) fn job(number: u8) -> NewJobHead {
    NewJobHead {
        id: id(number),
        queue: QUEUE,
        run_at: Timestamp(0),
        tries: 3,
        terms: JobTerms::default(),
        alias: None,
        on_conflict: ConflictPolicy::Reject,
    }
}

pub(crate) fn job_at(number: u8, run_at: i64) -> NewJobHead {
    NewJobHead { run_at: Timestamp(run_at), ..job(number) }
}

/// A job under [`ALIAS`].
pub(crate) fn aliased(number: u8, on_conflict: ConflictPolicy) -> NewJobHead {
    NewJobHead { alias: Some(ALIAS), on_conflict, ..job(number) }
}

pub(crate) struct Rig {
    pub(crate) jobs: Jobs,
    pub(crate) now: Timestamp,
    /// `None` is the engine clock.
    wall: Option<Timestamp>,
    pub(crate) process: Process,
    /// Queues named since they were last taken.
    pub(crate) wakes: Vec<QueueKey>,
    pub(crate) stored: BTreeMap<JobId, JobHead>,
    pub(crate) parked: BTreeMap<JobId, ParkedJob>,
    /// Jobs that expired, and when they come again.
    pub(crate) expired: Vec<(JobId, Option<Timestamp>)>,
    /// Ids whose head alone was deleted.
    pub(crate) dead: BTreeSet<JobId>,
    /// Ids whose deletion was stored.
    pub(crate) deleted: BTreeSet<JobId>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let process = Process(1);
        Self {
            jobs: Jobs::new(process, Numbers::default()),
            now: Timestamp(0),
            wall: None,
            process,
            wakes: Vec::new(),
            stored: BTreeMap::new(),
            parked: BTreeMap::new(),
            expired: Vec::new(),
            dead: BTreeSet::new(),
            deleted: BTreeSet::new(),
        }
    }

    pub(crate) fn publish(&mut self, job: NewJobHead) -> PublishOutcome {
        self.call(|jobs, step| jobs.publish(job, step))
    }

    pub(crate) fn lease_as(&mut self, holder: LeaseHolder, ttr: Duration) -> Option<Leased> {
        self.call(|jobs, step| jobs.lease(QUEUE, holder, ttr, step))
    }

    /// Leases outside, for longer than the test takes.
    pub(crate) fn lease(&mut self) -> Option<Leased> {
        self.lease_as(LeaseHolder::Outside, LONG)
    }

    /// Leases what must be there.
    pub(crate) fn take(&mut self) -> Reservation {
        self.lease().expect("a job is ready").reservation
    }

    pub(crate) fn ack(&mut self, reservation: Reservation) -> Result<AckedJob, Stale> {
        self.call(|jobs, step| jobs.ack(reservation, step))
    }

    pub(crate) fn release(
        &mut self,
        reservation: Reservation,
        terms: ReleaseTerms,
    ) -> Result<ReleaseOutcome, Stale> {
        self.call(|jobs, step| jobs.release(reservation, terms, step))
    }

    pub(crate) fn give_back(&mut self, reservation: Reservation) -> Result<ReleaseOutcome, Stale> {
        self.call(|jobs, step| jobs.give_back(reservation, step))
    }

    /// Has the holder of [`ALIAS`] expire if that is due.
    pub(crate) fn expire_holder(&mut self) -> Option<JobId> {
        let expired = self.call(|jobs, step| jobs.expire_holder(QUEUE, ALIAS, step));
        expired.map(|expired| expired.job)
    }

    pub(crate) fn extend(&mut self, reservation: Reservation, ttr: Duration) -> Result<Timestamp, Stale> {
        self.call(|jobs, step| jobs.extend(reservation, ttr, step))
    }

    pub(crate) fn cancel(&mut self, id: JobId) -> Option<JobHead> {
        self.call(|jobs, step| jobs.cancel(id, step))
    }

    pub(crate) fn reschedule(&mut self, id: JobId, run_at: i64) -> Result<(), RescheduleError> {
        self.call(|jobs, step| jobs.reschedule(id, JobClock::Engine, Timestamp(run_at), step))
    }

    /// Moves the clock and does all that is due then.
    pub(crate) fn at(&mut self, now: i64) -> Vec<Lapsed> {
        assert!(now >= self.now.0, "the clock never goes back");
        self.now = Timestamp(now);
        let (lapsed, progress) = self.advance(usize::MAX);
        assert_eq!(progress, JobsProgress::Done);
        lapsed
    }

    pub(crate) fn advance(&mut self, limit: usize) -> (Vec<Lapsed>, JobsProgress) {
        let mut passed = Vec::new();
        let progress = self.call(|jobs, step| jobs.advance(limit, &mut passed, step));
        let mut lapsed = Vec::new();
        for passed in passed {
            match passed {
                Passed::Lapsed(one) => lapsed.push(one),
                Passed::Expired(one) => self.expired.push((one.job, one.next_run)),
            }
        }
        (lapsed, progress)
    }

    /// Has rules hold for the queue.
    pub(crate) fn rule(&mut self, rules: QueueRules) {
        self.call(|jobs, step| jobs.set_rules(QUEUE, rules, step));
    }

    /// The wall clock shows this until it is set again.
    pub(crate) fn see_wall(&mut self, wall: i64) {
        self.wall = Some(Timestamp(wall));
    }

    /// Parks as many jobs as can be, one at most being resident by right.
    pub(crate) fn evict(&mut self) {
        self.evict_to(1);
    }

    /// Parks what need not be resident where so many jobs may be.
    pub(crate) fn evict_to(&mut self, resident_max: usize) {
        self.jobs.set_resident_max(resident_max);
        while self.call(|jobs, step| jobs.evict(step)) {}
    }

    /// Reads in all that is wanted, whatever is parked of it, in pages of one.
    pub(crate) fn read_in(&mut self) -> Vec<ReadRequest> {
        let mut requests = Vec::new();
        while let Some(request) = self.jobs.next_read(self.now) {
            assert!(requests.len() < 100, "reading comes to an end: {requests:?}");
            requests.push(request);
            let mut found: Vec<_> =
                self.parked.values().filter(|parked| is_of(parked, request)).cloned().collect();
            found.sort_by_key(|parked| (parked.head.visible_at, parked.head.number));
            let to =
                found.get(1).map(|_| Horizon { at: found[0].head.visible_at, number: found[0].head.number });
            for parked in found.iter().take(1) {
                self.call(|jobs, step| jobs.take_in(parked, step));
            }
            self.call(|jobs, step| jobs.read_to(request, to, step));
        }
        requests
    }

    /// Makes one job resident.
    pub(crate) fn unpark(&mut self, id: JobId) {
        let parked = self.parked[&id].clone();
        self.call(|jobs, step| jobs.unpark(&parked, step));
    }

    /// Loads what is stored, in `process`; nothing is told to be ready before the clock moves.
    pub(crate) fn restart(&mut self, process: Process) -> Vec<LoadOutcome> {
        let numbers = self.jobs.numbers();
        self.process = process;
        self.jobs = Jobs::new(process, numbers);
        let of = |parking| self.parked.values().filter(|parked| parked.parking == parking).count() as u64;
        self.jobs.load_counts(QUEUE, of(Parking::Time), of(Parking::Worker) + of(Parking::Head));
        let heads: Vec<_> = self.stored.values().cloned().collect();
        self.wakes.clear();
        self.call(|jobs, step| heads.iter().map(|head| jobs.load(head, step)).collect())
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

    fn call<T>(&mut self, call: impl FnOnce(&mut Jobs, &mut JobsStep<'_>) -> T) -> T {
        let mut batch = Batch::new(PartitionId(0));
        self.jobs.set_wall(self.now, self.wall.unwrap_or(self.now));
        let answer =
            call(&mut self.jobs, &mut JobsStep::new(self.now, &mut Hundreds, &mut batch, &mut self.wakes));
        for op in batch.ops {
            self.store(op);
        }
        for (id, head) in &self.stored {
            assert_eq!(self.jobs.get(*id).as_ref(), Some(head), "memory and store agree");
        }
        let counts = self.jobs.counts();
        assert_eq!(counts.scheduled + counts.ready + counts.reserved, self.stored.len());
        answer
    }

    fn store(&mut self, op: Op) {
        match op {
            Op::PutJob(head) => drop(self.stored.insert(head.id, *head)),
            Op::DeleteJob(id) => {
                self.stored.remove(&id);
                assert!(self.deleted.insert(id), "an id is deleted once");
            }
            Op::DeleteJobHead(id) => {
                self.stored.remove(&id).expect("who dies was there");
                assert!(self.dead.insert(id), "nobody dies twice");
            }
            Op::ParkJob(parked) => {
                self.stored.remove(&parked.head.id);
                self.parked.insert(parked.head.id, *parked);
            }
            Op::UnparkJob(key) => drop(self.parked.remove(&key.id).expect("it was parked")),
            other => panic!("jobs change nothing but jobs: {other:?}"),
        }
    }
}

fn is_of(parked: &ParkedJob, request: ReadRequest) -> bool {
    let JobHead { queue, terms, .. } = parked.head;
    match request {
        ReadRequest::Time { clock, .. } => {
            parked.parking == Parking::Time && parked.head.clock_of_wait() == clock
        }
        ReadRequest::Line { queue: of, group } => {
            let is_in_line = match parked.parking {
                Parking::Time => false,
                Parking::Worker => terms.group == group,
                Parking::Head => terms.group == group || group.is_none(),
            };
            is_in_line && queue == of
        }
    }
}

/// Every 100 ms of the wall clock, until a second has passed.
pub(crate) struct Hundreds;

impl Calendar for Hundreds {
    fn next(&mut self, _: JobId, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let next = (after.0 / 100 + 1).max(now.0 / 100) * 100;
        (next <= 1_000).then_some(Timestamp(next))
    }
}
