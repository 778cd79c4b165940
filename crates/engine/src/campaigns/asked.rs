//! Tasks and campaigns as callers ask for them.

use std::sync::Arc;
use std::time::Duration;

use base::{DeviceId, Incarnation, Timestamp};
use fleet::{Patch, Selection};
use records::{CampaignPace, MissedSlots, OutcomeReceiver, PickClass, TaskRelation};

use crate::OnlyIf;

/// A task as a caller asks for it. Whoever makes one has checked its form and, with
/// [`NewTask::check`], its ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// A hash of the request.
    pub request: u128,
    /// Which devices, how many, and what they are told.
    pub terms: NewPickTerms,
    /// How long devices that drop out are replaced by others.
    pub deadline: Duration,
}

/// Which devices may be picked, how many, and what they are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPickTerms {
    /// What a device is told: compact JSON text, up to
    /// [`base::limits::COMMAND_PAYLOAD_BYTES_MAX`].
    pub payload: Arc<[u8]>,
    /// Which devices; all, if neither this nor `devices` says so.
    pub selection: Option<Selection>,
    /// Which devices not.
    pub exclude: Option<Selection>,
    /// Only these, as far as they meet the selection.
    pub devices: Option<Vec<DeviceId>>,
    /// Only devices that a task picked, or only others.
    pub relation: Option<TaskRelation>,
    /// A label, or a built-in key: of each of its values equal numbers are picked.
    pub spread_by: Option<Box<str>>,
    /// How many devices.
    pub count: u32,
    /// How long a device has for its answer, from sending on.
    pub answer_timeout: Duration,
    /// Which class of customers it is for.
    pub class: PickClass,
    /// Of a task: who is told its end. Of a campaign: who is told each result.
    pub receiver: Option<OutcomeReceiver>,
    /// The token of whoever asks, if there are tokens.
    pub token: Option<Box<str>>,
}

impl NewPickTerms {
    /// How long a device has for its answer where nothing else is said.
    pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

    /// One device of all, whichever it is.
    #[must_use]
    pub fn new(payload: Arc<[u8]>, count: u32) -> Self {
        Self {
            payload,
            selection: None,
            exclude: None,
            devices: None,
            relation: None,
            spread_by: None,
            count,
            answer_timeout: Self::ANSWER_TIMEOUT,
            class: PickClass::default(),
            receiver: None,
            token: None,
        }
    }
}

impl NewTask {
    /// How long devices that drop out are replaced where nothing else is said.
    pub const DEADLINE: Duration = Duration::from_secs(30);
}

/// A campaign as a caller asks for it. Whoever makes one has checked its form and, with
/// [`NewCampaign::check`], its ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCampaign {
    /// A hash of the request.
    pub request: u128,
    /// The id that the caller chose.
    pub id: Option<Box<str>>,
    /// What people call it.
    pub name: Option<Box<str>>,
    /// Which devices, how many at each slot or in each period, and what they are told.
    pub terms: NewPickTerms,
    /// How its slots lie.
    pub pace: CampaignPace,
    /// By how much its slots are shifted from multiples of their interval; chosen by the server if
    /// it is not given.
    pub phase: Option<Duration>,
    /// No slot before; on the wall clock.
    pub from: Option<Timestamp>,
    /// No slot from then on; on the wall clock.
    pub until: Option<Timestamp>,
    /// What becomes of slots that were missed.
    pub missed: MissedSlots,
    /// Whether every slot has the same devices.
    pub is_panel: bool,
}

/// The code of a refusal: the campaign is no longer as it was when its change was checked.
pub const CHANGED_MEANWHILE: &str = "changed_meanwhile";

/// What to change of a campaign; effective with its next slot. The result is checked as a new
/// campaign is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CampaignPatch {
    /// What people call it.
    pub name: Patch<Box<str>>,
    /// What a device is told.
    pub payload: Option<Arc<[u8]>>,
    /// Which devices: what `selector` and `place` mean together.
    pub selection: Patch<Selection>,
    /// Which devices not.
    pub exclude: Patch<Selection>,
    /// Only these.
    pub devices: Patch<Vec<DeviceId>>,
    /// How it relates to a task.
    pub relation: Patch<TaskRelation>,
    /// What the picked are spread over.
    pub spread_by: Patch<Box<str>>,
    /// How many devices.
    pub count: Option<u32>,
    /// How long a device has for its answer.
    pub answer_timeout: Option<Duration>,
    /// Which class of customers it is for.
    pub class: Option<PickClass>,
    /// Who is told each result.
    pub receiver: Patch<OutcomeReceiver>,
    /// How its slots lie.
    pub pace: Option<CampaignPace>,
    /// By how much its slots are shifted; cleared, the server chooses.
    pub phase: Patch<Duration>,
    /// No slot before.
    pub from: Patch<Timestamp>,
    /// No slot from then on.
    pub until: Patch<Timestamp>,
    /// What becomes of slots that were missed.
    pub missed: Option<MissedSlots>,
    /// Whether every slot has the same devices.
    pub is_panel: Option<bool>,
    /// The token of whoever changes it, if there are tokens: what comes of the change counts for
    /// it.
    pub token: Option<Box<str>>,
    /// The terms with which the change was checked. Others refuse it with [`CHANGED_MEANWHILE`].
    pub checked: Option<Incarnation>,
    /// On which versions of the campaign it is made.
    pub only_if: OnlyIf,
}
