//! `/v1/campaigns`: tasks that come again and again.

mod begun;

use std::time::Duration;

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use base::limits::{COMMAND_PAYLOAD_BYTES_MAX, COMMAND_RESULT_BYTES_MAX, DEVICE_ID_CHARS_MAX};
use base::{DeviceId, Incarnation, Problem, Timestamp};
use engine::campaigns::{
    CHANGED_MEANWHILE, CampaignPatch, CampaignResultKey, NAMED_MAX, TrackedCampaign, TrackedTask,
};
use engine::fleet::selection::{PLACE_BYTES_MAX, SELECTOR_BYTES_MAX, SelectionKey};
use engine::followers::{Followed, FollowedFeed, Follower};
use engine::queries::BoundedPage;
use engine::records::{OutcomeReceiver, Pick};
use engine::{Engine, ObjectVersion, Patch, Queries};
use net::problem::Refused;

use self::begun::{create, put_one};
use super::Routes;
use super::rollouts::token_of;
use super::tasks::result_bytes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::authorization::check_receiver;
use crate::body::Text;
use crate::cursor::{NameKey, SlotKey};
use crate::etag::{IfMatch, Tagged};
use crate::feed::{self, Followable};
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::{OF_A_PATCH, OF_A_READ, OF_CAMPAIGNS, OF_PICKS, UNKNOWN_CAMPAIGN};
use crate::openapi::{Call, words};
use crate::page::FeedQuery;
use crate::params::Params;
use crate::path::{IdInPath, unknown_campaign};
use crate::shape::{self, CampaignResultShape, CampaignShape, CoverageShape, SlotShape};

const BY_ID: &str = "/v1/campaigns/{id}";
/// The span of a coverage where none is asked for.
const PERIOD: Duration = Duration::from_secs(3_600);
/// How often a change is checked again because another one came first.
const CHANGE_TRIES: u32 = 3;

pub(super) fn routes() -> Routes {
    let begun = Call::new("Begins a campaign: some devices of a selection are asked again and again")
        .once()
        .takes(shape::new_campaign_schema())
        .gives::<CampaignShape<'_>>(201, "the campaign")
        .tagged()
        .refuses(OF_PICKS)
        .refuses(OF_CAMPAIGNS)
        .refuses(&[(409, "exists")]);
    let put =
        Call::new("Begins a campaign under this id, or replaces the one that has it with its next slot")
            .only_if()
            .takes(shape::put_campaign_schema())
            .gives::<CampaignShape<'_>>(200, "the campaign that was there, as it is now")
            .tagged()
            .gives::<CampaignShape<'_>>(201, "the campaign")
            .tagged()
            .refuses(OF_PICKS)
            .refuses(OF_CAMPAIGNS)
            .refuses(OF_A_PATCH);
    let changed = Call::new("Changes a campaign with its next slot; null clears")
        .only_if()
        .takes(shape::campaign_changes_schema())
        .gives::<CampaignShape<'_>>(200, "the campaign as it is now")
        .tagged()
        .refuses(OF_PICKS)
        .refuses(OF_CAMPAIGNS)
        .refuses(OF_A_PATCH)
        .refuses(&[UNKNOWN_CAMPAIGN, (409, CHANGED_MEANWHILE)]);
    let listed = Call::new("Campaigns in order of id").lists::<CampaignShape<'_>>();
    let shown = Call::new("A campaign")
        .gives::<CampaignShape<'_>>(200, "the campaign")
        .tagged()
        .refuses(&[UNKNOWN_CAMPAIGN])
        .refuses(OF_A_READ);
    let done = |about, done| {
        let call = Call::new(about).only_if().gives_nothing(204, done);
        call.refuses(&[UNKNOWN_CAMPAIGN]).refuses(OF_A_READ)
    };
    let removed = done("Removes a campaign: nobody is picked for it any more", "it is gone");
    outcome_routes()
        .post("/v1/campaigns", create, begun)
        .get("/v1/campaigns", list, listed)
        .get(BY_ID, show, shown)
        .put(BY_ID, put_one, put)
        .patch(BY_ID, change, changed)
        .delete(BY_ID, remove, removed)
        .post("/v1/campaigns/{id}/pause", pause, done("Pauses a campaign with its next slot", "it is paused"))
        .post("/v1/campaigns/{id}/resume", resume, done("Goes on with a paused campaign", "it goes on"))
}

