//! Jobs as a list that is searched from end to end. Nothing is ever parked here.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Timestamp;
use base::time::millis;
use jobs::{
    AckedJob, Charge, ConflictPolicy, ExpiredJob, JobsProgress, Lapsed, Leased, LoadOutcome, NewJobHead,
    Passed, PublishOutcome,
};
use jobs::{Calendar, ReleaseOutcome, ReleaseTerms, RescheduleError, Stale};
use records::{
    AliasKey, JobClock, JobId, JobTerms, LeaseHolder, Process, QueueKey, QueueOrder, Recurrence,
    RecurrenceRule, Reservation,
};

use crate::allowed::Rules;
use crate::calendar::Sevens;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) queue: QueueKey,
    pub(crate) number: u64,
    pub(crate) run_at: Timestamp,
    pub(crate) visible_at: Timestamp,
    pub(crate) attempt: u32,
    pub(crate) tries: u32,
    pub(crate) lease: Option<(u64, LeaseHolder)>,
    pub(crate) alias: Option<AliasKey>,
    pub(crate) terms: JobTerms,
    pub(crate) next: Option<Next>,
    /// Whether `advance` or `publish` has seen that its time has come.
    pub(crate) ready: bool,
}

impl Job {
    fn is_started(&self) -> bool {
        self.attempt > 0 || self.lease.is_some()
    }

    fn clock_of_wait(&self) -> JobClock {
        if self.is_started() { JobClock::Engine } else { self.terms.clock }
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        self.terms.expires_at.is_some_and(|at| at <= now)
    }
}

/// A successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) id: JobId,
    pub(crate) number: u64,
    pub(crate) run_at: Timestamp,
    pub(crate) tries: u32,
    pub(crate) terms: JobTerms,
    pub(crate) waits_for_retries: bool,
}

#[derive(Default)]
pub(crate) struct Naive {
    pub(crate) jobs: Vec<Job>,
    pub(crate) published: u64,
    pub(crate) leased: u64,
    pub(crate) now: Timestamp,
    pub(crate) wall_ahead_ms: i64,
    pub(crate) rules: BTreeMap<QueueKey, Rules>,
    /// Where leased jobs stood before, by the lease's number; forgotten by a restart.
    stood: BTreeMap<u64, Timestamp>,
}

impl Naive {
    fn time(&self, clock: JobClock) -> Timestamp {
        match clock {
            JobClock::Engine => self.now,
            JobClock::Wall => Timestamp(self.now.0 + self.wall_ahead_ms),
        }
    }

    fn on_engine(&self, at: Timestamp, clock: JobClock) -> Timestamp {
        Timestamp(at.0 - self.time(clock).0 + self.now.0)
    }

    pub(crate) fn publish(&mut self, new: &NewJobHead) -> PublishOutcome {
        let holder = self
            .jobs
            .iter()
            .position(|job| job.queue == new.queue && job.alias.is_some() && job.alias == new.alias);
        let Some(place) = holder else {
            let next = self.as_next(new, false);
            self.start(new.queue, new.alias, &next, new.run_at);
            return PublishOutcome::New;
        };
        let holder = &self.jobs[place];
        let (id, next) = (holder.id, holder.next.as_ref().map(|next| next.id));
        match (new.on_conflict, holder.lease.is_some(), next) {
            (ConflictPolicy::Reject, _, next) => PublishOutcome::Conflict(next.unwrap_or(id)),
            (ConflictPolicy::Keep, false, _) => PublishOutcome::Kept(id),
            (ConflictPolicy::Keep, true, None) => self.succeed(place, new, true),
            (ConflictPolicy::Keep, true, Some(next)) => PublishOutcome::Kept(next),
            (ConflictPolicy::Replace, true, _) => self.succeed(place, new, false),
            (ConflictPolicy::Replace, false, _) => self.replace(place, new),
        }
    }

    fn as_next(&mut self, new: &NewJobHead, waits_for_retries: bool) -> Next {
        let NewJobHead { id, run_at, tries, terms, .. } = *new;
        Next { id, number: self.number(), run_at, tries, terms, waits_for_retries }
    }

    fn succeed(&mut self, place: usize, new: &NewJobHead, waits_for_retries: bool) -> PublishOutcome {
        let next = self.as_next(new, waits_for_retries);
        let replaced = self.jobs[place].next.replace(next).map(|next| next.id);
        PublishOutcome::Succeeds { replaced }
    }

    fn replace(&mut self, place: usize, new: &NewJobHead) -> PublishOutcome {
        let old = self.jobs.remove(place);
        let next = Next { id: old.id, ..self.as_next(new, false) };
        self.start(old.queue, old.alias, &next, new.run_at);
        PublishOutcome::Replaced { job: old.id, dropped: old.next.map(|next| next.id) }
    }

