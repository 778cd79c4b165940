//! What edges ask of tasks and campaigns.

use std::sync::Arc;
use std::time::Duration;

use base::{EntityId, Kind, Problem};
use fleet::Selection;
use fleet::selection::{SelectionKey, Test};
use records::{DevicePlace, TaskRelation};
use tokio::time::timeout;

use super::input::{CampaignCall, CampaignsInput, PresentCampaign, ShareNow, TaskCall};
use super::search::{WantedDevices, look_now};
use super::{
    CAMPAIGN_ID_PREFIX, CampaignPatch, FairnessStats, NewCampaign, NewPickTerms, NewTask, TrackedCampaign,
    TrackedTask, Weight, unknown_task,
};
use crate::kernel::idempotency::IdempotencyKey;
use crate::kernel::partition_handle::PartitionHandle;
use crate::{Engine, OnlyIf};

/// How far back the picks of a device are counted beside its weight.
const PICKS_COUNTED: Duration = Duration::from_secs(24 * 3_600);
/// Picks of a device that are counted: beyond it nobody needs to know.
const PICKS_COUNTED_MAX: usize = 10_000;
/// How long a caller waits for the machine that knows the shares: it holds a thread for reads.
const SHARES_WAIT: Duration = Duration::from_secs(2);

/// The calls about tasks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TaskCalls {
    engine: Engine,
}

impl TaskCalls {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Begins a task. The same request under the same key makes the same id, and so is the same
    /// task. When it is answered, its devices are picked.
    ///
    /// # Errors
    /// - 422 `no_place` for a payload that a kind of the selection cannot be shown.
    /// - 422 `bad_selector` or `bad_place` for a selection that cannot be kept.
    /// - 404 `unknown_task` for the task of `same_as` or `not_as`.
    /// - 409 `exists` if another request came with the key, or `too_many_tasks`.
    /// - 429 `picks_exhausted`, or `too_many_tasks` for the share of one token.
    /// - 503 when not accepting, here and for every call below.
    pub async fn create(
        &self,
        new: NewTask,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<TrackedTask, Problem> {
        check_kept(&self.engine, &new.terms)?;
        let id = EntityId::from_bytes(&IdempotencyKey::id_bytes(idempotency, 0)?);
        let found = look_now(self.engine.context(), WantedDevices::asked(&new.terms)).await?;
        let new = Box::new(new);
        let input = |reply| {
            CampaignsInput::Task(TaskCall::Create { id, new, found, is_put: idempotency.is_some(), reply })
        };
        Ok(*self.engine.campaigns_partition().ask(input).await??)
    }

    /// Calls a task off. When this is answered, nothing more of it goes out that did not go out
    /// before. A task that has ended stays as it is.
    ///
    /// # Errors
    /// 404 `unknown_task`.
    pub async fn cancel(&self, id: EntityId) -> Result<(), Problem> {
        let input = |reply| CampaignsInput::Task(TaskCall::Cancel { id, reply });
        self.engine.campaigns_partition().ask(input).await?
    }

    /// The task once it has ended, or once the time is over. `None` if there is no such task.
    ///
    /// # Errors
    /// See [`TaskCalls::create`].
    pub async fn ended(&self, id: EntityId, wait: Duration) -> Result<Option<TrackedTask>, Problem> {
        let input = |reply| CampaignsInput::Task(TaskCall::AwaitEnd { id, reply });
        if let Ok(told) = timeout(wait, self.engine.campaigns_partition().ask(input)).await {
            told?;
        }
        self.engine.queries().task(&id)
    }

    /// The shares of the first of these devices, in their order, and what it cost to count their
    /// picks, in rows. It counts for as many devices as `cost_max` leads to, but for one at least.
    /// Reads the store.
    ///
    /// # Errors
    /// 503 `busy` when the machine does not answer in time; see [`TaskCalls::create`].
    pub async fn weights(
        &self,
        places: Vec<DevicePlace>,
        cost_max: usize,
    ) -> Result<(Vec<Weight>, usize), Problem> {
        let shares = shares_within(SHARES_WAIT, self.engine.campaigns_partition(), &places).await?;
        let since = self.engine.clock().now().before(PICKS_COUNTED);
        let bounds = (PICKS_COUNTED_MAX, cost_max);
        let (picks, cost) = self.engine.queries().picks_since(&places, since, bounds)?;
        let weight = |(share, picks): (ShareNow, u64)| Weight {
            weight: share.weight,
            picks,
            last_picked_at: share.last_picked_at,
            benched_until: share.benched_until,
        };
        Ok((shares.into_iter().zip(picks).map(weight).collect(), cost))
    }

    /// What the pace of fair picks follows from.
    ///
    /// # Errors
    /// See [`TaskCalls::create`].
    pub async fn fairness(&self) -> Result<FairnessStats, Problem> {
        Ok(self.engine.campaigns_partition().ask(CampaignsInput::Fairness).await?)
    }
}

/// The calls about campaigns. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CampaignCalls {
    engine: Engine,
}

