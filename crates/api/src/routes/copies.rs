//! `/v1/streams/{ns}/{stream}/copies` and `/receipts`: messages that are given on to other streams
//! or taken from them, and on which nodes a message is durable.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use base::Problem;
use base::limits::STREAM_WAIT_MAX;
use engine::StreamCalls;
use engine::queries::BoundedPage;
use engine::streams::{CopyReport, OwnedExternalId, ReceiptOf, ReceiptStatus, StreamName, is_label};
use net::metrics::Counted;
use net::problem::Refused;
use tokio::time::{Instant, sleep_until};

use super::Routes;
use super::messages::{READERS_MAX, READERS_SHARE};
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::cursor::NameKey;
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::{
    OF_A_COPY, OF_A_READ, OF_A_STREAM, UNKNOWN_COPY, UNKNOWN_MESSAGE, UNKNOWN_NODE, UNKNOWN_STREAM,
};
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::{CopyInPath, StreamInPath, message_id};
use crate::shape::{self, CopyShape, ReceiptShape};

const ALL: &str = "/v1/streams/{ns}/{stream}/copies";
const ONE: &str = "/v1/streams/{ns}/{stream}/copies/{name}";
/// Nodes that a receipt may be asked for.
const NODES_ASKED_MAX: u64 = 1_000;

pub(super) fn routes() -> Routes {
    let listed = of_one("The copies of a stream, in order of name")
        .lists::<CopyShape<'_>>()
        .refuses(&[UNKNOWN_STREAM, (503, "storage_unavailable")]);
    let shown = of_one("A copy, and how far it has come")
        .gives::<CopyShape<'_>>(200, "the copy")
        .refuses(OF_A_READ)
        .refuses(&[UNKNOWN_STREAM, UNKNOWN_COPY, (503, "storage_unavailable")]);
    let put = of_one("Makes a copy, and its stream where that is not there, or changes one")
        .takes(shape::new_copy_schema())
        .gives::<CopyShape<'_>>(201, "it is made")
        .gives::<CopyShape<'_>>(200, "it is changed")
        .refuses(OF_A_COPY)
        .refuses(&[UNKNOWN_NODE]);
    let unknown = [UNKNOWN_STREAM, UNKNOWN_COPY];
    let deleted = of_one("Deletes a copy").gives_nothing(204, "it is gone").refuses(&unknown);
    let paused = of_one("Has a copy rest").gives_nothing(204, "it rests").refuses(&unknown);
    let resumed = of_one("Has a copy go on").gives_nothing(204, "it goes on").refuses(&unknown);
    let receipt = of_one("On which nodes a message is durable")
        .query("id", words::message_id())
        .query("source", words::stream_label())
        .query("external_id", words::external_id())
        .query("nodes", words::whole(1, NODES_ASKED_MAX))
        .query("wait", words::duration())
        .gives::<ReceiptShape<'_>>(200, "those that say so")
        .refuses(OF_A_READ)
        .refuses(&[
            UNKNOWN_STREAM,
            UNKNOWN_MESSAGE,
            (404, "message_gone"),
            (422, "missing_field"),
            (503, "storage_unavailable"),
            (503, "too_many_waiting"),
        ]);
    Routes::default()
        .get(ALL, list, listed)
        .get(ONE, show, shown)
        .put(ONE, put_one, put)
        .delete(ONE, delete, deleted)
        .post("/v1/streams/{ns}/{stream}/copies/{name}/pause", pause, paused)
        .post("/v1/streams/{ns}/{stream}/copies/{name}/resume", resume, resumed)
        .get("/v1/streams/{ns}/{stream}/receipts", receipts, receipt)
}

fn of_one(summary: &'static str) -> Call {
    Call::new(summary).refuses(OF_A_STREAM)
}

/// The copies of a stream, read by a thread that may wait for the store.
struct StreamCopies {
    streams: StreamCalls,
    stream: StreamName,
}

impl List for StreamCopies {
    type Key = NameKey;
    type Found = CopyReport;
    type Shown<'a> = CopyShape<'a>;

    fn look(&self, after: Option<&NameKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let after = after.map(|NameKey(name)| &**name);
        self.streams.copies(&self.stream, after, limit).map(BoundedPage::indexed)
    }

    fn key(copy: &CopyReport) -> NameKey {
        NameKey(copy.row.name.clone())
    }

    fn show(copy: &CopyReport) -> CopyShape<'_> {
        copy.into()
    }
}

async fn list(
    State(api): State<ApiState>,
    StreamInPath(stream): StreamInPath,
    params: Params,
) -> Result<Response, Refused> {
    let page = params.page()?;
    list::answer(&api, page, StreamCopies { streams: api.streams(), stream }).await
}

async fn present(api: &ApiState, stream: StreamName, name: Box<str>) -> Result<CopyReport, Problem> {
    let streams = api.streams();
    api.shared.lookups.run(move || streams.copy(&stream, &name)).await
}

