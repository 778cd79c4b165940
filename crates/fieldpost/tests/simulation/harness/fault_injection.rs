//! Deliberate faults of the harness, which stand for bugs of the server: the right checker must
//! find each.

impl InjectedFault {
    /// Whether it may show first in rows that do not agree. Of the others each has a checker of its
    /// own to find it.
    pub(crate) fn is_left_in_rows(self) -> bool {
        self == Self::BodyStays
    }
}

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// A commit is called durable when it is handed in.
    EffectsBeforeDurable,
    /// The disk says that it has synced, and has not.
    ForgottenSync,
    /// The disk does so for the tables only.
    ForgottenCheckpointSync,
    /// A checkpoint does not record up to where its partition is in the tables.
    ForgottenPosition,
    /// What is synced later than it is answered never is.
    ForgottenLateSync,
    /// A crash takes the last durable batch with it.
    BatchLostAtRestart,
    /// Every third event is recorded twice.
    EventTwice,
    /// The sender begins every attempt twice.
    AttemptTwice,
    /// The sender lets attempts wait, whatever becomes of their links meanwhile.
    AttemptsWait,
    /// Retries come in half the time that is set.
    RetriesTooSoon,
    /// A way in closes its door, and the partitions are told that it is open.
    SilentDoor,
    /// The reports of a slice are handed in backwards.
    SwappedReports,
    /// Reports that were said before lose the id by which that could be known.
    RepeatsTakenForNew,
    /// Bodies never say what was skipped.
    NothingSkipped,
    /// An end of an attempt is taken for that of whoever holds the lease now.
    StaleLeaseHonoured,
    /// Partitions are not woken when something of theirs is due.
    DeadlineLost,
    /// Every third job that ends, and with it its alias, stays in the store.
    AliasNotFreed,
    /// Every third job that ends leaves what it carried in the store.
    BodyStays,
    /// One state of a device is stored with another value.
    StateCorrupted,
    /// One reading is stored with another value.
    ReadingCorrupted,
    /// A client may have one more in flight than is set.
    LimitIgnored,
    /// Breakers are not told of attempts that fail.
    BreakerIgnored,
    /// What waits for a breaker is forgotten.
    BreakerDrops,
    /// A lease of a consumer outside is stored as if there were none.
    LeaseForgotten,
    /// A job that was tried is stored as if it had not been.
    AttemptsForgotten,
    /// A job that was tried is stored without its group: that is free after a start.
    GroupForgotten,
    /// A job that dies stays in the store, and with it its alias.
    DeathForgotten,
    /// Every third job that is not to be in memory is not stored either.
    ParkedForgotten,
    /// The next run of a job is stored as due one interval after it is made.
    RunsFromNow,
    /// Answers to requests that may be repeated are not stored.
    AnswersForgotten,
    /// How many jobs are parked, and dead, is not stored.
    CountsForgotten,
    /// A pause is not stored.
    PauseForgotten,
    /// Jobs are published without their group.
    GroupIgnored,
    /// Jobs that are to come later come in half the time.
    JobsTooSoon,
}
