//! `/v1/streams/{ns}/{stream}/messages`: appending, and reading from a place on.
//!
//! A page that would be empty may wait for its first message. Whoever waits holds a place among the
//! waiting and nothing else; the engine wakes it when something was appended.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use base::Problem;
use base::limits::{MESSAGE_PAYLOAD_BYTES_MAX, PAGE_ITEMS_DEFAULT, SEGMENTS_PER_READ_MAX, STREAM_WAIT_MAX};
use engine::queues::IdempotencyKey;
use engine::streams::{AppendTerms, OriginPage, StreamName, StreamPage, StreamRead, is_label};
use net::body::{BodyPieces, is_ndjson};
use net::memory_budget::MemoryReservation;
use net::metrics::Counted;
use net::problem::Refused;
use net::shares::SenderKey;
use tokio::time::{Instant, sleep_until};

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::append;
use crate::body::Text;
use crate::compression;
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
        .refuses(OF_A_STREAM)
        .refusals_tell(&[400, 408, 409, 422, 429, 503], shape::lines_before_schema());
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
        let body = BodyPieces::of(request.into_body());
        let taken = append::take(&api, (&stream, is_durable), &whose, body).await;
        return Ok(taken.map_or_else(|cut| cut.into_response(), |told| ApiAnswer::ok(&told).into_response()));
    }
    let creation = Creation::from_request(request, &api).await?;
    let append = |api: ApiState, body: Text, idempotency: Option<IdempotencyKey>| async move {
        let NewMessages { messages, expect_last_id } = shape::new_messages(&body)?;
        let _held = body.into_memory();
        let terms = AppendTerms { expect_last_id, is_durable, ..AppendTerms::default() };
        let appended = api.streams().append_once(&stream, messages, terms, idempotency).await?;
        Ok(ApiAnswer::created(&AppendedShape::from(&*appended)))
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
    /// Whether its caller takes gzip. Copies get messages as they lie.
    takes_gzip: bool,
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

    fn page_mut(&mut self) -> &mut StreamPage {
        match self {
            Self::Plain(page) => page,
            Self::Named(named) => &mut named.page,
        }
    }

    /// As JSON, in this form.
    fn json(&self, form: PageForm) -> Bytes {
        let json = match self {
            Self::Named(named) if form.has_origins => shape::page_json(&named.clone().with_origins()),
            found => shape::page_json(found.page()),
        };
        json.into()
    }
}

/// What is sent of a page, and whether that is compressed.
struct PageBody(Bytes, bool);

/// A page that was read. What goes out as gzip is made where it was read, and then its messages are
/// let go.
struct ReadPage {
    found: FoundPage,
    /// Of its messages, as they were read.
    bytes: usize,
    is_empty: bool,
    body: Option<PageBody>,
}

impl ReadPage {
    fn of(mut found: FoundPage, form: PageForm, takes_gzip: bool) -> Self {
        let items = &found.page().items;
        let bytes: usize = items.iter().map(|item| item.bytes() + MESSAGE_REST_BYTES).sum();
        let is_empty = items.is_empty();
        let body = (takes_gzip && !is_empty).then(|| {
            let plain = found.json(form);
            found.page_mut().items = Vec::new();
            match compression::page(&plain) {
                Some(compressed) => PageBody(compressed, true),
                None => PageBody(plain, false),
            }
        });
        Self { found, bytes, is_empty, body }
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
        let takes_gzip = params.takes_gzip() && !is_transfer;
        Ok(Self { stream, query, wait, whose: params.whose(), form, takes_gzip })
    }

    /// What the reader of a subscription asks for.
    pub(super) fn of_query(
        stream: StreamName,
        query: StreamRead,
        (limit, wait): (usize, Duration),
        params: &Params,
    ) -> Self {
        let query = StreamRead { limit, bytes_max: page_bytes(limit), ..query };
        let (whose, takes_gzip) = (params.whose(), params.takes_gzip());
        Self { stream, query, wait, whose, form: PageForm::default(), takes_gzip }
    }

