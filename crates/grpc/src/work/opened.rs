//! What a stream is for, as its first message says.

use std::sync::Arc;
use std::time::Duration;

use access::{Admitted, RequestedAction};
use base::Problem;
use base::limits::QUEUES_PER_CONSUME_MAX;
use engine::queues::QueueName;

use crate::asked;
use crate::proto::work_request::Open;

/// The queues of a stream, and for how long it reserves their jobs.
#[derive(Clone, Debug)]
pub(super) struct OpenedWork {
    pub(super) queues: Arc<[QueueName]>,
    pub(super) ttr: Duration,
}

impl OpenedWork {
    /// Reads what the stream is for; the caller has to be allowed to work there.
    pub(super) fn read(open: &Open, caller: &Admitted) -> Result<Self, Problem> {
        caller.may(RequestedAction::Work { namespace: &open.namespace })?;
        let queues = asked::queues(&open.namespace, &open.queues)?;
        if !(1..=QUEUES_PER_CONSUME_MAX).contains(&queues.len()) {
            let detail = format!("queues must be 1 to {QUEUES_PER_CONSUME_MAX}, not {}", queues.len());
            return Err(Problem::not_allowed("too_many_queues", detail));
        }
        let ttr = asked::ttr(open.ttr.as_ref())?;
        if ttr.is_zero() {
            return Err(Problem::not_allowed("invalid_ttr", "ttr must be at least 1ms"));
        }
        Ok(Self { queues: queues.into(), ttr })
    }

    /// The place of the queue that a message names.
    pub(super) fn place(&self, queue: &str) -> Result<usize, Problem> {
        if queue.is_empty() && self.queues.len() == 1 {
            return Ok(0);
        }
        self.queues.iter().position(|name| name.queue() == queue).ok_or_else(|| {
            let detail = if queue.is_empty() {
                "a stream of several queues has to name the one"
            } else {
                "the queue is none of this stream's"
            };
            Problem::not_allowed("invalid_queue", detail)
        })
    }
}