    pub(crate) fn lease(&mut self, queue: QueueKey, holder: LeaseHolder, ttr: Duration) -> Option<Leased> {
        if !self.rules_allow(queue) {
            return None;
        }
        let place = self.first(queue)?;
        self.take_token(queue);
        let now = self.now;
        let job = &mut self.jobs[place];
        job.ready = false;
        job.lease = Some((self.leased, holder));
        self.stood.insert(self.leased, job.visible_at);
        job.attempt += 1;
        job.visible_at = now.after(ttr);
        self.leased += 1;
        Some(Leased {
            reservation: Reservation { job: job.id, lease: self.leased - 1 },
            attempt: job.attempt,
            tries: job.tries,
            run_at: job.run_at,
            number: job.number,
            expires_at: job.terms.expires_at,
            until: job.visible_at,
        })
    }

    pub(crate) fn can_lease(&self, queue: QueueKey) -> bool {
        self.rules_allow(queue) && self.first(queue).is_some()
    }

    /// The job that goes next, whatever the rules say.
    pub(crate) fn first(&self, queue: QueueKey) -> Option<usize> {
        let may_go = |place: &usize| {
            let job = &self.jobs[*place];
            job.queue == queue && job.ready && !job.has_expired(self.now) && self.is_next_of_group(job)
        };
        let order = |place: &usize| (self.jobs[*place].visible_at, self.jobs[*place].number);
        let places = (0..self.jobs.len()).filter(may_go);
        match self.rules.get(&queue).map(|rules| rules.rules.order).unwrap_or_default() {
            QueueOrder::Fifo => places.min_by_key(order),
            QueueOrder::Lifo => places.max_by_key(order),
        }
    }

    /// One that has expired unnoticed still blocks its group: until time moves on, nobody is let
    /// past it.
    fn is_next_of_group(&self, job: &Job) -> bool {
        let Some(group) = job.terms.group else { return true };
        let of_group = |other: &&Job| other.queue == job.queue && other.terms.group == Some(group);
        if let Some(started) = self.jobs.iter().filter(of_group).find(|job| job.is_started()) {
            return started.id == job.id;
        }
        let due = self.jobs.iter().filter(of_group).filter(|job| job.ready);
        due.min_by_key(|job| (job.run_at, job.number)).is_some_and(|first| first.id == job.id)
    }

    pub(crate) fn ack(&mut self, reservation: Reservation) -> Result<AckedJob, Stale> {
        let place = self.held(reservation)?;
        let is_replaced = self.jobs[place].next.as_ref().is_some_and(|next| !next.waits_for_retries);
        let next_run = if is_replaced { None } else { self.recur(place) };
        let successor = if next_run.is_none() { self.end(place) } else { None };
        Ok(AckedJob { successor, next_run })
    }

    pub(crate) fn release(
        &mut self,
        reservation: Reservation,
        terms: ReleaseTerms,
    ) -> Result<ReleaseOutcome, Stale> {
        let place = self.held(reservation)?;
        Ok(self.end_run(place, self.now.after(terms.delay), terms.charge))
    }

    pub(crate) fn give_back(&mut self, reservation: Reservation) -> Result<ReleaseOutcome, Stale> {
        let place = self.held(reservation)?;
        self.give_token(self.jobs[place].queue);
        let job = &self.jobs[place];
        let is_replaced = job.next.as_ref().is_some_and(|next| !next.waits_for_retries);
        let is_over = is_replaced || job.has_expired(self.now);
        let Some(stood) = self.stood.get(&reservation.lease).copied().filter(|_| !is_over) else {
            return Ok(self.end_run(place, self.now, Charge::Uncounted));
        };
        let job = &mut self.jobs[place];
        (job.lease, job.visible_at) = (None, stood);
        job.attempt -= 1;
        self.offer(place);
        Ok(ReleaseOutcome::Waiting { until: self.now })
    }

    pub(crate) fn extend(&mut self, reservation: Reservation, ttr: Duration) -> Result<Timestamp, Stale> {
        let place = self.held(reservation)?;
        self.jobs[place].visible_at = self.now.after(ttr);
        Ok(self.now.after(ttr))
    }

    /// Whether there was such a job.
    pub(crate) fn cancel(&mut self, id: JobId) -> bool {
        if let Some(place) = self.jobs.iter().position(|job| job.id == id) {
            self.end(place);
            return true;
        }
        self.jobs.iter_mut().any(|job| job.next.take_if(|next| next.id == id).is_some())
    }

