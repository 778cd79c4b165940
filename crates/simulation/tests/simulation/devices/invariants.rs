//! What is promised of devices and of webhooks, besides what is promised of everything. The names
//! are those of ARCHITECTURE.md.

use crate::harness::violation::Invariant;

impl Invariant {
    pub(crate) const ORDER_PER_DEVICE: Self = Self("OrderPerDevice");
    pub(crate) const NEWEST_WINS: Self = Self("NewestWins");
    pub(crate) const LOOKED_UP_AT_THE_LAST_MOMENT: Self = Self("LookedUpAtTheLastMoment");
    pub(crate) const SILENCE_IS_MEASURED: Self = Self("SilenceIsMeasured");
}
