//! The rules of jobs, one behaviour a test.

mod aliases;
mod clocks;
mod due_times;
mod expiry;
mod groups;
mod leases;
mod parking;
mod recurrence;
mod restarts;
mod rig;
mod rules;
