//! What is broken on purpose in runs with tasks and campaigns.

use records::Op;

use crate::harness::fault_injection::{InjectedFault, Shows, StoredFault};

pub(crate) const ORDER_CARRIED_TWICE_AS_NEW: InjectedFault =
    InjectedFault::Around("a device's partition does not know a pick that it has had");

pub(crate) const VALUES_NOT_KNOWN: InjectedFault =
    InjectedFault::Around("the search does not know which value a device has");

pub(crate) const DEVICE_NOT_FOUND: InjectedFault = InjectedFault::Around("the search leaves out one device");

pub(crate) const DELETION_NOT_SEEN: InjectedFault =
    InjectedFault::Around("the fleet still shows devices that are deleted");

pub(crate) const QUOTAS_DOUBLED: InjectedFault =
    InjectedFault::Around("tokens and devices may have twice as many picks in an hour");

pub(crate) const SHARE_LOST: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "shares of devices are not stored",
    shows: Shows::Store,
    change: |batch, _| batch.ops.retain(|op| !matches!(op, Op::PutPickShare(_))),
});

pub(crate) const SLOT_FORGOTTEN: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "a slot that is skipped is not written",
    shows: Shows::Batch,
    change: |batch, _| {
        let skipped = batch.ops.iter().find_map(|op| match op {
            Op::PutTaskState(state) if state.was_skipped => Some(state.task),
            _ => None,
        });
        batch.ops.retain(|op| match op {
            Op::PutTask(task) => Some(task.incarnation) != skipped,
            Op::PutTaskState(state) => Some(state.task) != skipped,
            _ => true,
        });
    },
});

pub(crate) const PICK_LOST: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "one pick that was made is not stored",
    shows: Shows::Store,
    change: |batch, seen| {
        *seen += batch.ops.iter().filter(|op| matches!(op, Op::PutPick(_))).count() as u64;
        if *seen > 3 {
            batch.ops.retain(|op| !matches!(op, Op::PutPick(pick) if pick.end.is_none()));
        }
    },
});
