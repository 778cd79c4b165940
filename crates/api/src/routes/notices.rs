//! `/v1/notices`: what operators are told of the system itself.

use axum::extract::State;
use axum::response::Response;
use base::Problem;
use engine::Engine;
use engine::followers::{FollowedFeed, Follower};
use engine::queries::{BoundedPage, FeedKey};
use engine::records::{Notice, NoticeKey, NoticeKind};
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::feed::{self, Followable, follow};
use crate::list::{List, PageOfList};
use crate::openapi::{Call, words};
use crate::page::FeedQuery;
use crate::params::Params;
use crate::shape::NoticeShape;

pub(super) fn routes() -> Routes {
    let listed = Call::new("Notices about the server itself, by time")
        .query("type", words::notice_type())
        .feed()
        .lists::<NoticeShape<'_>>();
    Routes::default().get("/v1/notices", list, listed)
}

/// Notices of a kind, or of all.
pub(super) struct Notices {
    pub(super) engine: Engine,
    pub(super) kind: Option<NoticeKind>,
    pub(super) feed: FeedQuery,
}

impl List for Notices {
    type Key = FeedKey<NoticeKey>;
    type Found = (FeedKey<NoticeKey>, Notice);
    type Shown<'a> = NoticeShape<'a>;

    fn look(&self, after: Option<&Self::Key>, limit: usize, _: usize) -> PageOfList<Self> {
        self.engine.queries().notices(self.kind, self.feed.page(after, limit)).map(BoundedPage::indexed)
    }

    fn key((key, _): &Self::Found) -> Self::Key {
        *key
    }

    fn show((_, notice): &Self::Found) -> NoticeShape<'_> {
        notice.into()
    }
}

impl Followable for Notices {
    fn follow(&self) -> Result<Follower, Problem> {
        follow(&self.engine, FollowedFeed::Notices, None)
    }
}

async fn list(State(api): State<ApiState>, mut params: Params) -> Result<Response, Refused> {
    let kind = params.word("type", &NoticeKind::ALL, NoticeKind::as_str)?;
    let feed = params.feed()?;
    let page = params.page()?;
    let feed = feed.ending(page.form, api.engine().clock().now());
    let notices = Notices { engine: api.engine().clone(), kind, feed };
    feed::answer(&api, page, feed, notices).await
}
