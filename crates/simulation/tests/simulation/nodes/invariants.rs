//! What is promised of copies between nodes, besides what is promised of streams.

use crate::harness::violation::Invariant;

impl Invariant {
    /// A message is in a stream once, by however many ways it comes.
    pub(super) const EVERYWHERE_ONCE: Self = Self("EverywhereOnce");
    /// A message that was given no source, or whose source never gave its id, is new.
    pub(super) const NEW_IS_NEW: Self = Self("NewIsNew");
    /// In the end each message is wherever it is copied to.
    pub(super) const EVERYWHERE_IN_THE_END: Self = Self("EverywhereInTheEnd");
    /// Messages of a source are in its order in every stream.
    pub(super) const SOURCE_ORDER: Self = Self("SourceOrder");
    /// What is on another node survives a crash of the node that it is from.
    pub(super) const COPIED_IS_SAVED: Self = Self("CopiedIsSaved");
    /// Up to a copy's position everything survives a crash of the other node.
    pub(super) const POSITIONS_ARE_TRUE: Self = Self("PositionsAreTrue");
    /// A node that a receipt names has the message, and keeps it through a crash.
    pub(super) const RECEIPTS_ARE_TRUE: Self = Self("ReceiptsAreTrue");
    /// Without new messages copies stop.
    pub(super) const COPIES_COME_TO_REST: Self = Self("CopiesComeToRest");
    /// Every report that an edge node accepted takes effect at the centre once, in its order.
    pub(super) const REPORTS_ONCE: Self = Self("ReportsOnce");
    /// A copy counts each report that the centre refuses once.
    pub(super) const REFUSED_IS_SAID: Self = Self("RefusedIsSaid");
}
