//! A read of a stream: page by page, as the caller takes them, and on at the end if it follows.
//!
//! Nothing is made ahead: a page is read once the connection has taken the one before.

use base::Problem;
use base::limits::{MESSAGE_PAYLOAD_BYTES_MAX, SEGMENTS_PER_READ_MAX};
use engine::streams::{OwnedMessage, StreamName, StreamPage, StreamRead, SubscriptionHold, is_label};
use futures_util::{Stream, stream};
use net::memory_budget::MemoryReservation;
use net::metrics::Counted;
use net::shares::{SenderKey, Taken};
use tonic::Status;

use crate::answers_in_flight::AnswersInFlight;
use crate::proto::stream_message::Payload;
use crate::proto::{ReadRequest, ReadResponse, StreamMessage};
use crate::status::status;
use crate::stopping::StopSignal;
use crate::store_reads::StoreReads;
use crate::time::{moment, read_moment};

/// Messages that are read at a time, and about how heavy they may be together, in bytes.
const MESSAGES_PER_PAGE: usize = 500;
const PAGE_BYTES: usize = 256 * 1_024;

/// What a page takes at most while it is made: one message may be all of it.
const PAGE_HELD_BYTES: usize = 2 * (MESSAGE_PAYLOAD_BYTES_MAX + PAGE_BYTES);

const _: () = assert!(PAGE_BYTES < MESSAGE_PAYLOAD_BYTES_MAX, "the largest message is a page of its own");

/// A read that goes on.
pub(super) struct StreamPager {
    pub(super) streams: engine::StreamCalls,
    pub(super) stream: StreamName,
    pub(super) query: StreamRead,
    pub(super) follows: bool,
    pub(super) sender: SenderKey,
    pub(super) reads: StoreReads,
    pub(super) stop: StopSignal,
    pub(super) is_at_end: bool,
    /// Has the memory of pages until the connection has sent them.
    pub(super) in_flight: AnswersInFlight,
    /// Held as long as it lasts.
    pub(super) _place: (Taken, Counted, Option<SubscriptionHold>),
}

/// What a request asks for.
///
/// # Errors
/// `invalid_name`, `invalid_time` or `too_many_segments`.
pub(super) fn query(request: &ReadRequest) -> Result<StreamRead, Problem> {
    let ReadRequest { after, from, segments, .. } = request;
    if segments.len() > SEGMENTS_PER_READ_MAX || segments.iter().any(|segment| !is_label(segment)) {
        let detail =
            format!("segments must be up to {SEGMENTS_PER_READ_MAX}, each of A-Z a-z 0-9 _ . : and -");
        return Err(Problem::not_allowed("invalid_name", detail));
    }
    Ok(StreamRead {
        after: *after,
        from: from.as_ref().map(|from| read_moment("from", from)).transpose()?,
        segments: segments.iter().map(|segment| segment.as_str().into()).collect(),
        limit: MESSAGES_PER_PAGE,
        bytes_max: PAGE_BYTES,
    })
}

impl StreamPager {
    /// Page after page, until the end or a refusal.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<ReadResponse, Status>> {
        stream::unfold(Some(self), |reader| async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(Some(page)) => Some((Ok(page), Some(reader))),
                Ok(None) => None,
                Err(problem) => Some((Err(status(&problem)), None)),
            }
        })
    }

    /// The next page that has something; `None` at the end, and when the server stops.
    async fn next(&mut self) -> Result<Option<ReadResponse>, Problem> {
        loop {
            let mut stop = self.stop.clone();
            let page = tokio::select! {
                page = self.look() => page?,
                () = stop.stopping() => return Ok(None),
            };
            let Some((page, held)) = page else { return Ok(None) };
            if !page.items.is_empty() || page.skipped > 0 {
                self.in_flight.give(held);
                return Ok(Some(response(page)));
            }
        }
    }

    /// Reads on, once there may be something: a page, and its memory. A reader has its place
    /// already, so it waits for its turn however many read.
    async fn look(&mut self) -> Result<Option<(StreamPage, MemoryReservation)>, Problem> {
        if self.is_at_end {
            if !self.follows {
                return Ok(None);
            }
            self.streams.appended(&self.stream, self.query.after).await;
        }
        let (streams, stream, query) = (self.streams.clone(), self.stream.clone(), self.query.clone());
        let read = move || streams.read(&stream, &query);
        let (page, mut held) = self.reads.run_with_memory(&self.sender, PAGE_HELD_BYTES, read).await?;
        // It is copied into what is sent, and gone.
        held.shrink(page.items.iter().map(OwnedMessage::bytes).sum::<usize>());
        (self.query.after, self.is_at_end) = (page.next_after, page.is_end);
        Ok(Some((page, held)))
    }
}

fn response(page: StreamPage) -> ReadResponse {
    let StreamPage { items, next_after, skipped, .. } = page;
    ReadResponse { messages: items.into_iter().map(message).collect(), next_after, skipped }
}

fn message(message: OwnedMessage) -> StreamMessage {
    let bytes = bytes::Bytes::copy_from_slice(&message.payload);
    let text = |text: Option<Box<str>>| text.map(String::from).unwrap_or_default();
    StreamMessage {
        id: message.id,
        ts: Some(moment(message.ts)),
        payload: Some(if message.is_json { Payload::Json(bytes) } else { Payload::Data(bytes) }),
        source: text(message.source),
        external_id: message.external_id.map(|id| id.to_string()).unwrap_or_default(),
        segment: text(message.segment),
        headers: message.headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
    }
}
