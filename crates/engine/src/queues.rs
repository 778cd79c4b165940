//! Queues of jobs that users publish: partitions of their own, with the rules of `jobs`, and the
//! calls of the edges.
//!
//! A queue lives in the partition of its namespace and name, apart from devices. So nothing of a
//! queue ever has to commit together with a device. And a flood of jobs does not stand in the way
//! of reports. [`QueueCalls`] is what the edges hold.

mod answers;
mod body;
mod calls;
mod checks;
mod consuming;
pub mod context;
pub(crate) mod controls;
pub mod driving;
mod effect;
mod id;
mod input;
mod job;
mod leasing;
mod locks;
pub mod partition;
mod queue_metrics;
mod rates;
mod ready_wait;
mod stats;
mod troubled;

pub use crate::kernel::idempotency::{IdempotencyKey, SourceCall};
pub use crate::name::QueueName;
pub use calls::{AckOutcome, QueueCalls};
pub use checks::RATES;
pub use consuming::{HandOver, Leases};
pub use controls::FollowedControl;
pub use effect::QueueEffect;
pub use id::{ReservationToken, id_from_text, id_text};
pub use input::{Dead, LockCaller, QueueCall, QueueInput};
pub use job::{
    Attributes, ConsumeTerms, Consumed, DueTime, JobChange, JobPayload, JobRef, JobRelease, JobState,
    JobView, NewJob, PublishedJob, RecurrenceTerms,
};
pub use jobs::ConflictPolicy;
pub use locks::{LockCall, LockWanted, Locks};
pub use partition::{DeadView, QueueMark, QueuePage};
pub(crate) use queue_metrics::QueueJobs;
pub use queue_metrics::{JobsByState, NamedChange};
pub use rates::QueueRates;
pub use stats::{JobsCounted, PartitionStats, QueueStats};
pub use troubled::{TroubleChange, TroubledQueue};
