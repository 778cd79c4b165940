//! Queues as the edges hold them: calls become inputs, and answers come back when they are durable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::limits::JOBS_PER_CALL_MAX;
use base::{PartitionId, Problem, Timestamp};
use compact_str::CompactString;
use records::{AnswerKey, JobId, QueueSettings, Recurrence, RecurrenceRule};

use super::checks::{check_payload, check_settings, check_ttr, cut, to_publish};
use super::input::{Dead, InspectedJob, QueueCall};
use super::partition::DeadView;
use super::stats::QueueStats;
use super::{
    IdempotencyKey, JobChange, JobRef, JobRelease, JobState, JobView, NewJob, PublishedJob, QueueInput,
    QueueName, RecurrenceTerms, ReservationToken, body, id,
};
use crate::Engine;
use crate::kernel::partition_handle::{NotAccepting, PartitionHandle};
use crate::kernel::reply::Reply;
use crate::queries::BoundedPage;

/// The calls about queues. Cheap to clone.
///
/// Every call fails with 503 when the server is not accepting; then nothing is known of what it
/// asked for.
#[derive(Clone, Debug)]
pub struct QueueCalls {
    engine: Engine,
}

/// What became of acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckOutcome {
    /// How many jobs are done.
    pub acked: usize,
    /// The places of reservations that do not hold.
    pub stale: Vec<usize>,
}

