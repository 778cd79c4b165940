//! What a run with several nodes saw of each kind.

use crate::harness::counts::counts;

counts! {
    /// What a run saw.
    Counts:
    /// Messages that were answered, by whether they were durable by then.
    durable,
    early,
    /// Messages whose callers were answered early, and that a crash took.
    lost,
    /// Messages that clients gave again, and that were there.
    duplicates,
    refused,
    lives,
    /// Nodes that came back with an empty disk, or with a backup.
    imaged,
    restored,
    streams_deleted,
    /// Requests to other nodes,
    requests,
    /// of which the network lost, or brought twice,
    requests_lost,
    requests_twice,
    /// that came when nobody waited any more,
    requests_late,
    /// that found nobody, or were cut off,
    requests_failed,
    /// and answers that it lost.
    answers_lost,
    cuts,
    /// Pages and appends that were answered.
    pages,
    batches,
    /// Moves of positions, and copies that began anew.
    moves,
    resets,
    /// Receipts, and receipts that name more than one node.
    receipts,
    receipts_of_several,
    /// Messages of other nodes that were found in a stream at the end.
    copied,
    /// Messages that went untaken, as copies say.
    dropped,
}
