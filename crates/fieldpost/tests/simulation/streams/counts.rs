//! What a run with streams saw of each kind.

use crate::harness::counts::counts;

counts! {
    /// What a run saw.
    Counts:
    /// Messages that were appended and answered, by whether they were durable by then.
    durable,
    early,
    /// Messages whose callers were answered, and that a crash took.
    lost,
    duplicates,
    /// Duplicates whose first carries something else.
    conflicts,
    /// Duplicates whose first is gone.
    firsts_gone,
    /// Appends that were refused: the last id was another, or the stream was full.
    tail_moved,
    full,
    set,
    deleted,
    blocks_stored,
    blocks_dropped,
    /// Blocks that could not be stored.
    blocks_failed,
    blocks_moved,
    /// Tries that brought no block to the other storage.
    moves_failed,
    /// Files that a start found without a row.
    swept,
    /// The same in the other storage, once it was there.
    cold_swept,
    pages,
    messages_read,
    /// Reads that a fault of the disk refused.
    unreadable,
}
