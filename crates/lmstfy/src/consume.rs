//! Consuming: one job as an object or several as a list, of the queues in their order. It answers
//! at once or as soon as there is a job.

use std::time::Duration;

use axum::http::StatusCode;
use base::Problem;
use engine::queues::{ConsumeTerms, Consumed, HandOver, QueueName};
use net::metrics::Counted;

use crate::LmstfyState;
use crate::answer::LmstfyAnswer;
use crate::job::Shown;
use crate::limit::CountedCall;
use crate::query::Query;

/// Most jobs of a call.
const COUNT_MAX: u64 = 100;
const TTR_SECONDS: u64 = 120;
/// A lease of no length is over as soon as it may be.
const TTR_MIN: Duration = Duration::from_millis(1);
/// What the JSON of a job takes beside its data and names, about.
const JOB_BYTES: usize = 192;

/// Who asks for jobs, and may wait for them.
pub(crate) struct JobConsumer {
    queues: Vec<QueueName>,
    want: ConsumeTerms,
    /// What it takes of its token's limit.
    taken: Option<CountedCall>,
}

impl JobConsumer {
    /// # Errors
    /// 400 for a parameter that cannot be, or no queue at all.
    pub(crate) fn new(
        queues: Vec<QueueName>,
        query: Query<'_>,
        taken: Option<CountedCall>,
    ) -> Result<Self, LmstfyAnswer> {
        let want = want(query)?;
        if queues.is_empty() {
            return Err(LmstfyAnswer::bad("invalid queue name(s)"));
        }
        Ok(Self { queues, want, taken })
    }

    /// Its jobs, as soon as there are any.
    pub(crate) async fn answer(self, shared: &LmstfyState) -> LmstfyAnswer {
        let Self { queues, want, taken } = self;
        let leased = if want.wait.is_zero() {
            shared.queues.consume(&queues, want).await.map(Some)
        } else {
            waiting(shared, &queues, want).await
        };
        match leased {
            Ok(Some((jobs, hand_over))) if !jobs.is_empty() => {
                if let Some(taken) = taken {
                    taken.counts();
                }
                shared.metrics.moved("consumed", jobs.len());
                let text = written(shared, &queues, &jobs, want.max > 1);
                LmstfyAnswer::json(StatusCode::OK, text).handing_over(hand_over)
            }
            Ok(_) => LmstfyAnswer::message(StatusCode::NOT_FOUND, "no job available"),
            Err(problem) => problem.into(),
        }
    }
}

fn want(query: Query<'_>) -> Result<ConsumeTerms, LmstfyAnswer> {
    let most = u64::from(u32::MAX);
    let ttr = query.number("ttr", TTR_SECONDS, most).ok_or_else(|| LmstfyAnswer::bad("invalid ttr"))?;
    let wait = query.number("timeout", 0, most).ok_or_else(|| LmstfyAnswer::bad("invalid timeout"))?;
    let count = query.number("count", 1, COUNT_MAX).filter(|count| *count > 0);
    let count = count.ok_or_else(|| LmstfyAnswer::bad("invalid count"))?;
    Ok(ConsumeTerms {
        max: count as usize,
        ttr: Duration::from_secs(ttr).max(TTR_MIN),
        wait: Duration::from_secs(wait),
        process: None,
    })
}

/// Waits for a job; `None` when the server stops. Who hangs up meanwhile is waited for no longer:
/// then this is dropped.
async fn waiting(
    shared: &LmstfyState,
    queues: &[QueueName],
    want: ConsumeTerms,
) -> Result<Option<(Vec<Consumed>, HandOver)>, Problem> {
    let _counted = Counted::new(&shared.metrics.waiting);
    let mut stop = shared.stop.clone();
    tokio::select! {
        biased;
        leased = shared.queues.consume(queues, want) => leased.map(Some),
        // Whoever could say that the server stops is gone: then it has.
        _stopped = stop.wait_for(|stop| *stop) => Ok(None),
    }
}

fn written(shared: &LmstfyState, queues: &[QueueName], jobs: &[Consumed], as_list: bool) -> Vec<u8> {
    let data = |job: &Consumed| match &job.payload {
        engine::queues::JobPayload::Json(text) => text.len(),
        engine::queues::JobPayload::Bytes(bytes) => bytes.len(),
    };
    let bytes: usize = jobs.iter().map(|job| data(job) * 4 / 3 + JOB_BYTES).sum();
    let (mut text, now) = (Vec::with_capacity(bytes), shared.now());
    for (place, job) in jobs.iter().enumerate() {
        if as_list {
            text.push(if place == 0 { b'[' } else { b',' });
        }
        let name = &queues[job.queue];
        Shown::consumed(job).write(&mut text, name.namespace(), name.queue(), Some("new job"), now);
    }
    if as_list {
        text.push(b']');
    }
    text
}
