//! The service `Coordination`: locks, limits, the cache, channels, and what is said to workers.

mod calls;
mod pipeline;

use std::pin::Pin;
use std::sync::Arc;

use access::{Admitted, RequestedAction};
use base::Problem;
use engine::coordination::{ChannelEvent, ChannelListener, ChannelPatterns};
use engine::queues::QueueName;
use engine::records::{self, WorkState};
use engine::{Coordination, Engine, QueueCalls};
use futures_util::{Stream, stream};
use net::memory_budget::{MemoryBudget, MemoryPart, Purpose};
use net::shares::SharedPool;
use tonic::{Request, Response, Status, Streaming};

use crate::callers::{caller_and_message, caller_sender_and_message, peer};
use crate::changes::into_change;
use crate::metrics::GrpcMetrics;
use crate::proto::{self, coordination_server};
use crate::receiving::{CallMessages, give_back};
use crate::sent_ahead::SentAhead;
use crate::status::{into_response, status};
use crate::stopping::StopSignal;
use crate::store_reads::StoreReads;
use calls::{CoordinationCalls, may, missing};
use pipeline::Pipeline;

/// Bytes of values in one answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Largest message, in bytes: a value of the cache and what stands beside it.
pub(crate) const MESSAGE_BYTES_MAX: usize = 2 << 20;
/// Pipelines of all callers, and of one.
const PIPELINES_MAX: usize = 1_024;
const PIPELINES_OF_SENDER_MAX: usize = 256;

/// The calls about coordination.
pub(crate) struct CoordinationService {
    calls: CoordinationCalls,
    queues: QueueCalls,
    shared: Coordination,
    reads: StoreReads,
    pipelines: Arc<SharedPool>,
    /// For messages of pipelines whose calls have not all begun.
    memory: MemoryPart,
    stop: StopSignal,
    metrics: GrpcMetrics,
}

impl CoordinationService {
    pub(crate) fn new(
        engine: &Engine,
        (reads, memory): (StoreReads, &MemoryBudget),
        stop: StopSignal,
        metrics: &GrpcMetrics,
    ) -> Self {
        Self {
            calls: CoordinationCalls::new(engine),
            queues: engine.queues(),
            shared: engine.coordination(),
            reads,
            pipelines: Arc::new(SharedPool::new(PIPELINES_MAX, PIPELINES_OF_SENDER_MAX)),
            memory: memory.part(Purpose::Lines),
            stop,
            metrics: metrics.clone(),
        }
    }

    fn listening(&self, namespace: &str, channels: &[String]) -> Result<ChannelListener, Problem> {
        self.shared.listen(ChannelPatterns::parse(namespace, &channels.join(","))?)
    }
}

/// That a caller may speak to the workers of a namespace's queues.
fn may_control(caller: &Admitted, namespace: &str) -> Result<(), Problem> {
    caller.may(RequestedAction::Control { namespace })
}

/// What is said to workers, as the protocol writes it; nothing is a state of its own.
pub(crate) fn control_shown(control: Option<&records::WorkerControl>) -> proto::QueueControl {
    let Some(control) = control else { return proto::QueueControl::default() };
    let state = match control.state {
        WorkState::Run => proto::WorkState::Run,
        WorkState::Drain => proto::WorkState::Drain,
        WorkState::Stop => proto::WorkState::Stop,
    };
    proto::QueueControl {
        state: state.into(),
        max_in_flight: control.max_in_flight,
        data: control.data.as_deref().map(str::to_owned),
    }
}

fn control_read(queue: &QueueName, given: proto::QueueControl) -> Result<records::WorkerControl, Problem> {
    let state = match given.state() {
        proto::WorkState::Unspecified => return Err(missing("state")),
        proto::WorkState::Run => WorkState::Run,
        proto::WorkState::Drain => WorkState::Drain,
        proto::WorkState::Stop => WorkState::Stop,
    };
    if given.max_in_flight == Some(0) {
        return Err(Problem::not_allowed("invalid_number", "max_in_flight must be at least 1"));
    }
    if let Some(data) = &given.data {
        crate::payload::check_json("data", data)?;
    }
    Ok(records::WorkerControl {
        namespace: queue.namespace().into(),
        queue: queue.queue().into(),
        state,
        max_in_flight: given.max_in_flight,
        data: given.data.map(Into::into),
    })
}

#[tonic::async_trait]
impl coordination_server::Coordination for CoordinationService {
    type PipelineStream = Pin<Box<dyn Stream<Item = Result<proto::PipelineResponse, Status>> + Send>>;

    async fn pipeline(
        &self,
        request: Request<Streaming<proto::PipelineRequest>>,
    ) -> Result<Response<Self::PipelineStream>, Status> {
        let peer = peer(&request);
        let request = CallMessages::of(request, MESSAGE_BYTES_MAX);
        let (caller, sender, requests) = caller_sender_and_message(request)?;
        let full = || {
            let detail = format!(
                "{PIPELINES_OF_SENDER_MAX} pipelines of this caller, or {PIPELINES_MAX} of all, are open"
            );
            status(&Problem::new(503, "too_many_waiting", detail))
        };
        let place = self.pipelines.try_take(&sender, 1).ok_or_else(full)?;
        let memory = SentAhead::that_is_refused(self.memory.clone(), sender);
        let answers = memory.answers(requests.memory_wanted());
        let pipeline = Pipeline::new(
            self.calls.clone(),
            (caller, peer),
            memory,
            requests,
            self.stop.clone(),
            (place, &self.metrics),
        );
        Ok(answers.response(Box::pin(pipeline)))
    }

