//! What the store holds of queues at some batch against what the model has at the same batch.

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;
use engine::coordination::CoordinationName;
use engine::queues::QueueName;
use records::{
    DeadJob, HeadState, JobClock, JobHead, JobId, Queue as StoredQueue, QueueCounts, QueueKey, QueueSettings,
    WorkerControl,
};
use store::{QueueResident, StoredJob, View};

use crate::harness::violation::{Checked, Invariant, unreadable};
use crate::queues::model::Partition;
use crate::queues::model::dead::Dead;
use crate::queues::model::evidence::{number_in, number_of};
use crate::queues::model::job::Job;
use crate::queues::model::queue::Queue;

/// More than a queue ever has.
const ALL: usize = 1_000_000;
/// How long an answer is kept at least, in milliseconds.
const ANSWERS_KEPT_MS: i64 = 24 * 3_600_000;

/// A job as it is compared.
#[derive(Debug, PartialEq)]
struct Line {
    id: JobId,
    payload: Option<u64>,
    run_at: Timestamp,
    by_wall: bool,
    visible_at: Timestamp,
    attempt: u32,
    tries: u32,
    is_reserved: bool,
    has_alias: bool,
    has_group: bool,
    expires_at: Option<Timestamp>,
    /// Runs that are left, and the number of the present one.
    again: Option<(Option<u32>, u64)>,
    next: Option<JobId>,
}

/// What loading gives.
#[derive(Default)]
struct Loaded {
    queues: BTreeMap<QueueName, (StoredQueue, QueueCounts)>,
    deleted: BTreeSet<QueueKey>,
    jobs: BTreeMap<JobId, JobHead>,
}

/// Compares a partition.
pub(crate) fn check(view: &dyn View, model: &Partition) -> Checked {
    let loaded = sorted(view)?;
    let nothing = Queue::default();
    for (name, (stored, counts)) in &loaded.queues {
        let expected = model.queues.get(name).unwrap_or(&nothing);
        check_queue(view, &loaded, (name, stored, *counts), expected)?;
    }
    let there: Vec<&QueueName> = loaded.queues.keys().collect();
    let missing: Vec<_> = model
        .queues
        .iter()
        .filter(|(name, queue)| !queue.is_empty() && !there.contains(name))
        .map(|(name, _)| name)
        .collect();
    Invariant::DURABLE_BEFORE_ACKNOWLEDGED.same("queues that are missing", &missing, &Vec::new())?;
    check_strays(&loaded)?;
    check_locks(view, model)?;
    check_controls(view, model)?;
    check_kept(view, model)
}

/// Locks that are held, and the fences of all: each is a number of its own, and was given.
fn check_locks(view: &dyn View, model: &Partition) -> Checked {
    let (locks, next) = (view.locks().map_err(unreadable)?, view.head().next_fence);
    let mut fences = BTreeSet::new();
    for lock in &locks {
        let is_right = lock.fence < next && fences.insert(lock.fence);
        Invariant::FENCES_RISE.check(is_right, || format!("{lock:?} of {locks:?}, before fence {next}"))?;
    }
    let stored: BTreeMap<_, _> = locks
        .into_iter()
        .filter_map(|lock| {
            let name = CoordinationName::unchecked(&lock.namespace, &lock.name);
            Some((name, (lock.owner?.to_string(), lock.until)))
        })
        .collect();
    let expected = model.locks.iter().map(|(name, lock)| (name.clone(), (lock.owner.clone(), lock.until)));
    Invariant::AS_THE_MODEL.same("locks that are held", &stored, &expected.collect())
}

/// What the workers of queues are told, whether or not a queue has anything.
fn check_controls(view: &dyn View, model: &Partition) -> Checked {
    let stored = view.queue_controls().map_err(unreadable)?.into_iter();
    let name = |control: &WorkerControl| QueueName::unchecked(&control.namespace, &control.queue);
    let stored: BTreeMap<_, _> = stored.map(|control| (name(&control), control)).collect();
    Invariant::DURABLE_BEFORE_ACKNOWLEDGED.same("what workers are told", &stored, &model.controls)
}

