//! Tasks and campaigns in the simulation, with those who ask for them, and a fleet. Production's
//! machine runs behind its inbox, on the clocks and over the storages of every run.
//!
//! # What goes wrong
//! All that goes wrong with the machine: see the [top](crate). So the process dies in the middle of
//! slots, the wall clock is set, and days pass. Besides:
//! - **Callers** begin tasks and cancel them. Campaigns are made, changed, paused, resumed and
//!   removed, with slots of seconds to hours, with both paces and both ways to treat missed slots.
//!   In some runs tasks are spread over values, campaigns are panels, devices and tokens have
//!   quotas, and a token is not configured any more.
//! - **The courier** comes late. What it carries is lost with the process: orders, reports, what
//!   was found, and hints of what devices did.
//! - **Devices**, in two of five runs, come and go with commands that did not go out; they refuse,
//!   answer late, or never. In the others all are there whenever the process is, and answer. In
//!   half of the runs some are deleted, also while they are asked.
//!
//! # What is checked
//! The [model] follows every batch. No slot of a campaign begins twice, and none begins before it
//! is due. A slot or task never has more devices under way and done than it wants. It never has a
//! device twice, nor more replacements than it wants devices. Nobody is told of a pick that is not
//! durable. Between two slots that a campaign has passed lies none that wants devices and was
//! neither begun nor skipped, but for those of a pause. Where all devices stay, the picks of
//! devices that are always in the same selections differ by at most 1, across all lives. Where
//! tasks are spread, this holds among the devices of a value. Each value has as many picks as any
//! other that has devices left. A slot of a panel picks the devices of the one before. No quota is
//! passed, no deleted device is picked, and its share is forgotten. What is
//! [stored](model::Model::check_stored) is what the batches said. At the end no campaign is behind
//! its slots, and every task that was accepted has ended.
//!
//! Not simulated: the index, and the partitions of devices, which have the workload of
//! [commands](crate::commands).

mod counts;
pub(crate) mod fault_injection;
mod fault_tests;
mod invariants;
mod model;
pub(crate) mod plan;
mod seeds;
pub(crate) mod world;
