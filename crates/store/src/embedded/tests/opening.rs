//! Who may open a data directory, and what a store does that can go on no longer.

use blocklog::RealDisk;

use super::*;
use crate::codec::Stored;
use crate::embedded::tables::Tables;

fn refused(disk: &SimulatedDisk) -> String {
    match open(disk) {
        Ok(_) => panic!("it should be refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_second_server_is_refused_with_the_name_of_the_directory() {
    let path = tempfile::tempdir().expect("a directory");
    let disk = || Arc::new(RealDisk::open_dir(path.path(), true).expect("opens"));
    let first = EmbeddedStore::open(disk(), small()).expect("opens");
    let second = EmbeddedStore::open(disk(), small()).expect_err("in use").to_string();
    let name = path.path().canonicalize().expect("there").display().to_string();
    assert!(second.contains(&name) && second.contains("in use"), "{second}");
    drop(first);
    assert!(EmbeddedStore::open(disk(), small()).is_ok());
}

#[test]
fn a_later_format_is_refused_by_name() {
    let disk = SimulatedDisk::new(1);
    drop(open(&disk).expect("opens"));
    let tables = Tables::open(&disk, "tables", 1 << 20).expect("opens");
    let directory = DataDirectory { lineage: Lineage(1), partitions: 2, log: LogId(2) };
    let mut row = directory.to_row();
    row[0] = 9;
    tables.write(|writer| writer.put_directory(&row)).expect("writes");
    drop(tables);
    let text = refused(&disk);
    assert!(text.contains("has format 9, this build reads formats up to 8"), "{text}");
}

#[test]
fn a_missing_half_of_the_directory_is_refused() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk).expect("opens");
    let outcome = give(&store, all_traffic(1)[0].next_batch(10));
    settle(&store);
    assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
    drop(store);
    let without = |wanted: &dyn Fn(&str) -> bool| {
        let copy = disk.copy_of_durable(1);
        for name in copy.list().expect("lists").iter().filter(|name| wanted(name)) {
            copy.remove(name).expect("removes");
        }
        refused(&copy)
    };
    let text = without(&|name| name == "tables");
    assert!(text.contains("`tables` is missing"), "{text}");
    let text = without(&|name| name != "tables" && name != "lock");
    assert!(text.contains("their log is missing"), "{text}");
}

#[test]
fn the_number_of_partitions_is_that_of_the_directory() {
    let disk = SimulatedDisk::new(1);
    drop(open(&disk).expect("opens"));
    let options = EmbeddedOptions { partitions: 40, identity: None, ..small() };
    let store = EmbeddedStore::open(Arc::new(disk), options).expect("opens");
    assert_eq!((store.partitions(), store.lineage()), (2, Lineage(1)));
}

#[test]
fn a_new_directory_draws_its_own_lineage() {
    let open = |seed| {
        let options = EmbeddedOptions { identity: None, ..small() };
        EmbeddedStore::open(Arc::new(SimulatedDisk::new(seed)), options).expect("opens").lineage()
    };
    assert_ne!(open(1), open(2));
}

/// Everything is refused from the first failure on; failure and metrics still answer.
pub(super) fn assert_poisoned(store: &EmbeddedStore, traffic: &mut Traffic) {
    let failure = store.failure().expect("a failure");
    let outcome = give(store, traffic.next_batch(5)).try_recv();
    assert!(
        matches!(&outcome, Ok(CommitOutcome::Failed(error)) if Arc::ptr_eq(error, &failure)),
        "{outcome:?}"
    );
    for id in PARTITIONS_OF_TEST {
        assert!(matches!(store.view(id), Err(StoreError::Poisoned(_))));
        assert!(matches!(store.load(id), Err(StoreError::Poisoned(_))));
    }
    assert_eq!(store.checkpoint_step(Timestamp::MAX), StepOutcome::Idle);
    assert_eq!((store.idle_step(), store.sync_step()), (StepOutcome::Idle, StepOutcome::Idle));
    let metrics = store.metrics();
    assert!(metrics.iter().any(|metric| metric.name == "fieldpost_store_failed" && metric.value == 1.0));
}

#[test]
fn a_failed_write_or_sync_of_the_log_fails_what_waits_and_all_that_follows() {
    for fault in [SimulatedDisk::fail_write, SimulatedDisk::fail_sync] {
        let disk = SimulatedDisk::new(1);
        let store = open(&disk).expect("opens");
        let mut traffic = all_traffic(1);
        fault(&disk, 1);
        let outcomes: Vec<_> = (0..2).map(|n| give(&store, traffic[n].next_batch(5))).collect();
        settle(&store);
        for outcome in outcomes {
            assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Failed(_))));
        }
        assert!(matches!(*store.failure().expect("failed"), StoreError::Disk { .. }));
        assert_poisoned(&store, &mut traffic[0]);
    }
}

#[test]
fn a_failed_checkpoint_stops_the_store_and_loses_nothing() {
    for nth in 1..12 {
        let disk = SimulatedDisk::new(nth);
        let store = open(&disk).expect("opens");
        let mut traffic = all_traffic(nth);
        let outcome = give(&store, traffic[0].next_batch(30));
        settle(&store);
        assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
        if nth % 2 == 0 {
            disk.fail_write(nth / 2);
        } else {
            disk.fail_sync(1 + nth / 8);
        }
        store.checkpoint_step(Timestamp::MAX);
        assert_poisoned(&store, &mut traffic[1]);
        disk.crash();
        drop(store);
        let store = open(&disk).expect("opens again");
        assert_eq!(store.load(PartitionId(0)).expect("loads").head().seq, 1, "fault {nth}");
    }
}

#[test]
fn a_read_that_fails_stops_the_store() {
    let disk = SimulatedDisk::new(1);
    let options = EmbeddedOptions { table_cache_bytes: 0, ..small() };
    let store = EmbeddedStore::open(Arc::new(disk.clone()), options).expect("opens");
    let mut traffic = all_traffic(1);
    let outcome = give(&store, traffic[0].next_batch(200));
    settle(&store);
    assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
    store.checkpoint_step(Timestamp::MAX);
    let view = store.view(PartitionId(0)).expect("opens");
    disk.fail_read(1);
    assert!(matches!(view.devices(None, 10), Err(StoreError::Poisoned(_))));
    assert_poisoned(&store, &mut traffic[1]);
}
