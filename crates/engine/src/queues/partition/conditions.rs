//! Conditions of queues that operators are told of: jobs that have waited for long, and many dead
//! letters.
//!
//! Dead letters are looked at when a queue is touched. A queue with jobs is looked at when its
//! oldest ready job will have waited for long: one wake-up for each queue, and no walk over jobs.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use base::Timestamp;
use records::{NoticeKind, QueueKey};

use super::{QueuePartition, QueueStep};
use crate::notices::{Condition, Detail, NoticeSettings, Signal, SignalTopic};
use crate::queues::{QueueEffect, QueueName, id};

/// Queues that are looked at in a step.
const LOOKS_PER_STEP: usize = 100;
/// A queue in which nothing is ready is looked at again after this part of the age.
const AGAIN_AFTER: u32 = 4;

/// What is known of the conditions of queues.
#[derive(Debug, Default)]
pub(super) struct QueueConditions {
    backlog_age: Option<Duration>,
    dead_letters: Option<u64>,
    /// When queues are looked at next; each queue once.
    looks: BTreeSet<(Timestamp, QueueKey)>,
    look_of: HashMap<QueueKey, Timestamp>,
    /// Queues that were told of.
    behind: BTreeSet<QueueKey>,
    with_many_dead: BTreeSet<QueueKey>,
}

impl QueueConditions {
    fn look_at(&mut self, at: Timestamp, queue: QueueKey) {
        if let Some(before) = self.look_of.insert(queue, at) {
            self.looks.remove(&(before, queue));
        }
        self.looks.insert((at, queue));
    }

    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.looks.first().map(|(at, _)| *at)
    }
}

impl QueuePartition {
    /// Operators are told of queues by these settings.
    #[must_use]
    pub fn telling(mut self, settings: NoticeSettings) -> Self {
        self.conditions.backlog_age = settings.backlog_age;
        self.conditions.dead_letters = settings.dead_letters;
        let now = self.head.now;
        for queue in self.queues.keys() {
            if settings.backlog_age.is_some() {
                self.conditions.look_at(now, *queue);
            }
        }
        self
    }

    /// A step touched a queue.
    pub(super) fn note_condition(&mut self, key: QueueKey, step: &mut QueueStep<'_>) {
        let Some(queue) = self.queues.get(&key) else { return };
        let conditions = &mut self.conditions;
        if let Some(age) = conditions.backlog_age
            && !conditions.look_of.contains_key(&key)
        {
            conditions.look_at(step.now.after(age), key);
        }
        let Some(most) = conditions.dead_letters else { return };
        if queue.dead >= most && conditions.with_many_dead.insert(key) {
            let detail = detail(&queue.name).number("dead", queue.dead).number("limit", most);
            tell(
                SignalTopic::DeadLetters,
                &queue.name,
                Condition::Firing(NoticeKind::QueueDeadLetters),
                detail,
                step,
            );
        } else if queue.dead < most.div_ceil(2) && conditions.with_many_dead.remove(&key) {
            tell(SignalTopic::DeadLetters, &queue.name, Condition::Cleared, Detail::default(), step);
        }
    }

    /// Looks at queues whose oldest job may have waited for long. Whether there are more.
    pub(super) fn look_at_backlogs(&mut self, step: &mut QueueStep<'_>) -> bool {
        for _ in 0..LOOKS_PER_STEP {
            let first = self.conditions.looks.first().copied();
            let Some((at, key)) = first.filter(|(at, _)| *at <= step.now) else { return false };
            self.conditions.looks.remove(&(at, key));
            self.conditions.look_of.remove(&key);
            self.look_at_backlog(key, step);
        }
        self.conditions.next_wakeup().is_some_and(|at| at <= step.now)
    }

    fn look_at_backlog(&mut self, key: QueueKey, step: &mut QueueStep<'_>) {
        let Some(age) = self.conditions.backlog_age else { return };
        let Some(queue) = self.queues.get(&key) else { return };
        let since = self.jobs.ready_since(key, |job, at: Timestamp| at.max(id::published_at(job)));
        let is_behind = since.is_some_and(|since| step.now.since(since) >= age);
        if is_behind && self.conditions.behind.insert(key) {
            let waited = since.map_or(0, |since| step.now.since(since).as_millis() as u64);
            let ready = self.jobs.counts_of(key).ready as u64 + self.jobs.parked(key).1;
            let detail = detail(&queue.name).number("oldest_ready_ms", waited).number("ready", ready);
            tell(
                SignalTopic::Backlog,
                &queue.name,
                Condition::Firing(NoticeKind::QueueBacklog),
                detail,
                step,
            );
        } else if !is_behind && self.conditions.behind.remove(&key) {
            tell(SignalTopic::Backlog, &queue.name, Condition::Cleared, Detail::default(), step);
        }
        match since {
            Some(since) if !is_behind => self.conditions.look_at(since.after(age), key),
            Some(_) => self.conditions.look_at(step.now.after(age), key),
            // An empty queue is looked at again once it is touched.
            None if self.jobs_in(key) == 0 => {}
            None => self.conditions.look_at(step.now.after(age / AGAIN_AFTER), key),
        }
    }

    /// A queue is gone: one of its name begins anew.
    pub(super) fn condition_is_over(&mut self, key: QueueKey, name: &QueueName, step: &mut QueueStep<'_>) {
        if let Some(at) = self.conditions.look_of.remove(&key) {
            self.conditions.looks.remove(&(at, key));
        }
        if self.conditions.behind.remove(&key) {
            tell(SignalTopic::Backlog, name, Condition::Cleared, Detail::default(), step);
        }
        if self.conditions.with_many_dead.remove(&key) {
            tell(SignalTopic::DeadLetters, name, Condition::Cleared, Detail::default(), step);
        }
    }
}

fn detail(name: &QueueName) -> Detail {
    Detail::default().text("namespace", name.namespace()).text("queue", name.queue())
}

fn tell(
    topic: SignalTopic,
    name: &QueueName,
    condition: Condition,
    detail: Detail,
    step: &mut QueueStep<'_>,
) {
    let subject = format!("queue {name}").into();
    step.emit(QueueEffect::Condition(Box::new(Signal { topic, subject, condition, detail })));
}
