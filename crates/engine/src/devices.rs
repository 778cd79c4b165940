//! Devices: the machine of their partitions, the way of reports into it, and what it says to the
//! sender of webhooks.

pub mod context;
pub mod effect;
pub mod input;
pub mod intake;
pub mod lanes;
pub mod partition;
pub(crate) mod quarantine_budget;
pub mod sessions;
pub mod stale_clients;
pub(crate) mod stats;
