//! Readings of a device, and events: the feeds of what devices said and of what came of it.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use engine::ReadingKey;
use engine::queries::{EventFilter, FeedKey};
use engine::records::{EventKey, EventKind};

use crate::ApiState;
use crate::answer::Answer;
use crate::page::PageOf;
use crate::params::Params;
use crate::path::DeviceInPath;
use crate::problem::Refused;
use crate::shape::{EventShape, ReadingShape};

pub(super) fn routes() -> Router<ApiState> {
    Router::new().route("/v1/devices/{id}/readings", get(readings)).route("/v1/events", get(events))
}

async fn readings(
    State(api): State<ApiState>,
    DeviceInPath(id): DeviceInPath,
    mut params: Params,
) -> Result<Answer, Refused> {
    let (span, order) = (params.span()?, params.order()?);
    let page: PageOf<ReadingKey> = params.page()?;
    let (queries, of_feed) = (api.queries(), page.of_feed(span, order));
    let readings = api.shared.lists.run(move || queries.readings(&id, of_feed)).await?;
    let key = |reading: &engine::records::Reading| ReadingKey { ts: reading.ts, number: reading.number };
    Ok(page.show(readings, key, |reading| ReadingShape::from(&reading)))
}

async fn events(State(api): State<ApiState>, mut params: Params) -> Result<Answer, Refused> {
    let kinds = [EventKind::Changed, EventKind::Lost, EventKind::Restored];
    let filter = EventFilter {
        device: params.device("device")?,
        kind: params.word("type", &kinds, EventKind::as_str)?,
    };
    let (span, order) = (params.span()?, params.order()?);
    let page: PageOf<FeedKey<EventKey>> = params.page()?;
    let (queries, of_feed) = (api.queries(), page.of_feed(span, order));
    let events = api.shared.lists.run(move || queries.events(&filter, of_feed)).await?;
    Ok(page.show(events, |(key, _)| *key, |(_, event)| EventShape::from(&event)))
}
