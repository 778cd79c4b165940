//! Dead letters of the model.

use std::time::Duration;

use base::Timestamp;
use engine::queues::driving::Dead as Which;
use engine::queues::{JobPayload, QueueName};
use records::{DeadReason, JobId};

use super::Partition;
use super::evidence::Evidence;
use super::expected::ShownDead;
use super::job::{Job, Next, Stands};
use super::queue::Queue;
use crate::harness::violation::{Checked, Invariant};

/// A job that failed for good.
#[derive(Clone, Debug)]
pub(crate) struct Dead {
    /// Its own id; of a job that comes again, another than the job's.
    pub(crate) id: JobId,
    pub(crate) reason: DeadReason,
    pub(crate) error: Option<String>,
    pub(crate) died_at: Timestamp,
    /// The job as it was.
    pub(crate) job: Job,
}

impl Dead {
    pub(crate) fn shown(&self) -> ShownDead {
        ShownDead {
            id: self.id,
            payload: self.payload().clone(),
            attempt: self.job.attempt,
            tries: self.job.tries,
            reason: self.reason,
            error: self.error.clone(),
            died_at: self.died_at,
        }
    }

    pub(crate) fn payload(&self) -> &JobPayload {
        &self.job.payload
    }
}

impl Queue {
    /// Takes out the dead letters that are meant.
    fn take_dead(&mut self, which: &Which) -> Vec<Dead> {
        let dead = &mut self.dead;
        match which {
            Which::Oldest(most) => dead.drain(..(*most).min(dead.len())).collect(),
            Which::Ids(ids) => {
                let mut taken = Vec::new();
                for id in ids {
                    let place = dead.iter().position(|dead| dead.id == *id);
                    taken.extend(place.map(|place| dead.remove(place)));
                }
                taken
            }
        }
    }
}

impl Partition {
    /// A run had no tries left.
    pub(super) fn bury(
        &mut self,
        name: &QueueName,
        job: Job,
        reason: DeadReason,
        error: Option<&str>,
        evidence: &mut Evidence,
    ) -> Checked {
        let found = evidence.next_dead(&job).ok_or_else(|| {
            Invariant::AS_THE_MODEL.broken(format!("there is no dead letter of {:?}", job.payload))
        })?;
        let own_id = job.again.is_some() && found != job.id;
        let is_last_run = job.again.as_ref().is_none_or(|again| again.left == Some(1));
        Invariant::RUNS_IN_TURN.check(own_id != is_last_run, || {
            format!("the dead letter of {:?}, {:?}, has the id {found:?}", job.id, job.again)
        })?;
        self.counts.died += 1;
        let died_at = self.now;
        let published_at = if own_id { self.now } else { job.published_at };
        let job = Job { published_at, ..job };
        let queue = self.queue(name);
        queue.dead.push(Dead { id: found, reason, error: error.map(str::to_owned), died_at, job });
        self.drop_surplus(name, evidence);
        Ok(())
    }

    /// More than a queue may keep: the oldest go.
    pub(super) fn drop_surplus(&mut self, name: &QueueName, evidence: &mut Evidence) {
        let queue = self.queue(name);
        let most = queue.settings.dead_max.map_or(usize::MAX, |most| most as usize);
        let surplus = queue.dead.len().saturating_sub(most);
        for dead in queue.dead.drain(..surplus) {
            evidence.dead_gone(dead.id);
        }
    }

    pub(super) fn delete_dead(&mut self, name: &QueueName, which: &Which, evidence: &mut Evidence) -> usize {
        let gone = self.queue(name).take_dead(which);
        for dead in &gone {
            evidence.dead_gone(dead.id);
        }
        gone.len()
    }

    /// Dead letters that are too old may go: when they do is seen, and that they do at the end.
    pub(super) fn drop_old_dead(&mut self, evidence: &mut Evidence) -> Checked {
        let now = self.now;
        for queue in self.queues.values_mut() {
            let age = queue.settings.dead_max_age_ms.map(Duration::from_millis);
            let is_old = |dead: &Dead| age.is_some_and(|age| dead.died_at.after(age) <= now);
            let dead = std::mem::take(&mut queue.dead);
            for dead in dead {
                if is_old(&dead) && evidence.dead_gone(dead.id) {
                    self.counts.dead_too_old += 1;
                } else {
                    queue.dead.push(dead);
                }
            }
        }
        Ok(())
    }

    /// Whether a dead letter is kept for longer than its queue says.
    pub(crate) fn keeps_old_dead(&self) -> bool {
        let too_old = |dead: &Dead, age: u64| dead.died_at.after(Duration::from_millis(age)) <= self.now;
        self.queues.values().any(|queue| {
            queue.settings.dead_max_age_ms.is_some_and(|age| queue.dead.iter().any(|dead| too_old(dead, age)))
        })
    }

    /// Dead jobs are tried again, with all their tries, as many as the queue has room for.
    pub(super) fn respawn(
        &mut self,
        name: &QueueName,
        which: &Which,
        ttl: Option<Duration>,
        evidence: &mut Evidence,
    ) -> Result<usize, &'static str> {
        let queue = self.queue(name);
        let most = queue.settings.jobs_max.map_or(usize::MAX, |most| most as usize);
        let room = most.saturating_sub(queue.jobs.len());
        let before = queue.dead.clone();
        let mut raised = queue.take_dead(which);
        if room == 0 && !raised.is_empty() {
            queue.dead = before;
            return Err("queue_full");
        }
        raised.truncate(room);
        let stays = |dead: &Dead| raised.iter().all(|raised| raised.id != dead.id);
        queue.dead = before.into_iter().filter(stays).collect();
        let count = raised.len();
        self.counts.respawned += count as u64;
        for dead in raised {
            evidence.dead_gone(dead.id);
            self.raise(name, dead, ttl);
        }
        Ok(count)
    }

    fn raise(&mut self, name: &QueueName, dead: Dead, ttl: Option<Duration>) {
        let (now, number) = (self.now, self.next_number());
        let holder = dead.job.alias.as_ref().and_then(|alias| self.queue(name).holder_of(alias));
        if let Some(place) = holder {
            let ended = |next: &mut Box<Next>| next.job.has_expired(now) && next.job.is_last_run();
            self.queue(name).jobs[place].next.take_if(ended);
        }
        let alias = dead.job.alias.clone().filter(|alias| self.queue(name).holder_of(alias).is_none());
        let job = Job {
            id: dead.id,
            number,
            run_at: now,
            by_wall: false,
            visible_at: now,
            attempt: 0,
            alias,
            expires_at: ttl.or(dead.job.ttl).map(|ttl| now.after(ttl)),
            again: None,
            stands: Stands::Due,
            next: None,
            ..dead.job
        };
        self.queue(name).jobs.push(job);
    }
}
