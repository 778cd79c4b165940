//! What a call should be answered, and what a list should show.

use std::time::Duration;

use base::Timestamp;
use engine::queues::{
    Consumed, DeadView, JobPayload, JobState, JobView, PublishedJob, QueueName, QueueStats,
};
use records::{DeadReason, JobId, QueueSettings};

/// What a call should be answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expected {
    Published(Result<Vec<PublishedJob>, &'static str>),
    Leased(Vec<ShownLease>),
    /// The places of reservations that do not hold.
    Acked(Vec<usize>),
    Extended(Result<Timestamp, &'static str>),
    Done(Result<(), &'static str>),
    Seen(Result<ShownJob, &'static str>),
    /// One of these, or none if there is none.
    Peeked(Vec<ShownJob>),
    /// These; where it is not sure, of jobs that are parked nobody knows whether they are ready.
    QueueStats {
        shown: Vec<ShownStats>,
        is_sure: bool,
        /// So many may have been counted that expired later in the same step.
        late: u64,
    },
    /// Who holds a lock, and until when.
    Locked(Result<(String, Timestamp), &'static str>),
    /// The same, if anybody does, and how many wait.
    LockStatus(Option<(String, Timestamp)>, usize),
    Dead(Vec<ShownDead>),
    Count(Result<usize, &'static str>),
}

/// A job as its consumer gets it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShownLease {
    pub(crate) id: JobId,
    pub(crate) payload: JobPayload,
    pub(crate) attempt: u32,
    pub(crate) tries: u32,
    pub(crate) published_at: Timestamp,
    pub(crate) run_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) until: Timestamp,
    pub(crate) alias: Option<String>,
}

/// A job as it is looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShownJob {
    pub(crate) id: JobId,
    pub(crate) state: JobState,
    pub(crate) payload: JobPayload,
    pub(crate) run_at: Timestamp,
    pub(crate) published_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) attempt: u32,
    pub(crate) tries: u32,
    pub(crate) alias: Option<String>,
    pub(crate) group: Option<String>,
}

/// A queue's figures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShownStats {
    pub(crate) name: QueueName,
    pub(crate) scheduled: u64,
    pub(crate) ready: u64,
    pub(crate) reserved: u64,
    pub(crate) dead: u64,
    pub(crate) oldest_ready: Option<Duration>,
    pub(crate) paused: bool,
    pub(crate) settings: QueueSettings,
}

/// A dead letter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShownDead {
    pub(crate) id: JobId,
    pub(crate) payload: JobPayload,
    pub(crate) attempt: u32,
    pub(crate) tries: u32,
    pub(crate) reason: DeadReason,
    pub(crate) error: Option<String>,
    pub(crate) died_at: Timestamp,
}

impl ShownLease {
    pub(crate) fn of(job: &Consumed) -> Self {
        Self {
            id: job.id,
            payload: job.payload.clone(),
            attempt: job.attempt,
            tries: job.tries,
            published_at: job.published_at,
            run_at: job.run_at,
            expires_at: job.expires_at,
            until: job.until,
            alias: job.alias.as_ref().map(ToString::to_string),
        }
    }
}

impl ShownJob {
    pub(crate) fn of(job: &JobView) -> Self {
        Self {
            id: job.id,
            state: job.state,
            payload: job.payload.clone(),
            run_at: job.run_at,
            published_at: job.published_at,
            expires_at: job.expires_at,
            attempt: job.attempt,
            tries: job.tries,
            alias: job.alias.as_ref().map(ToString::to_string),
            group: job.group.as_ref().map(ToString::to_string),
        }
    }
}

impl ShownStats {
    pub(crate) fn of(stats: &QueueStats) -> Self {
        let QueueStats {
            name,
            key: _,
            scheduled,
            ready,
            reserved,
            dead,
            oldest_ready,
            // Says the same.
            oldest_ready_at: _,
            rates: _,
            paused,
            settings,
        } = stats.clone();
        Self { name, scheduled, ready, reserved, dead, oldest_ready, paused, settings }
    }
}

impl ShownDead {
    pub(crate) fn of(view: &DeadView) -> Self {
        let dead = &view.dead;
        Self {
            id: dead.id,
            payload: view.payload.clone(),
            attempt: dead.attempt,
            tries: dead.tries,
            reason: dead.reason,
            error: dead.error.as_ref().map(ToString::to_string),
            died_at: dead.died_at,
        }
    }
}
