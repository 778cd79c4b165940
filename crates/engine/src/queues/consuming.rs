//! Leases on their way to a consumer. What does not reach it is given back as if it had not been leased.

use std::sync::Arc;

use base::{Lineage, Timestamp};
use records::{JobId, Reservation};
use tokio::sync::mpsc;

use super::{Held, QueueInput, QueueName};

/// Where leases go back.
#[derive(Clone, Debug)]
pub(crate) struct Back(mpsc::WeakSender<QueueInput>);

impl Back {
    pub(crate) fn to(inbox: &mpsc::Sender<QueueInput>) -> Self {
        Self(inbox.downgrade())
    }

    /// Whoever else waits for a queue is told of what it has.
    pub(super) fn pass_on(&self, queue: QueueName) {
        self.send(QueueInput::PassOn(queue));
    }

    /// Somebody who would have waited for a queue until then has gone.
    pub(super) fn left(&self, queue: QueueName, until: Timestamp) {
        self.send(QueueInput::Left { queue, until });
    }

    fn give(&self, held: Vec<Held>) {
        self.send(QueueInput::GiveBack(held));
    }

    fn send(&self, input: QueueInput) {
        let Some(inbox) = self.0.upgrade() else { return };
        match inbox.try_send(input) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(input)) => {
                // Where there is no executor any more, the server has stopped; leases end with their time.
                if let Ok(executor) = tokio::runtime::Handle::try_current() {
                    executor.spawn(async move {
                        // A partition that takes nothing more has let go of everything.
                        let _stopped = inbox.send(input).await;
                    });
                }
            }
            Err(mpsc::error::TrySendError::Closed(_)) => {}
        }
    }
}

/// A consumer that waits for its answer. Dropped before [`Stay::answered`], it has gone, and leaves its place to others.
#[derive(Debug)]
pub(super) struct Stay(Option<(Back, QueueName, Timestamp)>);

impl Stay {
    /// A consumer that waits until then for a queue, of the partition that `back` leads to.
    pub(super) fn until(until: Timestamp, queue: &QueueName, back: &Back) -> Self {
        Self(Some((back.clone(), queue.clone(), until)))
    }

    /// One that is answered at once.
    pub(super) fn not_at_all() -> Self {
        Self(None)
    }

    /// It has its answer.
    pub(super) fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some((back, queue, until)) = self.0.take() {
            back.left(queue, until);
        }
    }
}

/// Leases of one queue. Let go and dropped before [`Leases::take`], they are given back.
#[derive(Debug)]
pub struct Leases {
    pub(super) jobs: Vec<LeasedJob>,
    lineage: Lineage,
    back: Back,
    /// They are durable: there is something to give back. Before that, they are lost with their batch, and others may have
    /// their numbers.
    is_durable: bool,
}

/// A job that was leased, with its body as it is stored.
#[derive(Debug)]
pub(super) struct LeasedJob {
    pub(super) reservation: Reservation,
    pub(super) attempt: u32,
    pub(super) tries: u32,
    pub(super) run_at: Timestamp,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) until: Timestamp,
    pub(super) body: Arc<[u8]>,
}

impl LeasedJob {
    pub(super) fn id(&self) -> JobId {
        self.reservation.job
    }
}

impl Leases {
    pub(super) fn new(jobs: Vec<LeasedJob>, lineage: Lineage, back: Back) -> Self {
        Self { jobs, lineage, back, is_durable: false }
    }

    /// The batch that they are in is durable.
    pub(super) fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// What the consumer shows for a job.
    pub(super) fn held(&self, job: &LeasedJob) -> Held {
        Held::new(self.lineage, job.reservation)
    }

    /// The jobs are in other hands now, which give back what they cannot pass on.
    pub(super) fn take(mut self) -> (Vec<LeasedJob>, HandOver) {
        let jobs = std::mem::take(&mut self.jobs);
        let held = jobs.iter().map(|job| Held::new(self.lineage, job.reservation)).collect();
        (jobs, HandOver { held, back: Some(self.back.clone()) })
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        if self.is_durable && !self.jobs.is_empty() {
            self.back.give(self.jobs.iter().map(|job| Held::new(self.lineage, job.reservation)).collect());
        }
    }
}

/// Leases that are being written to their consumer. Dropped before [`HandOver::done`], they are given back, uncounted.
#[derive(Debug)]
pub struct HandOver {
    held: Vec<Held>,
    back: Option<Back>,
}

impl HandOver {
    /// Nothing on its way.
    pub(super) fn nothing() -> Self {
        Self { held: Vec::new(), back: None }
    }

    /// The first so many of them, which reach their consumer or not by themselves.
    #[must_use]
    pub fn split_first(&mut self, leases: usize) -> Self {
        let rest = self.held.split_off(leases.min(self.held.len()));
        Self { held: std::mem::replace(&mut self.held, rest), back: self.back.clone() }
    }

    /// Their consumer has them.
    pub fn done(mut self) {
        self.held.clear();
    }
}

impl Drop for HandOver {
    fn drop(&mut self) {
        if let Some(back) = self.back.take().filter(|_| !self.held.is_empty()) {
            back.give(std::mem::take(&mut self.held));
        }
    }
}
