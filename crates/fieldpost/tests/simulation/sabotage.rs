//! Deliberate faults of the harness, which stand for bugs of the server: the right checker must find each.

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// A commit is called durable when it is handed in.
    EffectsBeforeDurable,
    /// The disk says that it has synced, and has not.
    ForgottenSync,
    /// The disk does so for the tables only.
    ForgottenCheckpointSync,
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
    /// A client may have one more in flight than is set.
    LimitIgnored,
}
