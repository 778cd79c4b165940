//! `/v1/devices/{id}/timeline`: everything that happened to one device, in one order.

use axum::extract::State;
use axum::response::Response;
use base::{DeviceId, Problem, Timestamp};
use engine::Engine;
use engine::followers::{FollowedFeed, Follower};
use engine::queries::{BoundedPage, TimelineItem, TimelineKey};
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::feed::{self, Followable, follow};
use crate::list::{List, PageOfList};
use crate::openapi::Call;
use crate::openapi::refusals::UNKNOWN_DEVICE;
use crate::page::FeedQuery;
use crate::params::Params;
use crate::path::DeviceInPath;
use crate::shape::TimelineShape;

pub(super) fn routes() -> Routes {
    let listed = Call::new(
        "Everything that happened to a device: events, connections, notifications, commands, links",
    )
    .feed()
    .lists::<TimelineShape<'_>>()
    .refuses(&[UNKNOWN_DEVICE]);
    Routes::default().get("/v1/devices/{id}/timeline", list, listed)
}

pub(super) struct Timeline {
    pub(super) engine: Engine,
    pub(super) device: DeviceId,
    pub(super) feed: FeedQuery,
}

impl List for Timeline {
    type Key = TimelineKey;
    type Found = (TimelineKey, TimelineItem);
    type Shown<'a> = TimelineShape<'a>;

    fn look(&self, after: Option<&TimelineKey>, limit: usize, _: usize) -> PageOfList<Self> {
        self.engine.queries().timeline(&self.device, self.feed.page(after, limit)).map(BoundedPage::indexed)
    }

    fn key((key, _): &Self::Found) -> TimelineKey {
        *key
    }

    fn show((_, item): &Self::Found) -> TimelineShape<'_> {
        item.into()
    }
}

impl Followable for Timeline {
    const ENDS_EARLY: bool = true;

    fn follow(&self) -> Result<Follower, Problem> {
        follow(&self.engine, FollowedFeed::Timeline, Some(&self.device))
    }

    fn looked_until(&mut self, at: Timestamp) {
        self.feed.skip_to(at);
    }
}

async fn list(
    State(api): State<ApiState>,
    DeviceInPath(device): DeviceInPath,
    mut params: Params,
) -> Result<Response, Refused> {
    let feed = params.feed()?;
    let page = params.page()?;
    let feed = feed.ending(page.form, api.engine().clock().now());
    let timeline = Timeline { engine: api.engine().clone(), device, feed };
    feed::answer(&api, page, feed, timeline).await
}
