//! Live streams: one for each page that somebody looks at, with what that page shows and nothing
//! else, as server-sent events.
//!
//! A stream waits to be woken by what is durable, as followed feeds do, and looks at most ten times
//! a second. It makes a message when the connection takes one: for a slow reader nothing is kept,
//! it is told that it is behind. What is asked for is in [`topic`], what a feed sends in [`feed`],
//! what the table of a page sends in [`visible`].

mod digest;
mod feed;
mod memo;
mod message;
mod moved;
mod position;
mod queue_memo;
mod rows;
mod stream;
#[cfg(test)]
mod tests;
mod topic;
mod visible;

use std::convert::Infallible;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use access::Caller;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use base::Problem;
use engine::followers::live::LIVE_MAX;
use futures_util::stream::unfold;
use net::metrics::LabelCounter;
use net::shares::{SenderKey, SenderShares};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::ApiState;
use crate::authorization::Visibility;
use crate::host::LimitUsage;
use crate::params::Params;
use memo::Memo;
use queue_memo::QueueMemo;
use stream::LiveStream;
use topic::LiveRequest;

pub(crate) use feed::{FeedSource, ListSource, RowLookup};
pub(crate) use rows::{RowPage, RowSource};
pub(crate) use topic::LiveTopic;

/// The content type of a stream.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";
/// Where the reader of a cut stream says what it has.
const LAST_EVENT_ID: &str = "last-event-id";
/// Streams at a time, unless the settings say otherwise.
const STREAMS_DEFAULT: usize = 256;

/// What all streams share.
#[derive(Debug)]
pub(crate) struct LiveStreams {
    limits: OnceLock<LiveLimits>,
    open: AtomicUsize,
    memo: Memo,
    queues: QueueMemo,
    /// All streams look at the same moments, counted from here.
    epoch: Instant,
    streams: Gauge,
    messages: LabelCounter,
    behind: LabelCounter,
}

#[derive(Debug)]
struct LiveLimits {
    streams_max: usize,
    /// Of those the streams of one token, and of one that sees only some of what there is.
    of_token_max: usize,
    of_narrow_token_max: usize,
    of_token: SenderShares,
    of_narrow_token: SenderShares,
    /// Of those the streams of all portals, and of the portals of one client.
    of_portals_max: usize,
    of_client_portals_max: usize,
    of_portals: SenderShares,
    of_client_portals: SenderShares,
}

impl Default for LiveStreams {
    fn default() -> Self {
        Self {
            limits: OnceLock::new(),
            open: AtomicUsize::new(0),
            memo: Memo::default(),
            queues: QueueMemo::default(),
            epoch: Instant::now(),
            streams: Gauge::default(),
            messages: LabelCounter::new("topic"),
            behind: LabelCounter::new("topic"),
        }
    }
}

impl LiveStreams {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("fieldpost_http_live_streams", "Live streams that are open", self.streams.clone());
        let help = "Messages of live streams, by topic";
        self.messages.register(registry, "fieldpost_http_live_messages", help);
        let help = "Times that a live stream left items out because its reader or the feed was too fast";
        self.behind.register(registry, "fieldpost_http_live_behind", help);
    }

    /// So many streams at a time. The first number that is given stays.
    pub(crate) fn allow(&self, streams_max: usize) {
        let _first = self.limits.get_or_init(|| LiveLimits::of(streams_max));
    }

    fn limits(&self) -> &LiveLimits {
        self.limits.get_or_init(|| LiveLimits::of(STREAMS_DEFAULT))
    }

    pub(crate) fn limit(&self) -> LimitUsage {
        let (used, max) = (self.open.load(Ordering::Relaxed), self.limits().streams_max);
        let setting = Some("http.live_max");
        LimitUsage { name: "live streams", used: used as u64, max: max as u64, setting }
    }
}

impl LiveLimits {
    fn of(streams_max: usize) -> Self {
        let streams_max = streams_max.min(LIVE_MAX);
        let (of_token_max, of_narrow_token_max) = (streams_max.div_ceil(2), streams_max.div_ceil(4));
        let (of_portals_max, of_client_portals_max) = (streams_max.div_ceil(2), streams_max.div_ceil(8));
        Self {
            streams_max,
            of_token_max,
            of_narrow_token_max,
            of_token: SenderShares::new(of_token_max),
            of_narrow_token: SenderShares::new(of_narrow_token_max),
            of_portals_max,
            of_client_portals_max,
            of_portals: SenderShares::new(of_portals_max),
            of_client_portals: SenderShares::new(of_client_portals_max),
        }
    }
}

