//! Devices and clients in the simulation: production's partitions of devices and its registry behind
//! their inboxes, the lanes of webhooks, and everybody who reports, registers and is told. The
//! [top](crate) says what goes wrong and what is checked.

pub(crate) mod checkers;
mod counts;
mod fault_tests;
pub(crate) mod meant;
pub(crate) mod model;
pub(crate) mod plan;
mod receivers;
pub(crate) mod seeds;
pub(crate) mod world;
