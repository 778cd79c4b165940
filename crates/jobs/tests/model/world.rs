//! Runs operations against engine and model and compares all there is.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{PartitionId, Timestamp};
use jobs::{
    Jobs, JobsProgress, JobsStep, NewJobHead, Numbers, Passed, PublishOutcome, QueueRules, ReadRequest,
    ReleaseTerms,
};
use records::{
    AliasKey, Batch, GroupKey, HeadState, JobHead, JobId, JobTerms, LeaseHolder, Process, QueueKey,
    QueueOrder, Recurrence, RecurrenceRule, Reservation, Starts,
};

use crate::calendar::Sevens;
use crate::naive::{Job, Naive, Next};
use crate::operation::{Operation, Publish};
use crate::store::Stored;

const QUEUES: u64 = 3;

pub(crate) struct World {
    engine: Jobs,
    model: Naive,
    now: Timestamp,
    wall_ahead_ms: i64,
    process: Process,
    /// Milliseconds of a unit of the operations' time.
    unit_ms: i64,
    /// With it jobs are parked, and time moves on with every operation.
    resident_max: Option<usize>,
    /// Every id and reservation that was ever given out.
    ids: Vec<JobId>,
    reservations: Vec<Reservation>,
    pub(crate) stored: Stored,
    /// Queues named in the last operation.
    wakes: Vec<QueueKey>,
    /// Queues whose consumers were given nothing, and have not been told of anything since.
    drained: BTreeSet<QueueKey>,
    /// Counts the pages read.
    pages: usize,
}

impl World {
    /// Everything is resident.
    pub(crate) fn roomy() -> Self {
        Self {
            engine: Jobs::new(Process(1), Numbers::default()).keeping_dead_letters(),
            model: Naive::default(),
            now: Timestamp(1_000_000),
            wall_ahead_ms: 0,
            process: Process(1),
            unit_ms: 1,
            resident_max: None,
            ids: vec![JobId([0xff; 16])],
            reservations: vec![Reservation { job: JobId([0xff; 16]), lease: 0 }],
            stored: Stored::default(),
            wakes: Vec::new(),
            drained: BTreeSet::new(),
            pages: 0,
        }
    }

    /// Few jobs are resident. A second is a short time here, because what is due within one is read
    /// in.
    pub(crate) fn cramped(resident_max: usize) -> Self {
        let mut world = Self { unit_ms: 200, resident_max: Some(resident_max), ..Self::roomy() };
        world.engine.set_resident_max(resident_max);
        world
    }

    pub(crate) fn run(&mut self, steps: &[Operation]) {
        for step in steps {
            self.wakes.clear();
            self.see_the_time();
            self.apply(step);
            if self.resident_max.is_some() {
                self.settle_down();
            }
            self.stored.check_counts(&mut self.engine);
            self.check_jobs();
            self.check_wakes();
            if self.resident_max.is_some() || matches!(step, Operation::Advance { .. }) {
                self.check_next_wakeup();
            }
        }
    }

    fn see_the_time(&mut self) {
        (self.model.now, self.model.wall_ahead_ms) = (self.now, self.wall_ahead_ms);
        self.engine.set_wall(self.now, Timestamp(self.now.0 + self.wall_ahead_ms));
    }