impl QueueCalls {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Publishes up to [`JOBS_PER_CALL_MAX`] jobs, all or none; in order.
    ///
    /// # Errors
    /// 422 for what is not allowed, 409 `alias_taken`, `alias_repeated` or `queue_full`, 422
    /// `idempotency_key_reused`.
    pub async fn publish(
        &self,
        queue: &QueueName,
        jobs: Vec<NewJob>,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<Vec<PublishedJob>, Problem> {
        self.publish_from(queue, jobs, idempotency, None).await
    }

    /// The same for a source that makes such calls one after the other. Of those that have a key,
    /// its newest is known for 90 days.
    ///
    /// # Errors
    /// See [`QueueCalls::publish`].
    pub async fn publish_from(
        &self,
        queue: &QueueName,
        jobs: Vec<NewJob>,
        idempotency: Option<IdempotencyKey>,
        source: Option<AnswerKey>,
    ) -> Result<Vec<PublishedJob>, Problem> {
        if !(1..=JOBS_PER_CALL_MAX).contains(&jobs.len()) {
            let detail = format!("jobs must be 1 to {JOBS_PER_CALL_MAX}, not {}", jobs.len());
            return Err(Problem::not_allowed("too_many_jobs", detail));
        }
        let mut checked = Vec::with_capacity(jobs.len());
        for (place, job) in jobs.into_iter().enumerate() {
            checked.push(to_publish(place, &job, self.engine.clock().wall())?);
        }
        self.partition(queue)
            .ask(|reply| QueueInput::Publish {
                queue: queue.clone(),
                jobs: checked,
                idempotency,
                source,
                reply,
            })
            .await?
    }

    /// What a request that may be repeated was answered, whatever it was about: kept for a day,
    /// across restarts.
    ///
    /// # Errors
    /// 422 `idempotency_key_reused`.
    pub async fn recall(&self, idempotency: IdempotencyKey) -> Result<Option<Arc<[u8]>>, Problem> {
        self.partition_of_answer(idempotency).ask(|reply| QueueInput::Recall(idempotency, reply)).await?
    }

    /// Keeps what such a request was answered. Not with what it did: a crash in between leaves that
    /// done and unanswered.
    ///
    /// # Errors
    /// 503 only.
    pub async fn remember(&self, idempotency: IdempotencyKey, answer: Arc<[u8]>) -> Result<(), Problem> {
        self.partition_of_answer(idempotency)
            .ask(|reply| QueueInput::Remember(idempotency, answer, reply))
            .await?
    }

    fn partition_of_answer(&self, idempotency: IdempotencyKey) -> &PartitionHandle<QueueInput> {
        let partitions = self.engine.queue_partitions();
        &partitions[(idempotency.key.0 % partitions.len() as u128) as usize]
    }

    /// Jobs are done; at most [`JOBS_PER_CALL_MAX`].
    ///
    /// # Errors
    /// 422 for too many.
    pub async fn ack(&self, queue: &QueueName, held: Vec<ReservationToken>) -> Result<AckOutcome, Problem> {
        if held.len() > JOBS_PER_CALL_MAX {
            let detail = format!("reservations must be at most {JOBS_PER_CALL_MAX}, not {}", held.len());
            return Err(Problem::not_allowed("too_many_jobs", detail));
        }
        let count = held.len();
        let stale =
            self.partition(queue).ask(|reply| QueueInput::Ack { queue: queue.clone(), held, reply }).await?;
        Ok(AckOutcome { acked: count - stale.len(), stale })
    }

    /// Has a lease end `ttr` from now; answers when.
    ///
    /// # Errors
    /// 409 `stale_reservation`, 422 for a time out of range.
    pub async fn extend(
        &self,
        queue: &QueueName,
        held: ReservationToken,
        ttr: Duration,
    ) -> Result<Timestamp, Problem> {
        check_ttr(ttr)?;
        self.partition(queue)
            .ask(|reply| QueueInput::Extend { queue: queue.clone(), held, ttr, reply })
            .await?
    }

    /// A job is given back, to be tried again; its last try makes it dead.
    ///
    /// # Errors
    /// 409 `stale_reservation`.
    pub async fn release(
        &self,
        queue: &QueueName,
        held: ReservationToken,
        release: JobRelease,
    ) -> Result<(), Problem> {
        let JobRelease { delay, error } = release;
        let error = error.map(cut);
        self.partition(queue)
            .ask(|reply| QueueInput::Release { queue: queue.clone(), held, delay, error, reply })
            .await?
    }

    /// A job.
    ///
    /// # Errors
    /// 404 `unknown_job`.
    pub async fn job(&self, queue: &QueueName, job: JobRef) -> Result<JobView, Problem> {
        self.look(queue, Some(job)).await
    }

    /// The first job that is ready, without taking it.
    ///
    /// # Errors
    /// 404 `unknown_job` when none is ready.
    pub async fn peek(&self, queue: &QueueName) -> Result<JobView, Problem> {
        self.look(queue, None).await
    }

    async fn look(&self, queue: &QueueName, job: Option<JobRef>) -> Result<JobView, Problem> {
        let look = |reply| QueueInput::Look { queue: queue.clone(), job, reply };
        view(self.partition(queue).ask(look).await??)
    }

    /// Gives a waiting job another payload or time.
    ///
    /// # Errors
    /// 404 `unknown_job`, 409 `job_reserved`.
    pub async fn change(
        &self,
        queue: &QueueName,
        job: JobRef,
        change: JobChange,
    ) -> Result<JobView, Problem> {
        let JobChange { payload, due } = change;
        if let Some(payload) = &payload {
            check_payload("payload", payload)?;
        }
        let change = |reply| QueueInput::Change { queue: queue.clone(), job, payload, due, reply };
        view(self.partition(queue).ask(change).await??)
    }

    /// Cancels a job, wherever it stands; what its consumer shows is stale from then on.
    ///
    /// # Errors
    /// 404 `unknown_job`.
    pub async fn cancel(&self, queue: &QueueName, job: JobRef) -> Result<(), Problem> {
        self.partition(queue).ask(|reply| QueueInput::Cancel { queue: queue.clone(), job, reply }).await?
    }

    /// Jobs in order of publishing, as far as a bounded look leads. It looks at `cost_max` jobs at
    /// most, and others of the partition are among them.
    ///
    /// # Errors
    /// 503 when the store cannot be read.
    pub async fn jobs(
        &self,
        queue: &QueueName,
        state: Option<JobState>,
        after: Option<JobId>,
        (limit, cost_max): (usize, usize),
    ) -> Result<BoundedPage<JobView, JobId>, Problem> {
        let stats = self.stats(queue).await?;
        // Time may have made ready what was scheduled when it was counted.
        let most = match state {
            None => stats.scheduled + stats.ready + stats.reserved,
            Some(JobState::Scheduled | JobState::Ready) => stats.scheduled + stats.ready,
            Some(JobState::Reserved) => stats.reserved,
        };
        let Some(key) = stats.key.filter(|_| most > 0) else { return Ok(BoundedPage::default()) };
        let partition = queue.partition(self.engine.store().partitions());
        super::partition::listed(&self.engine, (partition, key), state, after, (limit, cost_max))
    }

    /// How many jobs of a queue stand where; zeros for one that has nothing.
    ///
    /// # Errors
    /// 503 only; the same for every call below that names nothing else.
    pub async fn stats(&self, queue: &QueueName) -> Result<QueueStats, Problem> {
        Ok(self.ask_queue(queue, |reply| QueueCall::Stats(queue.clone(), reply)).await?)
    }

    /// The same of some queues, in any order: one input for each partition that has some of them.
    ///
    /// # Errors
    /// See [`QueueCalls::stats`].
    pub async fn stats_of(&self, queues: &[QueueName]) -> Result<Vec<QueueStats>, Problem> {
        let mut by_partition: BTreeMap<PartitionId, Vec<QueueName>> = BTreeMap::new();
        for queue in queues {
            by_partition.entry(self.partition_of(queue)).or_default().push(queue.clone());
        }
        let mut all = Vec::with_capacity(queues.len());
        for queues in by_partition.into_values() {
            let Some(first) = queues.first() else { continue };
            let partition = self.partition(first);
            let ask = |reply| QueueInput::Queue(QueueCall::ManyStats(queues, reply));
            all.extend(partition.ask(ask).await?);
        }
        Ok(all)
    }

    /// The partition that a queue is in.
    #[must_use]
    pub fn partition_of(&self, queue: &QueueName) -> PartitionId {
        queue.partition(self.engine.queue_partitions().len() as u16)
    }

    /// Queues in order of namespace and name.
    ///
    /// # Errors
    /// See [`QueueCalls::stats`].
    pub async fn list(
        &self,
        namespace: Option<&str>,
        after: Option<&QueueName>,
        limit: usize,
    ) -> Result<Vec<QueueStats>, Problem> {
        let mut all = Vec::new();
        for partition in self.engine.queue_partitions() {
            let (mut after, mut left) = (after.cloned(), limit);
            loop {
                let namespace = namespace.map(CompactString::new);
                let list = |reply| QueueCall::List { namespace, after, limit: left, reply };
                let listed = partition.ask(|reply| QueueInput::Queue(list(reply))).await?;
                left -= listed.queues.len().min(left);
                all.extend(listed.queues);
                after = listed.next;
                if left == 0 || after.is_none() {
                    break;
                }
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.truncate(limit);
        Ok(all)
    }

    /// Sets what a queue does, all of it.
    ///
    /// # Errors
    /// 422 for what is out of range.
    pub async fn set(&self, queue: &QueueName, settings: QueueSettings) -> Result<(), Problem> {
        check_settings(&settings)?;
        self.ask_queue(queue, |reply| QueueCall::Set(queue.clone(), settings, reply)).await?
    }

    /// Stops leasing jobs of a queue, or goes on.
    ///
    /// # Errors
    /// See [`QueueCalls::stats`].
    pub async fn pause(&self, queue: &QueueName, paused: bool) -> Result<(), Problem> {
        self.ask_queue(queue, |reply| QueueCall::Pause(queue.clone(), paused, reply)).await?
    }

    /// Deletes a queue with its jobs, dead letters and settings.
    ///
    /// # Errors
    /// See [`QueueCalls::stats`].
    pub async fn delete(&self, queue: &QueueName) -> Result<(), Problem> {
        self.ask_queue(queue, |reply| QueueCall::Delete(queue.clone(), reply)).await?
    }

    /// Drops the jobs of a queue that are ready. Those that wait for their time, those that
    /// consumers have, dead letters and settings stay, and so does what is published after the
    /// call. A recurring job that is ready does not come again. Answers how many; calls that come
    /// together may have dropped them together.
    ///
    /// # Errors
    /// See [`QueueCalls::stats`]; then some of them may be gone.
    pub async fn drop_ready(&self, queue: &QueueName) -> Result<u64, Problem> {
        Ok(self.ask_queue(queue, |reply| QueueCall::DropReady(queue.clone(), reply)).await?)
    }

    /// Dead letters, oldest first.
    ///
    /// # Errors
    /// See [`QueueCalls::stats`].
    pub async fn dead(
        &self,
        queue: &QueueName,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeadView>, Problem> {
        let dead = |reply| QueueInput::Dead { queue: queue.clone(), after, limit, reply };
        Ok(self.partition(queue).ask(dead).await?)
    }

    /// The dead letter of a job, if there is one.
    ///
    /// # Errors
    /// See [`QueueCalls::stats`].
    pub async fn dead_job(&self, queue: &QueueName, job: JobId) -> Result<Option<DeadView>, Problem> {
        let found =
            self.partition(queue).ask(|reply| QueueInput::FindDead(queue.clone(), job, reply)).await?;
        Ok(found.into_iter().next())
    }

    /// Has dead jobs tried again, with all their tries; answers how many. They have the time to
    /// live that they were published with, or `ttl` from now on; zero is for ever. As many as the
    /// queue's `jobs_max` has room for, the oldest or the first of those named.
    ///
    /// # Errors
    /// 422 for too many ids, 409 `queue_full` when there is room for none.
    pub async fn respawn(
        &self,
        queue: &QueueName,
        which: Dead,
        ttl: Option<Duration>,
    ) -> Result<usize, Problem> {
        let asked = match &which {
            Dead::Ids(ids) => ids.len(),
            Dead::Oldest(most) => *most,
        };
        if asked > JOBS_PER_CALL_MAX {
            let detail = format!("at most {JOBS_PER_CALL_MAX} jobs are respawned in a call, not {asked}");
            return Err(Problem::not_allowed("too_many_jobs", detail));
        }
        let (mut count, mut left) = (0, Some(which));
        while let Some(which) = left.take() {
            let respawn = |reply| QueueInput::Respawn { queue: queue.clone(), which, ttl, reply };
            match self.partition(queue).ask(respawn).await? {
                Ok(respawned) => {
                    count += respawned.count;
                    left = respawned.left;
                }
                Err(refused) if count == 0 => return Err(refused),
                // Others took the room meanwhile; the answer says how far it went.
                Err(_full) => {}
            }
        }
        Ok(count)
    }

    /// Deletes dead letters, the oldest first; at most `most`, or all. Answers how many.
    ///
    /// # Errors
    /// See [`QueueCalls::stats`].
    pub async fn delete_dead(&self, queue: &QueueName, most: Option<usize>) -> Result<usize, Problem> {
        let (mut deleted, most) = (0, most.unwrap_or(usize::MAX));
        while deleted < most {
            let step = (most - deleted).min(JOBS_PER_CALL_MAX);
            let gone = self.delete_these(queue, Dead::Oldest(step)).await?;
            deleted += gone;
            if gone < step {
                break;
            }
        }
        Ok(deleted)
    }

    /// Deletes the dead letter of a job; answers whether there was one.
    ///
    /// # Errors
    /// See [`QueueCalls::stats`].
    pub async fn delete_dead_job(&self, queue: &QueueName, job: JobId) -> Result<bool, Problem> {
        Ok(self.delete_these(queue, Dead::Ids(vec![job])).await? > 0)
    }

    async fn delete_these(&self, queue: &QueueName, which: Dead) -> Result<usize, Problem> {
        Ok(self.partition(queue).ask(|reply| QueueInput::DeleteDead(queue.clone(), which, reply)).await?)
    }

    async fn ask_queue<T>(
        &self,
        queue: &QueueName,
        make: impl FnOnce(Reply<T>) -> QueueCall,
    ) -> Result<T, NotAccepting> {
        self.partition(queue).ask(|reply| QueueInput::Queue(make(reply))).await
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn partition(&self, queue: &QueueName) -> &PartitionHandle<QueueInput> {
        let partitions = self.engine.queue_partitions();
        let index = queue.partition(partitions.len() as u16).queues_index().unwrap_or_default();
        &partitions[usize::from(index)]
    }
}

pub(super) fn view(seen: InspectedJob) -> Result<JobView, Problem> {
    let InspectedJob { head, state, body } = seen;
    let body = body::read(&body)?;
    let recurs = recurs(head.terms.recurrence.as_ref(), body.cron);
    let run_at = match state {
        JobState::Scheduled | JobState::Ready => head.visible_at,
        JobState::Reserved => head.run_at,
    };
    Ok(JobView {
        id: head.id,
        state,
        payload: body.payload,
        run_at,
        published_at: id::published_at(head.id),
        expires_at: head.terms.expires_at,
        attempt: head.attempt,
        tries: head.tries,
        alias: body.alias,
        group: body.group,
        recurs,
        attributes: body.attributes,
    })
}

/// How a job comes again. What a calendar is, its body says.
fn recurs(recurrence: Option<&Recurrence>, cron: Option<body::Cron>) -> Option<RecurrenceTerms> {
    let Recurrence { rule, left: executions, .. } = *recurrence?;
    match (rule, cron) {
        (RecurrenceRule::Every(ms), _) => {
            Some(RecurrenceTerms::Every { interval: Duration::from_millis(ms), executions })
        }
        (RecurrenceRule::Calendar, Some(body::Cron { expression, zone })) => {
            Some(RecurrenceTerms::Cron { expression, zone, executions })
        }
        (RecurrenceRule::Calendar, None) => None,
    }
}
