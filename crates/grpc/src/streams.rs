//! The service `Streams`: batches are appended in turn, and messages are read for as long as the
//! caller takes them.

mod appending;
mod new_message;
mod reading;
mod subscription;

use std::pin::Pin;
use std::sync::Arc;

use access::{RequestedAction, StreamRights};
use base::Problem;
use engine::Engine;
use engine::streams::{StreamName, StreamRead, SubscriptionHold};
use futures_util::{Stream, stream};
use net::memory_budget::{MemoryBudget, MemoryPart, Purpose};
use net::metrics::Counted;
use net::shares::{SenderKey, SharedPool};
use tonic::{Request, Response, Status, Streaming};

use crate::answers_in_flight::AnswersInFlight;
use crate::callers::{caller, caller_sender_and_message};
use crate::metrics::GrpcMetrics;
use crate::proto::{self, streams_server};
use crate::receiving::{CallMessages, give_back};
use crate::sent_ahead::SentAhead;
use crate::status::status;
use crate::stopping::StopSignal;
use crate::store_reads::StoreReads;
use appending::Appending;
use reading::StreamPager;

/// Reads of all callers, and of one.
const READERS_MAX: usize = 256;
const READERS_OF_SENDER_MAX: usize = 64;

/// The calls about streams.
pub(crate) struct StreamsService {
    streams: engine::StreamCalls,
    reads: StoreReads,
    stop: StopSignal,
    readers: Arc<SharedPool>,
    /// Memory for messages that are not durable yet.
    appends: MemoryPart,
    metrics: GrpcMetrics,
}

impl StreamsService {
    pub(crate) fn new(
        engine: &Engine,
        (reads, memory): (StoreReads, &MemoryBudget),
        stop: StopSignal,
        metrics: &GrpcMetrics,
    ) -> Self {
        let readers = Arc::new(SharedPool::new(READERS_MAX, READERS_OF_SENDER_MAX));
        let (streams, appends) = (engine.streams(), memory.part(Purpose::Lines));
        Self { streams, reads, stop, readers, appends, metrics: metrics.clone() }
    }

    async fn reader(&self, sender: &SenderKey, request: &proto::ReadRequest) -> Result<StreamPager, Problem> {
        let full = || {
            let detail = format!(
                "{READERS_OF_SENDER_MAX} reads of this caller, or {READERS_MAX} of all, are under way"
            );
            Problem::new(503, "too_many_waiting", detail)
        };
        let place = self.readers.try_take(sender, 1).ok_or_else(full)?;
        let counted = Counted::new(&self.metrics.stream_readers);
        let stream = StreamName::new(&request.namespace, &request.stream)?;
        let (query, hold) = self.place(sender, &stream, request).await?;
        let (reads, of_reads) = (self.reads.clone(), sender.clone());
        let reader = StreamPager {
            streams: self.streams.clone(),
            stream,
            query,
            follows: request.follow,
            sender: sender.clone(),
            reads: self.reads.clone(),
            stop: self.stop.clone(),
            is_at_end: false,
            in_flight: AnswersInFlight::new(move || reads.is_memory_wanted(&of_reads)),
            _place: (place, counted, hold),
        };
        Ok(reader)
    }
}

impl StreamsService {
    /// Where a read begins, and the hold of a subscription's reader.
    async fn place(
        &self,
        sender: &SenderKey,
        stream: &StreamName,
        request: &proto::ReadRequest,
    ) -> Result<(StreamRead, Option<SubscriptionHold>), Problem> {
        let query = reading::query(request)?;
        let Some(read) = subscription::read(request)? else { return Ok((query, None)) };
        let (streams, stream) = (self.streams.clone(), stream.clone());
        let begin = move || streams.read_on(&stream, &read);
        let (hold, own) = self.reads.run_when_free(sender, begin).await?;
        let query = StreamRead { limit: query.limit, bytes_max: query.bytes_max, ..own };
        Ok((query, Some(hold)))
    }
}

#[tonic::async_trait]
impl streams_server::Streams for StreamsService {
    type AppendStream = Pin<Box<dyn Stream<Item = Result<proto::AppendResponse, Status>> + Send>>;

    async fn append(
        &self,
        request: Request<Streaming<proto::AppendRequest>>,
    ) -> Result<Response<Self::AppendStream>, Status> {
        let request = CallMessages::of(request, crate::MESSAGE_BYTES_MAX);
        let (caller, sender, batches) = caller_sender_and_message(request)?;
        caller.may_append().map_err(|problem| status(&problem))?;
        let memory = SentAhead::that_waits(self.appends.clone(), sender);
        let answers = memory.answers(batches.memory_wanted());
        let engine = (self.streams.clone(), memory);
        let appending = Appending::new(caller, batches, engine, self.stop.clone());
        Ok(answers.response(Box::pin(stream::unfold(appending, Appending::next))))
    }

    type ReadStream = Pin<Box<dyn Stream<Item = Result<proto::ReadResponse, Status>> + Send>>;

    async fn read(&self, request: Request<proto::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let action = RequestedAction::Stream { namespace: &request.namespace, right: StreamRights::Read };
        caller.may(action).map_err(|problem| status(&problem))?;
        if !request.subscription.is_empty() {
            subscription::may_subscribe(&caller, &request.namespace).map_err(|problem| status(&problem))?;
        }
        // A subscription waits for its turn to read.
        give_back();
        let reader = self.reader(&sender, &request).await.map_err(|problem| status(&problem))?;
        let in_flight = reader.in_flight.clone();
        Ok(in_flight.response(Box::pin(reader.into_stream())))
    }

    async fn commit(
        &self,
        request: Request<proto::CommitRequest>,
    ) -> Result<Response<proto::CommitResponse>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        let committed = async {
            subscription::may_subscribe(&caller, &request.namespace)?;
            let stream = StreamName::new(&request.namespace, &request.stream)?;
            self.streams.commit(&stream, subscription::commit(request)).await
        };
        committed.await.map_err(|problem| status(&problem))?;
        Ok(Response::new(proto::CommitResponse {}))
    }
}
