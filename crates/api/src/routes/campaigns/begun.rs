//! Campaigns that are begun or replaced.

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base::Problem;
use engine::ObjectVersion;
use engine::campaigns::{NewCampaign, TrackedCampaign};
use engine::queues::IdempotencyKey;
use net::problem::Refused;
use serde::{Deserialize, Serialize};

use super::present;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::etag::{IfMatch, Tagged};
use crate::idempotency::Creation;
use crate::path::{IdInPath, unknown_campaign};
use crate::routes::rollouts::token_of;
use crate::routes::tasks::check_may_pick;
use crate::shape::{self, CampaignShape};

pub(super) async fn create(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    creation: Creation,
) -> Result<Response, Refused> {
    let token = token_of(caller.as_deref());
    let create = async move |api: ApiState, body: Text, idempotency: Option<IdempotencyKey>| {
        let new = shape::new_campaign(&body, api.engine(), None)?;
        let _held = body.into_memory();
        let new = allowed(new, caller.as_deref())?;
        let TrackedCampaign { campaign, .. } = api.engine().campaigns().create(new, idempotency).await?;
        Ok(ApiAnswer::created(&BegunCampaign {
            id: campaign.id.clone(),
            incarnation: campaign.incarnation.0,
        }))
    };
    let begun = creation.once(&api, create).await?;
    if begun.status != StatusCode::CREATED {
        return Ok(begun.into_response());
    }
    let Ok(BegunCampaign { id, incarnation }) = serde_json::from_slice(&begun.body) else {
        // An earlier build kept the answer whole.
        return Ok(begun.into_response());
    };
    let found = present(&api, id.to_string()).await?;
    if found.campaign.incarnation.0 != incarnation {
        // That one was removed, and another one has its id.
        return Err(unknown_campaign(&id).into());
    }
    let is_own = found.terms.token == token;
    let shown = CampaignShape::at(&found, api.engine().clock().wall());
    let answer = ApiAnswer::created(&if is_own { shown.with_secret(&found) } else { shown });
    Ok(Tagged(answer, ObjectVersion::of_campaign(&found)).into_response())
}

/// What is kept under the key of a request that began a campaign. It is answered from the campaign
/// itself, which may have a payload of 256 KiB.
#[derive(Deserialize, Serialize)]
struct BegunCampaign {
    id: Box<str>,
    incarnation: u64,
}

pub(super) async fn put_one(
    State(api): State<ApiState>,
    IdInPath(id): IdInPath,
    IfMatch(only_if): IfMatch,
    caller: Option<Extension<Caller>>,
    body: Text,
) -> Result<Tagged, Refused> {
    let new = shape::new_campaign(&body, api.engine(), Some(&id))?;
    let _held = body.into_memory();
    let new = allowed(new, caller.as_deref())?;
    let (campaign, is_new) = api.engine().campaigns().put(&id, new, only_if).await?;
    let shown = begun_now(&api, &campaign);
    let answer = if is_new { ApiAnswer::created(&shown) } else { ApiAnswer::ok(&shown) };
    Ok(Tagged(answer, ObjectVersion::of_campaign(&campaign)))
}

/// A campaign that the caller may have, as one of its token.
fn allowed(mut new: NewCampaign, caller: Option<&Caller>) -> Result<NewCampaign, Problem> {
    new.check()?;
    check_may_pick(caller, &new.terms)?;
    new.terms.token = token_of(caller);
    Ok(new)
}

/// The campaign with the secret of who is told, which is shown to whoever gave or made it.
fn begun_now<'a>(api: &ApiState, campaign: &'a TrackedCampaign) -> CampaignShape<'a> {
    CampaignShape::at(campaign, api.engine().clock().wall()).with_secret(campaign)
}
