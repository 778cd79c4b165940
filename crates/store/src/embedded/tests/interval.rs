//! Syncs at intervals: what they cost, what they may lose, and that nothing rests on what may be
//! lost.

use super::opening::assert_poisoned;
use super::*;

fn options() -> EmbeddedOptions {
    EmbeddedOptions { sync: SyncMode::Interval(Duration::from_millis(5)), ..small() }
}

fn open_at_intervals(disk: &SimulatedDisk) -> EmbeddedStore {
    EmbeddedStore::open(Arc::new(disk.clone()) as Arc<dyn Disk>, options()).expect("opens")
}

fn metric(store: &EmbeddedStore, name: &str) -> f64 {
    let metrics = store.metrics();
    metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}")).value
}

fn commit(store: &EmbeddedStore, traffic: &mut Traffic) {
    let outcome = give(store, traffic.next_batch(5));
    settle(store);
    assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
}

/// Batches of the first partition that an opening finds.
fn found(disk: &SimulatedDisk) -> u64 {
    let store = open(disk).expect("opens");
    store.load(PartitionId(0)).expect("loads").head().seq
}

#[test]
fn a_commit_is_one_write_and_many_share_a_later_sync() {
    let disk = SimulatedDisk::new(1);
    let store = open_at_intervals(&disk);
    let mut traffic = all_traffic(1);
    let before = disk.counters();
    for _ in 0..4 {
        commit(&store, &mut traffic[0]);
    }
    let after = disk.counters();
    assert_eq!((after.writes - before.writes, after.syncs), (4, before.syncs));
    assert_eq!(metric(&store, "fieldpost_store_unsynced_batches"), 4.0);
    assert_eq!((store.sync_step(), store.sync_step()), (StepOutcome::Worked, StepOutcome::Idle));
    let synced = disk.counters();
    assert_eq!((synced.writes, synced.syncs), (after.writes, before.syncs + 1));
    assert_eq!(metric(&store, "fieldpost_store_unsynced_batches"), 0.0);
    assert_eq!(metric(&store, "fieldpost_store_synced_batches_total"), 4.0);
}

#[test]
fn a_store_that_always_syncs_has_nothing_left_to_sync() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk).expect("opens");
    commit(&store, &mut all_traffic(1)[0]);
    assert_eq!(metric(&store, "fieldpost_store_unsynced_batches"), 0.0);
    let before = disk.counters();
    assert_eq!((store.sync_step(), disk.counters()), (StepOutcome::Idle, before));
}

#[test]
fn the_death_of_the_process_takes_nothing_and_the_power_what_came_since_the_sync() {
    let disk = SimulatedDisk::new(1);
    let store = open_at_intervals(&disk);
    let mut traffic = all_traffic(1);
    commit(&store, &mut traffic[0]);
    store.sync_step();
    commit(&store, &mut traffic[0]);
    commit(&store, &mut traffic[0]);
    assert_eq!(found(&disk.copy_of_durable(1)), 1);
    drop(store);
    disk.kill();
    assert_eq!(found(&disk), 3);
    assert_eq!(found(&disk.copy_of_durable(1)), 3, "what an opening has shown is durable");
}

/// Also of a partition without changes, whose position moves along.
#[test]
fn a_checkpoint_syncs_what_it_covers() {
    for index in [0, 2] {
        let disk = SimulatedDisk::new(1);
        let store = open_at_intervals(&disk);
        let mut traffic = all_traffic(1);
        commit(&store, &mut traffic[0]);
        commit(&store, &mut traffic[index]);
        assert_eq!(store.checkpoint_step(Timestamp::MAX), StepOutcome::Worked);
        assert_eq!(metric(&store, "fieldpost_store_unsynced_batches"), 0.0);
        let left = open(&disk.copy_of_durable(1)).expect("the tables are not ahead of the log");
        for id in PARTITIONS_OF_TEST {
            assert_eq!(left.partition(id).head().seq, store.partition(id).head().seq);
        }
    }
}

/// What a batch says of how long things are kept may be lost; what was removed because of it would
/// not come back.
#[test]
fn nothing_is_removed_because_of_a_batch_that_may_be_lost() {
    let disk = SimulatedDisk::new(1);
    let store = open_at_intervals(&disk);
    let mut traffic = all_traffic(1);
    commit(&store, &mut traffic[0]);
    while store.checkpoint_step(Timestamp::MAX) == StepOutcome::Worked {}
    let mut batch = traffic[0].next_batch(1);
    batch.head.kept_from.events = batch.head.now.after(Duration::from_secs(3_600));
    let outcome = give(&store, batch.clone());
    settle(&store);
    assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
    assert_eq!(store.checkpoint_step(Timestamp(0)), StepOutcome::Worked, "what is too old goes");
    let left = open(&disk.copy_of_durable(1)).expect("opens");
    assert_eq!(left.partition(PartitionId(0)).head().kept_from, batch.head.kept_from);
}

#[test]
fn a_backup_begins_with_a_sync() {
    let disk = SimulatedDisk::new(1);
    let store = open_at_intervals(&disk);
    commit(&store, &mut all_traffic(1)[0]);
    store.checkpoint_all().expect("writes");
    assert_eq!(found(&disk.copy_of_durable(1)), 1);
}

#[test]
fn a_later_sync_that_fails_stops_the_store() {
    let disk = SimulatedDisk::new(1);
    let store = open_at_intervals(&disk);
    let mut traffic = all_traffic(1);
    commit(&store, &mut traffic[0]);
    disk.fail_sync(1);
    assert_eq!(store.sync_step(), StepOutcome::Worked);
    assert!(matches!(*store.failure().expect("failed"), StoreError::Disk { .. }));
    assert_poisoned(&store, &mut traffic[0]);
    drop(store);
    disk.kill();
    assert_eq!(found(&disk), 1, "it was only not synced");
}

#[test]
fn a_sync_that_fails_before_a_checkpoint_stops_it() {
    let disk = SimulatedDisk::new(1);
    let store = open_at_intervals(&disk);
    let mut traffic = all_traffic(1);
    commit(&store, &mut traffic[0]);
    disk.fail_sync(1);
    store.checkpoint_step(Timestamp::MAX);
    assert_poisoned(&store, &mut traffic[0]);
    assert_eq!(found(&disk.copy_of_durable(1)), 0, "neither log nor tables have it");
}
