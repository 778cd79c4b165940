//! What is broken on purpose in runs of devices.

use base::Value;
use records::Op;

use crate::harness::fault_injection::{InjectedFault, Shows, StoredFault};

pub(crate) const ATTEMPT_TWICE: InjectedFault =
    InjectedFault::Around("the sender begins every attempt twice");
pub(crate) const ATTEMPTS_WAIT: InjectedFault =
    InjectedFault::Around("the sender lets attempts wait, whatever becomes of their links meanwhile");
pub(crate) const RETRIES_TOO_SOON: InjectedFault =
    InjectedFault::Around("retries come in half the time that is set");
pub(crate) const SILENT_CLOSE: InjectedFault =
    InjectedFault::Around("a way in closes, and the partitions are told that it is open");
pub(crate) const SWAPPED_REPORTS: InjectedFault =
    InjectedFault::Around("the reports of a slice are handed in backwards");
pub(crate) const REPEATS_TAKEN_FOR_NEW: InjectedFault =
    InjectedFault::Around("reports that were said before lose the id by which that could be known");
pub(crate) const NOTHING_SKIPPED: InjectedFault = InjectedFault::Around("bodies never say what was skipped");
pub(crate) const STALE_LEASE_HONOURED: InjectedFault =
    InjectedFault::Around("an end of an attempt is taken for that of whoever holds the lease now");
pub(crate) const LIMIT_IGNORED: InjectedFault =
    InjectedFault::Around("a client may have one more in flight than is set");
pub(crate) const BREAKER_IGNORED: InjectedFault =
    InjectedFault::Around("breakers are not told of attempts that fail");
pub(crate) const BREAKER_DROPS: InjectedFault =
    InjectedFault::Around("what waits for a breaker is forgotten");

pub(crate) const EVENT_TWICE: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "every third event is recorded twice",
    shows: Shows::Batch,
    change: |batch, events| {
        let put: Vec<Op> = batch.ops.iter().filter(|op| matches!(op, Op::PutEvent(_))).cloned().collect();
        *events += put.len() as u64;
        if *events >= 3 {
            *events = 0;
            for mut op in put {
                if let Op::PutEvent(event) = &mut op {
                    event.id.number = event.id.number.wrapping_add(1 << 20);
                }
                batch.ops.push(op);
            }
        }
    },
});

pub(crate) const STATE_CORRUPTED: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "one state of a device is stored with another value",
    shows: Shows::Store,
    change: |batch, seen| {
        for op in &mut batch.ops {
            if let Op::PutState(_, state) = op
                && is_corrupted(seen)
            {
                state.value = Some(other());
            }
        }
    },
});

pub(crate) const READING_CORRUPTED: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "one reading is stored with another value",
    shows: Shows::Store,
    change: |batch, seen| {
        let signs =
            batch.ops.iter_mut().filter_map(|op| if let Op::Sign(sign) = op { Some(sign) } else { None });
        for reading in signs.filter_map(|sign| sign.reading.as_mut()) {
            if is_corrupted(seen) {
                reading.value = other();
            }
        }
    },
});

/// Of the records that a fault is about, the one that is stored with another content.
const CORRUPTED: u64 = 15;

fn is_corrupted(seen: &mut u64) -> bool {
    *seen += 1;
    *seen == CORRUPTED
}

fn other() -> Value {
    Value::number(41.0).expect("finite")
}