    /// Calls the engine and stores what it says.
    fn call<T>(&mut self, call: impl FnOnce(&mut Jobs, &mut JobsStep<'_>) -> T) -> T {
        let mut batch = Batch::new(PartitionId(0));
        let answer =
            call(&mut self.engine, &mut JobsStep::new(self.now, &mut Sevens, &mut batch, &mut self.wakes));
        self.stored.apply(batch);
        answer
    }

    fn apply(&mut self, step: &Operation) {
        match *step {
            Operation::Publish(ref publish) => self.publish(publish),
            Operation::Lease { queue, own, ttr } => self.lease(QueueKey(queue), own, self.scaled(ttr)),
            Operation::Ack { picked } => {
                let held = self.picked_reservation(picked);
                let acked = self.call(|jobs, step| jobs.ack(held, step));
                assert_eq!(acked, self.model.ack(held));
            }
            Operation::Release { picked, delay, charge } => {
                let terms = ReleaseTerms { delay: self.scaled(delay), charge };
                let held = self.picked_reservation(picked);
                let released = self.call(|jobs, step| jobs.release(held, terms, step));
                assert_eq!(released, self.model.release(held, terms));
            }
            Operation::GiveBack { picked } => {
                let held = self.picked_reservation(picked);
                let released = self.call(|jobs, step| jobs.give_back(held, step));
                assert_eq!(released, self.model.give_back(held));
            }
            Operation::Extend { picked, ttr } => {
                let (held, ttr) = (self.picked_reservation(picked), self.scaled(ttr));
                let extended = self.call(|jobs, step| jobs.extend(held, ttr, step));
                assert_eq!(extended, self.model.extend(held, ttr));
            }
            Operation::Cancel { picked } => {
                let id = self.picked_id(picked);
                self.read_in(id);
                let before = self.engine.get(id);
                let cancelled = self.call(|jobs, step| jobs.cancel(id, step));
                assert_eq!((cancelled.is_some(), &cancelled), (self.model.cancel(id), &before));
            }
            Operation::Reschedule { picked, clock, run_in } => {
                let (id, run_at) = (self.picked_id(picked), self.later(run_in));
                self.read_in(id);
                let moved = self.call(|jobs, step| jobs.reschedule(id, clock, run_at, step));
                assert_eq!(moved, self.model.reschedule(id, clock, run_at));
            }
            Operation::SetRules { queue, rules } => {
                self.call(|jobs, step| jobs.set_rules(QueueKey(queue), rules, step));
                self.model.set_rules(QueueKey(queue), rules);
            }
            Operation::RemoveQueue { queue } => self.remove_queue(QueueKey(queue)),
            Operation::Pass { time } => {
                self.now = self.later(time);
                self.see_the_time();
            }
            Operation::JumpWall { time } => {
                // What is parked and ready would have to be parked and scheduled again after a
                // restart.
                let time = if self.resident_max.is_some() { time.max(0) } else { time };
                self.wall_ahead_ms += time * self.unit_ms;
                self.see_the_time();
            }
            Operation::Advance { limit } => self.advance(limit),
            Operation::Restart { same_process } => self.restart(same_process),
        }
    }

    fn publish(&mut self, publish: &Publish) {
        let ms = |units: i64| (units * self.unit_ms).unsigned_abs();
        let recurrence = publish.recurs.as_ref().map(|recurs| Recurrence {
            rule: match recurs.rule {
                RecurrenceRule::Every(units) => RecurrenceRule::Every(units * self.unit_ms.unsigned_abs()),
                RecurrenceRule::Calendar => RecurrenceRule::Calendar,
            },
            left: recurs.left,
            run: 1,
            ttl_ms: recurs.ttl.map(ms),
        });
        let terms = JobTerms {
            clock: publish.clock,
            expires_at: publish.expires_in.map(|units| self.later(units)),
            group: publish.group.map(GroupKey),
            recurrence,
        };
        let new = NewJobHead {
            id: self.fresh_id(),
            queue: QueueKey(publish.queue),
            run_at: self.later(publish.run_in),
            tries: publish.tries,
            terms,
            alias: publish.alias.map(AliasKey),
            on_conflict: publish.on_conflict,
        };
        let holder = self.stored.parked.values().find(|parked| {
            parked.head.queue == new.queue && new.alias.is_some() && parked.head.alias == new.alias
        });
        if let Some(holder) = holder.map(|parked| parked.head.id) {
            self.read_in(holder);
        }
        let published = self.call(|jobs, step| jobs.publish(new, step));
        assert_eq!(published, self.model.publish(&new));
        self.ids.push(new.id);
        match published {
            PublishOutcome::New | PublishOutcome::Succeeds { .. } => drop(self.stored.bodies.insert(new.id)),
            PublishOutcome::Replaced { job, .. } => assert!(self.stored.bodies.contains(&job)),
            PublishOutcome::Kept(id) | PublishOutcome::Conflict(id) => {
                assert!(self.stored.bodies.contains(&id));
            }
        }
    }

    fn lease(&mut self, queue: QueueKey, own: bool, ttr: Duration) {
        let holder = if own { LeaseHolder::Own(self.process) } else { LeaseHolder::Outside };
        let lease = |world: &mut Self| world.call(|jobs, step| jobs.lease(queue, holder, ttr, step));
        let mut leased = lease(self);
        if leased.is_none() && self.read_what_is_wanted() {
            // What is named by reading may go to the one who asks.
            for queue in self.wakes.drain(..) {
                self.drained.remove(&queue);
            }
            leased = lease(self);
        }
        assert_eq!(leased, self.model.lease(queue, holder, ttr));
        match leased {
            Some(leased) => self.reservations.push(leased.reservation),
            None => drop(self.drained.insert(queue)),
        }
    }

    /// As a machine deletes a queue: job by job, until none is left. Nobody is told.
    fn remove_queue(&mut self, queue: QueueKey) {
        // What is cancelled may let a successor start, which is found by the next look.
        let first = |stored: &Stored| stored.all().find(|head| head.queue == queue).map(|head| head.id);
        while let Some(id) = first(&self.stored) {
            match self.stored.parked.get(&id).cloned() {
                Some(parked) => self.call(|jobs, step| jobs.drop_parked(&parked, step)),
                None => drop(self.call(|jobs, step| jobs.cancel(id, step))),
            }
        }
        self.wakes.retain(|woken| *woken != queue);
        self.model.remove_queue(queue);
    }

    fn advance(&mut self, limit: usize) {
        // A queue whose rate allows more is a step of its own, which the model does not know.
        let has_rates = self.model.rules().any(|(_, rules)| rules.rate.is_some());
        let limit = if has_rates { usize::MAX } else { limit };
        let mut passed: Vec<Passed> = Vec::new();
        let progress = self.call(|jobs, step| jobs.advance(limit, &mut passed, step));
        assert_eq!((passed, progress), self.model.advance(limit));
        assert!(limit < usize::MAX || progress == JobsProgress::Done);
    }

    /// What a caller does once a step.
    fn settle_down(&mut self) {
        // What is due within a second is read before that: there is time to make room for it, step
        // by step.
        while self.read_what_is_wanted() | self.call(|jobs, step| jobs.evict(step)) {}
        self.advance(usize::MAX);
        self.read_what_is_wanted();
        while self.call(|jobs, step| jobs.evict(step)) {}
        self.stored.check_groups();
    }

    /// Whether anything was.
    fn read_what_is_wanted(&mut self) -> bool {
        let before = self.pages;
        while let Some(request) = self.engine.next_read(self.now) {
            self.pages += 1;
            assert!(self.pages - before < 10_000, "reading comes to an end");
            let order = match request {
                ReadRequest::Line { queue, .. } => self.rules_of(queue).order,
                ReadRequest::Time { .. } => QueueOrder::Fifo,
            };
            let (page, to) = self.stored.page(request, order, 1 + self.pages % 4);
            for parked in page {
                self.call(|jobs, step| jobs.take_in(&parked, step));
            }
            self.call(|jobs, step| jobs.read_to(request, to, step));
        }
        self.pages > before
    }

    /// A call is about this job.
    fn read_in(&mut self, id: JobId) {
        if let Some(parked) = self.stored.parked.get(&id).cloned() {
            self.call(|jobs, step| jobs.unpark(&parked, step));
        }
    }

    fn rules_of(&self, queue: QueueKey) -> QueueRules {
        self.model.rules().find(|(of, _)| *of == queue).map(|(_, rules)| rules).unwrap_or_default()
    }

    fn restart(&mut self, same_process: bool) {
        if !same_process {
            self.process = Process(self.process.0 + 1);
        }
        self.engine = Jobs::new(self.process, self.engine.numbers()).keeping_dead_letters();
        self.see_the_time();
        if let Some(max) = self.resident_max {
            self.engine.set_resident_max(max);
        }
        for (queue, rules) in self.model.rules() {
            self.engine.load_rules(queue, rules, self.now);
        }
        for (queue, (scheduled, ready)) in &self.stored.counts {
            self.engine.load_counts(*queue, *scheduled, *ready);
        }
        let heads: Vec<_> = self.stored.heads.values().cloned().collect();
        for head in heads {
            let loaded = self.call(|jobs, step| jobs.load(&head, step));
            let expect = self.model.load(head.id, self.process);
            assert_eq!(loaded, expect);
        }
        self.model.restarted();
        assert_eq!(self.wakes, [], "nothing is named while loading");
        // Consumers begin anew: the first thing they get is a wake-up.
        self.drained.extend((0..QUEUES).map(QueueKey));
    }

    /// Memory, store and model hold the same jobs.
    fn check_jobs(&self) {
        let mut model: Vec<_> =
            self.model.jobs.iter().map(|job| Job { ready: false, ..job.clone() }).collect();
        model.sort_by_key(|job| job.id);
        let mut stored: Vec<_> = self.stored.all().map(from_head).collect();
        stored.sort_by_key(|job| job.id);
        assert_eq!(stored, model, "the store holds what the model holds");
        for id in &self.ids {
            let head = self.engine.get(*id);
            let successor = model.iter().find(|job| job.next.as_ref().is_some_and(|next| next.id == *id));
            match successor {
                Some(job) => assert_eq!(head.as_ref().map(from_head), as_waiting(job)),
                None => assert_eq!(head.as_ref(), self.stored.heads.get(id), "memory holds what is resident"),
            }
        }
        let resident = model.iter().filter(|job| !self.stored.parked.contains_key(&job.id));
        for job in resident.filter(|job| job.alias.is_some()) {
            let meant = job.alias.and_then(|alias| self.engine.by_alias(job.queue, alias));
            let expect = as_waiting(job).unwrap_or_else(|| job.clone());
            assert_eq!(meant.as_ref().map(from_head), Some(expect), "an alias has one meaning");
        }
        let successors = model.iter().filter_map(|job| job.next.as_ref()).map(|next| next.id);
        let ids: BTreeSet<_> = model.iter().map(|job| job.id).chain(successors).collect();
        let bodies: BTreeSet<_> = self.stored.bodies.difference(&self.stored.dead).copied().collect();
        assert_eq!(bodies, ids, "bodies live as long as their jobs, and their dead letters");
        for queue in (0..QUEUES).map(QueueKey) {
            self.check_counts_of(queue);
        }
    }

    fn check_counts_of(&self, queue: QueueKey) {
        let counts = self.engine.counts_of(queue);
        let heads = self.stored.heads.values().filter(|head| head.queue == queue);
        let reserved = heads.clone().filter(|head| head.state != HeadState::Waiting).count();
        assert_eq!(counts.reserved, reserved);
        assert_eq!(counts.scheduled + counts.ready + counts.reserved, heads.count());
        if self.resident_max.is_none() && !self.model.has_expired_unnoticed() {
            assert_eq!(counts.ready, self.model.ready(queue));
        }
    }

    fn check_wakes(&mut self) {
        let numbers = Numbers { next_job: self.model.published, next_lease: self.model.leased };
        assert_eq!(self.engine.numbers(), numbers);
        for queue in &self.wakes {
            self.drained.remove(queue);
            let is_true = self.model.can_lease(*queue) || self.model.has_expired_unnoticed();
            assert!(is_true, "{queue:?} was named and has nothing");
        }
        let next = self.engine.next_wakeup();
        // What a rate allows is told when time moves on.
        let is_up_to_date = next.is_none_or(|next| next > self.now);
        for queue in (0..QUEUES).map(QueueKey).filter(|_| is_up_to_date) {
            let is_told = !self.drained.contains(&queue);
            assert!(is_told || !self.model.can_lease(queue), "a drained consumer is told of {queue:?}");
            let waits = self.model.waits_for_rate(queue);
            assert!(!waits || next.is_some(), "somebody looks when the rate of {queue:?} allows more");
        }
    }

    /// Asked when time has moved on.
    fn check_next_wakeup(&self) {
        let (next, expect) = (self.engine.next_wakeup(), self.model.next_wakeup());
        assert!(expect.is_none_or(|expect| next.is_some_and(|next| next <= expect)), "{next:?} {expect:?}");
        let is_exact = self.resident_max.is_none() && self.model.rules().next().is_none();
        if is_exact && !self.model.has_expired_unnoticed() {
            assert_eq!(next, expect);
        }
    }

    fn later(&self, units: i64) -> Timestamp {
        Timestamp(self.now.0 + units * self.unit_ms)
    }

    fn scaled(&self, span: Duration) -> Duration {
        span * self.unit_ms as u32
    }

    fn fresh_id(&self) -> JobId {
        JobId((self.ids.len() as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes())
    }

    /// Mostly one of the latest, sometimes any.
    fn picked_id(&self, picked: usize) -> JobId {
        self.ids[place_of(picked, self.ids.len())]
    }

    fn picked_reservation(&self, picked: usize) -> Reservation {
        self.reservations[place_of(picked, self.reservations.len())]
    }
}

fn place_of(picked: usize, len: usize) -> usize {
    let within = if picked.is_multiple_of(4) { len } else { len.min(6) };
    len - 1 - picked / 4 % within
}

fn from_head(head: &JobHead) -> Job {
    Job {
        id: head.id,
        queue: head.queue,
        number: head.number,
        run_at: head.run_at,
        visible_at: head.visible_at,
        attempt: head.attempt,
        tries: head.tries,
        lease: match head.state {
            HeadState::Waiting => None,
            HeadState::Reserved { lease, holder } => Some((lease, holder)),
        },
        alias: head.alias,
        terms: head.terms,
        next: head.successor.as_ref().map(|next| Next {
            id: next.id,
            number: next.number,
            run_at: next.run_at,
            tries: next.tries,
            terms: next.terms,
            waits_for_retries: next.starts == Starts::AfterJob,
        }),
        ready: false,
    }
}

/// A job's successor as the job it will be.
fn as_waiting(job: &Job) -> Option<Job> {
    let Next { id, number, run_at, tries, terms, .. } = *job.next.as_ref()?;
    let (visible_at, attempt, lease, next) = (run_at, 0, None, None);
    Some(Job { id, number, run_at, visible_at, attempt, tries, lease, terms, next, ..job.clone() })
}
