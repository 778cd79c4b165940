//! Tasks, campaigns and shares as callers see them.

use std::sync::Arc;

use base::{Incarnation, Timestamp};
use records::{CampaignRecord, CampaignState, OutcomeReceiver, PickTerms, TaskRecord, TaskState};

/// A task, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedTask {
    /// As it was asked for.
    pub task: Arc<TaskRecord>,
    /// How far it has come.
    pub state: TaskState,
    /// Who is told its end. Only whoever begins it, or does so again, is told, while that is known.
    pub receiver: Option<OutcomeReceiver>,
}

/// A campaign, what it asks for now, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedCampaign {
    /// The campaign.
    pub campaign: Arc<CampaignRecord>,
    /// Which devices are picked, and what they are told.
    pub terms: Arc<PickTerms>,
    /// How far it has come.
    pub state: CampaignState,
}

/// A device's share of all picks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// Its weight: 1 where it has recovered from all its picks.
    pub weight: f64,
    /// How often it was picked in the last 24 hours.
    pub picks: u64,
    /// When it was picked last.
    pub last_picked_at: Option<Timestamp>,
    /// Until when it is set aside for being mute.
    pub benched_until: Option<Timestamp>,
}

/// The place of a result of a campaign, in the order in which picks ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CampaignResultKey {
    /// When the pick ended.
    pub at: Timestamp,
    /// The slot's task.
    pub task: Incarnation,
    /// Counts the slot's picks that have ended.
    pub number: u32,
}
