//! `/v1/streams/{ns}/{stream}/messages`: appending, and reading from a place on.
//!
//! A page that would be empty may wait for its first message. Whoever waits holds a place among the
//! waiting and nothing else; the engine wakes it when something was appended.

use std::time::Duration;

use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use base::Problem;
use base::limits::{MESSAGE_PAYLOAD_BYTES_MAX, PAGE_ITEMS_DEFAULT, SEGMENTS_PER_READ_MAX, STREAM_WAIT_MAX};
use engine::queues::IdempotencyKey;
use engine::streams::{AppendTerms, OriginPage, StreamName, StreamPage, StreamRead, is_label};
use net::body::{Pieces, is_ndjson};
use net::memory_budget::Reservation;
use net::metrics::Counted;
use net::problem::Refused;
use net::shares::SenderKey;
use tokio::time::{Instant, sleep_until};

use super::Routes;
use crate::ApiState;
use crate::answer::Answer;
use crate::append;
use crate::idempotency::{Creation, refuse_key};
use crate::openapi::refusals::{OF_A_MESSAGE, OF_A_READ, OF_A_STREAM, UNKNOWN_MESSAGE, UNKNOWN_STREAM};
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::{MessageInPath, StreamInPath, message_id};
use crate::reads::Reads;
use crate::shape::{self, AppendedLinesShape, AppendedShape, MessagePageShape, MessageShape, NewMessages};
use crate::transfer;

const MESSAGES: &str = "/v1/streams/{ns}/{stream}/messages";

/// Readers that may wait for a message at a time, of all and of one token or address: as many as
/// may follow feeds.
pub(crate) const READERS_MAX: usize = 1_024;
pub(crate) const READERS_SHARE: usize = 256;

/// A page ends before its messages become heavier than this, in bytes; the largest message fits.
const PAGE_BYTES_MAX: usize = 4 * 1_024 * 1_024;
/// What a message may have besides its payload and headers, about, in bytes.
const MESSAGE_REST_BYTES: usize = 1_024;
/// What a page takes for each of its bytes: as it was read, and as it is sent, in base64 at worst.
const HELD_PER_BYTE: usize = 3;

const _: () = assert!(MESSAGE_PAYLOAD_BYTES_MAX < PAGE_BYTES_MAX, "a page holds the largest message");

pub(super) fn routes() -> Routes {
    let appended = Call::new("Appends a message, or up to 1,000, all or none, or lines one by one")
        .once()
        .query("durable", words::flag())
        .takes(shape::new_messages_schema())
        .takes_lines(&shape::new_message_schema())
        .gives::<AppendedShape>(201, "their ids, in the order of the request")
        .gives::<AppendedLinesShape>(200, "what became of the lines")
        .refuses(OF_A_MESSAGE)
        .refuses(OF_A_STREAM);
    let read = Call::new("Messages of a stream, oldest first")
        .query("after", words::message_id())
        .query("from", words::time())
        .query("segment", words::read_segments())
        .query("limit", words::whole(1, base::limits::PAGE_ITEMS_MAX as u64))
        .query("wait", words::duration())
        .query("origin", words::flag())
        .query("durable", words::flag())
        .query("bytes", words::whole(1, PAGE_BYTES_MAX as u64))
        .gives::<MessagePageShape<'_>>(200, "those behind `after`")
        .refuses(OF_A_STREAM)
        .refuses(OF_A_READ)
        .refuses(&[UNKNOWN_STREAM, (503, "storage_unavailable"), (503, "too_many_waiting")]);
    let shown = Call::new("A message of a stream")
        .gives::<MessageShape<'_>>(200, "the message")
        .refuses(OF_A_STREAM)
        .refuses(OF_A_READ)
        .refuses(&[UNKNOWN_STREAM, UNKNOWN_MESSAGE, (404, "message_gone"), (503, "storage_unavailable")]);
    Routes::default().post(MESSAGES, append, appended).get(MESSAGES, read_page, read).get(
        "/v1/streams/{ns}/{stream}/messages/{id}",
        show,
        shown,
    )
}

