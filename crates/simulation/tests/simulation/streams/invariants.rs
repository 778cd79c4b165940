//! What is promised of streams, besides what is promised of everything.

use crate::harness::violation::Invariant;

impl Invariant {
    /// An id is never given to two messages, be it answered or written.
    pub(crate) const IDS_ARE_GIVEN_ONCE: Self = Self("IdsAreGivenOnce");
    /// A crash takes an end of what was not saved, never a part in the middle.
    pub(crate) const NO_HOLES: Self = Self("NoHoles");
    /// A number of a source is given to one message for ever, a text to one that is kept.
    pub(crate) const ONCE_ONLY: Self = Self("OnceOnly");
    /// A duplicate is answered with the id of the first, where that is kept.
    pub(crate) const DUPLICATES_NAME_THE_FIRST: Self = Self("DuplicatesNameTheFirst");
    /// Readers see every message that was answered and is kept, in order, once.
    pub(crate) const READ_AS_ANSWERED: Self = Self("ReadAsAnswered");
    /// Blocks go for their age or for room, the oldest first, and then they do go.
    pub(crate) const KEPT_AS_SET: Self = Self("KeptAsSet");
    /// Each row of a block has its file, as it was written.
    pub(crate) const BLOCKS_HAVE_FILES: Self = Self("BlocksHaveFiles");
    /// At rest each file has its row.
    pub(crate) const FILES_HAVE_BLOCKS: Self = Self("FilesHaveBlocks");
    /// What a copy has not taken does not go for its age.
    pub(crate) const KEPT_UNTIL_COPIED: Self = Self("KeptUntilCopied");
    /// What goes though a copy has not taken it is counted there.
    pub(crate) const DROPPED_IS_SAID: Self = Self("DroppedIsSaid");
    /// What a push has not taken does not go for its age.
    pub(crate) const KEPT_UNTIL_PUSHED: Self = Self("KeptUntilPushed");
    /// A subscription changes as a call asks for it, and a call is refused for its reason alone.
    pub(crate) const SUBSCRIPTIONS_AS_ASKED: Self = Self("SubscriptionsAsAsked");
    /// A position that was told is there after any end, unless another call may have moved it. A
    /// subscription whose deletion was told does not come back.
    pub(crate) const POSITIONS_STAY: Self = Self("PositionsStay");
    /// A position is never ahead of the ids that were given.
    pub(crate) const POSITIONS_ARE_GIVEN: Self = Self("PositionsAreGiven");
    /// One reader reads a subscription at a time, and nobody is refused without such a one.
    pub(crate) const ONE_READER: Self = Self("OneReader");
    /// The lag counts every message behind the position, and no other where no ids are left out.
    pub(crate) const LAG_IS_TRUE: Self = Self("LagIsTrue");
    /// Whoever posts knows of every subscription that is pushed.
    pub(crate) const PUSHES_ARE_KNOWN: Self = Self("PushesAreKnown");
}
