//! What callers were answered, held against what they were answered before. This checker knows the
//! promises only: neither rules, nor batches, nor the model.
//!
//! It says nothing where callers could have changed things that they were not told of. A request
//! that is not answered yet may have been carried out. What the power took is taken back here too.

mod account;
mod leases;

use std::collections::{BTreeMap, BTreeSet};

use base::{Clock, PartitionId, Timestamp};
use engine::queues::{ConflictPolicy, Consumed, JobRef, NewJob, PublishedJob, QueueName};
use records::{AnswerKey, JobId};

use crate::harness::violation::{Checked, Invariant};
use crate::queues::checkers::locks::LockHistory;
use crate::queues::meant::LeaseRef;
use crate::queues::world::calls::{Answer, Call, Then};
use crate::queues::world::publishers::Publishing;
use leases::KnownLease;

/// For how long a request may be repeated at least, in milliseconds.
const REPEATED_WITHIN_MS: i64 = 23 * 3_600_000;

/// Where an answer comes from, and the batch that it rests on.
pub(crate) type Source = (PartitionId, u64);

/// What was answered.
#[derive(Clone)]
enum Fact {
    Published(Box<Publishing>, Vec<PublishedJob>, Timestamp),
    Leased(QueueName, Box<KnownLease>),
    Acked(LeaseRef),
    Extended(LeaseRef, Timestamp),
    Cancelled(JobId),
}

impl Fact {
    /// The job of which it says that it was taken, or is gone.
    fn job(&self) -> Option<JobId> {
        match self {
            Self::Published(..) => None,
            Self::Leased(_, lease) => Some(lease.lease.job),
            Self::Acked(lease) | Self::Extended(lease, _) => Some(lease.job),
            Self::Cancelled(job) => Some(*job),
        }
    }
}

/// A job, as far as answers tell of it.
#[derive(Default)]
struct Known {
    queue: Option<QueueName>,
    /// As it was published, if that was answered and nothing can have taken its place.
    new: Option<NewJob>,
    /// Whether a publisher was told of it.
    is_given: bool,
    /// When its publisher was told that it is due.
    promised: Option<Timestamp>,
    leases: Vec<KnownLease>,
    /// The lease that was acknowledged last, by when its run was due.
    acked: Option<Timestamp>,
    is_cancelled: bool,
}

/// What was asked for, and may have been done whether it was answered or not.
#[derive(Default)]
struct Asked {
    endings: BTreeSet<LeaseRef>,
    given_back: BTreeSet<LeaseRef>,
    extensions: BTreeSet<LeaseRef>,
    touched: BTreeSet<JobId>,
    touched_aliases: BTreeSet<String>,
    deleted: BTreeSet<QueueName>,
    respawned: BTreeSet<QueueName>,
    /// Queues whose dead letters somebody may have deleted.
    dead_deleted: BTreeSet<QueueName>,
    /// Consumers of a queue that saw no answer: each may have had one lease of any job.
    unseen_leases: BTreeMap<QueueName, u32>,
    /// Jobs of which the power took answers, but perhaps not what they told.
    forgotten: BTreeSet<JobId>,
}

/// The answers so far.
#[derive(Default)]
pub(crate) struct History {
    facts: Vec<(Source, Fact)>,
    known: BTreeMap<JobId, Known>,
    /// Requests with a key: when, what, and the answer.
    repeatable: BTreeMap<AnswerKey, (Timestamp, u128, Vec<PublishedJob>)>,
    asked: Asked,
    pub(crate) locks: LockHistory,
}

impl History {
    /// A run may be over.
    pub(crate) fn ending(&mut self, leases: &[LeaseRef]) {
        self.asked.endings.extend(leases);
    }

    /// Leases may be as if they had never been.
    pub(crate) fn giving_back(&mut self, leases: &[LeaseRef]) {
        self.asked.endings.extend(leases);
        self.asked.given_back.extend(leases);
    }

