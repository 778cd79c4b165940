//! What is promised of tasks and campaigns, besides what is promised of everything.

use crate::harness::violation::Invariant;

impl Invariant {
    /// A slot begins once, and not before it is due.
    pub(crate) const SLOTS_BEGIN_ONCE: Self = Self("SlotsBeginOnce");
    /// A slot that is due begins, or is skipped and told of.
    pub(crate) const SLOTS_ARE_NOT_FORGOTTEN: Self = Self("SlotsAreNotForgotten");
    /// A task has no more devices than it wants, and none twice.
    pub(crate) const NOT_BEYOND_ITS_COUNT: Self = Self("NotBeyondItsCount");
    /// Of each value equal numbers are picked, as far as there are devices.
    pub(crate) const SPREAD_IS_EVEN: Self = Self("SpreadIsEven");
    /// Each slot of a panel picks the devices of the one before, but for those that are gone.
    pub(crate) const PANELS_STAY: Self = Self("PanelsStay");
    /// No token and no device has more picks in an hour than it may have.
    pub(crate) const QUOTAS_HOLD: Self = Self("QuotasHold");
    /// A device that was deleted is not picked, and its share is forgotten.
    pub(crate) const GONE_DEVICES_ARE_FORGOTTEN: Self = Self("GoneDevicesAreForgotten");
    /// Picks of devices that are always in the same selections differ by at most 1.
    pub(crate) const PICKS_ARE_FAIR: Self = Self("PicksAreFair");
}
