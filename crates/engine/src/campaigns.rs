//! Tasks and campaigns: some devices of a selection are asked for something, once or again and
//! again, and every device gets its fair share.
//!
//! Their records are rows of a partition of their own. Its machine plans durably which devices are
//! picked. A courier carries each order to the device's partition, which makes the command, and
//! carries back what became of it. An order that may have been lost is given again: a device's
//! partition knows a pick that it has had.
//!
//! Which devices a selection means is looked up outside, in the fleet's index, before the machine
//! has its turn.

mod asked;
mod calls;
mod campaign_metrics;
mod check;
pub(crate) mod courier;
mod coverage;
pub(crate) mod effect;
mod ends;
mod fleet;
mod input;
pub mod links;
pub mod machine;
mod search;
mod tracked;

pub use ::campaigns::{CoverageStats, FairnessStats};
pub use asked::{CHANGED_MEANWHILE, CampaignPatch, NewCampaign, NewPickTerms, NewTask};
pub use calls::{CampaignCalls, TaskCalls};
pub use check::{ANSWER_TIMEOUT_RANGE, DEADLINE_RANGE, EVERY_RANGE, OVER_RANGE, check_campaign_id};
pub use coverage::CampaignCoverage;
pub use effect::{CampaignWarning, CampaignsContext, CampaignsEffect};
pub use ends::TaskEndDue;
pub use fleet::FleetView;
pub use input::{CampaignCall, CampaignsInput, PickUpdate, PresentCampaign, ShareNow, TaskCall};
pub use links::{OrderKind, OrderMessages, PickMove, PickOrder, PickOrderOutcome, PickReport, PickStanding};
pub use machine::{CampaignMachine, unknown_campaign, unknown_task};
pub use search::{FoundDevices, PickSearch};
pub use tracked::{CampaignResultKey, TrackedCampaign, TrackedTask, Weight};

/// What the text of a task's id begins with.
pub const TASK_ID_PREFIX: &str = "tsk_";
/// What the text of a campaign's id begins with, where the server made it.
pub const CAMPAIGN_ID_PREFIX: &str = "cmp_";
/// Devices that one pick names at most.
pub const COUNT_MAX: u32 = 100_000;
/// Devices that a task or a campaign names at most.
pub const NAMED_MAX: usize = 10_000;
