//! What is promised of notices and operations, besides what is promised of everything.

use crate::harness::violation::Invariant;

impl Invariant {
    /// A subject has at most one notice in the quiet time.
    pub(crate) const NOTICES_ARE_RARE: Self = Self("NoticesAreRare");
    /// Once the quiet time is over, whoever listens knows how a subject is.
    pub(crate) const NOTICES_ARE_RIGHT: Self = Self("NoticesAreRight");
    /// Every row that was found has one end, and the counts of an operation say which.
    pub(crate) const ROWS_ARE_COUNTED: Self = Self("RowsAreCounted");
    /// Nothing is done to a row before it is written that its turn has come.
    pub(crate) const WRITTEN_BEFORE_DONE: Self = Self("WrittenBeforeDone");
}
