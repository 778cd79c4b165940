//! The store in memory: the conformance suite, and what only it can do.

use std::sync::mpsc::channel;

use base::DeviceId;
use records::{DeviceSlot, Op, Sign};

use super::*;
use crate::conformance::Subject;
use base::WayIn;

fn sign(partition: u16, seq: u64) -> Batch {
    let mut batch = Batch::new(PartitionId(partition));
    batch.head.seq = seq;
    batch.ops.push(Op::Sign(Sign {
        slot: DeviceSlot(0),
        way: WayIn::Http,
        readings: seq as u32,
        newest_ts: None,
        reading: None,
    }));
    batch
}

fn commit(store: &MemoryStore, batch: Batch) -> std::sync::mpsc::Receiver<CommitOutcome> {
    let (sender, receiver) = channel();
    store.commit(batch, Box::new(move |outcome| drop(sender.send(outcome))));
    receiver
}

fn seq(store: &MemoryStore) -> u64 {
    store.load(PartitionId(0)).expect("loads").head().seq
}

/// What is committed is durable at once, and there is nothing to move about or to open again.
struct Memory(MemoryStore);

impl Subject for Memory {
    fn store(&self) -> &dyn Store {
        &self.0
    }
    fn settle(&mut self) {}
    fn churn(&mut self, _turn: u64) {}
    fn restart(&mut self) {}
}

mod conformance {
    use super::*;
    crate::conformance_tests!(Memory(MemoryStore::new(Lineage(1), 2)));
}

#[test]
fn planned_outcomes_happen_once_each_and_in_order() {
    let store = MemoryStore::new(Lineage(1), 1);
    for (planned, expect, seq_after) in [
        (Planned::Fenced, "fenced", 0),
        (Planned::UnknownLost, "unknown", 0),
        (Planned::UnknownWritten, "unknown", 1),
    ] {
        store.plan(PartitionId(0), planned);
        let outcome = commit(&store, sign(0, 1)).try_recv().expect("known at once");
        assert_eq!(outcome.to_string(), expect);
        assert_eq!(seq(&store), seq_after, "{planned:?}");
    }
    assert!(matches!(commit(&store, sign(0, 2)).try_recv(), Ok(CommitOutcome::Durable)));
}

#[test]
fn after_a_failure_nothing_is_accepted_or_shown() {
    let store = MemoryStore::new(Lineage(1), 2);
    store.plan(PartitionId(0), Planned::Failed);
    for partition in [0, 1] {
        let outcome = commit(&store, sign(partition, 1)).try_recv();
        assert!(matches!(outcome, Ok(CommitOutcome::Failed(_))), "{outcome:?}");
    }
    assert!(store.failure().is_some());
    assert!(matches!(store.view(PartitionId(1)), Err(StoreError::Poisoned(_))));
    assert_eq!(store.metrics().len(), 1);
}

#[test]
fn in_manual_mode_a_batch_is_durable_when_it_is_stepped() {
    let store = MemoryStore::manual(Lineage(1), 1);
    let first = commit(&store, sign(0, 1));
    let second = commit(&store, sign(0, 2));
    assert!(first.try_recv().is_err());
    assert_eq!((store.waiting(), seq(&store)), (2, 0));
    assert!(store.step());
    assert!(matches!(first.try_recv(), Ok(CommitOutcome::Durable)));
    assert!(second.try_recv().is_err());
    assert_eq!((store.waiting(), seq(&store)), (1, 1));
    assert!(store.step() && !store.step());
}

#[test]
fn what_follows_a_lost_batch_is_not_written() {
    let store = MemoryStore::manual(Lineage(1), 1);
    store.plan(PartitionId(0), Planned::UnknownLost);
    let outcomes = [commit(&store, sign(0, 1)), commit(&store, sign(0, 2))];
    while store.step() {}
    let texts = outcomes.map(|outcome| outcome.try_recv().expect("known").to_string());
    assert_eq!(texts, ["unknown", "fenced"]);
    assert_eq!(seq(&store), 0);
}

#[test]
fn an_open_view_does_not_move() {
    let store = MemoryStore::new(Lineage(1), 1);
    commit(&store, sign(0, 1)).try_recv().expect("durable");
    let view = store.view(PartitionId(0)).expect("opens");
    commit(&store, sign(0, 2)).try_recv().expect("durable");
    let readings = |view: &dyn View| view.seen(DeviceSlot(0)).expect("reads").map(|seen| seen.readings);
    assert_eq!(readings(view.as_ref()), Some(1));
    assert_eq!(readings(store.view(PartitionId(0)).expect("opens").as_ref()), Some(2));
    assert_eq!(view.device(&DeviceId::new("0xA").expect("an id")).expect("reads"), None);
}
