//! What a batch tells of the choices that were made in its step: ids, and who was leased when. The
//! model follows them if they were allowed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::Timestamp;
use engine::queues::JobPayload;
use records::{Batch, DeadJob, HeadState, JobHead, JobId, Op};

use super::job::{Again, Job};
use crate::harness::violation::{Checked, Invariant};

/// How a payload of the workload begins and ends; between is its number.
pub(crate) const MARK: (&str, char) = ("payload-", '.');

/// A part of a step. Consumers that wait are served before its inputs, or behind them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum StepPhase {
    #[default]
    Before,
    Inputs,
    Behind,
}

/// The choices of one step; empty for a step without a batch.
#[derive(Default)]
pub(crate) struct Evidence {
    /// Bodies that were put, by the number of their payload.
    bodies: BTreeMap<u64, Vec<JobId>>,
    /// Leases that were made, by number.
    leases: BTreeMap<u64, JobId>,
    /// When each of them ends, as it was made.
    until: BTreeMap<u64, Timestamp>,
    dead: VecDeque<DeadJob>,
    dead_ids: BTreeSet<JobId>,
    dead_gone: BTreeSet<JobId>,
    /// Jobs that are gone, and the change by which each went.
    gone: BTreeMap<JobId, usize>,
    /// Jobs that a consumer had, or nobody, and that nobody had afterwards, if they are there: the
    /// change that was the first to say so.
    let_go: BTreeMap<JobId, usize>,
    /// The change that made a lease.
    leased_at: BTreeMap<u64, usize>,
    /// How many leases consumers that wait were given before the inputs, and behind them.
    waiters_leased: (u64, u64),
    /// How far the model is with the step.
    phase: StepPhase,
    /// The runs of recurring jobs, and the change that was the first to show each.
    runs: BTreeMap<(JobId, u64), usize>,
    /// Jobs that were parked.
    pub(crate) parked: u64,
}

impl Evidence {
    /// What a batch tells, and how many leases consumers that wait were given before the inputs of
    /// its step, and behind them.
    pub(crate) fn of(batch: Option<Batch>, waiters_leased: (u64, u64)) -> Self {
        let mut evidence = Self { waiters_leased, ..Self::default() };
        for (place, op) in batch.into_iter().flat_map(|batch| batch.ops).enumerate() {
            match op {
                Op::PutJobBody(id, body) => evidence.saw_body(id, &body),
                Op::PutJob(head) => {
                    evidence.saw_run(&head, place);
                    if head.state == HeadState::Waiting {
                        evidence.saw_let_go(head.id, place);
                    }
                    if let HeadState::Reserved { lease, .. } = head.state {
                        evidence.leases.insert(lease, head.id);
                        evidence.until.entry(lease).or_insert(head.visible_at);
                        evidence.leased_at.entry(lease).or_insert(place);
                    }
                }
                Op::PutDead(dead) => {
                    evidence.dead_ids.insert(dead.id);
                    evidence.dead.push_back(*dead);
                }
                Op::DeleteDead(_, _, id) => drop(evidence.dead_gone.insert(id)),
                Op::ParkJob(parked) => {
                    parked.body.iter().for_each(|body| evidence.saw_body(parked.head.id, body));
                    evidence.saw_run(&parked.head, place);
                    evidence.saw_let_go(parked.head.id, place);
                    evidence.parked += 1;
                }
                Op::DeleteJob(id) => {
                    evidence.gone.insert(id, place);
                    evidence.saw_let_go(id, place);
                }
                Op::DeleteJobHead(id) => evidence.saw_let_go(id, place),
                _ => {}
            }
        }
        evidence
    }

    fn saw_body(&mut self, job: JobId, body: &[u8]) {
        let Some(number) = number_in(body) else { return };
        let jobs = self.bodies.entry(number).or_default();
        if !jobs.contains(&job) {
            jobs.push(job);
        }
    }

    fn saw_let_go(&mut self, job: JobId, place: usize) {
        self.let_go.entry(job).or_insert(place);
    }

    fn saw_run(&mut self, head: &JobHead, place: usize) {
        if let Some(recurrence) = head.terms.recurrence {
            self.runs.entry((head.id, recurrence.run)).or_insert(place);
        }
    }

    /// Whether a job that waited, or its run, was over before a change.
    pub(super) fn has_left(&self, job: &Job, before: usize) -> bool {
        let is_before = |place: &usize| *place < before;
        let is_over = |again: &Again| {
            let mut later = self.runs.range((job.id, again.run + 1)..=(job.id, u64::MAX));
            later.any(|(_, place)| is_before(place))
        };
        self.gone.get(&job.id).is_some_and(is_before) || job.again.as_ref().is_some_and(is_over)
    }

    /// Whether a job may have been taken from whoever had it, before a change.
    pub(super) fn lets_go(&self, job: &Job, before: usize) -> bool {
        self.let_go.get(&job.id).is_some_and(|place| *place < before)
    }

