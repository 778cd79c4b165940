//! Merging blobs of readings: fewer of them, the same readings, whatever happens in between.

use std::collections::BTreeMap;

use base::random::Random;
use base::{Value, WayIn};
use records::{DeviceSlot, KeptFrom, Op, PartitionHead, Reading, Sign, SignReading};

use super::*;
use crate::codec::key::BlobKey;
use crate::conformance::{all, id};
use crate::embedded::blobs::{self, StoredBlob};
use crate::embedded::tables::Table;
use crate::history::{Blob, BlobIndex};
use crate::key_range::KeyRange;
use crate::port::Page;

const PARTITION: PartitionId = PartitionId(0);
const DAY_MS: i64 = 86_400_000;
const START_DAY: i32 = 20_000;
const START: i64 = START_DAY as i64 * DAY_MS;
const DAYS: i64 = 3;
const CHECKPOINTS_A_DAY: i64 = 10;
/// Three slices, one of them not full.
const DEVICES: u32 = 600;
/// Later than any day.
const LATER: Timestamp = Timestamp(START + 50 * DAY_MS);

/// By slot, in the order of their feeds.
type Readings = BTreeMap<u32, Vec<Reading>>;

fn reopen(disk: &SimulatedDisk, merged_blobs: u32) -> EmbeddedStore {
    let options = EmbeddedOptions { merged_blobs, ..small() };
    EmbeddedStore::open(Arc::new(disk.clone()), options).expect("opens")
}

fn commit(store: &EmbeddedStore, head: &mut PartitionHead, ops: Vec<Op>) {
    head.seq += 1;
    let outcome = give(store, Batch { partition: PARTITION, head: head.clone(), ops });
    settle(store);
    assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
}

/// Readings of about half of the devices, some late by days, some with texts.
fn some_readings(head: &PartitionHead, random: &mut Random, readings: &mut Readings) -> Vec<Op> {
    let mut ops = Vec::new();
    for slot in 0..DEVICES {
        if slot % 50 != 7 && random.below(2) == 0 {
            continue;
        }
        let of_device = readings.entry(slot).or_default();
        let late = if random.below(10) == 0 { random.below(2 * DAY_MS as u64) } else { random.below(60_000) };
        let value = match slot % 5 {
            0 => Value::from_canonical(&format!("\"{}\"", "x".repeat(random.below(90) as usize))),
            1 => Value::Number(random.below(1_000) as f64 / 8.0),
            _ => Value::Number(random.below(2) as f64),
        };
        let number = of_device.len() as u32 + 1;
        let (ts, changed) = (Timestamp(head.now.0 - late as i64), random.below(3) == 0);
        let reading = Some(SignReading { ts: Some(ts), value: value.clone(), changed });
        let slot = DeviceSlot(slot);
        ops.push(Op::Sign(Sign { slot, way: WayIn::Mqtt, readings: number, newest_ts: None, reading }));
        of_device.push(Reading { number, ts, value, changed });
    }
    ops
}

/// Some days of readings in the tables, as the checkpoints left them.
fn filled(disk: &SimulatedDisk) -> (PartitionHead, Readings) {
    let store = reopen(disk, u32::MAX);
    let mut random = Random::new(5);
    let mut readings = Readings::new();
    let mut head = PartitionHead { next_slot: DEVICES, ..PartitionHead::default() };
    for checkpoint in 0..DAYS * CHECKPOINTS_A_DAY {
        head.now = Timestamp(START + checkpoint * DAY_MS / CHECKPOINTS_A_DAY);
        let ops = some_readings(&head, &mut random, &mut readings);
        commit(&store, &mut head, ops);
        assert_eq!(store.checkpoint_step(head.now.after(small().checkpoint_age)), StepOutcome::Worked);
    }
    for of_device in readings.values_mut() {
        of_device.sort_by_key(|reading| (reading.ts, reading.number));
    }
    disk.crash();
    (head, readings)
}

/// What the store shows of each device is what was read: all of it, a page from either end, its
/// times.
fn check(store: &EmbeddedStore, readings: &Readings, context: &str) {
    check_some(store, readings, 0..DEVICES, context);
}