/// Slots and results of a campaign, and whom it picked.
fn outcome_routes() -> Routes {
    let slots = Call::new("Slots of a campaign by the time at which they were due, newest first")
        .span()
        .lists::<SlotShape>()
        .refuses(&[UNKNOWN_CAMPAIGN]);
    let results = Call::new("What came of the picks of a campaign, by the time at which they ended")
        .query("device", words::device_id())
        .feed()
        .lists::<CampaignResultShape<'_>>()
        .refuses(&[UNKNOWN_CAMPAIGN]);
    let coverage = Call::new("How often devices that match now were picked for a campaign")
        .query("period", words::duration())
        .query("by", words::selection_key())
        .gives::<CoverageShape>(200, "the figures over the period that ends now")
        .refuses(&[UNKNOWN_CAMPAIGN])
        .refuses(OF_A_READ);
    Routes::default()
        .get("/v1/campaigns/{id}/slots", list_slots, slots)
        .get("/v1/campaigns/{id}/results", list_results, results)
        .get("/v1/campaigns/{id}/coverage", cover, coverage)
}

async fn change(
    State(api): State<ApiState>,
    IdInPath(id): IdInPath,
    IfMatch(only_if): IfMatch,
    caller: Option<Extension<Caller>>,
    body: Text,
) -> Result<Tagged, Refused> {
    let mut patch = shape::change_of_campaign(&body, api.engine(), &id)?;
    let _held = body.into_memory();
    (patch.token, patch.only_if) = (token_of(caller.as_deref()), only_if);
    let is_told_anew = matches!(patch.receiver, Patch::Set(_));
    let changed = changed(&api, &id, caller.as_deref(), patch).await?;
    let shown = CampaignShape::at(&changed, api.engine().clock().wall());
    let shown = if is_told_anew { shown.with_secret(&changed) } else { shown };
    Ok(Tagged(ApiAnswer::ok(&shown), ObjectVersion::of_campaign(&changed)))
}

/// Makes a change of a campaign of which the caller may have all that comes of it. If another
/// change comes first, it is checked again.
async fn changed(
    api: &ApiState,
    id: &str,
    caller: Option<&Caller>,
    mut patch: CampaignPatch,
) -> Result<TrackedCampaign, Problem> {
    let mut tries = 1..=CHANGE_TRIES;
    loop {
        let present = present(api, id.to_owned()).await?;
        check_change(caller, &patch, &present)?;
        patch.checked = Some(present.terms.incarnation);
        match api.engine().campaigns().patch(id, patch.clone()).await {
            Err(problem) if problem.code == CHANGED_MEANWHILE && tries.next().is_some() => {}
            changed => return changed,
        }
    }
}

/// Whether a caller may make the campaign this: with what it does not name, as it is.
fn check_change(
    caller: Option<&Caller>,
    patch: &CampaignPatch,
    present: &TrackedCampaign,
) -> Result<(), Problem> {
    let Some(caller) = caller else { return Ok(()) };
    let told: Option<&OutcomeReceiver> = match &patch.receiver {
        Patch::Set(receiver) => Some(receiver),
        Patch::Keep => present.terms.receiver.as_ref(),
        Patch::Clear => None,
    };
    check_receiver(Some(caller), told)?;
    let class = patch.class.unwrap_or(present.terms.class);
    caller.may_pick(class.as_str(), patch.count.unwrap_or(present.terms.count))
}

