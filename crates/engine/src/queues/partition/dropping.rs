//! Drops the ready jobs of a queue and keeps the rest. It works in steps, like the sweep of a
//! deleted queue, and answers when they are gone.
//!
//! It takes jobs from the front of the queue first, as a consumer would. A job that is not at the
//! front waits behind another of its group, or behind a newer job in a LIFO queue. Those are looked
//! for among all jobs of the partition, a few rows a step, until as many are gone as were ready.
//!
//! The call's arrival decides which jobs go: jobs published or made ready later stay. Progress is
//! not stored: a restart cuts the call off before its answer.

use std::collections::VecDeque;

use base::Timestamp;
use records::{JobHead, JobId, QueueKey};
use store::{ScannedJobs, StoreError};

use super::inspection::state_of;
use super::{QueuePartition, QueueStep, RECORDS_MAX};
use crate::kernel::hashed::HashMap;
use crate::kernel::reply::Reply;
use crate::queues::effect::QueueEffect;
use crate::queues::{JobState, QueueName, id};

/// Rows that a step looks at: jobs of other queues are among them, whose consumers wait meanwhile.
const SCANNED_MAX: usize = 500;

/// The calls that are under way. Those for one queue that come while another is at work are made
/// one. So there are never more than two of them for a queue.
#[derive(Debug, Default)]
pub(super) struct Dropping {
    at_work: Option<AtWork>,
    /// The queues that come next, in order.
    next: VecDeque<QueueKey>,
    asked: HashMap<QueueKey, WaitingDrops>,
}

/// Calls for one queue that wait for their turn.
#[derive(Debug)]
struct WaitingDrops {
    moment: CallMoment,
    replies: Vec<Reply<u64>>,
}

/// The queue whose jobs are being dropped.
#[derive(Debug)]
struct AtWork {
    queue: QueueKey,
    asked: WaitingDrops,
    /// Nothing more is dropped from the front.
    front_done: bool,
    /// Jobs that were dropped.
    dropped: u64,
    /// Views have to show this batch first.
    from: u64,
    /// Jobs up to this one were looked at.
    after: Option<JobId>,
}

/// When the latest of the calls came.
#[derive(Clone, Copy, Debug)]
struct CallMoment {
    now: Timestamp,
    wall: Timestamp,
    /// Jobs that were there had lower publish numbers, and lower ids than the next one's.
    next_number: u64,
    next_id: JobId,
    /// So many were ready.
    ready: u64,
    /// The batch that they are in at the latest.
    seq: u64,
}

impl CallMoment {
    /// Whether the job was there, and ready. One that a consumer gives back meanwhile is so again.
    fn had_ready(&self, head: &JobHead) -> bool {
        head.number < self.next_number && state_of(head, self.now, self.wall) == JobState::Ready
    }
}

impl Dropping {
    fn ask(&mut self, queue: QueueKey, moment: CallMoment, reply: Reply<u64>) {
        let Self { next, asked, .. } = self;
        let asked = asked.entry(queue).or_insert_with(|| {
            next.push_back(queue);
            WaitingDrops { moment, replies: Vec::new() }
        });
        asked.moment = moment;
        if asked.replies.len() == asked.replies.capacity() {
            asked.replies.retain(|reply| !reply.is_closed());
        }
        asked.replies.push(reply);
    }

    /// The queue that is at work, or is next.
    fn take(&mut self) -> Option<AtWork> {
        self.at_work.take().or_else(|| {
            let queue = self.next.pop_front()?;
            let asked = self.asked.remove(&queue)?;
            Some(AtWork { queue, front_done: false, dropped: 0, from: asked.moment.seq, asked, after: None })
        })
    }

    /// Whether there is something to do, now that views show this batch.
    pub(super) fn may_go_on(&self, settled: u64) -> bool {
        let next = || self.next.front().and_then(|queue| self.asked.get(queue));
        match &self.at_work {
            Some(at_work) => settled >= at_work.from,
            None => next().is_some_and(|asked| settled >= asked.moment.seq),
        }
    }
}

impl QueuePartition {
    /// Drops the jobs that are ready now.
    pub(super) fn drop_ready(&mut self, queue: &QueueName, reply: Reply<u64>, step: &mut QueueStep<'_>) {
        let Some(key) = self.key_of(queue) else {
            step.emit(QueueEffect::ReadyDropped(reply, 0));
            return;
        };
        let ready = self.ready_in(key);
        if ready == 0 {
            step.emit(QueueEffect::ReadyDropped(reply, 0));
            return;
        }
        let next_number = self.jobs.numbers().next_job;
        let moment = CallMoment {
            now: step.now,
            wall: step.wall,
            next_number,
            next_id: id::job_id(self.lineage, self.id, next_number, step.now),
            ready,
            seq: if step.batch.ops.is_empty() { self.head.seq } else { step.seq },
        };
        self.dropping.ask(key, moment, reply);
    }