    /// A lease may end at another time.
    pub(crate) fn extending(&mut self, lease: LeaseRef) {
        self.asked.extensions.insert(lease);
    }

    /// A job may have another time, or be gone.
    pub(crate) fn touching(&mut self, job: &JobRef) {
        match job {
            JobRef::Id(id) => drop(self.asked.touched.insert(*id)),
            JobRef::Alias(alias) => drop(self.asked.touched_aliases.insert(alias.to_string())),
        }
    }

    /// A queue may be gone with all it has.
    pub(crate) fn deleting(&mut self, queue: &QueueName) {
        self.asked.deleted.insert(queue.clone());
    }

    /// Dead jobs of a queue may be tried again.
    pub(crate) fn respawning(&mut self, queue: &QueueName) {
        self.asked.respawned.insert(queue.clone());
    }

    /// Dead letters of a queue may be gone.
    pub(crate) fn deleting_dead(&mut self, queue: &QueueName) {
        self.asked.dead_deleted.insert(queue.clone());
    }

    /// A consumer will see no answer.
    pub(crate) fn losing_leases(&mut self, queue: &QueueName) {
        *self.asked.unseen_leases.entry(queue.clone()).or_default() += 1;
    }

    /// What was answered after batch `seq` of a partition was taken by the power.
    pub(crate) fn forget_after(&mut self, partition: PartitionId, seq: u64) {
        self.locks.forget_after(partition, seq);
        let is_left = |((of, made), _): &(Source, Fact)| *of != partition || *made <= seq;
        let (left, taken): (Vec<_>, Vec<_>) = std::mem::take(&mut self.facts).into_iter().partition(is_left);
        self.asked.forgotten.extend(taken.iter().filter_map(|(_, fact)| fact.job()));
        if taken.is_empty() {
            self.facts = left;
        } else {
            self.known.clear();
            self.repeatable.clear();
            for (source, fact) in left {
                self.take_in(&fact);
                self.facts.push((source, fact));
            }
        }
    }

    /// Notes an answer, unless it contradicts one before.
    pub(crate) fn note(
        &mut self,
        clock: &dyn Clock,
        source: Source,
        call: &Call,
        answer: &Answer,
    ) -> Checked {
        let facts = match (&call.then, answer) {
            (Then::Published(publishing), Answer::Published(Ok(jobs))) => {
                self.check_published(clock.now(), publishing, jobs)?;
                let at = published_at(jobs).unwrap_or(Timestamp(0));
                vec![Fact::Published(publishing.clone(), jobs.clone(), at)]
            }
            (Then::Consumed(consuming), Answer::Leased(jobs, _)) => {
                let mut facts = Vec::new();
                for job in jobs {
                    let lease = KnownLease::of(call.id, consuming.ttr, consuming.is_own, job);
                    self.check_lease(&consuming.queue, &lease, job)?;
                    let fact = Fact::Leased(consuming.queue.clone(), Box::new(lease));
                    self.take_in(&fact);
                    facts.push((source, fact));
                }
                self.facts.extend(facts);
                return Ok(());
            }
            (Then::Acked(leases), Answer::Acked(stale)) => {
                let done = leases.iter().enumerate().filter(|(place, _)| !stale.contains(place));
                done.map(|(_, lease)| Fact::Acked(*lease)).collect()
            }
            (Then::Extended(lease), Answer::Extended(until)) => {
                self.asked.extensions.remove(lease);
                until.as_ref().map(|until| Fact::Extended(*lease, *until)).into_iter().collect()
            }
            (Then::Cancelled(Some(job)), Answer::Done(Ok(()))) => vec![Fact::Cancelled(*job)],
            _ => Vec::new(),
        };
        for fact in facts {
            self.take_in(&fact);
            self.facts.push((source, fact));
        }
        Ok(())
    }