impl CampaignCalls {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Begins a campaign, under the caller's id or one that the server makes. The same request
    /// under the same key is the same campaign.
    ///
    /// # Errors
    /// - 422 `no_place`, `bad_selector` or `bad_place`.
    /// - 404 `unknown_task`.
    /// - 409 `exists` or `too_many_campaigns`.
    /// - 429 `too_many_campaigns` for the share of one token.
    /// - 503 when not accepting, here and for every call below.
    pub async fn create(
        &self,
        new: NewCampaign,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<TrackedCampaign, Problem> {
        let id = match &new.id {
            Some(id) => id.clone(),
            None => made_id(idempotency)?,
        };
        let present =
            if idempotency.is_some() { PresentCampaign::IsTheSame } else { PresentCampaign::Refuses };
        Ok(self.begin(id, new, present).await?.0)
    }

    /// Creates a campaign, or makes the one of that id as this; whether it is new.
    ///
    /// # Errors
    /// 412 `precondition_failed`; see [`CampaignCalls::create`].
    pub async fn put(
        &self,
        id: &str,
        new: NewCampaign,
        only_if: OnlyIf,
    ) -> Result<(TrackedCampaign, bool), Problem> {
        self.begin(id.into(), new, PresentCampaign::IsReplaced(only_if)).await
    }

    async fn begin(
        &self,
        id: Box<str>,
        new: NewCampaign,
        present: PresentCampaign,
    ) -> Result<(TrackedCampaign, bool), Problem> {
        check_kept(&self.engine, &new.terms)?;
        let new = Box::new(new);
        let input = |reply| CampaignsInput::Campaign(CampaignCall::Create { id, new, present, reply });
        Ok(*self.engine.campaigns_partition().ask(input).await??)
    }

    /// Changes what the patch names; effective with the next slot.
    ///
    /// # Errors
    /// 404 `unknown_campaign`; 412 `precondition_failed`; 409 `changed_meanwhile`; what
    /// [`NewCampaign::check`] refuses.
    pub async fn patch(&self, id: &str, patch: CampaignPatch) -> Result<TrackedCampaign, Problem> {
        for selection in [&patch.selection, &patch.exclude] {
            if let fleet::Patch::Set(selection) = selection {
                selection.check_kept()?;
            }
        }
        let (id, patch) = (id.into(), Box::new(patch));
        let input = |reply| CampaignsInput::Campaign(CampaignCall::Patch { id, patch, reply });
        Ok(*self.engine.campaigns_partition().ask(input).await??)
    }

    /// Begins no more slots, or goes on with the next one. Slots that have begun go on.
    ///
    /// # Errors
    /// 404 `unknown_campaign`; 412 `precondition_failed`.
    pub async fn set_paused(&self, id: &str, is_paused: bool, only_if: OnlyIf) -> Result<(), Problem> {
        let id = id.into();
        let call = |reply| CampaignCall::SetPaused { id, is_paused, only_if, reply };
        let input = |reply| CampaignsInput::Campaign(call(reply));
        self.engine.campaigns_partition().ask(input).await?
    }

    /// Removes a campaign. Its slots and results are kept as long as others are, but nobody finds
    /// them; what was not sent yet is called off.
    ///
    /// # Errors
    /// 404 `unknown_campaign`; 412 `precondition_failed`.
    pub async fn delete(&self, id: &str, only_if: OnlyIf) -> Result<(), Problem> {
        let id = id.into();
        let input = |reply| CampaignsInput::Campaign(CampaignCall::Delete { id, only_if, reply });
        self.engine.campaigns_partition().ask(input).await?
    }
}

/// The shares of devices, if the machine tells them in time.
async fn shares_within(
    wait: Duration,
    campaigns: &PartitionHandle<CampaignsInput>,
    places: &[DevicePlace],
) -> Result<Vec<ShareNow>, Problem> {
    let shares = campaigns.ask(|reply| CampaignsInput::Shares { places: places.to_vec(), reply });
    let Ok(shares) = timeout(wait, shares).await else {
        let detail = "tasks and campaigns have more to do than they can; try again in a moment";
        return Err(Problem::new(503, "busy", detail));
    };
    Ok(shares?)
}

/// A unique id; the same request under the same key gets the same one.
fn made_id(idempotency: Option<IdempotencyKey>) -> Result<Box<str>, Problem> {
    let bytes = IdempotencyKey::id_bytes(idempotency, 0)?;
    Ok(EntityId::from_bytes(&bytes).to_text(CAMPAIGN_ID_PREFIX).into())
}

/// Refuses selections that cannot be kept, and a payload that devices of a kind that is asked for
/// cannot be shown. Devices of other kinds are looked at when they are picked.
fn check_kept(engine: &Engine, terms: &NewPickTerms) -> Result<(), Problem> {
    if let Some(TaskRelation::SameAs(id) | TaskRelation::NotAs(id)) = terms.relation
        && engine.queries().task(&id)?.is_none()
    {
        return Err(unknown_task(id));
    }
    for selection in [&terms.selection, &terms.exclude].into_iter().flatten() {
        selection.check_kept()?;
    }
    let requirements = terms.selection.as_ref().map_or(&[][..], Selection::requirements);
    for requirement in requirements.iter().filter(|one| one.key == SelectionKey::Kind) {
        let Test::In(kinds) = &requirement.test else { continue };
        for kind in kinds.iter().filter_map(|kind| Kind::new(kind)) {
            (engine.settings().check_payload)(&kind, &terms.payload)?;
        }
    }
    Ok(())
}

/// Terms as they are kept.
impl NewPickTerms {
    pub(super) fn kept(self, incarnation: base::Incarnation, request: u128) -> records::PickTerms {
        let text = |selection: Option<Selection>| selection.map(|one| one.to_string().into_boxed_str());
        records::PickTerms {
            incarnation,
            payload: Arc::clone(&self.payload),
            selector: text(self.selection),
            exclude: text(self.exclude),
            devices: self.devices,
            relation: self.relation,
            spread_by: self.spread_by,
            count: self.count,
            answer_timeout_ms: u64::try_from(self.answer_timeout.as_millis()).unwrap_or(u64::MAX),
            class: self.class,
            receiver: self.receiver,
            token: self.token,
            request,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::kernel::feed_clock::WritingSince;

    #[tokio::test]
    async fn a_machine_that_does_not_answer_is_not_waited_for_without_end() {
        let (inbox, mut inputs) = mpsc::channel(1);
        let campaigns = PartitionHandle { inbox, writing_since: Arc::new(WritingSince::nothing()) };
        let refused = shares_within(Duration::ZERO, &campaigns, &[]).await.expect_err("nobody answers");
        assert_eq!((refused.status, refused.code), (503, "busy"));
        assert!(inputs.try_recv().is_ok(), "it was asked");
    }
}
