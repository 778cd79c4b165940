//! What the registry does by itself in the simulation: notices, and operations with their worker.
//!
//! # What goes wrong
//! All that goes wrong with the machine: see the [top](crate). Besides:
//! - **Receivers** fail and recover at any moment, also while the process is down; clients are
//!   disabled and enabled meanwhile. Signals are on their way when the process dies.
//! - **Operations** begin, are called off, or are too many. Their worker is cut off before and
//!   after it has told what it did; it tells so together with the next rows, or first.
//!
//! # What is checked
//! No two notices of a client come within the quiet time, across all lives; what is kept is what
//! was made. At rest, once the quiet time is over, the newest notice of each client is right. The
//! counts of an operation always agree with its rows. Its worker acts only on what was written
//! before, and once in a life. An operation that is done has come to every row of its list.
//!
//! Not simulated: which rows a filter means and what is done to one, and dry runs. These the crate
//! `api` decides, which the black-box tests drive.

mod counts;
pub(crate) mod fault_injection;
mod fault_tests;
mod invariants;
mod model;
pub(crate) mod plan;
mod seeds;
pub(crate) mod world;
