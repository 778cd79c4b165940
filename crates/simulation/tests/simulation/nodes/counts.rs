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
    /// Nodes that came back with an empty disk, or with a backup.
    imaged,
    restored,
    streams_deleted,
    /// Pages that were answered.
    pages,
    /// Copies that began anew.
    resets,
    /// Receipts, and receipts that name more than one node.
    receipts,
    receipts_of_several,
    /// Messages of other nodes that were found in a stream at the end.
    copied,
    /// Messages that went untaken, as copies say.
    dropped,
}