    /// The change that made the next lease of these jobs that the model does not know yet to whom.
    pub(super) fn next_lease_at(&self, is_meant: impl Fn(JobId) -> bool) -> Option<usize> {
        let next = self.leases.iter().find(|(_, job)| **job != TAKEN && is_meant(**job));
        next.and_then(|(number, _)| self.leased_at.get(number)).copied()
    }

    /// Leases up to this one were made before.
    pub(super) fn only_leases_after(&mut self, last: Option<u64>) {
        self.leases.retain(|number, _| last.is_none_or(|last| *number > last));
    }

    pub(super) fn last_lease(&self) -> Option<u64> {
        self.leases.last_key_value().map(|(number, _)| *number)
    }

    /// The id under which a payload was stored. An earlier job with the same payload is not meant.
    /// It may have been parked in this step, or its run have died.
    pub(super) fn id_of(&self, payload: &JobPayload, is_meant: impl Fn(JobId) -> bool) -> Option<JobId> {
        self.bodies.get(&number_of(payload)?)?.iter().copied().find(|id| is_meant(*id))
    }

    /// Whether this job was leased: each lease counts once.
    pub(super) fn takes_lease(&mut self, job: JobId) -> bool {
        let found = self.leases.iter().find(|(_, leased)| **leased == job).map(|(number, _)| *number);
        found.is_some_and(|number| {
            // It stays known that there was such a number.
            self.leases.insert(number, TAKEN).is_some()
        })
    }

    /// Whether this job was leased, and the model does not know to whom.
    pub(super) fn leases_of(&self, job: JobId) -> bool {
        self.leases.values().any(|leased| *leased == job)
    }

    /// The next dead letter, if it is one of this job: its id.
    pub(super) fn next_dead(&mut self, job: &Job) -> Option<JobId> {
        let same = |dead: &DeadJob| (dead.attempt, dead.tries) == (job.attempt, job.tries);
        // The dead run of a job that comes again is kept under an id of its own, with the same
        // payload.
        let copies =
            number_of(&job.payload).and_then(|number| self.bodies.get(&number)).cloned().unwrap_or_default();
        let is_it = |dead: &DeadJob| same(dead) && (dead.id == job.id || copies.contains(&dead.id));
        let place = self.dead.iter().position(is_it)?;
        self.dead.remove(place).map(|dead| dead.id)
    }

    /// Whether a dead letter was put under this id.
    pub(super) fn is_dead(&self, id: JobId) -> bool {
        self.dead_ids.contains(&id)
    }

    /// A dead letter is gone: whether that was seen.
    pub(super) fn dead_gone(&mut self, id: JobId) -> bool {
        self.dead_gone.remove(&id)
    }

    /// The jobs that were leased, in that order, and that the model does not know yet to whom.
    pub(super) fn open_leases(&self) -> impl Iterator<Item = JobId> {
        self.leases.values().copied().filter(|job| *job != TAKEN)
    }

    /// Those of them that were made in this part of the step, until then: who asked is known by how
    /// long it asked for.
    pub(super) fn open_leases_until(&self, until: Timestamp) -> impl Iterator<Item = JobId> {
        let open = self.leases.iter().filter(|(_, job)| **job != TAKEN);
        let now = open.filter(move |(number, _)| self.phase_of(**number) == self.phase);
        now.filter(move |(number, _)| self.until.get(number) == Some(&until)).map(|(_, job)| *job)
    }

    /// The model comes to another part of the step.
    pub(super) fn comes_to(&mut self, phase: StepPhase) {
        self.phase = phase;
    }

    /// Whether consumers that wait were given leases before the inputs.
    pub(super) fn has_leases_before_inputs(&self) -> bool {
        self.waiters_leased.0 > 0
    }

    /// The part of the step in which a lease was made: their numbers rise.
    fn phase_of(&self, number: u64) -> StepPhase {
        let (before, behind) = self.waiters_leased;
        if (self.leases.range(..number).count() as u64) < before {
            StepPhase::Before
        } else if (self.leases.range(number + 1..).count() as u64) < behind {
            StepPhase::Behind
        } else {
            StepPhase::Inputs
        }
    }

    pub(super) fn no_death_is_left(&self) -> Checked {
        Invariant::ONE_EFFECT_PER_CAUSE
            .check(self.dead.is_empty(), || format!("dead letters of jobs that did not die: {:?}", self.dead))
    }
}

/// Stands for a lease that the model knows; no job has this id.
const TAKEN: JobId = JobId([0xff; 16]);

/// The number of a payload.
pub(crate) fn number_of(payload: &JobPayload) -> Option<u64> {
    match payload {
        JobPayload::Json(text) => number_in(text.as_bytes()),
        JobPayload::Bytes(bytes) => number_in(bytes),
    }
}

/// The number of the payload that some bytes hold.
pub(crate) fn number_in(bytes: &[u8]) -> Option<u64> {
    let (mark, end) = (MARK.0.as_bytes(), MARK.1 as u8);
    let from = bytes.windows(mark.len()).position(|window| window == mark)? + mark.len();
    let digits: Vec<u8> = bytes[from..].iter().copied().take_while(|byte| *byte != end).collect();
    String::from_utf8(digits).ok()?.parse().ok()
}