/// A campaign, at the time of the wall clock at which it was looked at.
type CampaignNow = (TrackedCampaign, Timestamp);

struct CampaignList(Engine);

impl List for CampaignList {
    type Key = NameKey;
    type Found = CampaignNow;
    type Shown<'a> = CampaignShape<'a>;

    const READ_MAX: usize = 16;
    const ITEM_BYTES_MAX: usize = COMMAND_PAYLOAD_BYTES_MAX
        + NAMED_MAX * (DEVICE_ID_CHARS_MAX + 3)
        + 2 * (SELECTOR_BYTES_MAX + PLACE_BYTES_MAX);

    fn look(&self, after: Option<&NameKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let wall = self.0.clock().wall();
        let found = self.0.queries().campaigns(after.map(|NameKey(name)| &**name), limit)?;
        Ok(BoundedPage::indexed(found.into_iter().map(|found| (found, wall)).collect()))
    }

    fn bytes((found, _): &CampaignNow) -> usize {
        found.terms.text_bytes()
    }

    fn key((found, _): &CampaignNow) -> NameKey {
        NameKey(found.campaign.id.clone())
    }

    fn show((found, wall): &CampaignNow) -> CampaignShape<'_> {
        CampaignShape::at(found, *wall)
    }
}

async fn list(State(api): State<ApiState>, params: Params) -> Result<Response, Refused> {
    list::answer(&api, params.page()?, CampaignList(api.engine().clone())).await
}

async fn show(State(api): State<ApiState>, IdInPath(id): IdInPath) -> Result<Tagged, Refused> {
    let found = present(&api, id).await?;
    let shown = ApiAnswer::ok(&CampaignShape::at(&found, api.engine().clock().wall()));
    Ok(Tagged(shown, ObjectVersion::of_campaign(&found)))
}

async fn present(api: &ApiState, id: String) -> Result<TrackedCampaign, Problem> {
    let queries = api.queries();
    api.shared.lookups.run(move || queries.campaign(&id)?.ok_or_else(|| unknown_campaign(&id))).await
}

async fn remove(
    State(api): State<ApiState>,
    IdInPath(id): IdInPath,
    IfMatch(only_if): IfMatch,
) -> Result<ApiAnswer, Refused> {
    let found = present(&api, id).await?;
    api.engine().campaigns().delete(&found.campaign.id, only_if).await?;
    Ok(ApiAnswer::nothing())
}

async fn pause(
    State(api): State<ApiState>,
    IdInPath(id): IdInPath,
    IfMatch(only_if): IfMatch,
) -> Result<ApiAnswer, Refused> {
    let found = present(&api, id).await?;
    api.engine().campaigns().set_paused(&found.campaign.id, true, only_if).await?;
    Ok(ApiAnswer::nothing())
}

async fn resume(
    State(api): State<ApiState>,
    IdInPath(id): IdInPath,
    IfMatch(only_if): IfMatch,
) -> Result<ApiAnswer, Refused> {
    let found = present(&api, id).await?;
    api.engine().campaigns().set_paused(&found.campaign.id, false, only_if).await?;
    Ok(ApiAnswer::nothing())
}

struct SlotList {
    queries: Queries,
    campaign: Incarnation,
    due: (Timestamp, Timestamp),
}

impl List for SlotList {
    type Key = SlotKey;
    type Found = TrackedTask;
    type Shown<'a> = SlotShape;

    const ITEM_BYTES_MAX: usize = 512;

    fn look(&self, after: Option<&SlotKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let after = after.map(|SlotKey(due_at, task)| (*due_at, *task));
        self.queries.slots(self.campaign, self.due, after, limit).map(BoundedPage::indexed)
    }

    fn key(TrackedTask { task, .. }: &TrackedTask) -> SlotKey {
        SlotKey(task.slot.map_or(task.created_at, |slot| slot.due_at), task.incarnation)
    }

    fn show(found: &TrackedTask) -> SlotShape {
        found.into()
    }
}

