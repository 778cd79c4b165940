//! What was handed in to a partition of queues, as the model understands it. It is the content of
//! the production input, without its replies and the text of reservations.

use std::time::Duration;

use base::Timestamp;
use engine::coordination::CoordinationName;
use engine::queues::driving::Dead;
use engine::queues::{DueTime, IdempotencyKey, JobPayload, JobRef, NewJob, QueueName};
use records::{JobId, Process, QueueSettings, WorkerControl};

use crate::harness::calls::CallId;

/// A lease, as everybody outside knows it: whom the job was given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseRef {
    pub(crate) consumer: CallId,
    pub(crate) job: JobId,
}

/// A consumer's question.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) max: usize,
    pub(crate) ttr: Duration,
    pub(crate) until: Timestamp,
    pub(crate) process: Option<Process>,
}

/// An input about a lock.
#[derive(Clone, Debug)]
pub(crate) enum LockMeant {
    Acquire { call: CallId, name: CoordinationName, owner: String, ttl_ms: i64, until: Timestamp },
    Extend { call: CallId, name: CoordinationName, owner: String, ttl_ms: i64 },
    Release { call: CallId, name: CoordinationName, owner: String },
    Leave { call: CallId, name: CoordinationName },
    Show { call: CallId, name: CoordinationName },
}

impl LockMeant {
    pub(crate) fn name(&self) -> &CoordinationName {
        match self {
            Self::Acquire { name, .. }
            | Self::Extend { name, .. }
            | Self::Release { name, .. }
            | Self::Leave { name, .. }
            | Self::Show { name, .. } => name,
        }
    }
}

/// An input.
#[derive(Clone, Debug)]
pub(crate) enum Meant {
    Lock(LockMeant),
    Publish {
        call: CallId,
        queue: QueueName,
        jobs: Vec<NewJob>,
        idempotency: Option<IdempotencyKey>,
    },
    Consume {
        call: CallId,
        queue: QueueName,
        asked: Asked,
    },
    /// Somebody wants to be told when there is something: the model does not say when.
    Watch {
        queue: QueueName,
    },
    PassOn,
    Ack {
        call: CallId,
        queue: QueueName,
        leases: Vec<LeaseRef>,
    },
    Extend {
        call: CallId,
        queue: QueueName,
        lease: LeaseRef,
        ttr: Duration,
    },
    Release {
        call: CallId,
        queue: QueueName,
        lease: LeaseRef,
        delay: Duration,
        error: Option<String>,
    },
    GiveBack {
        leases: Vec<LeaseRef>,
    },
    Look {
        call: CallId,
        queue: QueueName,
        job: Option<JobRef>,
    },
    Change {
        call: CallId,
        queue: QueueName,
        job: JobRef,
        payload: Option<JobPayload>,
        due: Option<DueTime>,
    },
    Cancel {
        call: CallId,
        queue: QueueName,
        job: JobRef,
    },
    QueueStats {
        call: CallId,
        queue: QueueName,
    },
    List {
        call: CallId,
        namespace: Option<String>,
    },
    Set {
        call: CallId,
        queue: QueueName,
        settings: QueueSettings,
    },
    Pause {
        call: CallId,
        queue: QueueName,
        paused: bool,
    },
    Delete {
        call: CallId,
        queue: QueueName,
    },
    /// Workers are told this, or nothing any more.
    Control {
        call: CallId,
        queue: QueueName,
        control: Option<WorkerControl>,
    },
    Dead {
        call: CallId,
        queue: QueueName,
    },
    Respawn {
        call: CallId,
        queue: QueueName,
        which: Dead,
        ttl: Option<Duration>,
    },
    DeleteDead {
        call: CallId,
        queue: QueueName,
        which: Dead,
    },
}