    async fn acquire_lock(
        &self,
        request: Request<proto::AcquireLockRequest>,
    ) -> Result<Response<proto::HeldLock>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        // It may wait for whoever holds the lock.
        give_back();
        into_response(self.calls.acquire_lock(&caller, asked).await)
    }

    async fn extend_lock(
        &self,
        request: Request<proto::ExtendLockRequest>,
    ) -> Result<Response<proto::HeldLock>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        into_response(self.calls.extend_lock(&caller, asked).await)
    }

    async fn release_lock(
        &self,
        request: Request<proto::ReleaseLockRequest>,
    ) -> Result<Response<proto::ReleaseLockResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        into_response(self.calls.release_lock(&caller, asked).await)
    }

    async fn get_lock(
        &self,
        request: Request<proto::GetLockRequest>,
    ) -> Result<Response<proto::LockState>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        into_response(self.calls.get_lock(&caller, asked).await)
    }

    async fn ask_limit(
        &self,
        request: Request<proto::AskLimitRequest>,
    ) -> Result<Response<proto::AskLimitResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        into_response(self.calls.ask_limit(&caller, asked).await)
    }

    async fn put_cached(
        &self,
        request: Request<proto::PutCachedRequest>,
    ) -> Result<Response<proto::PutCachedResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        into_response(self.calls.put_cached(&caller, asked).await)
    }

    async fn get_cached(
        &self,
        request: Request<proto::GetCachedRequest>,
    ) -> Result<Response<proto::GetCachedResponse>, Status> {
        let (caller, sender, asked) = caller_sender_and_message(request)?;
        let found = async {
            let found = self.calls.get_cached(&caller, &asked, ANSWER_BYTES_MAX).await?;
            self.reads.with_memory(&sender, found).await
        };
        found.await.map_err(|problem| status(&problem))
    }

    async fn delete_cached(
        &self,
        request: Request<proto::DeleteCachedRequest>,
    ) -> Result<Response<proto::DeleteCachedResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        into_response(self.calls.delete_cached(&caller, &asked).await)
    }

    async fn publish(
        &self,
        request: Request<proto::PublishMessageRequest>,
    ) -> Result<Response<proto::PublishMessageResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        into_response(self.calls.publish(&caller, asked).await)
    }

    type ListenStream = Pin<Box<dyn Stream<Item = Result<proto::ChannelMessage, Status>> + Send>>;

    async fn listen(
        &self,
        request: Request<proto::ListenRequest>,
    ) -> Result<Response<Self::ListenStream>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        may(&caller, &asked.namespace).map_err(|problem| status(&problem))?;
        let listener = self.listening(&asked.namespace, &asked.channels);
        let listener = listener.map_err(|problem| status(&problem))?;
        let listening = Some((listener, self.stop.clone()));
        let messages = stream::unfold(listening, async |listening| {
            let (mut listener, mut stop) = listening?;
            let event = tokio::select! {
                event = listener.next() => event?,
                () = stop.stopping() => return None,
            };
            Some(match event {
                ChannelEvent::Message(channel, message) => {
                    let message = String::from_utf8_lossy(&message).into_owned();
                    (Ok(proto::ChannelMessage { channel: channel.into(), message }), Some((listener, stop)))
                }
                ChannelEvent::TooSlow => {
                    let slow = Problem::new(429, "too_slow", "messages were not read as fast as they came");
                    (Err(status(&slow)), None)
                }
            })
        });
        Ok(Response::new(Box::pin(messages)))
    }

    async fn put_control(
        &self,
        request: Request<proto::PutControlRequest>,
    ) -> Result<Response<proto::PutControlResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let object = format!("{}/{}", asked.namespace, asked.queue);
        let put = async {
            may_control(&caller, &asked.namespace)?;
            let queue = QueueName::new(&asked.namespace, &asked.queue)?;
            let control = control_read(&queue, asked.control.ok_or_else(|| missing("control"))?)?;
            self.queues.put_control(&queue, Some(control)).await
        };
        into_change(put.await.map(|()| proto::PutControlResponse {}), object)
    }

    async fn get_control(
        &self,
        request: Request<proto::GetControlRequest>,
    ) -> Result<Response<proto::QueueControl>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let found = || {
            may_control(&caller, &asked.namespace)?;
            let queue = QueueName::new(&asked.namespace, &asked.queue)?;
            let unknown =
                || Problem::unknown("no_control", format!("nothing is said to the workers of {queue}"));
            self.queues.control(&queue).ok_or_else(unknown)
        };
        into_response(found().map(|control| control_shown(Some(&control))))
    }

    async fn delete_control(
        &self,
        request: Request<proto::DeleteControlRequest>,
    ) -> Result<Response<proto::DeleteControlResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let object = format!("{}/{}", asked.namespace, asked.queue);
        let deleted = async {
            may_control(&caller, &asked.namespace)?;
            let queue = QueueName::new(&asked.namespace, &asked.queue)?;
            self.queues.put_control(&queue, None).await
        };
        into_change(deleted.await.map(|()| proto::DeleteControlResponse {}), object)
    }
}
