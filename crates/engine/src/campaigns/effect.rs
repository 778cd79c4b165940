//! What the outside sees of a step of the machine: answers, orders for devices' partitions,
//! searches, and ends of tasks that are to be told.

use std::sync::Arc;
use std::time::Instant;

use base::{EntityId, LogLimit, PartitionId, Timestamp};
use records::{Batch, DevicePlace};
use tokio::sync::Semaphore;

use super::campaign_metrics::{CampaignMetrics, CampaignsCounted};
use super::ends::{DueTaskEnds, TaskEndDue};
use super::fleet::FleetView;
use super::input::ShareNow;
use super::links::{PickLinks, PickOrder};
use super::search::{PickSearch, SEARCHERS_MAX, SEARCHES_AT_ONCE};
use super::{FairnessStats, TASK_ID_PREFIX, TrackedCampaign, TrackedTask};
use crate::followers::Followers;
use crate::followers::campaigns::CampaignUpdate;
use crate::kernel::machine::MachineContext;
use crate::kernel::reply::{Answered, Reply};
use crate::metrics::BatchMetrics;

/// What the outside may see once it is durable.
#[derive(Debug)]
pub enum CampaignsEffect {
    /// A task was asked for, or that was refused.
    Task(Reply<Answered<Box<TrackedTask>>>, Answered<Box<TrackedTask>>),
    /// A campaign was asked for or changed, or that was refused; whether it is new.
    Begun(Reply<Answered<Box<(TrackedCampaign, bool)>>>, Answered<Box<(TrackedCampaign, bool)>>),
    /// A campaign was changed, or that was refused.
    Campaign(Reply<Answered<Box<TrackedCampaign>>>, Answered<Box<TrackedCampaign>>),
    /// Something was done, or refused.
    Done(Reply<Answered<()>>, Answered<()>),
    /// It is kept, or has ended.
    Kept(Reply<()>),
    /// The shares that were asked for.
    Shares(Reply<Vec<ShareNow>>, Vec<ShareNow>),
    /// What the pace of picks follows from.
    Fairness(Reply<FairnessStats>, FairnessStats),
    /// A device's partition is to do this.
    Order(PickOrder),
    /// These devices are to be looked for.
    Search(PickSearch),
    /// Whether sessions that end matter, and whether those that begin do.
    Wanted {
        /// Some task goes on.
        has_open: bool,
        /// Some task picks devices as they come.
        who_come: bool,
    },
    /// A device is set aside for being mute, or no longer.
    Answering(DevicePlace, bool),
    /// Ends of tasks are due to be told.
    EndsDue,
    /// Ends of tasks that are to be told now.
    EndsLeased(Reply<Vec<TaskEndDue>>, Vec<TaskEndDue>),
    /// Operators are warned.
    Warn(CampaignWarning),
    /// What the step did.
    Counted(CampaignsCounted),
}

/// What operators are warned of: a few lines a minute, however often it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CampaignWarning {
    /// A slot is skipped: too many tasks and slots go on, or the token has its share of them.
    NoRoomForSlot {
        /// The campaign.
        campaign: Option<Arc<str>>,
        /// The token for which it counts.
        token: Option<Box<str>>,
    },
    /// The end of a task could not be told, or too many others wait.
    EndGivenUp {
        /// The task.
        task: EntityId,
        /// The token that asked.
        token: Option<Box<str>>,
    },
}

/// What the machine reaches outside.
pub struct CampaignsContext {
    pub(crate) links: Arc<PickLinks>,
    pub(crate) fleet: Arc<dyn FleetView>,
    pub(crate) ends: DueTaskEnds,
    pub(crate) counts: CampaignMetrics,
    /// Turns to look for devices.
    pub(super) searches: Semaphore,
    /// Places to wait for a turn.
    pub(super) searchers: Semaphore,
    /// Searches of tasks that failed, by their lines in the log.
    pub(super) searches_failed: LogLimit<()>,
    /// Lines about picks that cannot be spread.
    pub(super) log: LogLimit<()>,
    /// Lines about slots without room, and about ends that are given up.
    slots_without_room: LogLimit<()>,
    ends_given_up: LogLimit<()>,
    followers: Arc<Followers>,
    metrics: Arc<BatchMetrics>,
}

impl CampaignsContext {
    pub(crate) fn new(
        links: Arc<PickLinks>,
        fleet: Arc<dyn FleetView>,
        followers: Arc<Followers>,
        metrics: Arc<BatchMetrics>,
    ) -> Self {
        let (ends, counts) = (DueTaskEnds::default(), CampaignMetrics::default());
        Self {
            links,
            fleet,
            ends,
            counts,
            searches: Semaphore::new(SEARCHES_AT_ONCE),
            searchers: Semaphore::new(SEARCHERS_MAX),
            searches_failed: LogLimit::default(),
            log: LogLimit::default(),
            slots_without_room: LogLimit::default(),
            ends_given_up: LogLimit::default(),
            followers,
            metrics,
        }
    }

    fn warn(&self, warning: &CampaignWarning) {
        match warning {
            CampaignWarning::NoRoomForSlot { campaign, token } => {
                if let Some(left_out) = self.slots_without_room.take((), Instant::now()) {
                    let (campaign, token) = (campaign.as_deref(), token.as_deref());
                    tracing::warn!(
                        campaign,
                        token,
                        left_out,
                        "a slot is skipped: too many tasks and slots go on"
                    );
                }
            }
            CampaignWarning::EndGivenUp { task, token } => {
                if let Some(left_out) = self.ends_given_up.take((), Instant::now()) {
                    let (task, token) = (task.to_text(TASK_ID_PREFIX), token.as_deref());
                    tracing::warn!(task, token, left_out, "nobody took the end of a task: it is given up");
                }
            }
        }
    }
}

impl MachineContext for CampaignsContext {
    type Effect = CampaignsEffect;
    type Update = CampaignUpdate;

    fn release(&self, effect: CampaignsEffect) {
        match effect {
            CampaignsEffect::Task(reply, answer) => reply.send(answer),
            CampaignsEffect::Begun(reply, answer) => reply.send(answer),
            CampaignsEffect::Campaign(reply, answer) => reply.send(answer),
            CampaignsEffect::Done(reply, answer) => reply.send(answer),
            CampaignsEffect::Kept(reply) => reply.send(()),
            CampaignsEffect::Shares(reply, shares) => reply.send(shares),
            CampaignsEffect::Fairness(reply, fairness) => reply.send(fairness),
            CampaignsEffect::Order(order) => self.links.order(order),
            CampaignsEffect::Search(search) => self.links.search(search),
            CampaignsEffect::Wanted { has_open, who_come } => self.links.want(has_open, who_come),
            CampaignsEffect::Answering(place, is) => self.fleet.set_answering(place, is),
            CampaignsEffect::EndsDue => self.ends.mark_due(),
            CampaignsEffect::EndsLeased(reply, due) => reply.send(due),
            CampaignsEffect::Warn(warning) => self.warn(&warning),
            CampaignsEffect::Counted(counted) => self.counts.add(&counted),
        }
    }

    fn batch_made(&self, _: PartitionId, batch: &Batch) -> Option<CampaignUpdate> {
        self.metrics.batch();
        self.followers.campaign_update(batch)
    }

    fn batch_durable(&self, _: Timestamp, update: Option<&CampaignUpdate>) {
        self.followers.campaigns_changed(update);
    }
}

base::debug_as_name!(CampaignsContext);
