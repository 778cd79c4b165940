//! Rows on a simulated disk: snapshots, transactions, crashes and damage.

use std::collections::BTreeMap;

use base::random::Random;
use blocklog::SimulatedDisk;

use super::*;

const CACHE_BYTES: usize = 1 << 20;
const NAME: &str = "tables";
const A: PartitionId = PartitionId(1);
const B: PartitionId = PartitionId(2);

fn open(disk: &SimulatedDisk) -> Result<Tables, StoreError> {
    let tables = Tables::open(disk, NAME, CACHE_BYTES)?;
    disk.sync_directory().expect("syncs");
    Ok(tables)
}

fn put(tables: &Tables, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    tables.write(|writer| {
        let mut events = writer.table(Table::Events)?;
        events.put(A, key, value)?;
        events.put(B, key, b"other")
    })
}

fn keys(snapshot: &Snapshot, partition: PartitionId) -> Vec<TableKey> {
    let rows = snapshot.range(Table::Events, partition, &KeyRange::all()).expect("reads");
    rows.map(|row| row.expect("reads").0).collect()
}

#[test]
fn rows_are_kept_by_partition_and_a_snapshot_does_not_move() {
    let disk = SimulatedDisk::new(1);
    let tables = open(&disk).expect("opens");
    put(&tables, b"k1", b"v1").expect("writes");
    let before = tables.snapshot().expect("reads");
    put(&tables, b"k2", b"v2").expect("writes");
    let after = tables.snapshot().expect("reads");
    assert_eq!(before.get(Table::Events, A, b"k2").expect("reads"), None);
    assert_eq!(after.get(Table::Events, A, b"k2").expect("reads").as_deref(), Some(&b"v2"[..]));
    assert_eq!((keys(&before, A).len(), keys(&after, A).len(), keys(&after, B).len()), (1, 2, 2));
    assert_eq!(keys(&after, PartitionId(3)).len(), 0);
}

#[test]
fn a_transaction_that_fails_leaves_nothing() {
    let disk = SimulatedDisk::new(2);
    let tables = open(&disk).expect("opens");
    let failed: Result<(), _> = tables.write(|writer| {
        writer.table(Table::Events)?.put(A, b"k", b"v")?;
        Err(StoreError::Refused("on purpose".to_owned()))
    });
    assert!(failed.is_err());
    assert_eq!(keys(&tables.snapshot().expect("reads"), A).len(), 0);
}

#[test]
fn what_was_written_survives_every_crash() {
    for seed in 0..40 {
        let disk = SimulatedDisk::new(seed);
        let mut written = 0_u64;
        for _ in 0..6 {
            let tables = open(&disk).expect("opens");
            let found = keys(&tables.snapshot().expect("reads"), A).len() as u64;
            assert_eq!(found, written, "seed {seed}");
            for _ in 0..seed % 5 + 1 {
                put(&tables, &written.to_be_bytes(), &[7; 900]).expect("writes");
                written += 1;
            }
            // in the middle of a transaction that is never committed
            let unfinished = tables.write(|writer| {
                let mut events = writer.table(Table::Events)?;
                (0..50_u8).try_for_each(|byte| events.put(A, &[byte], &[byte; 2_000]))?;
                disk.crash();
                Ok(())
            });
            assert!(unfinished.is_err(), "seed {seed}");
        }
    }
}

#[test]
fn a_damaged_file_is_refused_or_gives_what_was_written() {
    let disk = SimulatedDisk::new(9);
    let tables = open(&disk).expect("opens");
    for number in 0..200_u64 {
        put(&tables, &number.to_be_bytes(), &[number as u8; 100]).expect("writes");
    }
    drop(tables);
    let length = disk.file_len(NAME).expect("there");
    let mut noticed = 0;
    for offset in (0..length).step_by(97) {
        let copy = disk.copy_of_durable(offset);
        copy.corrupt(NAME, offset, 0x40);
        let read = open(&copy).and_then(|tables| {
            let snapshot = tables.snapshot()?;
            (0..200_u64).map(|number| snapshot.get(Table::Events, A, &number.to_be_bytes())).collect()
        });
        match read {
            Ok(rows) => {
                let rows: Vec<Option<Vec<u8>>> = rows;
                let right = (0..200_u64).map(|number| Some(vec![number as u8; 100]));
                assert!(rows.into_iter().eq(right), "offset {offset}");
            }
            Err(error) => {
                noticed += 1;
                assert!(matches!(error, StoreError::Damaged { .. }), "offset {offset}: {error}");
            }
        }
    }
    assert!(noticed > 10, "{noticed}");
}

