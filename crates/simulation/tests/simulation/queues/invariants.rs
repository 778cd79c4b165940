//! What is promised of queues, besides what is promised of everything.

use crate::harness::violation::Invariant;

impl Invariant {
    pub(crate) const GROUP_ORDER: Self = Self("GroupOrder");
    /// One waiting or reserved job of a queue has an alias.
    pub(crate) const ALIAS_IS_UNIQUE: Self = Self("AliasIsUnique");
    /// Nothing but a new beginning that somebody asked for makes a job forget its attempts.
    pub(crate) const ATTEMPTS_ONLY_GROW: Self = Self("AttemptsOnlyGrow");
    /// What was acknowledged or cancelled never comes back.
    pub(crate) const DONE_STAYS_DONE: Self = Self("DoneStaysDone");
    /// A recurring job has its runs one after the other, at their times, and as many as were asked
    /// for.
    pub(crate) const RUNS_IN_TURN: Self = Self("RunsInTurn");
    /// A lock has one holder at a time.
    pub(crate) const ONE_HOLDER: Self = Self("OneHolder");
    /// The fence of a holder is higher than any that was told before, and nobody else has it.
    pub(crate) const FENCES_RISE: Self = Self("FencesRise");
    pub(crate) const STATS_ARE_RIGHT: Self = Self("StatsAreRight");
}
