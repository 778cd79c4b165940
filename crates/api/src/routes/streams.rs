//! `/v1/streams`: which there are, how they stand, what they are set to, and their blocks.

use std::ops::Bound;

use access::{Caller, Scope};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use base::Problem;
use engine::StreamCalls;
use engine::queries::BoundedPage;
use engine::streams::{BlockStatus, HandlerStatus, StreamList, StreamName, StreamStatus};
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::authorization::VisibleStreams;
use crate::body::Text;
use crate::cursor::{NumberKey, StreamKey};
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::{OF_A_READ, OF_A_STREAM, UNKNOWN_STREAM};
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::StreamInPath;
use crate::shape::{self, BlockShape, HandlerShape, StreamShape};

const STREAM: &str = "/v1/streams/{ns}/{stream}";

pub(super) fn routes() -> Routes {
    let listed = Call::new("Streams, those that the caller may read, in order of namespace and name")
        .query("namespace", words::queue_name())
        .lists::<StreamShape<'_>>();
    let shown = of_one("A stream")
        .gives::<StreamShape<'_>>(200, "the stream")
        .refuses(OF_A_READ)
        .refuses(&[UNKNOWN_STREAM]);
    let deleted = of_one("Deletes a stream with its messages and settings")
        .gives_nothing(204, "it is gone")
        .refuses(&[UNKNOWN_STREAM]);
    let set = of_one("Sets a stream, which it makes if it is not there; what is left out takes its default")
        .takes(shape::stream_settings_schema())
        .gives_nothing(204, "it is set, and they are in force")
        .refuses(&[
            (422, "invalid_duration"),
            (422, "invalid_number"),
            (422, "invalid_settings"),
            (422, "invalid_size"),
            (422, "missing_field"),
            (422, "unknown_storage"),
            (422, "unknown_word"),
            (429, "too_many_streams"),
        ]);
    let blocks =
        of_one("The blocks of a stream, oldest first").lists::<BlockShape<'_>>().refuses(&[UNKNOWN_STREAM]);
    let handlers = of_one("What the server does with the blocks of a stream by itself")
        .lists::<HandlerShape<'_>>()
        .refuses(&[UNKNOWN_STREAM]);
    Routes::default()
        .get("/v1/streams", list, listed)
        .get(STREAM, show, shown)
        .delete(STREAM, delete, deleted)
        .put("/v1/streams/{ns}/{stream}/settings", set_settings, set)
        .get("/v1/streams/{ns}/{stream}/blocks", list_blocks, blocks)
        .get("/v1/streams/{ns}/{stream}/handlers", list_handlers, handlers)
}

fn of_one(summary: &'static str) -> Call {
    Call::new(summary).refuses(OF_A_STREAM)
}

/// Streams, read by a thread that may wait for the store.
struct ListedStreams {
    streams: StreamCalls,
    visible: VisibleStreams,
}

impl List for ListedStreams {
    type Key = StreamKey;
    type Found = StreamStatus;
    type Shown<'a> = StreamShape<'a>;

    fn look(&self, after: Option<&StreamKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let after = after.map(|StreamKey(name)| name.clone());
        let of = |namespace: Option<Box<str>>, limit| {
            self.streams.list(&StreamList { namespace, after: after.clone(), limit })
        };
        let found = match &self.visible {
            VisibleStreams::Everything => of(None, limit)?,
            VisibleStreams::OfNamespaces(own) => {
                let first = after.as_ref().map_or("", StreamName::namespace);
                let mut found = Vec::new();
                for namespace in own.range::<str, _>((Bound::Included(first), Bound::Unbounded)) {
                    found.extend(of(Some(namespace.as_str().into()), limit - found.len())?);
                    if found.len() == limit {
                        break;
                    }
                }
                found
            }
        };
        Ok(BoundedPage::indexed(found))
    }

    fn key(stream: &StreamStatus) -> StreamKey {
        StreamKey(stream.name.clone())
    }

