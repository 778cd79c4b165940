//! A storage beside the data directory: it outlives the process and every loss of power, and is
//! away at times.

/// The name that it has in the settings.
pub(crate) const COLD: &str = "cold";

/// The storage.
pub(crate) type ColdStorage = store::SwitchedBlocks;