fn check_some(store: &EmbeddedStore, readings: &Readings, slots: impl Iterator<Item = u32>, context: &str) {
    let view = store.view(PARTITION).expect("opens");
    for slot in slots {
        let expect = readings.get(&slot).cloned().unwrap_or_default();
        let slot = DeviceSlot(slot);
        let read = |page| view.readings(slot, page).expect("reads");
        assert_eq!(read(Page { limit: 1_000, ..all() }), expect, "{context} {slot:?}");
        let latest: Vec<_> = expect.iter().rev().take(9).cloned().collect();
        assert_eq!(read(Page { limit: 9, ascending: false, ..all() }), latest, "{context} {slot:?}");
        let (mut times, (from, to)) = (Vec::new(), (Timestamp(START), LATER));
        view.reading_times(slot, from, to, &mut |ts| times.push(ts)).expect("reads");
        times.sort_unstable();
        let expect = expect.iter().map(|reading| reading.ts).filter(|ts| from <= *ts);
        assert!(times.into_iter().eq(expect), "{context} {slot:?}");
    }
}

/// Every blob, verified: it holds what its index says, and no block is there without one.
fn blobs_of(store: &EmbeddedStore) -> Vec<(BlobKey, BlobIndex)> {
    let snapshot = store.tables.snapshot().expect("reads");
    let rows = snapshot.range(Table::BlobIndex, PARTITION, &KeyRange::all()).expect("reads");
    let blobs: Vec<_> = rows.map(|row| blobs::index("", &row.expect("reads")).expect("an index")).collect();
    let mut blocks = 0;
    for (key, index) in &blobs {
        let stored = StoredBlob { snapshot: &snapshot, partition: PARTITION, key: *key, index };
        let readings = Blob::open(stored).and_then(|blob| blob.all()).expect("a blob");
        assert_eq!(readings.len(), index.count as usize, "{key:?}");
        let is_told_of = |ts, within| index.span.contains(ts) && index.devices.contains(within);
        assert!(readings.iter().all(|of| is_told_of(of.reading.ts, of.within)), "{key:?}");
        blocks += index.blocks() as usize;
    }
    assert_eq!(snapshot.range(Table::Blobs, PARTITION, &KeyRange::all()).expect("reads").count(), blocks);
    blobs
}

fn metric(store: &EmbeddedStore, name: &str) -> f64 {
    let metrics = store.metrics();
    metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}")).value
}

fn merge_all(store: &EmbeddedStore, now: Timestamp) {
    while store.checkpoint_step(now) == StepOutcome::Worked {}
}

#[test]
fn many_blobs_become_few_and_say_the_same() {
    let disk = SimulatedDisk::new(1);
    let (_, readings) = filled(&disk);
    let store = reopen(&disk, 4);
    let before = blobs_of(&store).len();
    check(&store, &readings, "before");
    // what is over, some days with several blobs for readings that came a week late or more: here
    // there are none
    merge_all(&store, LATER);
    let after = blobs_of(&store).len();
    assert!(before >= 90 && after <= 3 * (DAYS as usize + 2), "{before} {after}");
    check(&store, &readings, "after");
    assert_eq!(metric(&store, "fieldpost_store_blobs"), after as f64);
    assert_eq!(metric(&store, "fieldpost_store_merges_waiting"), 0.0);
    let merged = metric(&store, "fieldpost_store_merged_blobs_total");
    assert_eq!(before as f64 - merged + metric(&store, "fieldpost_store_merges_total"), after as f64);
}

#[test]
fn blobs_of_a_day_that_lasts_are_merged_as_they_come() {
    let store = reopen(&SimulatedDisk::new(1), 4);
    let mut head = PartitionHead { next_slot: DEVICES, now: Timestamp(START), ..PartitionHead::default() };
    let (mut random, mut readings) = (Random::new(3), Readings::new());
    let mut most = 0;
    for _ in 0..200 {
        head.now = head.now.after(Duration::from_secs(60));
        let mut ops = some_readings(&head, &mut random, &mut readings);
        ops.truncate(40);
        commit(&store, &mut head, ops);
        merge_all(&store, head.now.after(small().checkpoint_age));
        let of_today = |(key, _): &(BlobKey, BlobIndex)| key.slice == 0 && key.day == START_DAY;
        most = most.max(blobs_of(&store).into_iter().filter(of_today).count());
    }
    // some of each level, and a level for every two to four times as many
    assert!((3..=16).contains(&most), "{most}");
}

