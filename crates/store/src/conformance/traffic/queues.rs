//! Traffic of a partition of queues: jobs that are published, parked and read in, leased, done and
//! dead, and what is kept of them.
//!
//! Ids of jobs, keys of queues and numbers of dead letters rise, as the port asks for; an alias has
//! one job at a time.

use std::sync::Arc;

use base::Timestamp;
use records::{
    AliasKey, AnswerKey, DeadJob, DeadReason, GroupKey, HeadState, JobClock, JobHead, JobId, JobTerms,
    KeptAnswer, LeaseHolder, Op, ParkedJob, Parking, Process, Queue, QueueCounts, QueueKey, QueueOrder,
    QueueSettings, Recurrence, RecurrenceRule, Starts, Successor,
};

use super::Traffic;

/// What there is in a partition of queues.
#[derive(Clone, Debug, Default)]
pub(super) struct InQueues {
    queues: Vec<QueueKey>,
    next_queue: u64,
    resident: Vec<JobHead>,
    parked: Vec<ParkedJob>,
    dead: Vec<DeadJob>,
    answers: Vec<(AnswerKey, Timestamp)>,
    next_answer: u128,
}

/// Aliases and groups are few, so that they are used again.
const ALIASES: u64 = 12;
const GROUPS: u64 = 3;