async fn append(
    State(api): State<ApiState>,
    StreamInPath(stream): StreamInPath,
    mut params: Params,
    request: Request,
) -> Result<Response, Refused> {
    let is_durable = params.flag("durable")?.unwrap_or_default();
    params.end()?;
    if transfer::is_transfer(request.headers()) {
        return transfer::append(&api, &stream, is_durable, request).await;
    }
    if is_ndjson(request.headers()) {
        refuse_key(
            request.headers(),
            "lines have no Idempotency-Key: give each a source and an external_id",
        )?;
        let whose = SenderKey::of(request.extensions());
        let told = append::take(&api, (&stream, is_durable), &whose, Pieces::of(request.into_body())).await?;
        return Ok(Answer::ok(&told).into_response());
    }
    let creation = Creation::from_request(request, &api).await?;
    let append = |api: ApiState, body: String, once: Option<IdempotencyKey>| async move {
        let NewMessages { messages, expect_last_id } = shape::new_messages(&body)?;
        drop(body);
        let terms = AppendTerms { expect_last_id, is_durable, ..AppendTerms::default() };
        let appended = api.streams().append_once(&stream, messages, terms, once).await?;
        Ok(Answer::created(&AppendedShape::from(&*appended)))
    };
    Ok(creation.once_by_row(&api, append).await?.into_response())
}

/// The weight of a page with so many messages, at most.
fn page_bytes(limit: usize) -> usize {
    PAGE_BYTES_MAX.min(limit * (MESSAGE_PAYLOAD_BYTES_MAX + MESSAGE_REST_BYTES))
}

/// What a reader asks for.
pub(super) struct MessagesAsked {
    stream: StreamName,
    query: StreamRead,
    wait: Duration,
    whose: SenderKey,
    form: PageForm,
}

/// What of messages is shown, and how.
#[derive(Clone, Copy, Debug, Default)]
struct PageForm {
    /// The source and the external id with which a copy gives a message on.
    has_origins: bool,
    /// Those that are durable alone.
    is_durable: bool,
    /// As copies read it.
    is_transfer: bool,
}

impl PageForm {
    fn is_plain(self) -> bool {
        !(self.has_origins || self.is_durable || self.is_transfer)
    }
}

/// A page, and which stream it is of where that was asked for.
enum FoundPage {
    Plain(StreamPage),
    Named(OriginPage),
}

impl FoundPage {
    fn page(&self) -> &StreamPage {
        match self {
            Self::Plain(page) => page,
            Self::Named(named) => &named.page,
        }
    }

    fn skipping(mut self, skipped: u64) -> Self {
        match &mut self {
            Self::Plain(page) => page.skipped = skipped,
            Self::Named(named) => named.page.skipped = skipped,
        }
        self
    }
}

impl MessagesAsked {
    fn read(stream: StreamName, mut params: Params, is_transfer: bool) -> Result<Self, Problem> {
        let right = "the id of a message: a decimal; 0 is before the first";
        let after = params.take("after", right, message_id)?.unwrap_or_default();
        let from = params.time("from")?;
        let segments = params.take("segment", &segments_right(), segments)?.unwrap_or_default();
        let limit = params.limit()?.unwrap_or(PAGE_ITEMS_DEFAULT);
        let wait = params.wait(STREAM_WAIT_MAX)?.unwrap_or_default();
        let form = PageForm {
            has_origins: params.flag("origin")?.unwrap_or_default(),
            is_durable: params.flag("durable")?.unwrap_or_default(),
            is_transfer,
        };
        let right = "a number of bytes, at least 1";
        let bytes = params.take("bytes", right, |text| text.parse().ok().filter(|bytes| *bytes > 0))?;
        params.end()?;
        let bytes_max = page_bytes(limit).min(bytes.unwrap_or(usize::MAX));
        let query = StreamRead { after, from, segments, limit, bytes_max };
        Ok(Self { stream, query, wait, whose: params.whose(), form })
    }

    /// What the reader of a subscription asks for.
    pub(super) fn of_query(
        stream: StreamName,
        query: StreamRead,
        (limit, wait): (usize, Duration),
        whose: SenderKey,
    ) -> Self {
        let query = StreamRead { limit, bytes_max: page_bytes(limit), ..query };
        Self { stream, query, wait, whose, form: PageForm::default() }
    }

    /// Reads a page in its turn among `reads`, with room for it.
    async fn look(&self, api: &ApiState, reads: &Reads) -> Result<(Reservation, FoundPage), Problem> {
        // Whoever waits for room waits among those who wait for their turn.
        let place = reads.enter_as(&self.whose)?;
        // One message is always read, however large.
        let bytes_max = self.query.bytes_max.max(page_bytes(1));
        let held = api.shared.memory_of_pages.take_soon(&self.whose, HELD_PER_BYTE * bytes_max);
        let mut held = held.await?.counted_by(&api.shared.metrics.page_held_bytes);
        let (streams, stream, query) = (api.streams(), self.stream.clone(), self.query.clone());
        let form = self.form;
        let read = move || match form {
            form if form.is_plain() => streams.read(&stream, &query).map(FoundPage::Plain),
            PageForm { is_durable: true, .. } => streams.durable_page(&stream, &query).map(FoundPage::Named),
            _ => streams.origin_page(&stream, &query).map(FoundPage::Named),
        };
        let page = place.run(read).await?;
        let bytes: usize = page.page().items.iter().map(|item| item.bytes() + MESSAGE_REST_BYTES).sum();
        held.shrink((HELD_PER_BYTE * bytes).min(HELD_PER_BYTE * bytes_max));
        Ok((held, page))
    }

