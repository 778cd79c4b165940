//! `/v1/live`: what a page shows, as it comes.

use std::sync::Arc;

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use base::{ClientId, DeviceId};
use engine::queries::{CommandFilter, DeliveryFilter, EventFilter};
use net::problem::Refused;
use serde::Serialize;

use super::Routes;
use super::commands::Commands;
use super::deliveries::Deliveries;
use super::history::Events;
use super::notices::Notices;
use super::timeline::Timeline;
use crate::ApiState;
use crate::authorization::Sees;
use crate::live::{self, EVENT_STREAM, FeedSource, ListSource, LiveTopic, RowLookup};
use crate::openapi::refusals::{OF_A_READ, UNKNOWN_CLIENT, UNKNOWN_DEVICE};
use crate::openapi::{Call, words};
use crate::page::Feed;
use crate::params::Params;
use crate::shape::{CommandShape, DeliveryShape, LiveBehindShape, LiveHelloShape};

pub(super) fn routes() -> Routes {
    let about = "messages: hello, then one named like its topic whenever that has changed, \
                 behind where items were left out, end with a problem";
    let opened = Call::new("Live updates for a page: server-sent events, until the caller hangs up")
        .required_query("topics", words::any_text())
        .query("device", words::device_id())
        .query("client", words::client_id())
        .query("ids", words::any_text())
        .query("queues", words::any_text())
        .query("last", words::whole(1, 200))
        .gives_text(EVENT_STREAM, about)
        .knows::<LiveHelloShape<'_>>()
        .knows::<LiveBehindShape>()
        .refuses(&[UNKNOWN_CLIENT, UNKNOWN_DEVICE, (503, "too_many_live")])
        .refuses(OF_A_READ);
    Routes::default().get("/v1/live", open, opened)
}

async fn open(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Refused> {
    let caller = caller.map(|Extension(caller)| caller);
    Ok(live::open(&api, caller, params, live::last_event_id(&headers)).await?)
}

/// The feed of a topic, of a device or client or of all.
///
/// # Panics
/// For a topic that is no feed.
pub(crate) fn source(
    api: &ApiState,
    topic: LiveTopic,
    (device, client): (Option<&DeviceId>, Option<&ClientId>),
    sees: Sees,
) -> Arc<dyn FeedSource> {
    let (engine, device, client) = (api.engine().clone(), device.cloned(), client.cloned());
    match topic {
        LiveTopic::Events => {
            let filter = EventFilter { device, client, ..EventFilter::default() };
            Arc::new(ListSource::new(move |feed: Feed| Events {
                engine: engine.clone(),
                filter: filter.clone(),
                feed,
                sees,
            }))
        }
        LiveTopic::Deliveries => {
            let filter = DeliveryFilter { device, client, ..DeliveryFilter::default() };
            let make =
                move |feed: Feed| Deliveries { engine: engine.clone(), filter: filter.clone(), feed, sees };
            let find = |list: &Deliveries, id| {
                let found = list.engine.queries().delivery(id)?;
                Ok(found.map(|(delivery, _)| json(&DeliveryShape::from(&delivery))))
            };
            let rows = RowLookup::<Deliveries> { id: |(_, delivery)| delivery.id, find };
            Arc::new(ListSource::changing(make, rows))
        }
        LiveTopic::Commands => {
            let filter = CommandFilter { device, ..CommandFilter::default() };
            let make = move |feed: Feed| Commands { engine: engine.clone(), filter: filter.clone(), feed };
            let find = |list: &Commands, id| {
                let found = list.engine.queries().command(id)?;
                Ok(found.map(|command| json(&CommandShape::from(&command))))
            };
            let rows = RowLookup::<Commands> { id: |(_, found)| found.command.id, find };
            Arc::new(ListSource::changing(make, rows))
        }
        LiveTopic::Timeline => {
            let device = device.expect("a timeline is of a device");
            Arc::new(ListSource::new(move |feed: Feed| Timeline {
                engine: engine.clone(),
                device: device.clone(),
                feed,
            }))
        }
        LiveTopic::Notices => Arc::new(ListSource::new(move |feed: Feed| Notices {
            engine: engine.clone(),
            kind: None,
            // Its times are the registry's own: how far other feeds were looked at says nothing.
            feed: Feed { from: None, ..feed },
        })),
        LiveTopic::Overview | LiveTopic::Devices | LiveTopic::Queues => unreachable!("{topic:?} is no feed"),
    }
}

fn json(shape: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(shape).expect("a shape is JSON")
}