async fn show(
    State(api): State<ApiState>,
    CopyInPath { stream, name }: CopyInPath,
) -> Result<ApiAnswer, Refused> {
    let found = present(&api, stream, name).await?;
    Ok(ApiAnswer::ok(&CopyShape::from(&found)))
}

async fn put_one(
    State(api): State<ApiState>,
    CopyInPath { stream, name }: CopyInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let (new, from) = shape::new_copy(&stream, &name, &body)?;
    let _held = body.into_memory();
    let is_new = api.streams().put_copy(&stream, new, from).await?;
    let found = present(&api, stream, name).await?;
    let shown = CopyShape::from(&found);
    Ok(if is_new { ApiAnswer::created(&shown) } else { ApiAnswer::ok(&shown) })
}

async fn delete(
    State(api): State<ApiState>,
    CopyInPath { stream, name }: CopyInPath,
) -> Result<ApiAnswer, Refused> {
    api.streams().delete_copy(&stream, &name).await?;
    Ok(ApiAnswer::nothing())
}

async fn pause(
    State(api): State<ApiState>,
    CopyInPath { stream, name }: CopyInPath,
) -> Result<ApiAnswer, Refused> {
    api.streams().pause_copy(&stream, &name, true).await?;
    Ok(ApiAnswer::nothing())
}

async fn resume(
    State(api): State<ApiState>,
    CopyInPath { stream, name }: CopyInPath,
) -> Result<ApiAnswer, Refused> {
    api.streams().pause_copy(&stream, &name, false).await?;
    Ok(ApiAnswer::nothing())
}

/// What a receipt is asked of, for how many nodes, and for how long.
fn receipt_asked(params: &mut Params) -> Result<(ReceiptOf, usize, Duration), Problem> {
    let id = params.take("id", "the id of a message: a decimal", message_id)?;
    let label = |text: &str| is_label(text).then(|| Box::from(text));
    let source = params.take("source", "1 to 64 of A-Z a-z 0-9 _ . : and -", label)?;
    let external_id =
        params.take("external_id", "an external id", |text| Some(OwnedExternalId::from_text(text)))?;
    let right = format!("a number from 1 to {NODES_ASKED_MAX}");
    let nodes = params.take("nodes", &right, |text| {
        text.parse().ok().filter(|nodes| (1..=NODES_ASKED_MAX as usize).contains(nodes))
    })?;
    let wait = params.wait(STREAM_WAIT_MAX)?.unwrap_or_default();
    params.end()?;
    let of = match (id, source, external_id) {
        (Some(id), None, None) => ReceiptOf::Id(id),
        (None, Some(source), Some(external_id)) => ReceiptOf::Origin(source, external_id),
        _ => {
            let detail = "say which message: id, or source and external_id";
            return Err(Problem::not_allowed("missing_field", detail));
        }
    };
    Ok((of, nodes.unwrap_or(1), wait))
}

async fn receipts(
    State(api): State<ApiState>,
    StreamInPath(stream): StreamInPath,
    mut params: Params,
) -> Result<ApiAnswer, Refused> {
    let (of, nodes, wait) = receipt_asked(&mut params)?;
    let whose = params.whose();
    let until = Instant::now() + wait;
    // Taken before the look: what changes behind it is told.
    let moved = api.streams().copies_moved();
    let mut told = Box::pin(moved.notified());
    told.as_mut().enable();
    let mut receipt = look(&api, &stream, &of).await?;
    if receipt.durable_on.len() < nodes && !wait.is_zero() {
        let full = || {
            let detail = format!(
                "{READERS_SHARE} readers with this token, or {READERS_MAX} of all, wait already; ask without wait"
            );
            Problem::new(503, "too_many_waiting", detail)
        };
        let _place = api.shared.readers.try_take(&whose, 1).ok_or_else(full)?;
        let _counted = Counted::new(&api.shared.metrics.stream_readers);
        while receipt.durable_on.len() < nodes {
            let streams = api.streams();
            let is_here = !receipt.durable_on.is_empty();
            let over = tokio::select! {
                () = told.as_mut() => false,
                () = streams.saved_message(&stream, receipt.id), if !is_here => false,
                () = sleep_until(until) => true,
                () = api.stopped() => true,
            };
            if over {
                break;
            }
            told = Box::pin(moved.notified());
            told.as_mut().enable();
            receipt = look(&api, &stream, &ReceiptOf::Id(receipt.id)).await?;
        }
    }
    Ok(ApiAnswer::ok(&ReceiptShape::of(&receipt, nodes)))
}

async fn look(api: &ApiState, stream: &StreamName, of: &ReceiptOf) -> Result<ReceiptStatus, Problem> {
    let (streams, stream, of) = (api.streams(), stream.clone(), of.clone());
    api.shared.lookups.run(move || streams.receipt(&stream, &of)).await
}