    /// Reads a page in its turn among `reads`, with room for it. So many messages were `skipped` by
    /// the looks before.
    async fn look(
        &self,
        api: &ApiState,
        reads: &Reads,
        skipped: u64,
    ) -> Result<(MemoryReservation, ReadPage), Problem> {
        // Whoever waits for room waits among those who wait for their turn.
        let place = reads.enter_as(&self.whose)?;
        // One message is always read, however large.
        let bytes_max = self.query.bytes_max.max(page_bytes(1));
        let held = api.shared.memory_of_pages.take_soon(&self.whose, HELD_PER_BYTE * bytes_max);
        let mut held = held.await?.counted_by(&api.shared.metrics.page_held_bytes);
        let (streams, stream, query) = (api.streams(), self.stream.clone(), self.query.clone());
        let (form, takes_gzip) = (self.form, self.takes_gzip);
        let read = move || {
            let mut found = match form {
                form if form.is_plain() => FoundPage::Plain(streams.read(&stream, &query)?),
                PageForm { is_durable: true, .. } => FoundPage::Named(streams.durable_page(&stream, &query)?),
                _ => FoundPage::Named(streams.origin_page(&stream, &query)?),
            };
            found.page_mut().skipped += skipped;
            Ok(ReadPage::of(found, form, takes_gzip))
        };
        let page = place.run(read).await?;
        held.shrink((HELD_PER_BYTE * page.bytes).min(HELD_PER_BYTE * bytes_max));
        Ok((held, page))
    }

    /// The first page that has something, or the last one when the wait is over. Each look goes on
    /// behind what the one before left out.
    async fn first_page(
        mut self,
        api: &ApiState,
        mut page: ReadPage,
        until: Instant,
    ) -> Result<(Option<MemoryReservation>, ReadPage), Problem> {
        let full = || {
            let detail = format!(
                "{READERS_SHARE} readers with this token, or {READERS_MAX} of all, wait already; ask without wait"
            );
            Problem::new(503, "too_many_waiting", detail)
        };
        let _place = api.shared.readers.try_take(&self.whose, 1).ok_or_else(full)?;
        let _counted = Counted::new(&api.shared.metrics.stream_readers);
        let streams = api.streams();
        loop {
            let StreamPage { next_after, is_end, skipped, .. } = *page.found.page();
            self.query.after = next_after;
            if is_end {
                let over = tokio::select! {
                    () = streams.saved(&self.stream, next_after), if self.form.is_durable => false,
                    () = streams.appended(&self.stream, next_after), if !self.form.is_durable => false,
                    () = sleep_until(until) => true,
                    () = api.stopped() => true,
                };
                if over {
                    return Ok((None, page));
                }
            } else if Instant::now() >= until {
                return Ok((None, page));
            }
            let (held, next) = match self.look(api, &api.shared.follows, skipped).await {
                Ok(looked) => looked,
                // Whoever waits is not refused for want of a turn: it asks again from where it is.
                Err(problem) if problem.code == "busy" => return Ok((None, page)),
                Err(problem) => return Err(problem),
            };
            page = next;
            if !page.is_empty {
                return Ok((Some(held), page));
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
    let (held, page) = asked.look(api, &api.shared.messages, 0).await?;
    let form = asked.form;
    if !page.is_empty || asked.wait.is_zero() {
        return Ok(sent(Some(held), page, form));
    }
    drop(held);
    // In a box: most readers do not wait.
    let (held, page) = Box::pin(asked.first_page(api, page, until)).await?;
    Ok(sent(held, page, form))
}

fn sent(held: Option<MemoryReservation>, page: ReadPage, form: PageForm) -> Response {
    let ReadPage { found, body, .. } = page;
    let response = match &found {
        FoundPage::Named(named) if form.is_transfer => transfer::page(named),
        found => {
            let PageBody(json, is_compressed) = body.unwrap_or_else(|| PageBody(found.json(form), false));
            let mut response = ApiAnswer::ok_json(json).into_response();
            compression::set_headers(response.headers_mut(), is_compressed);
            if let FoundPage::Named(named) = found {
                transfer::name_page(&mut response, named);
            }
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
) -> Result<ApiAnswer, Refused> {
    let streams = api.streams();
    let message = api.shared.lookups.run(move || streams.message(&stream, id)).await?;
    Ok(ApiAnswer::ok(&MessageShape::from(&message)))
}
