//! What is broken on purpose in runs with streams.

use records::{Batch, Op};

use crate::harness::fault_injection::{InjectedFault, Shows, StoredFault};

pub(crate) const FILE_NOT_WRITTEN: InjectedFault =
    InjectedFault::Around("the file of a block is gone when its row is written");
pub(crate) const FILE_NOT_DELETED: InjectedFault =
    InjectedFault::Around("files of blocks that are dropped stay");
pub(crate) const MOVED_FILE_LOST: InjectedFault =
    InjectedFault::Around("the file that a block was brought to is gone when its row says so");
pub(crate) const ANSWERED_AT_ONCE: InjectedFault =
    InjectedFault::Around("streams are told periodic where callers were told sync");

pub(crate) const UNTIL_TAKEN_FORGOTTEN: InjectedFault =
    InjectedFault::Around("streams are told to let go of what a push has not taken");
pub(crate) const COMMIT_ANSWERED_EARLY: InjectedFault =
    InjectedFault::Around("readers are told that a position is durable when it is handed in");
pub(crate) const REWIND_FORGOTTEN: InjectedFault =
    InjectedFault::Around("a commit that rewinds is handed in as one that does not");
pub(crate) const READER_MISTAKEN: InjectedFault =
    InjectedFault::Around("a reader that another one keeps out is taken for that one");

pub(crate) const POSITION_LOST: InjectedFault =
    stored("every third change of a subscription is not stored", Shows::Store, |batch, seen| {
        let is_read = |op: &Op| matches!(op, Op::PutSubscription(row) if row.push.is_none());
        batch.ops.retain(|op| !(is_read(op) && is_third(seen)));
    });

pub(crate) const SUBSCRIPTION_STAYS: InjectedFault =
    stored("subscriptions that are deleted stay stored", Shows::Rows, |batch, _| {
        batch.ops.retain(|op| !matches!(op, Op::DeleteSubscription(..)));
    });

pub(crate) const CHUNK_LOST: InjectedFault =
    stored("every third chunk is not stored", Shows::Store, |batch, seen| {
        batch.ops.retain(|op| !(matches!(op, Op::PutStreamChunk(_)) && is_third(seen)));
    });

pub(crate) const SPAN_LOST: InjectedFault =
    stored("where the numbers of a block are is not stored", Shows::Store, |batch, _| {
        batch.ops.retain(|op| !matches!(op, Op::PutExternalSpan(_)));
    });

pub(crate) const NUMBERS_FORGOTTEN: InjectedFault =
    stored("numbers of sources are not stored", Shows::Store, |batch, _| {
        batch.ops.retain(|op| !matches!(op, Op::PutExternalInterval(_)));
    });

pub(crate) const RESERVATION_FORGOTTEN: InjectedFault =
    stored("ids that may be given to callers are not reserved", Shows::Batch, |batch, _| {
        for op in &mut batch.ops {
            if let Op::PutStreamTail(tail) = op {
                tail.reserved = tail.next;
            }
        }
    });

pub(crate) const YOUNG_BLOCK_DROPPED: InjectedFault =
    stored("every third block is dropped with the batch that stores it", Shows::Batch, |batch, seen| {
        let rows = batch.ops.iter().filter_map(|op| match op {
            Op::PutStreamBlock(block) if is_third(seen) => Some((block.stream, block.first)),
            _ => None,
        });
        let gone: Vec<_> = rows.collect();
        batch.ops.extend(gone.into_iter().map(|(stream, first)| Op::DeleteStreamBlock(stream, first)));
    });

const fn stored(name: &'static str, shows: Shows, change: fn(&mut Batch, &mut u64)) -> InjectedFault {
    InjectedFault::Stored(StoredFault { name, shows, change })
}

fn is_third(seen: &mut u64) -> bool {
    *seen += 1;
    seen.is_multiple_of(3)
}