fn sorted(view: &dyn View) -> Checked<Loaded> {
    let (mut residents, mut loaded) = (Vec::new(), Loaded::default());
    view.queue_residents(&mut |resident| residents.push(resident)).map_err(unreadable)?;
    for resident in residents {
        match resident {
            QueueResident::Queue(queue, _) if queue.deleted => drop(loaded.deleted.insert(queue.key)),
            QueueResident::Queue(queue, counts) => {
                let name = QueueName::unchecked(&queue.namespace, &queue.name);
                let before = loaded.queues.insert(name.clone(), (*queue, counts));
                Invariant::ONE_EFFECT_PER_CAUSE
                    .check(before.is_none(), || format!("there are two queues of the name {name}"))?;
            }
            QueueResident::Job(head) => drop(loaded.jobs.insert(head.id, *head)),
        }
    }
    Ok(loaded)
}

fn check_queue(
    view: &dyn View,
    loaded: &Loaded,
    (name, stored, counts): (&QueueName, &StoredQueue, QueueCounts),
    expected: &Queue,
) -> Checked {
    let settings = |paused: bool, settings: QueueSettings| (paused, settings);
    Invariant::AS_THE_MODEL.same(
        format_args!("settings of {name}"),
        &settings(stored.paused, stored.settings),
        &settings(expected.paused, expected.settings),
    )?;
    let page = view.jobs_of(stored.key, None, ALL, ALL, &|_| true).map_err(unreadable)?;
    let (heads, next) = (page.found, page.next);
    Invariant::AS_THE_MODEL.same("where a whole list goes on", &next, &None)?;
    let mut parked = 0;
    for head in &heads {
        match view.job(head.id).map_err(unreadable)? {
            Some(StoredJob::Resident(_)) => Invariant::AS_THE_MODEL
                .check(loaded.jobs.contains_key(&head.id), || format!("{:?} is not loaded", head.id))?,
            Some(StoredJob::Parked(_)) => {
                parked += 1;
                let twice = loaded.jobs.contains_key(&head.id);
                Invariant::ONE_EFFECT_PER_CAUSE
                    .check(!twice, || format!("{:?} is parked and loaded", head.id))?;
            }
            None => {
                let detail = format!("{:?} is listed and not there", head.id);
                return Err(Invariant::AS_THE_MODEL.broken(detail));
            }
        }
    }
    check_jobs(view, name, &heads, expected)?;
    let found = (counts.parked_scheduled + counts.parked_ready, counts.dead);
    Invariant::STATS_ARE_RIGHT.same(
        format_args!("counts of {name}"),
        &found,
        &(parked, expected.dead.len() as u64),
    )?;
    let dead = view.dead(stored.key, None, true, ALL).map_err(unreadable)?;
    check_dead(view, name, &dead, &expected.dead)
}

/// Every job is there, once, and nothing else.
fn check_jobs(view: &dyn View, name: &QueueName, heads: &[JobHead], expected: &Queue) -> Checked {
    let found = heads.iter().map(|head| found_line(view, head)).collect::<Checked<Vec<_>>>()?;
    let mut lines: Vec<_> = expected.jobs.iter().map(expected_line).collect();
    lines.sort_by_key(|line| line.id);
    let ids = |lines: &[Line]| lines.iter().map(|line| line.id).collect::<Vec<_>>();
    let (found_ids, expected_ids) = (ids(&found), ids(&lines));
    let lost: Vec<_> = expected_ids.iter().filter(|id| !found_ids.contains(id)).collect();
    Invariant::DURABLE_BEFORE_ACKNOWLEDGED
        .check(lost.is_empty(), || format!("jobs of {name} are not in the store: {lost:?}"))?;
    Invariant::DONE_STAYS_DONE.same(format_args!("jobs of {name}"), &found_ids, &expected_ids)?;
    for (found, expected) in found.iter().zip(&lines) {
        let what = format!("job of {name}");
        let invariant = match () {
            () if found.attempt != expected.attempt => Invariant::ATTEMPTS_ONLY_GROW,
            () if found.is_reserved != expected.is_reserved => Invariant::ONE_LEASE,
            () if found.again != expected.again => Invariant::RUNS_IN_TURN,
            () if found.again.is_some() && found.run_at != expected.run_at => Invariant::RUNS_IN_TURN,
            () if found.has_group != expected.has_group => Invariant::GROUP_ORDER,
            () if found.has_alias != expected.has_alias => Invariant::ALIAS_IS_UNIQUE,
            () => Invariant::AS_THE_MODEL,
        };
        invariant.same(what, found, expected)?;
    }
    Ok(())
}

