//! Devices and clients in the simulation, with everybody who reports, registers and is told.
//! Production's partitions of devices and its registry run behind their inboxes, with the lanes of
//! webhooks. The [top](crate) says what goes wrong and what is checked.

pub(crate) mod checkers;
mod counts;
pub(crate) mod fault_injection;
mod fault_tests;
mod invariants;
mod meant;
mod model;
pub(crate) mod plan;
mod receivers;
mod seeds;
pub(crate) mod world;