    /// The first page that has something, or the last one when the wait is over. Each look goes on
    /// behind what the one before left out.
    async fn first_page(
        mut self,
        api: &ApiState,
        mut page: FoundPage,
        until: Instant,
    ) -> Result<(Option<Reservation>, FoundPage), Problem> {
        let full = || {
            let detail = format!(
                "{READERS_SHARE} readers with this token, or {READERS_MAX} of all, wait already; ask without wait"
            );
            Problem::new(503, "too_many_waiting", detail)
        };
        let _place = api.shared.readers.try_take(&self.whose, 1).ok_or_else(full)?;
        let _counted = Counted::new(&api.shared.metrics.stream_readers);
        let (streams, mut skipped) = (api.streams(), page.page().skipped);
        loop {
            let (next_after, is_end) = (page.page().next_after, page.page().is_end);
            self.query.after = next_after;
            if is_end {
                let over = tokio::select! {
                    () = streams.saved(&self.stream, next_after), if self.form.is_durable => false,
                    () = streams.appended(&self.stream, next_after), if !self.form.is_durable => false,
                    () = sleep_until(until) => true,
                    () = api.stopped() => true,
                };
                if over {
                    return Ok((None, page.skipping(skipped)));
                }
            } else if Instant::now() >= until {
                return Ok((None, page.skipping(skipped)));
            }
            let (held, next) = match self.look(api, &api.shared.follows).await {
                Ok(looked) => looked,
                // Whoever waits is not refused for want of a turn: it asks again from where it is.
                Err(problem) if problem.code == "busy" => {
                    return Ok((None, page.skipping(skipped)));
                }
                Err(problem) => return Err(problem),
            };
            skipped += next.page().skipped;
            page = next;
            if !page.page().items.is_empty() {
                return Ok((Some(held), page.skipping(skipped)));
            }
        }
    }
}

async fn read_page(
    State(api): State<ApiState>,
    StreamInPath(stream): StreamInPath,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Refused> {
    let asked = MessagesAsked::read(stream, params, transfer::is_wanted(&headers))?;
    answer(&api, asked).await
}

/// A page, with a wait for its first message.
pub(super) async fn answer(api: &ApiState, asked: MessagesAsked) -> Result<Response, Refused> {
    let until = Instant::now() + asked.wait;
    let (held, page) = asked.look(api, &api.shared.messages).await?;
    let form = asked.form;
    if !page.page().items.is_empty() || asked.wait.is_zero() {
        return Ok(sent(Some(held), page, form));
    }
    drop(held);
    // In a box: most readers do not wait.
    let (held, page) = Box::pin(asked.first_page(api, page, until)).await?;
    Ok(sent(held, page, form))
}

fn sent(held: Option<Reservation>, page: FoundPage, form: PageForm) -> Response {
    let json = |page: &StreamPage| Answer::ok_json(shape::page_json(page)).into_response();
    let response = match page {
        FoundPage::Plain(page) => json(&page),
        FoundPage::Named(named) if form.is_transfer => transfer::page(&named),
        FoundPage::Named(named) => {
            let shown = named.clone();
            let mut response = if form.has_origins { json(&shown.with_origins()) } else { json(&named.page) };
            transfer::name_page(&mut response, &named);
            response
        }
    };
    match held {
        Some(held) => held.until_sent(response),
        None => response,
    }
}

fn segments_right() -> String {
    format!("1 to {SEGMENTS_PER_READ_MAX} segments with commas between them, each of A-Z a-z 0-9 _ . : and -")
}

fn segments(text: &str) -> Option<Vec<Box<str>>> {
    let segments: Vec<_> = text.split(',').take(SEGMENTS_PER_READ_MAX + 1).collect();
    let fit = segments.len() <= SEGMENTS_PER_READ_MAX && segments.iter().all(|segment| is_label(segment));
    fit.then(|| segments.into_iter().map(Box::from).collect())
}

async fn show(
    State(api): State<ApiState>,
    MessageInPath { stream, id }: MessageInPath,
) -> Result<Answer, Refused> {
    let streams = api.streams();
    let message = api.shared.lookups.run(move || streams.message(&stream, id)).await?;
    Ok(Answer::ok(&MessageShape::from(&message)))
}
