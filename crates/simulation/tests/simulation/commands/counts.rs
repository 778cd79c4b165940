//! What a run with commands saw of each kind.

use crate::harness::counts::counts;

counts! {
    /// What a run saw.
    Counts:
    sent,
    /// Commands that a device received, by its session,
    received,
    /// or by a poll.
    polled,
    acknowledged,
    /// Commands that their device refused,
    refused,
    /// or did not answer.
    failed_unanswered,
    running,
    expired,
    superseded,
    cancelled,
    retried,
    /// Answers after the end.
    late,
    /// Publishes that were not the first.
    repeats,
    /// Callers that were told of an end.
    awaited,
    rollouts,
    rollouts_paused,
    rollouts_resumed,
    rollouts_cancelled,
    /// Commands of rollouts that went out.
    rolled_out,
    /// Sessions that broke while a command was with the device.
    broken_off,
}
