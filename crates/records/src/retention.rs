//! From when on things are kept: what is older is gone, whether it is still on the disk or not.

use base::Timestamp;

/// The earliest times that are kept. They only move forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptFrom {
    /// Readings by the later of their `ts` and their receipt; the start of a UTC day.
    pub readings: Timestamp,
    /// Events by when they were noticed, and counts by their day; the start of a UTC day.
    pub events: Timestamp,
    /// Deliveries by when they were made, with their attempts; the start of a UTC day.
    pub deliveries: Timestamp,
}

impl KeptFrom {
    /// Everything is kept, whatever its time.
    pub const EVER: Self =
        Self { readings: Timestamp(i64::MIN), events: Timestamp(i64::MIN), deliveries: Timestamp(i64::MIN) };
}

impl Default for KeptFrom {
    fn default() -> Self {
        Self::EVER
    }
}