fn found_line(view: &dyn View, head: &JobHead) -> Checked<Line> {
    let body = view.job_body(head.id).map_err(unreadable)?;
    if let Some(next) = &head.successor {
        let body = view.job_body(next.id).map_err(unreadable)?;
        Invariant::DURABLE_BEFORE_ACKNOWLEDGED
            .check(body.is_some(), || format!("the successor of {:?} carries nothing", head.id))?;
    }
    Ok(Line {
        id: head.id,
        payload: body.and_then(|body| number_in(&body)),
        run_at: head.run_at,
        by_wall: head.terms.clock == JobClock::Wall,
        visible_at: head.visible_at,
        attempt: head.attempt,
        tries: head.tries,
        is_reserved: matches!(head.state, HeadState::Reserved { .. }),
        has_alias: head.alias.is_some(),
        has_group: head.terms.group.is_some(),
        expires_at: head.terms.expires_at,
        again: head.terms.recurrence.map(|recurrence| (recurrence.left, recurrence.run)),
        next: head.successor.as_ref().map(|next| next.id),
    })
}

fn expected_line(job: &Job) -> Line {
    Line {
        id: job.id,
        payload: number_of(&job.payload),
        run_at: job.run_at,
        by_wall: job.by_wall,
        visible_at: job.visible_at,
        attempt: job.attempt,
        tries: job.tries,
        is_reserved: job.is_reserved(),
        has_alias: job.alias.is_some(),
        has_group: job.group.is_some(),
        expires_at: job.expires_at,
        again: job.again.as_ref().map(|again| (again.left, again.run)),
        next: job.next.as_ref().map(|next| next.job.id),
    }
}

fn check_dead(view: &dyn View, name: &QueueName, found: &[DeadJob], expected: &[Dead]) -> Checked {
    let mut lines = Vec::new();
    for dead in found {
        let body = view.job_body(dead.id).map_err(unreadable)?;
        let payload = body.and_then(|body| number_in(&body));
        lines.push((dead.id, payload, dead.attempt, dead.reason, dead.died_at));
    }
    let line =
        |dead: &Dead| (dead.id, number_of(dead.payload()), dead.job.attempt, dead.reason, dead.died_at);
    let expected: Vec<_> = expected.iter().map(line).collect();
    Invariant::AS_THE_MODEL.same(format_args!("dead letters of {name}"), &lines, &expected)
}

/// Every job belongs to a queue, or to one that was deleted and is not swept yet.
fn check_strays(loaded: &Loaded) -> Checked {
    let known: BTreeSet<QueueKey> =
        loaded.queues.values().map(|(queue, _)| queue.key).chain(loaded.deleted.iter().copied()).collect();
    let strays: Vec<_> = loaded.jobs.values().filter(|head| !known.contains(&head.queue)).collect();
    Invariant::ONE_EFFECT_PER_CAUSE.check(strays.is_empty(), || format!("jobs of no queue: {strays:?}"))
}

/// Answers are there as long as they are kept.
fn check_kept(view: &dyn View, model: &Partition) -> Checked {
    for (key, kept) in &model.kept {
        if kept.at.0 + ANSWERS_KEPT_MS <= model.now.0 {
            continue;
        }
        let found = view.answer(*key).map_err(unreadable)?.map(|found| (found.at, found.body));
        Invariant::ONE_EFFECT_PER_CAUSE.same(
            format_args!("answer kept for {key:?}"),
            &found,
            &Some((kept.at, kept.body)),
        )?;
    }
    Ok(())
}
