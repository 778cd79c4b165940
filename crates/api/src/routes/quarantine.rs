//! `/v1/quarantine`: reports that were refused, as they were received. Handing one in again is a
//! route of the way in.

use axum::extract::State;
use axum::response::Response;
use base::id::QUARANTINE_ID_PREFIX;
use base::{Problem, Timestamp};
use engine::Engine;
use engine::followers::{FollowedFeed, Follower};
use engine::queries::{BoundedPage, FeedKey};
use engine::records::{QuarantineKey, Quarantined};
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::feed::{self, Followable, follow};
use crate::list::{List, PageOfList};
use crate::openapi::Call;
use crate::openapi::refusals::{OF_A_READ, UNKNOWN_QUARANTINED};
use crate::page::FeedQuery;
use crate::params::Params;
use crate::path::{QuarantinedInPath, unknown_quarantined};
use crate::shape::QuarantinedShape;

pub(super) fn routes() -> Routes {
    let listed =
        Call::new("Refused reports by the time of their refusal").feed().lists::<QuarantinedShape<'_>>();
    let shown = Call::new("A refused report")
        .gives::<QuarantinedShape<'_>>(200, "the report")
        .refuses(&[UNKNOWN_QUARANTINED])
        .refuses(OF_A_READ);
    let discarded = Call::new("Keeps a refused report no longer")
        .gives_nothing(204, "it is gone")
        .refuses(&[UNKNOWN_QUARANTINED]);
    Routes::default().get("/v1/quarantine", list, listed).get("/v1/quarantine/{id}", show, shown).delete(
        "/v1/quarantine/{id}",
        discard,
        discarded,
    )
}

/// Refused reports.
pub(crate) struct RefusedReportList {
    pub engine: Engine,
    pub feed: FeedQuery,
}

impl List for RefusedReportList {
    type Key = FeedKey<QuarantineKey>;
    type Found = (FeedKey<QuarantineKey>, Quarantined);
    type Shown<'a> = QuarantinedShape<'a>;

    fn look(&self, after: Option<&Self::Key>, limit: usize, _: usize) -> PageOfList<Self> {
        self.engine.queries().quarantine(self.feed.page(after, limit)).map(BoundedPage::indexed)
    }

    fn key((key, _): &Self::Found) -> Self::Key {
        *key
    }

    fn show((_, report): &Self::Found) -> QuarantinedShape<'_> {
        report.into()
    }
}

impl Followable for RefusedReportList {
    const ENDS_EARLY: bool = true;

    fn follow(&self) -> Result<Follower, Problem> {
        follow(&self.engine, FollowedFeed::Quarantine, None)
    }

    fn looked_until(&mut self, at: Timestamp) {
        self.feed.skip_to(at);
    }
}

async fn list(State(api): State<ApiState>, mut params: Params) -> Result<Response, Refused> {
    let feed = params.feed()?;
    let page = params.page()?;
    let feed = feed.ending(page.form, api.engine().clock().now());
    let refusals = RefusedReportList { engine: api.engine().clone(), feed };
    feed::answer(&api, page, feed, refusals).await
}

async fn show(
    State(api): State<ApiState>,
    QuarantinedInPath(id): QuarantinedInPath,
) -> Result<ApiAnswer, Refused> {
    let queries = api.queries();
    let unknown = move || unknown_quarantined(&id.to_text(QUARANTINE_ID_PREFIX));
    let report = api.shared.lookups.run(move || queries.quarantined(id)?.ok_or_else(unknown)).await?;
    Ok(ApiAnswer::ok(&QuarantinedShape::from(&report)))
}

async fn discard(
    State(api): State<ApiState>,
    QuarantinedInPath(id): QuarantinedInPath,
) -> Result<ApiAnswer, Refused> {
    api.engine().discard_quarantined(id).await?;
    Ok(ApiAnswer::nothing())
}
