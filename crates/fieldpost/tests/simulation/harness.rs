//! What every simulated run is made of, whatever runs in it: the clocks, the storages with their faults, and the trace.

pub(crate) mod clock;
pub(crate) mod storage;
pub(crate) mod trace;
