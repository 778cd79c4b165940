//! Readings of a device, and events: the feeds of what devices said and of what came of it.

use axum::extract::State;
use axum::response::Response;
use base::{DeviceId, Problem, Timestamp};
use engine::followers::{FollowedFeed, Follower};
use engine::queries::{BoundedPage, EventFilter, FeedKey};
use engine::records::{Event, EventKey, EventKind, Reading};
use engine::{Engine, ReadingKey};
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::authorization::Visibility;
use crate::feed::{self, Followable, follow};
use crate::list::{List, PageOfList};
use crate::openapi::refusals::{UNKNOWN_CLIENT, UNKNOWN_DEVICE};
use crate::openapi::{Call, words};
use crate::page::FeedQuery;
use crate::params::Params;
use crate::path::DeviceInPath;
use crate::shape::{EventShape, ReadingShape};

pub(super) fn routes() -> Routes {
    let readings_listed =
        Call::new("Every reading of a device").feed().lists::<ReadingShape>().refuses(&[UNKNOWN_DEVICE]);
    let events_listed = Call::new("Changes, losses and restorations")
        .query("device", words::device_id())
        .query("client", words::client_id())
        .labels()
        .query("type", words::event_kind())
        .feed()
        .lists::<EventShape>()
        .refuses(&[UNKNOWN_CLIENT, UNKNOWN_DEVICE]);
    Routes::default().get("/v1/devices/{id}/readings", readings, readings_listed).get(
        "/v1/events",
        events,
        events_listed,
    )
}

struct Readings {
    engine: Engine,
    device: DeviceId,
    feed: FeedQuery,
}

impl List for Readings {
    type Key = ReadingKey;
    type Found = Reading;
    type Shown<'a> = ReadingShape;

    fn look(&self, after: Option<&ReadingKey>, limit: usize, _: usize) -> PageOfList<Self> {
        self.engine.queries().readings(&self.device, self.feed.page(after, limit)).map(BoundedPage::indexed)
    }

    fn key(reading: &Reading) -> ReadingKey {
        ReadingKey { ts: reading.ts, number: reading.number }
    }

    fn show(reading: &Reading) -> ReadingShape {
        reading.into()
    }
}

impl Followable for Readings {
    fn follow(&self) -> Result<Follower, Problem> {
        follow(&self.engine, FollowedFeed::Readings, Some(&self.device))
    }
}

async fn readings(
    State(api): State<ApiState>,
    DeviceInPath(device): DeviceInPath,
    mut params: Params,
) -> Result<Response, Refused> {
    let feed = params.feed()?;
    let readings = Readings { engine: api.engine().clone(), device, feed };
    feed::answer(&api, params.page()?, feed, readings).await
}

pub(super) struct Events {
    pub(super) engine: Engine,
    pub(super) filter: EventFilter,
    pub(super) feed: FeedQuery,
    pub(super) sees: Visibility,
}

impl List for Events {
    type Key = FeedKey<EventKey>;
    type Found = (FeedKey<EventKey>, Event);
    type Shown<'a> = EventShape;

    fn look(&self, after: Option<&Self::Key>, limit: usize, cost_max: usize) -> PageOfList<Self> {
        let queries = self.engine.queries().within(cost_max);
        let found = queries.events(&self.filter, self.feed.page(after, limit));
        self.sees.of(found, self.filter.kind.is_some())
    }

    fn key((key, _): &Self::Found) -> Self::Key {
        *key
    }

    fn show((_, event): &Self::Found) -> EventShape {
        event.into()
    }
}

impl Followable for Events {
    const ENDS_EARLY: bool = true;

    fn follow(&self) -> Result<Follower, Problem> {
        follow(&self.engine, FollowedFeed::Events, self.filter.device.as_ref())
    }

    fn looked_until(&mut self, at: Timestamp) {
        self.feed.skip_to(at);
    }
}

async fn events(
    State(api): State<ApiState>,
    sees: Visibility,
    mut params: Params,
) -> Result<Response, Refused> {
    let filter = EventFilter {
        device: params.device("device")?,
        client: params.client("client")?,
        labels: params.labels()?,
        kind: params.word("type", &EventKind::ALL, EventKind::as_str)?,
    };
    let feed = params.feed()?;
    let page = params.page()?;
    let feed = feed.ending(page.form, api.engine().clock().now());
    let events = Events { engine: api.engine().clone(), filter, feed, sees };
    feed::answer(&api, page, feed, events).await
}