    pub(crate) fn reschedule(
        &mut self,
        id: JobId,
        clock: JobClock,
        run_at: Timestamp,
    ) -> Result<(), RescheduleError> {
        let on_engine = self.on_engine(run_at, clock);
        let mut successors = self.jobs.iter_mut().filter_map(|job| job.next.as_mut());
        if let Some(next) = successors.find(|next| next.id == id) {
            (next.run_at, next.terms.clock) = (run_at, clock);
            set_ttl(&mut next.terms, on_engine);
            return Ok(());
        }
        let place = self.jobs.iter().position(|job| job.id == id).ok_or(RescheduleError::Unknown)?;
        let job = &mut self.jobs[place];
        if job.lease.is_some() {
            return Err(RescheduleError::Reserved);
        }
        job.ready = false;
        if job.attempt > 0 {
            job.visible_at = on_engine;
        } else {
            (job.terms.clock, job.run_at, job.visible_at) = (clock, run_at, run_at);
            set_ttl(&mut job.terms, on_engine);
        }
        self.offer(place);
        Ok(())
    }

    pub(crate) fn remove_queue(&mut self, queue: QueueKey) {
        self.jobs.retain(|job| job.queue != queue);
    }

    pub(crate) fn advance(&mut self, limit: usize) -> (Vec<Passed>, JobsProgress) {
        let mut passed = Vec::new();
        for _ in 0..limit {
            if let Some(place) = self.expired() {
                let Job { id, queue, alias, .. } = self.jobs[place];
                let next_run = self.recur(place);
                if next_run.is_none() {
                    self.end(place);
                }
                passed.push(Passed::Expired(ExpiredJob { job: id, queue, alias, next_run }));
                continue;
            }
            let Some(place) = self.due() else { return (passed, JobsProgress::Done) };
            let Some((_, holder)) = self.jobs[place].lease else {
                self.offer(place);
                continue;
            };
            let charge = if holder == LeaseHolder::Outside { Charge::Counted } else { Charge::NeverLast };
            let Job { id, queue, alias, attempt, tries, visible_at, terms, .. } = self.jobs[place];
            let released = self.end_run(place, visible_at, charge);
            let group = terms.group;
            passed.push(Passed::Lapsed(Lapsed {
                job: id,
                queue,
                alias,
                attempt,
                tries,
                group,
                holder,
                released,
            }));
        }
        let is_done = self.expired().is_none() && self.due().is_none();
        (passed, if is_done { JobsProgress::Done } else { JobsProgress::More })
    }

    /// A restart of the server is over: who is due is seen when time moves on.
    pub(crate) fn restarted(&mut self) {
        self.jobs.iter_mut().for_each(|job| job.ready = false);
        self.stood.clear();
        self.reset_rates();
    }

    /// A restart of the server comes to this job.
    pub(crate) fn load(&mut self, id: JobId, process: Process) -> LoadOutcome {
        let place = self.jobs.iter().position(|job| job.id == id).expect("listed just before");
        match self.jobs[place].lease {
            Some((_, LeaseHolder::Own(holder))) if holder != process => {
                let attempt = self.jobs[place].attempt;
                // What has expired is not looked at before time moves on.
                let expires_at = self.jobs[place].terms.expires_at.take();
                let released = self.end_run(place, self.now, Charge::NeverLast);
                if let Some(job) = self.jobs.iter_mut().find(|job| job.id == id) {
                    job.terms.expires_at = expires_at;
                }
                LoadOutcome::Interrupted { job: id, attempt, released }
            }
            _ => LoadOutcome::Kept,
        }
    }

