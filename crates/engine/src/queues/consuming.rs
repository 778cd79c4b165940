//! Leases on their way to a consumer. What does not reach it is given back as if it had not been
//! leased.

use std::sync::Arc;

use base::{Lineage, Timestamp};
use records::{JobId, Reservation};
use tokio::sync::mpsc;

use super::{QueueInput, QueueName, ReservationToken};

/// Where leases go back.
#[derive(Clone, Debug)]
pub(crate) struct ReturnPath(mpsc::WeakSender<QueueInput>);

impl ReturnPath {
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

    fn give(&self, held: Vec<ReservationToken>) {
        self.send(QueueInput::GiveBack(held));
    }

    fn send(&self, input: QueueInput) {
        let Some(inbox) = self.0.upgrade() else { return };
        match inbox.try_send(input) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(input)) => {
                // Where there is no executor any more, the server has stopped; leases end with
                // their time.
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

/// A consumer that waits for its answer. Dropped before [`WaitGuard::answered`], it has gone, and
/// leaves its place to others.
#[derive(Debug)]
pub(super) struct WaitGuard(Option<(ReturnPath, QueueName, Timestamp)>);

impl WaitGuard {
    /// A consumer that waits until then for a queue, of the partition that `back` leads to.
    pub(super) fn until(until: Timestamp, queue: &QueueName, back: &ReturnPath) -> Self {
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

impl Drop for WaitGuard {
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
    back: ReturnPath,
    /// They are durable: there is something to give back. Before that, they are lost with their
    /// batch, and others may have their numbers.
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
    pub(super) fn new(jobs: Vec<LeasedJob>, lineage: Lineage, back: ReturnPath) -> Self {
        Self { jobs, lineage, back, is_durable: false }
    }

    /// The batch that they are in is durable.
    pub(super) fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// What the jobs carry, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.jobs.iter().map(|job| job.body.len()).sum()
    }

    /// What the consumer shows for a job.
    pub(super) fn token(&self, job: &LeasedJob) -> ReservationToken {
        ReservationToken::new(self.lineage, job.reservation)
    }

    /// The jobs are in other hands now, which give back what they cannot pass on.
    pub(super) fn take(mut self) -> (Vec<LeasedJob>, HandOver) {
        let jobs = std::mem::take(&mut self.jobs);
        if jobs.is_empty() {
            return (jobs, HandOver::nothing());
        }
        let held = jobs.iter().map(|job| ReservationToken::new(self.lineage, job.reservation)).collect();
        (jobs, HandOver(vec![OnTheWay { held, back: self.back.clone() }]))
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        if self.is_durable && !self.jobs.is_empty() {
            self.back.give(
                self.jobs.iter().map(|job| ReservationToken::new(self.lineage, job.reservation)).collect(),
            );
        }
    }
}

/// Leases that are being written to their consumer. Dropped before [`HandOver::done`], they are
/// given back, uncounted.
#[derive(Debug, Default)]
pub struct HandOver(Vec<OnTheWay>);

/// Leases of one partition.
#[derive(Debug)]
struct OnTheWay {
    held: Vec<ReservationToken>,
    back: ReturnPath,
}

impl HandOver {
    /// Nothing on its way.
    pub(super) fn nothing() -> Self {
        Self::default()
    }

    /// The leases of another hand-over follow these.
    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// The first so many of them, which reach their consumer or not by themselves.
    #[must_use]
    pub fn split_first(&mut self, leases: usize) -> Self {
        let (mut first, mut left) = (Self::nothing(), leases);
        while left > 0
            && let Some(part) = self.0.first_mut()
        {
            if part.held.len() <= left {
                left -= part.held.len();
                first.0.push(self.0.remove(0));
            } else {
                let rest = part.held.split_off(left);
                let held = std::mem::replace(&mut part.held, rest);
                first.0.push(OnTheWay { held, back: part.back.clone() });
                left = 0;
            }
        }
        first
    }

    /// Their consumer has them.
    pub fn done(mut self) {
        self.0.clear();
    }
}

impl Drop for HandOver {
    fn drop(&mut self) {
        for OnTheWay { held, back } in self.0.drain(..) {
            back.give(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands over one lease of the first inbox, and two of the second.
    fn of_two() -> (HandOver, [mpsc::Receiver<QueueInput>; 2], [mpsc::Sender<QueueInput>; 2]) {
        let [(first, first_inputs), (second, second_inputs)] = [mpsc::channel(8), mpsc::channel(8)];
        let held = |lease| {
            let job = JobId([lease as u8; 16]);
            ReservationToken::new(Lineage(7), Reservation { job, lease })
        };
        let mut hand_over = HandOver(vec![OnTheWay { held: vec![held(1)], back: ReturnPath::to(&first) }]);
        let more = OnTheWay { held: vec![held(2), held(3)], back: ReturnPath::to(&second) };
        hand_over.append(HandOver(vec![more]));
        (hand_over, [first_inputs, second_inputs], [first, second])
    }

    /// The first byte of each job that was given back.
    fn given_back(inputs: &mut mpsc::Receiver<QueueInput>) -> Vec<u8> {
        let given = std::iter::from_fn(|| match inputs.try_recv() {
            Ok(QueueInput::GiveBack(held)) => Some(held),
            _ => None,
        });
        given.flatten().map(|held| held.job().0[0]).collect()
    }

    #[test]
    fn each_lease_goes_back_to_the_partition_that_it_is_from() {
        let (hand_over, mut inputs, _inboxes) = of_two();
        drop(hand_over);
        assert_eq!(inputs.each_mut().map(given_back), [vec![1], vec![2, 3]]);
    }

    #[test]
    fn what_has_reached_its_consumer_does_not_go_back_with_the_rest() {
        for (reached, expect) in [
            (0, [vec![1], vec![2, 3]]),
            (1, [vec![], vec![2, 3]]),
            (2, [vec![], vec![3]]),
            (9, [vec![], vec![]]),
        ] {
            let (mut hand_over, mut inputs, _inboxes) = of_two();
            hand_over.split_first(reached).done();
            drop(hand_over);
            assert_eq!(inputs.each_mut().map(given_back), expect, "{reached}");
        }
    }
}
