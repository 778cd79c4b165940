//! A pipeline: calls come up one after the other, and each is answered as it ends.
//!
//! Calls begin in the order in which they were sent, and most end at once. Those that wait - for a
//! disk, or for a lock - end in any order. Answers that are there together leave together. While
//! nobody takes them no more calls begin, and then none are read. A large message keeps memory of
//! its caller's share until all its calls have begun. A pipeline whose answers are not taken ends
//! while others lack that memory.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::vec;

use access::Admitted;
use base::Problem;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream, StreamExt};
use net::memory_budget::MemoryReservation;
use net::metrics::Counted;
use net::shares::Taken;
use prost::Message;
use tokio::task::consume_budget;
use tonic::Status;

use super::calls::CoordinationCalls;
use crate::metrics::GrpcMetrics;
use crate::proto::pipelined_answer::Answer;
use crate::proto::pipelined_call::Request;
use crate::proto::{CallRefusal, PipelineRequest, PipelineResponse, PipelinedAnswer, PipelinedCall};
use crate::receiving::CallMessages;
use crate::sent_ahead::SentAhead;
use crate::status::status;
use crate::stopping::StopSignal;

/// Calls of one pipeline that are under way.
const CALLS_MAX: usize = 1_024;
/// Calls in one message.
const CALLS_PER_MESSAGE_MAX: usize = 1_000;
/// Values in one answer, in bytes: larger ones are asked for by a call that takes its memory of the
/// budget.
const VALUES_BYTES_MAX: usize = 64 * 1_024;
/// Answers that leave together, in bytes, and how many; one more may be on top.
const ANSWERS_BYTES_MAX: usize = 64 * 1_024;
const ANSWERS_MAX: usize = 256;
/// Keys of the cache that calls ask for before others have a turn.
const KEYS_AT_ONCE_MAX: usize = 1_000;
/// Messages that are read before others have a turn: some may have no calls.
const MESSAGES_AT_ONCE_MAX: usize = 64;
/// A message that takes up to this keeps no memory of the budget, in bytes.
const SMALL_MESSAGE_BYTES: usize = 64 * 1_024;

/// Where calls of a pipeline come from.
struct PipelineCaller {
    calls: CoordinationCalls,
    admitted: Admitted,
    peer: SocketAddr,
    metrics: GrpcMetrics,
}

/// A pipeline: a stream of answers, those together that are there together.
pub(super) struct Pipeline {
    caller: Arc<PipelineCaller>,
    requests: CallMessages<PipelineRequest>,
    stop: BoxFuture<'static, ()>,
    /// Calls of the latest message that have not begun.
    rest: vec::IntoIter<PipelinedCall>,
    /// Calls that wait for something.
    under_way: FuturesUnordered<BoxFuture<'static, PipelinedAnswer>>,
    answers: Vec<PipelinedAnswer>,
    answers_bytes: usize,
    /// Keys that were asked for since the last answers.
    keys: usize,
    calls_max: usize,
    memory: SentAhead,
    /// Of the latest message, if it is large.
    held: Option<MemoryReservation>,
    /// No more calls are read; this is how the stream ends.
    over: Option<Result<(), Status>>,
    /// Its place among all pipelines.
    _place: (Taken, Counted),
}

impl Pipeline {
    pub(super) fn new(
        calls: CoordinationCalls,
        (admitted, peer): (Admitted, SocketAddr),
        memory: SentAhead,
        requests: CallMessages<PipelineRequest>,
        mut stop: StopSignal,
        (place, metrics): (Taken, &GrpcMetrics),
    ) -> Self {
        let calls_max = admitted.calls_in_flight_max().map_or(CALLS_MAX, |most| most.min(CALLS_MAX));
        Self {
            caller: PipelineCaller { calls, admitted, peer, metrics: metrics.clone() }.into(),
            requests,
            stop: async move { stop.stopping().await }.boxed(),
            rest: Vec::new().into_iter(),
            under_way: FuturesUnordered::new(),
            answers: Vec::new(),
            answers_bytes: 0,
            keys: 0,
            calls_max,
            memory,
            held: None,
            over: None,
            _place: (place, Counted::new(&metrics.pipelines)),
        }
    }

