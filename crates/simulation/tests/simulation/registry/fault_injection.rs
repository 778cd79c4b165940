//! What is broken on purpose in runs with notices and operations.

use records::{NoticeKind, Op};

use crate::harness::fault_injection::{InjectedFault, Shows, StoredFault};

pub(crate) const CHUNK_NOT_AWAITED: InjectedFault =
    InjectedFault::Around("the worker of an operation acts on rows before they are written");
pub(crate) const OUTCOME_TOLD_WRONG: InjectedFault =
    InjectedFault::Around("the worker of an operation leaves rows that were refused out of its account");
pub(crate) const RECOVERY_UNSEEN: InjectedFault =
    InjectedFault::Around("nobody looks after a start whether a client that was told failing recovered");
pub(crate) const QUIET_IGNORED: InjectedFault =
    InjectedFault::Around("the server is given half of the quiet time");

pub(crate) const DISABLED_UNTOLD: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "a notice that a client was disabled is not made",
    shows: Shows::Batch,
    change: |batch, _| {
        let is_told =
            |op: &Op| matches!(op, Op::PutNotice(notice) if notice.kind == NoticeKind::ClientDisabled);
        batch.ops.retain(|op| !is_told(op));
    },
});

pub(crate) const CHUNK_LOST: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "every third chunk of an operation is not stored",
    shows: Shows::Store,
    change: |batch, seen| {
        batch.ops.retain(|op| {
            let is_chunk = matches!(op, Op::PutOperationState(state) if !state.chunk.is_empty());
            *seen += u64::from(is_chunk);
            !(is_chunk && seen.is_multiple_of(3))
        });
    },
});
