//! Inputs of a partition of queues, and its answers, for whoever runs partitions without an
//! [`crate::Engine`]: the simulation.
//!
//! What [`super::QueueCalls`] makes of a call and of its answer, without a task in between.

use base::{Problem, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::consuming::ReturnPath;
use super::{ConsumeTerms, Consumed, JobView, NewJob, QueueInput, QueueName, calls, checks, leasing};
use crate::kernel::reply::Reply;

pub use super::input::{ConsumeCall, InspectedJob, QueueCall, Respawned, ToPublish};
pub use super::{Dead, HandOver, Leases};

/// Jobs as they go into a partition; a calendar begins behind `wall`.
///
/// # Errors
/// 422 for what no job may be.
pub fn to_publish(jobs: &[NewJob], wall: Timestamp) -> Result<Vec<ToPublish>, Problem> {
    jobs.iter().enumerate().map(|(place, job)| checks::to_publish(place, job, wall)).collect()
}

/// A consumer's question, and where its answer arrives. What the consumer lets go of comes back
/// through `inbox`.
#[must_use]
pub fn consume(
    queue: QueueName,
    want: &ConsumeTerms,
    until: Timestamp,
    inbox: &mpsc::Sender<QueueInput>,
) -> (QueueInput, oneshot::Receiver<Leases>) {
    let (reply, receiver) = Reply::new();
    let ConsumeTerms { max, ttr, process, .. } = *want;
    let call = ConsumeCall { queue, max, ttr, until, process, reply, back: ReturnPath::to(inbox) };
    (QueueInput::Consume(call), receiver)
}

/// The jobs of an answer, and what gives them back unless it is told that they have arrived.
///
/// # Errors
/// When what a job carries cannot be read.
pub fn consumed(leases: Leases) -> Result<(Vec<Consumed>, HandOver), Problem> {
    leasing::consumed(leases, 0)
}

/// A job that was looked at.
///
/// # Errors
/// When what it carries cannot be read.
pub fn view(seen: InspectedJob) -> Result<JobView, Problem> {
    calls::view(seen)
}