#[test]
fn an_open_view_goes_on_reading_what_is_merged_meanwhile() {
    let disk = SimulatedDisk::new(1);
    let (_, readings) = filled(&disk);
    let store = reopen(&disk, 4);
    let view = store.view(PARTITION).expect("opens");
    merge_all(&store, LATER);
    for (slot, expect) in &readings {
        let found = view.readings(DeviceSlot(*slot), Page { limit: 1_000, ..all() }).expect("reads");
        assert_eq!(&found, expect, "{slot}");
    }
}

/// Power goes out at every write and every sync of a step that merges.
#[test]
fn a_merge_that_is_cut_off_loses_and_repeats_nothing() {
    let filled_disk = SimulatedDisk::new(1);
    let (_, readings) = filled(&filled_disk);
    for fails in [SimulatedDisk::fail_write, SimulatedDisk::fail_sync] {
        let mut cut_off = 0;
        for nth in 1.. {
            let disk = filled_disk.copy_of_durable(nth);
            let store = reopen(&disk, 4);
            fails(&disk, nth);
            store.checkpoint_step(LATER);
            let is_through = store.failure().is_none();
            disk.crash();
            drop(store);
            let store = reopen(&disk, 4);
            // each time others, some of each slice
            let slots = (nth as u32 % 37..DEVICES).step_by(37);
            check_some(&store, &readings, slots, &format!("fault {nth}"));
            let count = blobs_of(&store).iter().map(|(_, index)| index.count as usize).sum::<usize>();
            assert_eq!(count, readings.values().map(Vec::len).sum(), "fault {nth}");
            if is_through {
                break;
            }
            cut_off += 1;
        }
        assert!(cut_off > 1, "{cut_off}");
    }
}

#[test]
fn what_is_cut_off_again_and_again_is_merged_in_the_end() {
    let disk = SimulatedDisk::new(9);
    let (_, readings) = filled(&disk);
    let mut random = Random::new(9);
    for life in 0..12 {
        let store = reopen(&disk, 4);
        for _ in 0..random.below(3) {
            store.checkpoint_step(LATER);
        }
        disk.fail_write(1 + random.below(40));
        store.checkpoint_step(LATER);
        disk.crash();
        drop(store);
        check(&reopen(&disk, 4), &readings, &format!("life {life}"));
    }
    let store = reopen(&disk, 4);
    merge_all(&store, LATER);
    assert!(blobs_of(&store).len() <= 3 * (DAYS as usize + 2));
    check(&store, &readings, "in the end");
}

#[test]
fn a_deleted_device_leaves_merged_blobs_too() {
    let disk = SimulatedDisk::new(1);
    let (mut head, mut readings) = filled(&disk);
    let store = reopen(&disk, 4);
    merge_all(&store, LATER);
    commit(&store, &mut head, vec![Op::DeleteDevice(id("A"), DeviceSlot(7))]);
    readings.remove(&7);
    check(&store, &readings, "at once");
    merge_all(&store, LATER);
    check(&store, &readings, "when it is swept");
    let holds = |(key, index): &(BlobKey, BlobIndex)| key.slice == 0 && index.devices.contains(7);
    assert!(!blobs_of(&store).iter().any(holds));
}

#[test]
fn merged_blobs_go_with_their_day() {
    let disk = SimulatedDisk::new(1);
    let (mut head, _) = filled(&disk);
    let store = reopen(&disk, 4);
    merge_all(&store, LATER);
    let last_day = START + (DAYS - 1) * DAY_MS;
    head.kept_from = KeptFrom { readings: Timestamp(last_day + DAY_MS), ..KeptFrom::EVER };
    commit(&store, &mut head, Vec::new());
    merge_all(&store, LATER);
    assert!(blobs_of(&store).is_empty());
}
