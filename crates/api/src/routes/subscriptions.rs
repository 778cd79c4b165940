//! `/v1/streams/{ns}/{stream}/subscriptions`: readers whose place the server keeps, and receivers
//! to which it posts.

use axum::extract::State;
use axum::response::Response;
use base::Problem;
use engine::StreamCalls;
use engine::queries::BoundedPage;
use engine::streams::{StreamName, SubscriptionStatus};
use net::problem::Refused;

use super::Routes;
use super::messages::{MessagesAsked, answer};
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::cursor::NameKey;
use crate::list::{self, List, PageOfList};
use crate::openapi::Call;
use crate::openapi::refusals::{
    OF_A_READ, OF_A_STREAM, OF_A_SUBSCRIPTION, UNKNOWN_MESSAGE, UNKNOWN_STREAM, UNKNOWN_SUBSCRIPTION,
};
use crate::params::Params;
use crate::path::{StreamInPath, SubscriptionInPath};
use crate::shape::{self, MessagePageShape, SubscriptionShape};

const ALL: &str = "/v1/streams/{ns}/{stream}/subscriptions";
const ONE: &str = "/v1/streams/{ns}/{stream}/subscriptions/{name}";

pub(super) fn routes() -> Routes {
    let listed = of_one("The subscriptions of a stream, in order of name")
        .lists::<SubscriptionShape<'_>>()
        .refuses(&[UNKNOWN_STREAM, (503, "storage_unavailable")]);
    let shown = of_one("A subscription, and how far it is behind")
        .gives::<SubscriptionShape<'_>>(200, "the subscription")
        .refuses(OF_A_READ)
        .refuses(&[UNKNOWN_STREAM, UNKNOWN_SUBSCRIPTION, (503, "storage_unavailable")]);
    let put = of_one("Makes a subscription, and its stream where that is not there, or changes one")
        .may_take(shape::new_subscription_schema())
        .gives::<SubscriptionShape<'_>>(201, "it is made; a secret that was made is shown here only")
        .gives::<SubscriptionShape<'_>>(200, "it is changed; a secret that was made is shown here only")
        .refuses(OF_A_SUBSCRIPTION);
    let deleted = of_one("Deletes a subscription")
        .gives_nothing(204, "it is gone")
        .refuses(&[UNKNOWN_STREAM, UNKNOWN_SUBSCRIPTION]);
    let read = of_one("Messages behind the position, for one reader at a time")
        .takes(shape::subscription_read_schema())
        .gives::<MessagePageShape<'_>>(200, "the messages; none where the wait was over")
        .refuses(OF_A_READ)
        .refuses(&[
            UNKNOWN_STREAM,
            UNKNOWN_SUBSCRIPTION,
            (409, "subscription_busy"),
            (422, "invalid_duration"),
            (422, "invalid_number"),
            (422, "invalid_ttl"),
            (422, "missing_field"),
            (503, "storage_unavailable"),
            (503, "too_many_waiting"),
        ]);
    let committed = of_one("Says that everything up to a message is read")
        .takes(shape::commit_schema())
        .gives_nothing(204, "the position is durable")
        .refuses(&[
            UNKNOWN_STREAM,
            UNKNOWN_SUBSCRIPTION,
            UNKNOWN_MESSAGE,
            (409, "position_behind"),
            (409, "subscription_busy"),
            (422, "invalid_number"),
            (422, "missing_field"),
        ]);
    Routes::default()
        .get(ALL, list, listed)
        .get(ONE, show, shown)
        .put(ONE, put_one, put)
        .delete(ONE, delete, deleted)
        .post("/v1/streams/{ns}/{stream}/subscriptions/{name}/read", read_on, read)
        .post("/v1/streams/{ns}/{stream}/subscriptions/{name}/commit", commit, committed)
}

fn of_one(summary: &'static str) -> Call {
    Call::new(summary).refuses(OF_A_STREAM)
}

/// The subscriptions of a stream, read by a thread that may wait for the store.
struct StreamSubscriptions {
    streams: StreamCalls,
    stream: StreamName,
}

impl List for StreamSubscriptions {
    type Key = NameKey;
    type Found = SubscriptionStatus;
    type Shown<'a> = SubscriptionShape<'a>;

    fn look(&self, after: Option<&NameKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let after = after.map(|NameKey(name)| &**name);
        self.streams.subscriptions(&self.stream, after, limit).map(BoundedPage::indexed)
    }

    fn key(subscription: &SubscriptionStatus) -> NameKey {
        NameKey(subscription.name.clone())
    }

    fn show(subscription: &SubscriptionStatus) -> SubscriptionShape<'_> {
        subscription.into()
    }
}

async fn list(
    State(api): State<ApiState>,
    StreamInPath(stream): StreamInPath,
    params: Params,
) -> Result<Response, Refused> {
    let page = params.page()?;
    list::answer(&api, page, StreamSubscriptions { streams: api.streams(), stream }).await
}

async fn present(api: &ApiState, stream: StreamName, name: Box<str>) -> Result<SubscriptionStatus, Problem> {
    let streams = api.streams();
    api.shared.lookups.run(move || streams.subscription(&stream, &name)).await
}

async fn show(
    State(api): State<ApiState>,
    SubscriptionInPath { stream, name }: SubscriptionInPath,
) -> Result<ApiAnswer, Refused> {
    let found = present(&api, stream, name).await?;
    Ok(ApiAnswer::ok(&SubscriptionShape::from(&found)))
}

async fn put_one(
    State(api): State<ApiState>,
    SubscriptionInPath { stream, name }: SubscriptionInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let (new, from) = shape::new_subscription(&name, &body, &api.engine().commands())?;
    let _held = body.into_memory();
    let put = api.streams().put_subscription(&stream, new, from).await?;
    let found = present(&api, stream, name).await?;
    let shown = SubscriptionShape::from(&found).with_secret(put.made_secret.as_deref());
    Ok(if put.is_new { ApiAnswer::created(&shown) } else { ApiAnswer::ok(&shown) })
}

async fn delete(
    State(api): State<ApiState>,
    SubscriptionInPath { stream, name }: SubscriptionInPath,
) -> Result<ApiAnswer, Refused> {
    api.streams().delete_subscription(&stream, &name).await?;
    Ok(ApiAnswer::nothing())
}

async fn read_on(
    State(api): State<ApiState>,
    SubscriptionInPath { stream, name }: SubscriptionInPath,
    params: Params,
    body: Text,
) -> Result<Response, Refused> {
    params.end()?;
    let asked = shape::subscription_read(name, &body)?;
    drop(body);
    let (streams, of, read) = (api.streams(), stream.clone(), asked.read);
    let (hold, query) = api.shared.lookups.run(move || streams.read_on(&of, &read)).await?;
    let query = MessagesAsked::of_query(stream, query, (asked.limit, asked.wait), &params);
    let answered = tokio::select! {
        answered = answer(&api, query) => answered,
        gone = hold.gone() => Err(gone.into()),
    };
    // The reader has the subscription for its `ttl` from here on.
    drop(hold);
    answered
}

async fn commit(
    State(api): State<ApiState>,
    SubscriptionInPath { stream, name }: SubscriptionInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    api.streams().commit(&stream, shape::reader_commit(name, &body)?).await?;
    Ok(ApiAnswer::nothing())
}