    /// When something is due next, tokens not counted.
    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        let waiting = self.jobs.iter().filter(|job| !job.ready);
        let due = waiting.map(|job| self.on_engine(job.visible_at, job.clock_of_wait()));
        let expiring = self.jobs.iter().filter(|job| job.lease.is_none());
        due.chain(expiring.filter_map(|job| job.terms.expires_at)).min()
    }

    pub(crate) fn has_expired_unnoticed(&self) -> bool {
        self.expired().is_some()
    }

    /// Jobs of a queue whose time has come, also those behind another of their group.
    pub(crate) fn ready(&self, queue: QueueKey) -> usize {
        self.jobs.iter().filter(|job| job.queue == queue && job.ready).count()
    }

    fn expired(&self) -> Option<usize> {
        let gone =
            |place: &usize| self.jobs[*place].lease.is_none() && self.jobs[*place].has_expired(self.now);
        let order = |place: &usize| (self.jobs[*place].terms.expires_at, self.jobs[*place].number);
        (0..self.jobs.len()).filter(gone).min_by_key(order)
    }

    fn due(&self) -> Option<usize> {
        let is_due = |place: &usize| {
            let job = &self.jobs[*place];
            !job.ready && job.visible_at <= self.time(job.clock_of_wait())
        };
        let order = |place: &usize| {
            let job = &self.jobs[*place];
            (job.clock_of_wait(), job.visible_at, job.number)
        };
        (0..self.jobs.len()).filter(is_due).min_by_key(order)
    }

    fn held(&self, reservation: Reservation) -> Result<usize, Stale> {
        let holds = |job: &Job| {
            job.id == reservation.job
                && job.lease.is_some_and(|(lease, _)| lease == reservation.lease)
                && job.visible_at > self.now
        };
        self.jobs.iter().position(holds).ok_or(Stale)
    }

    fn end_run(&mut self, place: usize, until: Timestamp, charge: Charge) -> ReleaseOutcome {
        if self.jobs[place].next.as_ref().is_some_and(|next| !next.waits_for_retries) {
            let successor = self.end(place).expect("there is one");
            return ReleaseOutcome::Superseded { successor };
        }
        let job = &self.jobs[place];
        let expired = job.has_expired(self.now);
        let died = !expired && charge == Charge::Counted && job.attempt >= job.tries;
        if expired || died {
            if let Some(next_run) = self.recur(place) {
                return ReleaseOutcome::Recurs { died, next_run };
            }
            self.end(place);
            return if died { ReleaseOutcome::Dead } else { ReleaseOutcome::Expired };
        }
        let by_wall = Timestamp(until.0 + self.wall_ahead_ms);
        let job = &mut self.jobs[place];
        if charge == Charge::Uncounted {
            job.attempt -= 1;
        }
        job.lease = None;
        job.visible_at = if job.clock_of_wait() == JobClock::Engine { until } else { by_wall };
        self.offer(place);
        ReleaseOutcome::Waiting { until }
    }

    /// Makes the next run of a recurring job, if there is one.
    fn recur(&mut self, place: usize) -> Option<Timestamp> {
        let Job { id, run_at, terms, .. } = self.jobs[place];
        let recurrence = terms.recurrence.filter(|recurrence| recurrence.left != Some(1))?;
        let (clock, next) = match recurrence.rule {
            RecurrenceRule::Every(ms) => {
                let mut next = run_at.after(Duration::from_millis(ms));
                while next.after(Duration::from_millis(ms)) <= self.time(terms.clock) {
                    next = next.after(Duration::from_millis(ms));
                }
                (terms.clock, next)
            }
            RecurrenceRule::Calendar => (JobClock::Wall, Sevens.next(id, run_at, self.time(JobClock::Wall))?),
        };
        let (number, on_engine) = (self.number(), self.on_engine(next, clock));
        let job = &mut self.jobs[place];
        (job.number, job.run_at, job.visible_at, job.attempt) = (number, next, next, 0);
        (job.lease, job.ready, job.terms.clock) = (None, false, clock);
        let left = recurrence.left.map(|left| left - 1);
        job.terms.recurrence = Some(Recurrence { left, run: recurrence.run + 1, ..recurrence });
        set_ttl(&mut job.terms, on_engine);
        self.offer(place);
        Some(next)
    }

    /// Takes a job out and starts its successor.
    fn end(&mut self, place: usize) -> Option<JobId> {
        let job = self.jobs.remove(place);
        let next = job.next?;
        let visible_at = next.run_at.max(self.time(next.terms.clock));
        self.start(job.queue, job.alias, &next, visible_at);
        Some(next.id)
    }

    fn start(&mut self, queue: QueueKey, alias: Option<AliasKey>, next: &Next, visible_at: Timestamp) {
        let Next { id, number, run_at, tries, terms, .. } = *next;
        let (attempt, lease, next, ready) = (0, None, None, false);
        self.jobs.push(Job {
            id,
            queue,
            number,
            run_at,
            visible_at,
            attempt,
            tries,
            lease,
            alias,
            terms,
            next,
            ready,
        });
        self.offer(self.jobs.len() - 1);
    }

    /// Makes a waiting job available if its time has come.
    fn offer(&mut self, place: usize) {
        let job = &self.jobs[place];
        self.jobs[place].ready =
            job.visible_at <= self.time(job.clock_of_wait()) && !job.has_expired(self.now);
    }

    fn number(&mut self) -> u64 {
        self.published += 1;
        self.published - 1
    }
}

fn set_ttl(terms: &mut JobTerms, due: Timestamp) {
    if let Some(recurrence) = terms.recurrence {
        terms.expires_at = recurrence.ttl_ms.map(|ms| Timestamp(due.0 + millis(Duration::from_millis(ms))));
    }
}
