//! What every simulated run is made of, whatever runs in it: a machine with clocks, storage and
//! faults, the lives of a process on it, the schedule of steps, and the trace.
//!
//! A workload says what its process is ([`lives::Life`]) and what may happen to it
//! ([`schedule::Scheduled`]).

pub(crate) mod clock;
pub(crate) mod counts;
pub(crate) mod lives;
pub(crate) mod machine;
pub(crate) mod schedule;
pub(crate) mod storage;
pub(crate) mod trace;