    /// Begins the calls that are there, as long as there is room.
    fn begin_calls(&mut self, context: &mut Context<'_>) {
        for _ in 0..MESSAGES_AT_ONCE_MAX {
            while self.has_room()
                && let Some(call) = self.rest.next()
            {
                self.begin(call, context);
            }
            if self.rest.as_slice().is_empty() {
                self.held = None;
            }
            if !self.reads() {
                return;
            }
            let Poll::Ready(message) = self.requests.poll_next_unpin(context) else { return };
            self.take(message);
        }
        context.waker().wake_by_ref();
    }

    /// Takes the answers of calls that have ended.
    fn take_ended(&mut self, context: &mut Context<'_>) {
        while !self.under_way.is_empty()
            && self.answers_bytes < ANSWERS_BYTES_MAX
            && let Poll::Ready(Some(answer)) = self.under_way.poll_next_unpin(context)
        {
            self.answer(answer);
        }
    }

    fn has_room(&self) -> bool {
        self.answers_bytes < ANSWERS_BYTES_MAX
            && self.answers.len() < ANSWERS_MAX
            && self.keys < KEYS_AT_ONCE_MAX
            && self.under_way.len() < self.calls_max
    }

    /// Whether another message is read: none before all calls of the one before have begun.
    fn reads(&self) -> bool {
        self.over.is_none() && self.rest.as_slice().is_empty() && self.has_room()
    }

    fn take(&mut self, message: Option<Result<PipelineRequest, Status>>) {
        match message {
            Some(Ok(PipelineRequest { calls })) if calls.len() > CALLS_PER_MESSAGE_MAX => {
                let detail =
                    format!("a message has at most {CALLS_PER_MESSAGE_MAX} calls, not {}", calls.len());
                self.over = Some(Err(status(&Problem::not_allowed("too_many_calls", detail))));
            }
            Some(Ok(message)) => {
                let bytes = memory_bytes(&message, self.requests.large_bytes());
                self.held = None;
                if bytes > SMALL_MESSAGE_BYTES {
                    match self.memory.take_or_refuse(bytes) {
                        Ok(held) => self.held = Some(held),
                        Err(busy) => {
                            self.over = Some(Err(status(&busy)));
                            return;
                        }
                    }
                }
                self.rest = message.calls.into_iter();
            }
            Some(Err(status)) => self.over = Some(Err(status)),
            None => self.over = Some(Ok(())),
        }
    }

    fn begin(&mut self, call: PipelinedCall, context: &mut Context<'_>) {
        self.keys += keys_asked(&call);
        let caller = Arc::clone(&self.caller);
        let mut call = async move { caller.answer(call).await }.boxed();
        match call.poll_unpin(context) {
            Poll::Ready(answer) => self.answer(answer),
            // It is polled again with a waker of its own.
            Poll::Pending => self.under_way.push(call),
        }
    }

    fn answer(&mut self, answer: PipelinedAnswer) {
        self.answers_bytes += answer.encoded_len();
        self.answers.push(answer);
    }
}

/// What a message takes in memory, in bytes: what it carries, and the calls and keys that it was
/// read into. An empty key is two bytes on the wire. Values keep the bytes that all of it came in.
fn memory_bytes(message: &PipelineRequest, came: usize) -> usize {
    let keys: usize = message.calls.iter().map(keys_asked).sum();
    let read_into = message.calls.len() * size_of::<PipelinedCall>() + keys * size_of::<String>();
    message.encoded_len().max(came) + read_into
}

/// Keys of the cache that a call asks for.
fn keys_asked(call: &PipelinedCall) -> usize {
    match &call.request {
        Some(Request::GetCached(asked)) => asked.keys.len(),
        Some(Request::DeleteCached(asked)) => asked.keys.len(),
        _ => 0,
    }
}

