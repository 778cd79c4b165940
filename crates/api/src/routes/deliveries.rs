//! `/v1/deliveries`: what clients were told, and how it went.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use base::id::DELIVERY_ID_PREFIX;
use engine::queries::{DeliveryFilter, FeedKey};
use engine::records::{DeliveryKey, DeliveryStatus};

use crate::ApiState;
use crate::answer::Answer;
use crate::page::PageOf;
use crate::params::Params;
use crate::path::{DeliveryInPath, unknown_delivery};
use crate::problem::Refused;
use crate::shape::{AttemptedShape, DeliveryShape};

pub(super) fn routes() -> Router<ApiState> {
    Router::new()
        .route("/v1/deliveries", get(list))
        .route("/v1/deliveries/{id}", get(show))
        .route("/v1/deliveries/{id}/retry", post(retry))
}

async fn list(State(api): State<ApiState>, mut params: Params) -> Result<Answer, Refused> {
    let filter = DeliveryFilter {
        client: params.client("client")?,
        device: params.device("device")?,
        status: params.word("status", &DeliveryStatus::ALL, DeliveryStatus::as_str)?,
    };
    let (span, order) = (params.span()?, params.order()?);
    let page: PageOf<FeedKey<DeliveryKey>> = params.page()?;
    let (queries, of_feed) = (api.queries(), page.of_feed(span, order));
    let deliveries = api.shared.lists.run(move || queries.deliveries(&filter, of_feed)).await?;
    Ok(page.show(deliveries, |(key, _)| *key, |(_, delivery)| DeliveryShape::from(&delivery)))
}

async fn show(State(api): State<ApiState>, DeliveryInPath(id): DeliveryInPath) -> Result<Answer, Refused> {
    let queries = api.queries();
    let unknown = move || unknown_delivery(&id.to_text(DELIVERY_ID_PREFIX));
    let (delivery, attempts) =
        api.shared.lookups.run(move || queries.delivery(id)?.ok_or_else(unknown)).await?;
    Ok(Answer::ok(&AttemptedShape::of(&delivery, &attempts)))
}

async fn retry(State(api): State<ApiState>, DeliveryInPath(id): DeliveryInPath) -> Result<Answer, Refused> {
    api.engine().retry_delivery(id).await?;
    Ok(Answer::accepted())
}
