//! What the program around the API tells of itself: its machine, its settings, and the parts that
//! the API does not know.

use base::{ClientId, Timestamp};
use serde_json::Value as Json;

/// The program around the API. Every call is short: it reads what is in memory, or asks the kernel.
pub trait ServerHost: Send + Sync + 'static {
    /// The program's version.
    fn version(&self) -> &str;
    /// The name of this node, where it has one.
    fn node(&self) -> Option<&str>;
    /// When the process began, by the wall clock.
    fn started_at(&self) -> Timestamp;
    /// The disk with the data directory; `None` where it cannot be asked.
    fn disk(&self) -> Option<DiskSpace>;
    /// Memory of the process that is in RAM; `None` where the kernel does not tell.
    fn resident_bytes(&self) -> Option<u64>;
    /// How much of what has a limit is used.
    fn limits(&self) -> Vec<LimitUsage>;
    /// The settings in force by section and key, without secrets.
    fn settings(&self) -> &Json;
    /// Some clients whose breaker is open, at most so many.
    fn open_breakers(&self, limit: usize) -> Vec<FailingReceiver>;
}

/// A disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// What may still be written.
    pub free_bytes: u64,
    /// All of it.
    pub total_bytes: u64,
    /// With less free it is nearly full; 0 where that is not to be told.
    pub least_free_bytes: u64,
}

impl DiskSpace {
    /// Whether so little is left that the store may soon accept nothing more.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.free_bytes < self.least_free_bytes
    }
}

/// Something of which there may be so much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitUsage {
    /// What it is, for people.
    pub name: &'static str,
    /// How much there is.
    pub used: u64,
    /// How much there may be.
    pub max: u64,
    /// The setting that says so, if one does.
    pub setting: Option<&'static str>,
}

impl LimitUsage {
    /// Whether nine tenths are used.
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.max > 0 && self.used >= self.max - self.max / 10
    }
}

/// A client that keeps failing: its notifications wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingReceiver {
    /// The client.
    pub client: ClientId,
    /// Attempts that had failed in a row when it opened.
    pub failed: u32,
    /// How the last of them ended.
    pub last: String,
    /// When it opened.
    pub since: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_near_at_nine_tenths() {
        for (used, max, expect) in
            [(89, 100, false), (90, 100, true), (0, 1, false), (1, 1, true), (0, 0, false)]
        {
            assert_eq!(
                LimitUsage { name: "streams", used, max, setting: None }.is_near(),
                expect,
                "{used} {max}"
            );
        }
    }
}