    /// How many jobs of a queue are ready, resident or not.
    fn ready_in(&self, key: QueueKey) -> u64 {
        let (_, parked_ready) = self.jobs.parked(key);
        self.jobs.counts_of(key).ready as u64 + parked_ready
    }

    /// Takes a step of what is to be dropped. Whether there is more to do at once.
    pub(super) fn go_on_dropping(&mut self, step: &mut QueueStep<'_>) -> Result<bool, StoreError> {
        if self.closing {
            // Whoever waits is told that the server stops.
            self.dropping = Dropping::default();
        }
        if !self.dropping.may_go_on(self.settled) {
            return Ok(false);
        }
        if !step.has_room() {
            return Ok(true);
        }
        let Some(mut at_work) = self.dropping.take() else { return Ok(false) };
        let changes = step.batch.ops.len();
        if !self.queues.contains_key(&at_work.queue) || self.drop_page(&mut at_work, step)? {
            for reply in at_work.asked.replies {
                step.emit(QueueEffect::ReadyDropped(reply, at_work.dropped));
            }
        } else {
            // The next page waits for this one: no more is on its way at a time.
            at_work.from = if step.batch.ops.len() > changes { step.seq } else { self.head.seq };
            self.dropping.at_work = Some(at_work);
        }
        Ok(self.dropping.may_go_on(self.settled))
    }

    /// Drops what is first of the queue, as long as that is one of them. Whether nothing more is to
    /// be had there.
    fn drop_first(&mut self, at_work: &mut AtWork, step: &mut QueueStep<'_>) -> Result<bool, StoreError> {
        let (queue, moment) = (at_work.queue, at_work.asked.moment);
        step.own.touched.push(queue);
        while step.own.budget.left_to_drop() > 0 {
            if !step.has_room() {
                return Ok(false);
            }
            // What is first may be in the store.
            while self.jobs.peek(queue).is_none() && self.read_in_of(queue, step)? {}
            let Some(head) = self.jobs.peek(queue) else {
                // Or there is more to read, or to unblock, than this step may.
                let is_all_read =
                    step.own.budget.left_to_read() > 0 || self.jobs.next_read_of(queue).is_none();
                return Ok(is_all_read && !self.jobs.has_lines_to_unblock_of(queue));
            };
            if !moment.had_ready(&head) {
                return Ok(true);
            }
            self.jobs.cancel(head.id, &mut step.jobs());
            step.own.budget.spent.dropped += 1;
            step.own.counted.cancelled += 1;
            at_work.dropped += 1;
        }
        Ok(false)
    }

    /// Whether all were looked at.
    fn drop_page(&mut self, at_work: &mut AtWork, step: &mut QueueStep<'_>) -> Result<bool, StoreError> {
        if !at_work.front_done {
            at_work.front_done = self.drop_first(at_work, step)?;
            if !at_work.front_done {
                return Ok(false);
            }
        }
        let (queue, moment, fetch) = (at_work.queue, at_work.asked.moment, step.fetch);
        if at_work.dropped >= moment.ready || self.ready_in(queue) == 0 {
            return Ok(true);
        }
        let scan_max = step.own.budget.left_to_drop().min(SCANNED_MAX);
        if scan_max == 0 {
            return Ok(false);
        }
        let was_ready = |head: &JobHead| moment.had_ready(head);
        let ScannedJobs { found: heads, next, scanned } =
            fetch.view()?.jobs_of(queue, at_work.after, scan_max, RECORDS_MAX, &was_ready)?;
        step.own.budget.spent.dropped += scanned;
        for head in heads {
            if !step.has_room() {
                return Ok(false);
            }
            at_work.after = Some(head.id);
            self.read_in_job(head.id, step)?;
            // It may have been leased, moved or done since the view's moment.
            if self.jobs.get(head.id).is_some_and(|head| head.queue == queue && moment.had_ready(&head)) {
                self.jobs.cancel(head.id, &mut step.jobs());
                step.own.counted.cancelled += 1;
                at_work.dropped += 1;
            }
        }
        step.own.touched.push(queue);
        at_work.after = next;
        Ok(next.is_none_or(|next| next >= moment.next_id))
    }
}
