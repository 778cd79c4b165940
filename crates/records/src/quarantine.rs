//! The quarantine: refused reports as they were received, for whoever has to find out why.

use base::{DeviceId, EntityId, Timestamp, WayIn};

use crate::weight::weighs;

/// Where a refused report is kept within its partition, and the order of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuarantineKey {
    /// When it was refused.
    pub at: Timestamp,
    /// Its number among the partition's refused reports, modulo 2^32.
    pub number: u32,
}

/// A refused report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its id, which holds its key.
    pub id: EntityId,
    /// The way it came in.
    pub way: WayIn,
    /// The topic it was published to, over MQTT.
    pub topic: Option<String>,
    /// Who it is from, if that can be said.
    pub device: Option<DeviceId>,
    /// Why it was refused: a stable code.
    pub code: String,
    /// Why it was refused, for people.
    pub detail: String,
    /// What was received.
    pub payload: Vec<u8>,
    /// More was received, and cut off.
    pub cut: bool,
}

weighs!(Quarantined: |report| report.cost() as usize);

impl Quarantined {
    /// What it counts for in the limit of the quarantine, in bytes: its texts, and a little for
    /// being there.
    #[must_use]
    pub fn cost(&self) -> u32 {
        const BEING_THERE: usize = 256;
        let texts = self.topic.as_ref().map_or(0, String::len) + self.code.len() + self.detail.len();
        u32::try_from(BEING_THERE + texts + self.payload.len()).unwrap_or(u32::MAX)
    }
}