/// Each round changes all, or some, keys of a short range. Both neighbours have rows too, and some
/// values take more than a page.
#[test]
fn changes_in_order_equal_single_changes() {
    const BEFORE: PartitionId = PartitionId(0);
    for seed in 0..60 {
        let disk = SimulatedDisk::new(seed);
        let mut tables = open(&disk).expect("opens");
        let mut random = Random::new(seed);
        let mut expected: BTreeMap<[u8; 8], Vec<u8>> = BTreeMap::new();
        let others = |writer: &TablesTransaction<'_>| {
            let mut events = writer.table(Table::Events)?;
            let mut put = |key: u64| {
                [BEFORE, B].iter().try_for_each(|other| events.put(*other, &key.to_be_bytes(), b"other"))
            };
            (0..100).try_for_each(|key| put(50 * key))
        };
        tables.write(others).expect("writes");
        for _ in 0..8 {
            let (from, keys) = (random.below(2_000), 1 + random.below(3_000));
            let (changed, puts) = (1 + random.below(12), random.below(5));
            let length_max = [60, 60, 60, 5_000][random.below(4) as usize];
            let mut changes = BTreeMap::new();
            for key in from..from + keys {
                if random.chance(1, changed) {
                    let value = vec![key as u8; random.below(length_max) as usize];
                    changes.insert(key.to_be_bytes(), random.chance(puts, 4).then_some(value));
                }
            }
            let in_order = changes.iter().map(|(key, value)| (&key[..], value.as_deref()));
            let write =
                |writer: &TablesTransaction<'_>| writer.table(Table::Events)?.change_in_order(A, in_order);
            tables.write(write).expect("writes");
            for (key, value) in changes {
                match value {
                    Some(value) => expected.insert(key, value),
                    None => expected.remove(&key),
                };
            }
        }
        assert!(tables.verify().expect("reads"), "seed {seed}: nothing has to be repaired");
        drop(tables);
        let tables = open(&disk).expect("opens again");
        let snapshot = tables.snapshot().expect("reads");
        let rows = snapshot.range(Table::Events, A, &KeyRange::all()).expect("reads");
        let rows = rows.map(|row| row.expect("reads")).map(|(key, value)| (key.to_vec(), value));
        assert!(rows.eq(expected.into_iter().map(|(key, value)| (key.to_vec(), value))), "seed {seed}");
        assert_eq!([BEFORE, B].map(|other| keys(&snapshot, other).len()), [100, 100], "seed {seed}");
    }
}

#[test]
fn changes_in_any_order_take_effect_one_after_the_other() {
    let disk = SimulatedDisk::new(3);
    let tables = open(&disk).expect("opens");
    let (ascending, descending) = ((0..40_u8).map(|key| [key]), (0..40_u8).rev().map(|key| [key]));
    let puts: Vec<[u8; 1]> = descending.clone().chain(ascending.clone()).collect();
    let removals: Vec<TableKey> =
        descending.skip(5).chain(ascending.take(30)).map(|key| TableKey::from_slice(&key)).collect();
    let write = |writer: &TablesTransaction<'_>| {
        let mut events = writer.table(Table::Events)?;
        events.change_in_order(A, puts.iter().map(|key| (&key[..], Some(&key[..]))))?;
        events.remove_in_order(A, removals.iter())
    };
    tables.write(write).expect("writes");
    let left = keys(&tables.snapshot().expect("reads"), A);
    assert_eq!(left, (35..40_u8).map(|key| TableKey::from_slice(&[key])).collect::<Vec<_>>());
}
