//! `/v1/deliveries`: what clients were told, and how it went.

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use base::id::DELIVERY_ID_PREFIX;
use base::{EntityId, Problem, Timestamp};
use engine::followers::{FollowedFeed, Follower};
use engine::queries::{DeliveryFilter, FeedKey};
use engine::queues::IdempotencyKey;
use engine::records::{Delivery, DeliveryKey, DeliveryStatus};
use engine::{AnswerForm, Engine, Queries};
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::authorization::Visibility;
use crate::feed::{self, Followable, follow};
use crate::idempotency::Creation;
use crate::list::{List, PageOfList};
use crate::openapi::refusals::{OF_A_READ, UNKNOWN_CLIENT, UNKNOWN_DELIVERY, UNKNOWN_DEVICE};
use crate::openapi::{Call, words};
use crate::page::FeedQuery;
use crate::params::Params;
use crate::path::{DeliveryInPath, unknown_delivery};
use crate::shape::{AttemptedShape, DeliveryShape};

pub(super) fn routes() -> Routes {
    let listed = Call::new("Notifications by the time at which they were made")
        .query("client", words::client_id())
        .query("device", words::device_id())
        .labels()
        .query("status", words::delivery_status())
        .feed()
        .lists::<DeliveryShape>()
        .refuses(&[UNKNOWN_CLIENT, UNKNOWN_DEVICE]);
    let shown = Call::new("A notification with its attempts and what they sent")
        .gives::<AttemptedShape<'_>>(200, "the notification")
        .refuses(&[UNKNOWN_DELIVERY])
        .refuses(OF_A_READ);
    let retried = Call::new("Sends a notification again now")
        .once()
        .gives_nothing(202, "it is on its way")
        .refuses(&[UNKNOWN_DELIVERY, (409, "superseded"), (409, "not_linked")]);
    Routes::default().get("/v1/deliveries", list, listed).get("/v1/deliveries/{id}", show, shown).post(
        "/v1/deliveries/{id}/retry",
        retry,
        retried,
    )
}

/// Deliveries by what they are.
pub(crate) struct Deliveries {
    engine: Engine,
    pub(crate) filter: DeliveryFilter,
    feed: FeedQuery,
    sees: Visibility,
}

impl Deliveries {
    /// Those of a filter, as far as the caller sees them.
    pub(crate) fn new(engine: Engine, filter: DeliveryFilter, feed: FeedQuery, sees: Visibility) -> Self {
        let filter = DeliveryFilter { is_label_of_linked: sees == Visibility::ItsOwn, ..filter };
        Self { engine, filter, feed, sees }
    }

    /// Whether a delivery is among them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn has(&self, queries: &Queries, delivery: &Delivery) -> Result<bool, Problem> {
        Ok(self.feed.has(delivery.id.at) && queries.lists_delivery(&self.filter, delivery)?)
    }

    /// A delivery as it is now.
    ///
    /// # Errors
    /// When the store cannot be read now.
    pub(super) fn find(&self, id: EntityId) -> Result<Option<Delivery>, Problem> {
        Ok(self.engine.queries().delivery(id)?.map(|(delivery, _)| delivery))
    }
}

/// Those that the parameters ask for.
///
/// # Errors
/// `invalid_parameter`.
pub(crate) fn asked(params: &mut Params) -> Result<DeliveryFilter, Problem> {
    Ok(DeliveryFilter {
        client: params.client("client")?,
        device: params.device("device")?,
        labels: params.labels()?,
        is_label_of_linked: false,
        status: params.word("status", &DeliveryStatus::ALL, DeliveryStatus::as_str)?,
        made_from: None,
    })
}

impl List for Deliveries {
    type Key = FeedKey<DeliveryKey>;
    type Found = (FeedKey<DeliveryKey>, Delivery);
    type Shown<'a> = DeliveryShape;

    fn look(&self, after: Option<&Self::Key>, limit: usize, cost_max: usize) -> PageOfList<Self> {
        let queries = self.engine.queries().within(cost_max);
        let found = queries.deliveries(&self.filter, self.feed.page(after, limit));
        self.sees.of(found, self.filter.status.is_some())
    }

    fn key((key, _): &Self::Found) -> Self::Key {
        *key
    }

    fn show((_, delivery): &Self::Found) -> DeliveryShape {
        delivery.into()
    }
}

impl Followable for Deliveries {
    const ENDS_EARLY: bool = true;

    fn follow(&self) -> Result<Follower, Problem> {
        // One that was made before may come to have the status that is asked for.
        let by_status = self.filter.status.is_some();
        let feed = if by_status { FollowedFeed::DeliveriesByStatus } else { FollowedFeed::Deliveries };
        follow(&self.engine, feed, self.filter.device.as_ref())
    }

    fn looked_until(&mut self, at: Timestamp) {
        self.filter.made_from = Some(at);
    }

    fn moved_from(&mut self, at: Timestamp) {
        if self.filter.status.is_some() {
            self.filter.made_from = self.filter.made_from.map(|from| from.min(at));
        }
    }
}

async fn list(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    mut params: Params,
) -> Result<Response, Refused> {
    let (filter, sees) = (asked(&mut params)?, Visibility::of_caller(caller.as_deref()));
    if !filter.labels.is_empty() && caller.is_some_and(|caller| caller.portal().is_some()) {
        let detail = "a portal does not filter by label.KEY; leave it out";
        return Err(Problem::new(403, "forbidden", detail).into());
    }
    let feed = params.feed()?;
    let page = params.page()?;
    let feed = feed.ending(page.form, api.engine().clock().now());
    let deliveries = Deliveries::new(api.engine().clone(), filter, feed, sees);
    feed::answer(&api, page, feed, deliveries).await
}

async fn show(State(api): State<ApiState>, DeliveryInPath(id): DeliveryInPath) -> Result<ApiAnswer, Refused> {
    let queries = api.queries();
    let unknown = move || unknown_delivery(&id.to_text(DELIVERY_ID_PREFIX));
    let look_up = move || {
        let (delivery, attempts) = queries.delivery(id)?.ok_or_else(unknown)?;
        let body = queries.body_of_failed(&delivery)?;
        Ok((delivery, attempts, body))
    };
    let (delivery, attempts, kept) = api.shared.lookups.run(look_up).await?;
    let body = match kept {
        Some(body) => Some(body),
        None => api.engine().body_of_waiting(&delivery).await.map_err(Problem::from)?,
    };
    let client = api.engine().directory().get(delivery.client);
    let url = client.as_ref().map(|client| client.url.as_str());
    Ok(ApiAnswer::ok(&AttemptedShape::of(&delivery, &attempts, body.as_deref(), url)))
}

/// A delivered notification goes out under a new id, so this creates too.
async fn retry(
    State(api): State<ApiState>,
    DeliveryInPath(id): DeliveryInPath,
    creation: Creation,
) -> Result<ApiAnswer, Refused> {
    let retry = async move |api: ApiState, idempotency: Option<IdempotencyKey>| {
        let form = AnswerForm {
            idempotency,
            write: |made| ApiAnswer::of(made, |()| ApiAnswer::accepted()).stored(),
        };
        ApiAnswer::kept(&api.engine().retry_delivery_as(id, form).await?)
    };
    creation.once_without_body(&api, retry).await
}
