//! `/v1/live`: what a page shows, as it comes.

use std::sync::Arc;

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use base::{ClientId, DeviceId, EntityId, Problem};
use engine::operations::OPERATION_ID_PREFIX;
use engine::queries::{CommandFilter, DeliveryFilter, EventFilter};
use engine::records::RolloutWork;
use engine::{Queries, TrackedOperation, TrackedRollout};
use net::problem::Refused;
use serde::Serialize;

use super::Routes;
use super::commands::Commands;
use super::deliveries::Deliveries;
use super::history::Events;
use super::notices::Notices;
use super::operations::OperationVisibility;
use super::timeline::Timeline;
use crate::ApiState;
use crate::authorization::Sees;
use crate::live::{self, EVENT_STREAM, FeedSource, ListSource, LiveTopic, RowLookup, RowPage, RowSource};
use crate::openapi::refusals::{OF_A_READ, UNKNOWN_CLIENT, UNKNOWN_DEVICE};
use crate::openapi::{Call, words};
use crate::page::Feed;
use crate::params::Params;
use crate::shape::{
    ClientShape, CommandShape, DeliveryShape, LiveBehindShape, LiveHelloShape, OperationShape, RolloutShape,
};

pub(super) fn routes() -> Routes {
    let about = "messages: hello, then one named like its topic whenever that has changed, \
                 behind where items were left out, end with a problem. Those of commands and deliveries \
                 may have moved: items that were sent before, whole, as they are now";
    let opened = Call::new("Live updates for a page: server-sent events, until the caller hangs up")
        .required_query("topics", words::any_text())
        .query("device", words::device_id())
        .query("client", words::client_id())
        .query("ids", words::any_text())
        .query("queues", words::any_text())
        .query("last", words::whole(1, 200))
        .query("rollout", words::any_text())
        .query("operation", words::any_text())
        .query("namespace", words::any_text())
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
            let make = move |feed: Feed| Deliveries::new(engine.clone(), filter.clone(), feed, sees);
            let find = |list: &Deliveries, id| {
                let found = list.find(id)?;
                Ok(found.map(|delivery| json(&DeliveryShape::from(&delivery))))
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
        LiveTopic::Overview
        | LiveTopic::Devices
        | LiveTopic::Queues
        | LiveTopic::Rollouts
        | LiveTopic::Operations
        | LiveTopic::Client => unreachable!("{topic:?} is no feed"),
    }
}

/// Rollouts of commands, in order of id.
pub(crate) fn rollouts(api: &ApiState) -> Arc<dyn RowSource> {
    Arc::new(RolloutRows(api.queries()))
}

/// Operations that the caller may see, the newest first; only those about queues of a namespace, if
/// it is given.
pub(crate) fn operations(
    api: &ApiState,
    caller: Option<&Caller>,
    namespace: Option<String>,
) -> Arc<dyn RowSource> {
    Arc::new(OperationRows(api.queries(), OperationVisibility::to(caller, namespace)))
}

/// Clients, by id only.
pub(crate) fn clients(api: &ApiState) -> Arc<dyn RowSource> {
    Arc::new(ClientRows(api.queries()))
}

struct RolloutRows(Queries);

impl RowSource for RolloutRows {
    fn named(&self, id: &str) -> Result<Option<Vec<u8>>, Problem> {
        let is_shown = |found: &TrackedRollout| matches!(found.rollout.work, RolloutWork::Command(_));
        Ok(self.0.rollout(id)?.filter(is_shown).map(|found| json(&RolloutShape::from(&found))))
    }

    fn page(&self, after: Option<&str>, rows: usize) -> Result<RowPage, Problem> {
        let (found, stopped) = self.0.rollouts(after, rows)?;
        let last = found.last().filter(|_| found.len() == rows).map(|found| found.rollout.id.to_string());
        let next = stopped.map(String::from).or(last);
        let row = |found: TrackedRollout| (found.rollout.id.to_string(), json(&RolloutShape::from(&found)));
        Ok((found.into_iter().map(row).collect(), next))
    }
}

struct OperationRows(Queries, OperationVisibility);

impl RowSource for OperationRows {
    fn named(&self, id: &str) -> Result<Option<Vec<u8>>, Problem> {
        let Some(id) = EntityId::from_text(OPERATION_ID_PREFIX, id) else { return Ok(None) };
        let found = self.0.operation(id)?.filter(|found| self.1.has(found));
        Ok(found.map(|found| json(&OperationShape::from(&found))))
    }

    fn page(&self, after: Option<&str>, rows: usize) -> Result<RowPage, Problem> {
        let after = after.and_then(|id| EntityId::from_text(OPERATION_ID_PREFIX, id));
        let found = self.0.operations(|found| self.1.has(found), after, rows)?;
        let row = |found: TrackedOperation| {
            (found.operation.id.to_text(OPERATION_ID_PREFIX), json(&OperationShape::from(&found)))
        };
        let found: Vec<_> = found.into_iter().map(row).collect();
        let next = found.last().filter(|_| found.len() == rows).map(|(id, _)| id.clone());
        Ok((found, next))
    }
}

struct ClientRows(Queries);

impl RowSource for ClientRows {
    fn named(&self, id: &str) -> Result<Option<Vec<u8>>, Problem> {
        let client = ClientId::new(id).and_then(|id| self.0.client(&id));
        Ok(client.map(|client| json(&ClientShape::from(&*client))))
    }

    fn page(&self, _: Option<&str>, _: usize) -> Result<RowPage, Problem> {
        Ok((Vec::new(), None))
    }
}

fn json(shape: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(shape).expect("a shape is JSON")
}