impl LiveLimits {
    /// Of the shares that the caller has, a stream's.
    ///
    /// # Errors
    /// 503 `too_many_live`.
    fn take_shares(
        &self,
        caller: Option<&Caller>,
        whose: &SenderKey,
    ) -> Result<[Option<OwnedSemaphorePermit>; 2], Problem> {
        let take = |shares: &SenderShares, of: &SenderKey, whose: &str, most: usize| {
            shares.of(of).try_take(1).map(Some).ok_or_else(|| too_many(whose, most))
        };
        if let Some(portal) = caller.and_then(Caller::portal) {
            let client = SenderKey::Token(portal.client.as_str().into());
            let (of_all, of_client) = (&self.of_portals, &self.of_client_portals);
            return Ok([
                take(of_client, &client, " of portals of this client", self.of_client_portals_max)?,
                take(of_all, &SenderKey::Unknown, " of portals", self.of_portals_max)?,
            ]);
        }
        let (shares, most) = match (whose, Visibility::of_caller(caller)) {
            (SenderKey::Token(_), Visibility::Everything) => (&self.of_token, self.of_token_max),
            (SenderKey::Token(_), Visibility::ItsOwn) => (&self.of_narrow_token, self.of_narrow_token_max),
            _ => return Ok([None, None]),
        };
        Ok([take(shares, whose, " of this token", most)?, None])
    }
}

fn too_many(whose: &str, most: usize) -> Problem {
    let detail = format!("{most} live streams{whose} are open; close one, or set [http] live_max higher");
    Problem::new(503, "too_many_live", detail)
}

/// A look of a stream at what it shows: at which moment, and for whom.
struct LiveLook<'a> {
    api: &'a ApiState,
    /// The moment's number.
    tick: u64,
    whose: &'a SenderKey,
}

impl LiveLook<'_> {
    /// Runs `read` in its turn, among those of the caller's token.
    ///
    /// # Errors
    /// What `read` says, or `busy`.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.api.shared.follows.enter_as(self.whose)?.run(read).await
    }
}

/// A stream's place among those that may be open.
struct LiveStreamPermit {
    api: ApiState,
    _of_shares: [Option<OwnedSemaphorePermit>; 2],
}

impl LiveStreamPermit {
    /// A place for whoever calls.
    ///
    /// # Errors
    /// 503 `too_many_live`.
    fn take(api: &ApiState, caller: Option<&Caller>, whose: &SenderKey) -> Result<Self, Problem> {
        let (live, limits) = (&api.shared.live, api.shared.live.limits());
        let of_shares = limits.take_shares(caller, whose)?;
        let more = |open: usize| (open < limits.streams_max).then_some(open + 1);
        if live.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_err() {
            return Err(too_many("", limits.streams_max));
        }
        live.streams.inc();
        Ok(Self { api: api.clone(), _of_shares: of_shares })
    }
}

impl Drop for LiveStreamPermit {
    fn drop(&mut self) {
        let live = &self.api.shared.live;
        live.open.fetch_sub(1, Ordering::SeqCst);
        live.streams.dec();
    }
}

/// Opens the stream that is asked for; it goes on behind `last_event_id`, if a stream with the same
/// parameters gave it.
///
/// # Errors
/// What the parameters say, 403 `forbidden`, 503 `too_many_live`, 404 for an unknown device or
/// client.
pub(crate) async fn open(
    api: &ApiState,
    caller: Option<Caller>,
    params: Params,
    last_event_id: Option<&HeaderValue>,
) -> Result<Response, Problem> {
    let (fingerprint, whose) = (params.fingerprint(), params.whose());
    let asked = LiveRequest::read(params)?;
    asked.check_rights(api, caller.as_ref()).await?;
    let permit = LiveStreamPermit::take(api, caller.as_ref(), &whose)?;
    let last = last_event_id.and_then(|id| id.to_str().ok());
    let positions = last.map(|id| position::read(fingerprint, id)).unwrap_or_default();
    // In a box: it moves with every message.
    let stream = Box::new(LiveStream::open(permit, caller, asked, (fingerprint, whose), positions).await?);
    let messages = unfold(stream, async |mut stream| {
        let message = stream.next().await?;
        Some((Ok::<_, Infallible>(message), stream))
    });
    let mut response = Response::new(Body::from_stream(messages));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    // Proxies that gather answers pass this one on as it comes.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

/// The header by which a cut stream goes on.
pub(crate) fn last_event_id(headers: &axum::http::HeaderMap) -> Option<&HeaderValue> {
    headers.get(LAST_EVENT_ID)
}
