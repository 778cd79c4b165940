//! Campaigns: tasks that come again and again, in slots that lie on the clock.

use base::{Incarnation, Timestamp};

use crate::weight::{RECORD_BYTES, bytes_of, weighs};

/// A campaign. A change of it is effective with its next slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignRecord {
    /// Its id, unique among the campaigns that there are.
    pub id: Box<str>,
    /// What its slots and results are kept under.
    pub incarnation: Incarnation,
    /// When it was made.
    pub created_at: Timestamp,
    /// What people call it.
    pub name: Option<Box<str>>,
    /// Its [`crate::PickTerms`]; these change with it.
    pub terms: Incarnation,
    /// How its slots lie, and how many devices each wants.
    pub pace: CampaignPace,
    /// By how much its slots are shifted from multiples of their interval, in milliseconds.
    pub phase_ms: u64,
    /// Whether the caller chose the phase.
    pub is_phase_fixed: bool,
    /// No slot before; on the wall clock.
    pub from: Option<Timestamp>,
    /// No slot from then on; on the wall clock.
    pub until: Option<Timestamp>,
    /// What becomes of slots that were missed.
    pub missed: MissedSlots,
    /// Whether every slot has the same devices.
    pub is_panel: bool,
}

weighs!(CampaignRecord: |campaign| RECORD_BYTES + bytes_of(&campaign.name));

/// How slots lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CampaignPace {
    /// All devices at each slot; so many milliseconds lie between two.
    Every(u64),
    /// All devices within each period of so many milliseconds, spread over 60 slots.
    Over(u64),
}

/// What becomes of slots that were missed while nobody could begin them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedSlots {
    /// They are skipped.
    #[default]
    Skip,
    /// The newest one is done late.
    CatchUp,
}

base::names! {
    /// Every choice, in the order of their stored numbers.
    pub MissedSlots: Skip = "skip", CatchUp = "catch_up"
}

/// How far a campaign has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignState {
    /// The campaign.
    pub id: Box<str>,
    /// Whether it is paused.
    pub is_paused: bool,
    /// The latest slot that was begun or skipped, or that a pause passed over; `None` before the
    /// first.
    pub passed: Option<u64>,
    /// The task of the latest slot that picked: a panel's devices are those of its picks.
    pub panel: Option<Incarnation>,
}

weighs!(CampaignState: |_| RECORD_BYTES);