async fn list_slots(
    State(api): State<ApiState>,
    IdInPath(id): IdInPath,
    mut params: Params,
) -> Result<Response, Refused> {
    let (from, to) = params.span()?;
    let due = (from.unwrap_or(Timestamp(i64::MIN)), to.unwrap_or(Timestamp::MAX));
    let page = params.page()?;
    let campaign = present(&api, id).await?.campaign.incarnation;
    list::answer(&api, page, SlotList { queries: api.queries(), campaign, due }).await
}

struct CampaignResults {
    engine: Engine,
    campaign: Incarnation,
    device: Option<DeviceId>,
    feed: FeedQuery,
}

impl List for CampaignResults {
    type Key = CampaignResultKey;
    type Found = Pick;
    type Shown<'a> = CampaignResultShape<'a>;

    const READ_MAX: usize = 128;
    const ITEM_BYTES_MAX: usize = 1_024 + 2 * COMMAND_RESULT_BYTES_MAX;

    fn look(&self, after: Option<&Self::Key>, limit: usize, _: usize) -> PageOfList<Self> {
        let page = self.feed.page(after, limit);
        let found = self.engine.queries().campaign_results(self.campaign, self.device.as_ref(), &page);
        found.map(BoundedPage::indexed)
    }

    fn bytes(pick: &Pick) -> usize {
        result_bytes(pick)
    }

    fn key(pick: &Pick) -> CampaignResultKey {
        let (at, number) = pick.end.as_ref().map_or((pick.picked_at, 0), |end| (end.at, end.number));
        CampaignResultKey { at, task: pick.task, number }
    }

    fn show(pick: &Pick) -> CampaignResultShape<'_> {
        CampaignResultShape::of(pick)
    }
}

impl Followable for CampaignResults {
    fn follow(&self) -> Result<Follower, Problem> {
        let feed = FollowedFeed::CampaignResults(self.campaign);
        self.engine.follow(Followed { feed, device: None })
    }
}

async fn list_results(
    State(api): State<ApiState>,
    IdInPath(id): IdInPath,
    mut params: Params,
) -> Result<Response, Refused> {
    let device = params.device("device")?;
    let feed = params.feed()?;
    let page = params.page()?;
    let campaign = present(&api, id).await?.campaign.incarnation;
    let feed = feed.ending(page.form, api.engine().clock().now());
    let results = CampaignResults { engine: api.engine().clone(), campaign, device, feed };
    feed::answer(&api, page, feed, results).await
}

async fn cover(
    State(api): State<ApiState>,
    IdInPath(id): IdInPath,
    mut params: Params,
) -> Result<ApiAnswer, Refused> {
    let whose = params.whose();
    let period = period(&mut params, api.engine().settings().campaigns.results)?;
    let by = params.take("by", "a label or a built-in key", SelectionKey::read)?;
    params.end()?;
    let campaign = present(&api, id).await?;
    let queries = api.queries();
    // A list's turn, of the caller's share: it may read as much.
    let place = api.shared.lists.enter_as(&whose)?;
    let coverage = place.run(move || queries.coverage(&campaign, period, by.as_ref())).await?;
    Ok(ApiAnswer::ok(&CoverageShape::from(coverage)))
}

/// The span of a coverage: no longer than slots are kept.
fn period(params: &mut Params, kept: Duration) -> Result<Duration, Problem> {
    let period = params.duration("period")?;
    if period.is_some_and(|period| period.is_zero()) {
        let detail = "period is nothing; ask for a span such as 1h";
        return Err(Problem::not_allowed("invalid_parameter", detail));
    }
    if period.is_some_and(|period| period > kept) {
        let detail = format!(
            "period is longer than slots are kept, which is {} s; ask for a shorter one",
            kept.as_secs()
        );
        return Err(Problem::not_allowed("invalid_parameter", detail));
    }
    Ok(period.unwrap_or(PERIOD.min(kept)))
}
