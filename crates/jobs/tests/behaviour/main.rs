//! The rules of jobs, one behaviour a test.

mod aliases;
mod due_times;
mod leases;
mod restarts;
mod rig;