impl Traffic {
    /// Queues that are there, and one that never was.
    pub fn queues(&self) -> impl Iterator<Item = QueueKey> + '_ {
        self.in_queues.queues.iter().copied().chain([QueueKey(self.in_queues.next_queue)])
    }

    /// Aliases that jobs may have, and one that none has.
    pub fn aliases() -> impl Iterator<Item = AliasKey> {
        (0..=ALIASES).map(|alias| AliasKey(u128::from(alias)))
    }

    /// Groups that jobs may have, and one that none has.
    pub fn groups() -> impl Iterator<Item = Option<GroupKey>> {
        (0..=GROUPS).map(GroupKey).map(Some).chain([None])
    }

    /// Jobs that are there, resident, parked and dead, and their queues.
    pub fn jobs_in_queues(&self) -> impl Iterator<Item = (QueueKey, JobId)> + '_ {
        let resident = self.in_queues.resident.iter().map(|job| (job.queue, job.id));
        let parked = self.in_queues.parked.iter().map(|job| (job.head.queue, job.head.id));
        resident.chain(parked).chain(self.in_queues.dead.iter().map(|dead| (dead.queue, dead.id)))
    }

    /// Answers that are kept, and one that never was.
    pub fn answers(&self) -> impl Iterator<Item = AnswerKey> + '_ {
        self.in_queues.answers.iter().map(|(key, _)| *key).chain([AnswerKey(self.in_queues.next_answer)])
    }

    pub(super) fn change_of_queues(&mut self, ops: &mut Vec<Op>) {
        match self.below(22) {
            0..=1 => self.put_queue(ops),
            2 => self.delete_queue(ops),
            3..=5 => self.publish(ops),
            6..=8 => self.publish_parked(ops),
            9..=10 => self.park(ops),
            11..=12 => self.read_in(ops),
            13 => self.park_elsewhere(ops),
            14 => self.delete_parked(ops),
            15 => self.lease(ops),
            16 => self.end(ops),
            17 => self.die(ops),
            18 => self.delete_dead(ops),
            19 => self.answer(ops),
            20 => self.change_of_locks(ops),
            _ => self.change_of_controls(ops),
        }
    }

    fn put_queue(&mut self, ops: &mut Vec<Op>) {
        let again = self.pick(&self.in_queues.queues.clone()).filter(|_| self.random.below(2) == 0);
        let key = again.unwrap_or_else(|| {
            self.in_queues.next_queue += 1;
            let key = QueueKey(self.in_queues.next_queue - 1);
            self.in_queues.queues.push(key);
            key
        });
        let settings = QueueSettings {
            order: if self.below(2) == 0 { QueueOrder::Fifo } else { QueueOrder::Lifo },
            concurrency: self.maybe(|traffic| traffic.below(1_000) as u32),
            rate: self.maybe(|traffic| traffic.below(1_000) as f64 / 7.0),
            jobs_max: self.maybe(|traffic| traffic.below(1 << 40)),
            dead_max: self.maybe(|traffic| traffic.below(1 << 40)),
            dead_max_age_ms: self.maybe(|traffic| traffic.below(1 << 40)),
        };
        let queue = Queue {
            key,
            namespace: "магазин".into(),
            name: format!("queue-{}", key.0).into(),
            deleted: self.below(4) == 0,
            paused: self.below(4) == 0,
            settings,
        };
        ops.push(Op::PutQueue(Box::new(queue)));
        if self.below(2) == 0 {
            let [parked_scheduled, parked_ready, dead] = [(); 3].map(|()| self.below(1 << 40));
            ops.push(Op::PutQueueCounts(key, QueueCounts { parked_scheduled, parked_ready, dead }));
        }
    }

    fn delete_queue(&mut self, ops: &mut Vec<Op>) {
        let Some(queue) = self.pick(&self.in_queues.queues.clone()) else { return };
        if self.jobs_in_queues().all(|(other, _)| other != queue) {
            self.in_queues.queues.retain(|other| *other != queue);
            ops.push(Op::DeleteQueue(queue));
        }
    }

    /// A time of the same bucket as others, or of any other.
    fn some_time(&mut self) -> Timestamp {
        match self.below(3) {
            0 => self.some_ts(),
            _ => Timestamp(self.head.now.0 + self.below(2_000_000) as i64),
        }
    }

    fn new_id(&mut self) -> JobId {
        self.head.next_job += 1;
        let mut id = [0; 16];
        id[..6].copy_from_slice(&self.head.now.0.to_be_bytes()[2..]);
        // a run is four jobs
        id[6..10].copy_from_slice(&(self.head.next_job << 14).to_be_bytes()[4..]);
        JobId(id)
    }

    fn terms(&mut self) -> JobTerms {
        if self.below(2) == 0 {
            return JobTerms::default();
        }
        let recurrence = |traffic: &mut Self| Recurrence {
            rule: if traffic.below(2) == 0 {
                RecurrenceRule::Calendar
            } else {
                RecurrenceRule::Every(1 + traffic.below(1 << 30))
            },
            left: traffic.maybe(|traffic| traffic.below(100) as u32),
            run: traffic.below(1 << 40),
            ttl_ms: traffic.maybe(|traffic| traffic.below(1 << 40)),
        };
        JobTerms {
            clock: if self.below(2) == 0 { JobClock::Engine } else { JobClock::Wall },
            expires_at: self.maybe(Self::some_time),
            group: self.maybe(|traffic| GroupKey(traffic.below(GROUPS))),
            recurrence: self.maybe(recurrence),
        }
    }

    fn free_alias(&mut self, queue: QueueKey) -> Option<AliasKey> {
        let alias = Some(AliasKey(u128::from(self.below(ALIASES))));
        let parked = self.in_queues.parked.iter().map(|job| &job.head);
        let mut jobs = self.in_queues.resident.iter().chain(parked);
        let is_held = jobs.any(|job| job.queue == queue && job.alias == alias);
        alias.filter(|_| !is_held)
    }

    fn new_job(&mut self) -> Option<JobHead> {
        let queue = self.pick(&self.in_queues.queues.clone())?;
        Some(JobHead {
            id: self.new_id(),
            queue,
            number: self.head.next_job,
            run_at: self.head.now,
            visible_at: self.some_time(),
            attempt: self.below(5) as u32,
            tries: self.below(10) as u32,
            state: HeadState::Waiting,
            alias: if self.below(2) == 0 { self.free_alias(queue) } else { None },
            terms: self.terms(),
            successor: None,
        })
    }

    fn put_body(&mut self, id: JobId, ops: &mut Vec<Op>) {
        if self.below(4) > 0 {
            let body: Arc<[u8]> = (0..self.below(300)).map(|byte| byte as u8).collect();
            ops.push(Op::PutJobBody(id, body));
        }
    }

    fn publish(&mut self, ops: &mut Vec<Op>) {
        let Some(job) = self.new_job() else { return };
        self.in_queues.resident.push(job.clone());
        let id = job.id;
        ops.push(Op::PutJob(Box::new(job)));
        self.put_body(id, ops);
    }

    fn parking(&mut self, head: JobHead) -> ParkedJob {
        let parking = match self.below(3) {
            0 => Parking::Time,
            1 => Parking::Worker,
            _ if head.terms.group.is_none() => Parking::Worker,
            _ => Parking::Head,
        };
        ParkedJob { head, parking, body: None }
    }

    fn put_parked(&mut self, head: JobHead, ops: &mut Vec<Op>) {
        let job = self.parking(head);
        self.in_queues.parked.push(job.clone());
        ops.push(Op::ParkJob(Box::new(job)));
    }

    fn publish_parked(&mut self, ops: &mut Vec<Op>) {
        let Some(job) = self.new_job() else { return };
        let id = job.id;
        if self.below(2) == 0 {
            self.put_parked(job, ops);
            self.put_body(id, ops);
            return;
        }
        let mut job = self.parking(job);
        job.body = Some((0..self.below(300)).map(|byte| byte as u8).collect());
        self.in_queues.parked.push(job.clone());
        ops.push(Op::ParkJob(Box::new(job)));
    }

    fn take<T>(&mut self, of: impl FnOnce(&mut InQueues) -> &mut Vec<T>) -> Option<T> {
        let all = of(&mut self.in_queues);
        let at = if all.is_empty() { return None } else { self.random.below(all.len() as u64) as usize };
        Some(all.swap_remove(at))
    }

    fn park(&mut self, ops: &mut Vec<Op>) {
        let Some(mut job) = self.take(|all| &mut all.resident) else { return };
        (job.state, job.successor) = (HeadState::Waiting, None);
        self.put_parked(job, ops);
    }

    fn read_in(&mut self, ops: &mut Vec<Op>) {
        let Some(mut job) = self.take(|all| &mut all.parked) else { return };
        ops.push(Op::UnparkJob(Box::new(job.key())));
        ops.extend(job.body.take().map(|body| Op::PutJobBody(job.head.id, body)));
        self.in_queues.resident.push(job.head.clone());
        ops.push(Op::PutJob(Box::new(job.head)));
    }

    fn park_elsewhere(&mut self, ops: &mut Vec<Op>) {
        let Some(mut job) = self.take(|all| &mut all.parked) else { return };
        ops.push(Op::UnparkJob(Box::new(job.key())));
        job.head.visible_at = self.some_time();
        self.put_parked(job.head, ops);
    }

    fn delete_parked(&mut self, ops: &mut Vec<Op>) {
        let Some(job) = self.take(|all| &mut all.parked) else { return };
        ops.push(Op::UnparkJob(Box::new(job.key())));
        ops.push(Op::DeleteJobBody(job.head.id));
    }

    fn lease(&mut self, ops: &mut Vec<Op>) {
        let Some(mut job) = self.take(|all| &mut all.resident) else { return };
        let holder = if self.below(2) == 0 { LeaseHolder::Outside } else { LeaseHolder::Own(Process(9)) };
        job.state = HeadState::Reserved { lease: self.below(1 << 50), holder };
        job.successor = self.maybe(|traffic| {
            Box::new(Successor {
                id: traffic.new_id(),
                number: traffic.head.next_job,
                run_at: traffic.some_time(),
                tries: 3,
                terms: traffic.terms(),
                starts: if traffic.below(2) == 0 { Starts::AfterJob } else { Starts::AfterRun },
            })
        });
        self.in_queues.resident.push(job.clone());
        ops.push(Op::PutJob(Box::new(job)));
    }

    fn end(&mut self, ops: &mut Vec<Op>) {
        if let Some(job) = self.take(|all| &mut all.resident) {
            ops.push(Op::DeleteJob(job.id));
        }
    }

    fn die(&mut self, ops: &mut Vec<Op>) {
        let Some(job) = self.take(|all| &mut all.resident) else { return };
        let number = self.head.next_dead;
        self.head.next_dead += 1;
        let dead = DeadJob {
            queue: job.queue,
            number,
            id: job.id,
            attempt: job.attempt,
            tries: job.tries,
            reason: if self.below(2) == 0 { DeadReason::Released } else { DeadReason::TimedOut },
            error: self.maybe(|_| "не вышло".into()),
            died_at: self.head.now,
            group: job.terms.group,
        };
        ops.push(Op::DeleteJobHead(job.id));
        self.in_queues.dead.push(dead.clone());
        ops.push(Op::PutDead(Box::new(dead)));
    }

    fn delete_dead(&mut self, ops: &mut Vec<Op>) {
        if let Some(dead) = self.take(|all| &mut all.dead) {
            ops.push(Op::DeleteDead(dead.queue, dead.number, dead.id));
            ops.push(Op::DeleteJobBody(dead.id));
        }
    }

    pub(super) fn answer(&mut self, ops: &mut Vec<Op>) {
        if self.below(3) == 0 {
            let kept = self.take(|all| &mut all.answers);
            ops.extend(kept.map(|(key, at)| Op::DeleteAnswer(key, at)));
            return;
        }
        let (key, at) = (AnswerKey(self.in_queues.next_answer), self.head.now);
        self.in_queues.next_answer += 1;
        self.in_queues.answers.push((key, at));
        let answer = (0..self.below(60)).map(|byte| byte as u8).collect();
        let body = u128::from(self.random.next_u64());
        ops.push(Op::PutAnswer(Box::new(KeptAnswer { key, at, body, answer })));
    }
}