impl Stream for Pipeline {
    type Item = Result<PipelineResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        // Most calls end without waiting: other tasks get their turn here.
        ready!(pin!(consume_budget()).poll(context));
        if this.over.is_none() && this.stop.poll_unpin(context).is_ready() {
            this.over = Some(Ok(()));
        }
        this.begin_calls(context);
        // Also so that those that have just begun wake this task.
        this.take_ended(context);
        if !this.answers.is_empty() {
            (this.answers_bytes, this.keys) = (0, 0);
            let answers = std::mem::take(&mut this.answers);
            return Poll::Ready(Some(Ok(PipelineResponse { answers })));
        }
        match this.over.take_if(|_| this.under_way.is_empty()) {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(status)) => {
                // Nothing more is said after it.
                this.over = Some(Ok(()));
                Poll::Ready(Some(Err(status)))
            }
            None => Poll::Pending,
        }
    }
}

impl PipelineCaller {
    async fn answer(&self, PipelinedCall { id, request }: PipelinedCall) -> PipelinedAnswer {
        self.metrics.pipelined_calls.inc();
        let answer = match self.call(request).await {
            Ok(answer) => answer,
            Err(problem) => Answer::Refused(self.refusal(problem)),
        };
        PipelinedAnswer { id, answer: Some(answer) }
    }

    async fn call(&self, request: Option<Request>) -> Result<Answer, Problem> {
        let (calls, caller) = (&self.calls, &self.admitted);
        caller.another_call()?;
        let Some(request) = request else {
            let detail = "the call has no request that this server knows";
            return Err(Problem::not_allowed("missing_field", detail));
        };
        // Calls about locks are boxed, so that the others, which end at once, stay small.
        Ok(match request {
            Request::AcquireLock(asked) => Answer::HeldLock(calls.acquire_lock(caller, asked).boxed().await?),
            Request::ExtendLock(asked) => Answer::HeldLock(calls.extend_lock(caller, asked).boxed().await?),
            Request::ReleaseLock(asked) => {
                Answer::ReleaseLock(calls.release_lock(caller, asked).boxed().await?)
            }
            Request::GetLock(asked) => Answer::Lock(calls.get_lock(caller, asked).boxed().await?),
            Request::AskLimit(asked) => Answer::AskLimit(calls.ask_limit(caller, asked).await?),
            Request::PutCached(asked) => Answer::PutCached(calls.put_cached(caller, asked).await?),
            Request::GetCached(asked) => {
                Answer::GetCached(calls.get_cached(caller, &asked, VALUES_BYTES_MAX).await?)
            }
            Request::DeleteCached(asked) => Answer::DeleteCached(calls.delete_cached(caller, &asked).await?),
            Request::Publish(asked) => Answer::Publish(calls.publish(caller, asked).await?),
        })
    }

    fn refusal(&self, problem: Problem) -> CallRefusal {
        if problem.status == 403 {
            let login = self.admitted.name();
            self.metrics.refusals.of_call("Coordination.Pipeline", problem.code, login, self.peer);
        }
        let status = status(&problem).code() as i32;
        CallRefusal { status, code: problem.code.into(), detail: problem.detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordination::MESSAGE_BYTES_MAX;
    use crate::proto::GetCachedRequest;

    #[test]
    fn a_message_takes_memory_for_what_it_is_read_into() {
        let asked = GetCachedRequest { keys: vec![String::new(); 1_000], ..GetCachedRequest::default() };
        let call = PipelinedCall { id: 1, request: Some(Request::GetCached(asked)) };
        let message = PipelineRequest { calls: vec![call; CALLS_PER_MESSAGE_MAX] };
        assert!(message.encoded_len() < MESSAGE_BYTES_MAX, "it is taken");
        assert!(memory_bytes(&message, 0) > 1_000_000 * size_of::<String>());
        let usual = PipelineRequest { calls: message.calls[..1].to_vec() };
        assert!(memory_bytes(&usual, 0) < SMALL_MESSAGE_BYTES, "it keeps none");
        let padded = memory_bytes(&usual, MESSAGE_BYTES_MAX);
        assert!(padded >= MESSAGE_BYTES_MAX, "its values keep what came with them");
    }
}