    fn take_in(&mut self, fact: &Fact) {
        match fact {
            Fact::Published(publishing, jobs, at) => self.take_in_jobs(publishing, jobs, *at),
            Fact::Leased(queue, lease) => {
                let known = self.known.entry(lease.lease.job).or_default();
                known.queue.get_or_insert_with(|| queue.clone());
                known.leases.push((**lease).clone());
            }
            Fact::Acked(lease) => {
                let known = self.known.entry(lease.job).or_default();
                let run = known.leases.iter().find(|known| known.lease == *lease).map(|known| known.run_at);
                known.acked = run.or(known.acked);
            }
            Fact::Extended(lease, until) => {
                let known = self.known.entry(lease.job).or_default();
                known
                    .leases
                    .iter_mut()
                    .filter(|known| known.lease == *lease)
                    .for_each(|known| known.until = *until);
            }
            Fact::Cancelled(job) => self.known.entry(*job).or_default().is_cancelled = true,
        }
    }

    fn take_in_jobs(&mut self, publishing: &Publishing, jobs: &[PublishedJob], at: Timestamp) {
        if let Some(idempotency) = publishing.idempotency {
            self.repeatable.entry(idempotency.key).or_insert_with(|| (at, idempotency.body, jobs.to_vec()));
        }
        for (new, job) in publishing.jobs.iter().zip(jobs) {
            let known = self.known.entry(job.id).or_default();
            known.queue.get_or_insert_with(|| publishing.queue.clone());
            known.is_given = true;
            // What has an alias may be another's job, or replaced.
            if new.alias.is_none() && known.new.is_none() {
                known.new = Some(new.clone());
                known.promised = Some(job.run_at);
            }
        }
    }

    /// The same request gets the same answer, and no id is given out twice.
    fn check_published(&self, now: Timestamp, publishing: &Publishing, jobs: &[PublishedJob]) -> Checked {
        let before = publishing.idempotency.and_then(|idempotency| self.repeatable.get(&idempotency.key));
        if let Some((at, body, answered)) = before
            && publishing.idempotency.is_some_and(|idempotency| idempotency.body == *body)
            && now.0 - at.0 < REPEATED_WITHIN_MS
        {
            return Invariant::ONE_EFFECT_PER_CAUSE.same(
                "answer to a repeated request",
                &jobs.to_vec(),
                answered,
            );
        }
        if publishing.idempotency.is_some() {
            // An answer that nobody got may have been given before.
            return Ok(());
        }
        for (new, job) in publishing.jobs.iter().zip(jobs) {
            let may_be_known = new.alias.is_some() && new.on_conflict != ConflictPolicy::Reject;
            Invariant::ONE_EFFECT_PER_CAUSE.check(
                may_be_known || !self.known.get(&job.id).is_some_and(|known| known.is_given),
                || format!("{:?} was given out before", job.id),
            )?;
        }
        Ok(())
    }

    fn check_lease(&self, queue: &QueueName, lease: &KnownLease, job: &Consumed) -> Checked {
        let nothing = Known::default();
        let known = self.known.get(&job.id).unwrap_or(&nothing);
        leases::check_done(&self.asked, known, lease)?;
        leases::check_one(&self.asked, known, lease)?;
        leases::check_attempts(&self.asked, queue, known, lease)?;
        leases::check_time(&self.asked, known, lease)?;
        leases::check_runs(&self.asked, queue, known, lease)?;
        if self.asked.deleted.contains(queue) {
            // What was deleted with it stands in nobody's way.
            return Ok(());
        }
        for (other, theirs) in self.known.iter().filter(|(id, _)| **id != job.id) {
            if theirs.queue.as_ref() == Some(queue) {
                leases::check_together(&self.asked, (known, lease), (*other, theirs))?;
                leases::check_group_order(&self.asked, queue, (known, lease), (*other, theirs))?;
            }
        }
        Ok(())
    }
}

/// When the newest of some jobs was published, by its id: the answer may have come later.
fn published_at(jobs: &[PublishedJob]) -> Option<Timestamp> {
    let at = |job: &PublishedJob| job.id.0[..6].iter().fold(0, |time, byte| time << 8 | i64::from(*byte));
    jobs.iter().map(at).max().map(Timestamp)
}
