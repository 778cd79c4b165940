//! Conditions of queues that operators are told of: jobs that have waited for long, and many dead
//! letters.
//!
//! Dead letters are looked at when a queue is touched. A queue with jobs is looked at when its
//! oldest ready job will have waited for long. That is one wake-up for each queue, and no walk over
//! jobs.

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
    /// Operators are told of queues by these settings, and were told of these queues of the
    /// partition. What is to be signalled: what holds no more, and what they were not told of.
    #[must_use]
    pub fn telling(
        mut self,
        settings: NoticeSettings,
        told: &[(SignalTopic, QueueName)],
    ) -> (Self, Vec<Signal>) {
        self.conditions.backlog_age = settings.backlog_age;
        self.conditions.dead_letters = settings.dead_letters;
        let mut signals = Vec::new();
        for (topic, name) in told {
            let key = self.names.get(name).copied();
            if !key.is_some_and(|key| self.goes_on_with(*topic, key)) {
                signals.push(signal(*topic, name, Condition::Cleared, Detail::default()));
            }
        }
        let now = self.head.now;
        for (key, queue) in &self.queues {
            if settings.backlog_age.is_some() {
                self.conditions.look_at(now, *key);
            }
            let most = settings.dead_letters.filter(|most| queue.dead >= *most);
            if let Some(most) = most.filter(|_| self.conditions.with_many_dead.insert(*key)) {
                signals.push(many_dead(&queue.name, queue.dead, most));
            }
        }
        (self, signals)
    }

    /// Operators were told of this. Whether it may still hold.
    fn goes_on_with(&mut self, topic: SignalTopic, key: QueueKey) -> bool {
        let Some(queue) = self.queues.get(&key) else { return false };
        let conditions = &mut self.conditions;
        if topic == SignalTopic::Backlog {
            // The first look says more.
            return conditions.backlog_age.is_some_and(|_| conditions.behind.insert(key));
        }
        let is_low = |most: u64| queue.dead < most.div_ceil(2);
        let holds = conditions.dead_letters.is_some_and(|most| !is_low(most));
        holds && conditions.with_many_dead.insert(key)
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
            step.emit(QueueEffect::Condition(Box::new(many_dead(&queue.name, queue.dead, most))));
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

fn many_dead(name: &QueueName, dead: u64, most: u64) -> Signal {
    let detail = detail(name).number("dead", dead).number("limit", most);
    signal(SignalTopic::DeadLetters, name, Condition::Firing(NoticeKind::QueueDeadLetters), detail)
}

fn signal(topic: SignalTopic, name: &QueueName, condition: Condition, detail: Detail) -> Signal {
    Signal { topic, subject: format!("queue {name}").into(), condition, detail }
}

fn tell(
    topic: SignalTopic,
    name: &QueueName,
    condition: Condition,
    detail: Detail,
    step: &mut QueueStep<'_>,
) {
    step.emit(QueueEffect::Condition(Box::new(signal(topic, name, condition, detail))));
}