    fn show(stream: &StreamStatus) -> StreamShape<'_> {
        stream.into()
    }
}

async fn list(
    State(api): State<ApiState>,
    visible: VisibleStreams,
    mut params: Params,
) -> Result<Response, Refused> {
    let namespace = params.namespace()?;
    let page = params.page()?;
    let list = ListedStreams { streams: api.streams(), visible: visible.within(namespace) };
    list::answer(&api, page, list).await
}

async fn show(State(api): State<ApiState>, StreamInPath(stream): StreamInPath) -> Result<ApiAnswer, Refused> {
    let streams = api.streams();
    let stream = api.shared.lookups.run(move || streams.stream(&stream)).await?;
    Ok(ApiAnswer::ok(&StreamShape::from(&stream)))
}

async fn set_settings(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    StreamInPath(stream): StreamInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    may_change(&api, caller.as_ref(), &stream)?;
    api.streams().put_settings(&stream, shape::stream_settings(&body)?).await?;
    Ok(ApiAnswer::nothing())
}

/// A stream that gathers reports holds them up where it takes none: that is for an admin to decide.
fn may_change(
    api: &ApiState,
    caller: Option<&Extension<Caller>>,
    stream: &StreamName,
) -> Result<(), Problem> {
    let is_admin = |Extension(caller): &Extension<Caller>| caller.scopes().contains(&Scope::Admin);
    match caller.filter(|caller| !is_admin(caller) && api.streams().gathers_reports(stream)) {
        Some(Extension(caller)) => Err(caller.may_not("admin: the stream gathers reports for a copy")),
        None => Ok(()),
    }
}

async fn delete(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    StreamInPath(stream): StreamInPath,
) -> Result<ApiAnswer, Refused> {
    may_change(&api, caller.as_ref(), &stream)?;
    api.streams().delete(&stream).await?;
    Ok(ApiAnswer::nothing())
}

/// The blocks of a stream, read by a thread that may wait for the store.
struct StreamBlocks {
    streams: StreamCalls,
    stream: StreamName,
}

impl List for StreamBlocks {
    type Key = NumberKey;
    type Found = BlockStatus;
    type Shown<'a> = BlockShape<'a>;

    fn look(&self, after: Option<&NumberKey>, limit: usize, _: usize) -> PageOfList<Self> {
        self.streams
            .blocks(&self.stream, after.map(|NumberKey(first)| *first), limit)
            .map(BoundedPage::indexed)
    }

    fn key(block: &BlockStatus) -> NumberKey {
        NumberKey(block.first_id)
    }

    fn show(block: &BlockStatus) -> BlockShape<'_> {
        block.into()
    }
}

async fn list_blocks(
    State(api): State<ApiState>,
    StreamInPath(stream): StreamInPath,
    params: Params,
) -> Result<Response, Refused> {
    let page = params.page()?;
    list::answer(&api, page, StreamBlocks { streams: api.streams(), stream }).await
}

/// The handlers of a stream, in their order.
struct HandlerList {
    streams: StreamCalls,
    stream: StreamName,
}

impl List for HandlerList {
    type Key = NumberKey;
    type Found = (u64, HandlerStatus);
    type Shown<'a> = HandlerShape<'a>;

    fn look(&self, after: Option<&NumberKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let from = after.map_or(0, |NumberKey(place)| place.saturating_add(1));
        let all = (0..).zip(self.streams.handlers(&self.stream)?);
        Ok(BoundedPage::indexed(all.filter(|(place, _)| *place >= from).take(limit).collect()))
    }

    fn key((place, _): &Self::Found) -> NumberKey {
        NumberKey(*place)
    }

    fn show((_, handler): &Self::Found) -> HandlerShape<'_> {
        handler.into()
    }
}

async fn list_handlers(
    State(api): State<ApiState>,
    StreamInPath(stream): StreamInPath,
    params: Params,
) -> Result<Response, Refused> {
    let page = params.page()?;
    list::answer(&api, page, HandlerList { streams: api.streams(), stream }).await
}
