//! Work streams: credits and acknowledgements come up, jobs go down.
//!
//! A task of its own drives each stream, so that acknowledgements are read while the worker takes
//! no jobs, and the other way round. What is asked of the engine is gathered while earlier
//! questions are under way. The more a worker says, the more of it crosses at a time. Everything is
//! bounded by what the worker was sent or lets be read.

mod job_memory;
mod opened;
mod settlements;
mod stream;

use std::pin::Pin;
use std::task::{Context, Poll};

use access::Admitted;
use engine::queues::{HandOver, QueueCalls};
use futures_util::Stream;
use net::memory_budget::MemoryReservation;
use net::metrics::Counted;
use net::shares::SenderKey;
use tokio::sync::mpsc;
use tonic::{Response, Status};

use crate::answer_memory::AnswerMemory;
use crate::answers_in_flight::AnswersInFlight;
use crate::metrics::GrpcMetrics;
use crate::proto::{WorkRequest, WorkResponse};
use crate::receiving::CallMessages;
use crate::stopping::StopSignal;
use job_memory::JobMemory;

pub(crate) use settlements::SETTLEMENTS_PER_MESSAGE_MAX;

/// Answers that are made ahead of being sent.
const ANSWERS_AHEAD: usize = 2;

/// The answers of a stream, as they are sent.
pub(crate) type WorkAnswers = Pin<Box<dyn Stream<Item = Result<WorkResponse, Status>> + Send>>;

/// An answer, with the leases of its jobs: given back if it is not sent.
#[derive(Debug)]
struct WorkAnswer {
    response: WorkResponse,
    hand_over: Option<HandOver>,
    /// Its memory, if it is large.
    held: Option<MemoryReservation>,
}

/// The answers of a stream, which ends when these are dropped.
pub(crate) struct Answers {
    made: mpsc::Receiver<Result<WorkAnswer, Status>>,
    in_flight: AnswersInFlight,
    metrics: GrpcMetrics,
}

/// Begins a stream.
pub(crate) fn begin(
    queues: QueueCalls,
    caller: Admitted,
    (memory, sender): (AnswerMemory, SenderKey),
    requests: CallMessages<WorkRequest>,
    stop: StopSignal,
    metrics: &GrpcMetrics,
) -> Answers {
    let (answers, made) = mpsc::channel(ANSWERS_AHEAD);
    let counted = Counted::new(&metrics.work_streams);
    let of_stream = metrics.clone();
    let is_message_wanted = requests.memory_wanted();
    let job_memory = JobMemory::new(memory.clone(), sender.clone());
    tokio::spawn(async move {
        let _counted = counted;
        stream::drive(queues, &caller, job_memory, requests, answers, stop, of_stream).await;
    });
    let in_flight = AnswersInFlight::new(move || memory.is_scarce(&sender) || is_message_wanted());
    Answers { made, in_flight, metrics: metrics.clone() }
}

impl Answers {
    /// The response that they make up; [`crate::answers_in_flight::counted`] is for it.
    pub(crate) fn into_response(self) -> Response<WorkAnswers> {
        let in_flight = self.in_flight.clone();
        in_flight.response(Box::pin(self))
    }
}

impl Stream for Answers {
    type Item = Result<WorkResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.made.poll_recv(cx).map(|made| {
            made.map(|answer| {
                let WorkAnswer { response, hand_over, held } = answer?;
                if let Some(held) = held {
                    self.in_flight.give(held);
                }
                // The connection takes it now, and may keep it until the worker has room.
                if let Some(hand_over) = hand_over {
                    hand_over.done();
                }
                self.metrics.work_jobs.inc_by(response.jobs.len() as u64);
                Ok(response)
            })
        })
    }
}
