//! `/v1/live`: what a page shows, as it comes.

use std::sync::Arc;

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use base::{ClientId, DeviceId, EntityId, Problem};
use engine::campaigns::{TASK_ID_PREFIX, TrackedCampaign};
use engine::operations::OPERATION_ID_PREFIX;
use engine::queries::{CommandFilter, DeliveryFilter, EventFilter};
use engine::records::RolloutWork;
use engine::{Engine, Queries, TrackedOperation, TrackedRollout};
use net::problem::Refused;
use serde::Serialize;

use super::Routes;
use super::commands::CommandListing;
use super::deliveries::Deliveries;
use super::history::Events;
use super::notices::Notices;
use super::operations::OperationVisibility;
use super::timeline::Timeline;
use crate::ApiState;
use crate::authorization::Visibility;
use crate::live::{self, EVENT_STREAM, FeedSource, ListSource, LiveTopic, RowLookup, RowPage, RowSource};
use crate::openapi::refusals::{OF_A_READ, UNKNOWN_CLIENT, UNKNOWN_DEVICE};
use crate::openapi::{Call, words};
use crate::page::FeedQuery;
use crate::params::Params;
use crate::shape::{
    ClientShape, CommandShape, DeliveryShape, LiveBehindShape, LiveCampaignShape, LiveHelloShape,
    OperationShape, RolloutShape, TaskShape, live_feed_schema, live_rows_schema,
};

pub(super) fn routes() -> Routes {
    let about = "messages: hello (LiveHello), then one named like its topic whenever that has changed \
                 (LiveFeed of a feed, LiveRows of rows), behind (LiveBehind) where items were left out, \
                 end with a problem. In those of commands and deliveries, moved has items that were sent \
                 before, whole, as they are now";
    let opened = Call::new("Live updates for a page: server-sent events, until the caller hangs up")
        .required_query("topics", words::any_text())
        .query("device", words::device_id())
        .query("client", words::client_id())
        .query("ids", words::any_text())
        .query("queues", words::any_text())
        .query("last", words::whole(1, 200))
        .query("rollout", words::any_text())
        .query("operation", words::any_text())
        .query("task", words::any_text())
        .query("campaign", words::any_text())
        .query("namespace", words::any_text())
        .gives_text(EVENT_STREAM, about)
        .knows::<LiveHelloShape<'_>>()
        .knows_as("LiveFeed", live_feed_schema())
        .knows_as("LiveRows", live_rows_schema())
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
    sees: Visibility,
) -> Arc<dyn FeedSource> {
    let (engine, device, client) = (api.engine().clone(), device.cloned(), client.cloned());
    match topic {
        LiveTopic::Events => {
            let filter = EventFilter { device, client, ..EventFilter::default() };
            Arc::new(ListSource::new(move |feed: FeedQuery| Events {
                engine: engine.clone(),
                filter: filter.clone(),
                feed,
                sees,
            }))
        }
        LiveTopic::Deliveries => {
            let filter = DeliveryFilter { device, client, ..DeliveryFilter::default() };
            let make = move |feed: FeedQuery| Deliveries::new(engine.clone(), filter.clone(), feed, sees);
            let find = |list: &Deliveries, id| {
                let found = list.find(id)?;
                Ok(found.map(|delivery| json(&DeliveryShape::from(&delivery))))
            };
            let rows = RowLookup::<Deliveries> { id: |(_, delivery)| delivery.id, find };
            Arc::new(ListSource::changing(make, rows))
        }
        LiveTopic::Commands => {
            let filter = CommandFilter { device, ..CommandFilter::default() };
            let make = move |feed: FeedQuery| CommandListing {
                engine: engine.clone(),
                filter: filter.clone(),
                feed,
            };
            let find = |list: &CommandListing, id| {
                let found = list.engine.queries().command(id)?;
                Ok(found.map(|command| json(&CommandShape::from(&command))))
            };
            let rows = RowLookup::<CommandListing> { id: |(_, found)| found.command.id, find };
            Arc::new(ListSource::changing(make, rows))
        }
        LiveTopic::Timeline => {
            let device = device.expect("a timeline is of a device");
            Arc::new(ListSource::new(move |feed: FeedQuery| Timeline {
                engine: engine.clone(),
                device: device.clone(),
                feed,
            }))
        }
        LiveTopic::Notices => Arc::new(ListSource::new(move |feed: FeedQuery| Notices {
            engine: engine.clone(),
            kind: None,
            // Its times are the registry's own: how far other feeds were looked at says nothing.
            feed: FeedQuery { from: None, ..feed },
        })),
        LiveTopic::Overview
        | LiveTopic::Devices
        | LiveTopic::Queues
        | LiveTopic::Rollouts
        | LiveTopic::Operations
        | LiveTopic::Tasks
        | LiveTopic::Campaigns
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

/// Tasks, by id only.
pub(crate) fn tasks(api: &ApiState) -> Arc<dyn RowSource> {
    Arc::new(TaskRows(api.queries()))
}

/// Campaigns, in order of id.
pub(crate) fn campaigns(api: &ApiState) -> Arc<dyn RowSource> {
    Arc::new(CampaignRows(api.engine().clone()))
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

struct TaskRows(Queries);

impl RowSource for TaskRows {
    fn named(&self, id: &str) -> Result<Option<Vec<u8>>, Problem> {
        let Some(id) = EntityId::from_text(TASK_ID_PREFIX, id) else { return Ok(None) };
        Ok(self.0.task(&id)?.map(|task| json(&TaskShape::from(&task))))
    }

    fn page(&self, _: Option<&str>, _: usize) -> Result<RowPage, Problem> {
        Ok((Vec::new(), None))
    }
}

struct CampaignRows(Engine);

impl RowSource for CampaignRows {
    fn named(&self, id: &str) -> Result<Option<Vec<u8>>, Problem> {
        let wall = self.0.clock().wall();
        Ok(self.0.queries().campaign(id)?.map(|found| json(&LiveCampaignShape::at(&found, wall))))
    }

    fn page(&self, after: Option<&str>, rows: usize) -> Result<RowPage, Problem> {
        let wall = self.0.clock().wall();
        let found = self.0.queries().campaigns(after, rows)?;
        let next = found.last().filter(|_| found.len() == rows).map(|found| found.campaign.id.to_string());
        let row = |found: TrackedCampaign| {
            (found.campaign.id.to_string(), json(&LiveCampaignShape::at(&found, wall)))
        };
        Ok((found.into_iter().map(row).collect(), next))
    }
}

fn json(shape: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(shape).expect("a shape is JSON")
}
