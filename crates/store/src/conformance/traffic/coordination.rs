//! Traffic of locks, and of what the workers of queues are to do.

use std::collections::BTreeSet;

use records::{Lock, Op, WorkState, WorkerControl};

use super::Traffic;

/// What there is of these in a partition of queues, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct InCoordination {
    locks: BTreeSet<String>,
    controls: BTreeSet<String>,
}

/// Names are few, so that they are used again.
const NAMES: u64 = 6;
const NAMESPACE: &str = "магазин";

impl Traffic {
    /// A lock is taken or let go, or nothing is known of it any more.
    pub(super) fn change_of_locks(&mut self, ops: &mut Vec<Op>) {
        let name = format!("lock-{}", self.below(NAMES));
        if self.in_coordination.locks.remove(&name) && self.below(3) == 0 {
            ops.push(Op::DeleteLock(NAMESPACE.into(), name.into()));
            return;
        }
        self.head.next_fence += 1;
        let lock = Lock {
            namespace: NAMESPACE.into(),
            name: name.as_str().into(),
            owner: self.maybe(|_| "касса".into()),
            fence: self.head.next_fence,
            until: self.some_ts(),
        };
        ops.push(Op::PutLock(Box::new(lock)));
        self.in_coordination.locks.insert(name);
    }

    /// The workers of a queue are to do something, or nothing is said to them any more.
    pub(super) fn change_of_controls(&mut self, ops: &mut Vec<Op>) {
        let name = format!("queue-{}", self.below(NAMES));
        if self.in_coordination.controls.remove(&name) && self.below(3) == 0 {
            ops.push(Op::DeleteQueueControl(NAMESPACE.into(), name.into()));
            return;
        }
        let control = WorkerControl {
            namespace: NAMESPACE.into(),
            queue: name.as_str().into(),
            state: WorkState::ALL[self.below(3) as usize],
            max_in_flight: self.maybe(|traffic| traffic.below(1_000) as u32),
            data: self.maybe(|_| "{}".into()),
        };
        ops.push(Op::PutQueueControl(Box::new(control)));
        self.in_coordination.controls.insert(name);
    }
}
