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
    /// Subscriptions that were made, got other terms, and were deleted.
    subscribed,
    resubscribed,
    unsubscribed,
    /// Calls of readers, and those that were refused for another reader.
    reads_on,
    readers_refused,
    /// Subscriptions that another reader than before read on.
    readers_replaced,
    /// Calls that found messages gone that nobody had read.
    gone_unread,
    /// Positions that moved, and of these those that went back.
    commits,
    rewinds,
    /// Commits that were refused: behind the position, or ahead of all messages.
    commits_behind,
    commits_ahead,
    /// What a load found of subscriptions: as was told, or as a call asked that nobody answered.
    positions_kept,
    positions_moved,
    /// Pages of subscriptions that are pushed, and commits of these that came too late.
    posts,
    posts_late,
    /// Batches behind which a stream had a block for the sake of a push alone.
    kept_for_pushes,
    /// Blocks that went though a push had not taken them.
    dropped_untaken,
    /// Subscriptions that were looked at, and those whose lag is known to the message.
    lags,
    lags_known,
}
