//! Commands in the simulation: callers give them, and devices carry them out. Production's
//! partitions of devices run behind their inboxes, on the clocks and over the storages of every
//! run.
//!
//! # What goes wrong
//! All that goes wrong with the machine goes wrong here too: see the [top](crate). Besides:
//! - **Devices** come and go. They are reached by name, for their kind or any, or by a wildcard of
//!   somebody else. They say goodbye, or break off with a command in hand, and come back. Some
//!   poll, wait or do not, and lose the answer on its way. They answer at once, late, twice, once
//!   so and once otherwise, refuse, say that they are at work, or say nothing. What nobody took in
//!   they say again.
//! - **Callers** give commands of all priorities, and some to devices that nobody knows. Some keys
//!   meet, some times to live are too short, and some times have not come. They call commands off,
//!   try them anew, and wait for their ends.
//! - **Rollouts** are begun, paused, resumed and cancelled in a quarter of the runs. The courier
//!   between the registry and the partitions comes late, and is cut off with orders in hand.
//!
//! # What is checked
//! The [model] follows every batch and asks of each step of a command whether it may be. It decides
//! by the input, the clock, the devices in reach, the window, the gap and the order. What is
//! [stored](checkers::contents) is held against it at random moments, after every start and at the
//! end. A [history](checkers::history) of what callers and devices were told looks for what
//! contradicts them. At the end all faults stop, all devices are there and answer, and every
//! command that was accepted must have ended.
//!
//! Of rollouts, devices are counted anew after each batch of the registry, and the counts compared.
//! Nothing goes out for the first time after a pause was answered. At the end each device that is
//! meant has had its command once, or is counted as one that had none.

mod checkers;
mod counts;
pub(crate) mod fault_injection;
mod fault_tests;
mod meant;
mod model;
pub(crate) mod plan;
mod seeds;
pub(crate) mod world;
