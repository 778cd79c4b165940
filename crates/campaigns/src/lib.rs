//! Tasks and campaigns: whom a fair pick takes, when slots come, and what coverage they have.
//!
//! The rules decide over sets of devices alone. What a device is like, how it is told and where
//! anything is kept is known elsewhere. Nothing here reads a clock: every time is an argument.
//!
//! | module | rule |
//! |---|---|
//! | [`clock`] | the virtual clock, punishment, weights |
//! | [`shares`] | what each device has had; the devices that have had least |
//! | [`mute`] | devices that never answer are set aside |
//! | [`spread`] | equal numbers for each value of a label; panels |
//! | [`slots`] | when slots come, how many devices each wants, what becomes of missed ones |
//! | [`phase`] | by how much a campaign is shifted, so that minutes are level |
//! | [`rate`] | which picks go first when a rate makes them wait |
//! | [`quota`] | picks of a token and of a device in an hour |
//! | [`token_use`] | how much of a bound one token may hold |
//! | [`coverage`] | how evenly the picks of a period lie on the devices of a selection |

mod by_place;
pub mod clock;
pub mod coverage;
pub mod device_set;
pub mod mute;
pub mod phase;
pub mod quota;
pub mod rate;
pub mod shares;
pub mod slots;
pub mod spread;
pub mod token_use;

pub use clock::{FairnessStats, VirtualClock};
pub use coverage::{CoverageCount, CoverageStats};
pub use device_set::DeviceSet;
pub use phase::PhaseWheel;
pub use quota::{DeviceQuota, TokenQuotas};
pub use rate::PickRate;
pub use shares::Shares;
pub use slots::{Slot, SlotPlan, SlotStep};
pub use token_use::TokenUse;
