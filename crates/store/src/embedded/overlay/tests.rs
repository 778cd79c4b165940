//! Views on an overlay that goes on, and deletions that cancel out.

use base::random::Random;
use base::{Value, WayIn};
use records::{LastSeen, Reading};

use super::*;
use crate::embedded::existence_filter::{BloomFilter, LastCommand, Marks};
use base::Attended;
use std::collections::BTreeMap;

fn key(number: u8) -> TableKey {
    TableKey::from_slice(&[number])
}

fn put(table: Table, number: u8, value: u64) -> TableChange {
    TableChange::Put { table, key: key(number), value: Box::from(value.to_be_bytes()) }
}

/// Nothing is in the tables.
fn none() -> ExistenceFilter {
    ExistenceFilter::Devices(BloomFilter::for_keys(0), LastCommand::default())
}

fn batch(seq: u64, changes: Vec<TableChange>) -> PreparedBatch {
    let head = PartitionHead { seq, ..PartitionHead::default() };
    PreparedBatch { head, changes }
}

fn apply(overlay: &Overlay, seq: u64, changes: Vec<TableChange>, existence: &ExistenceFilter) {
    overlay.apply(batch(seq, changes), Position(seq), &Below { frozen: None, existence });
}

fn sign(slot: u32, number: u32) -> TableChange {
    let ts = Timestamp(i64::from(number));
    let seen =
        LastSeen { at: ts, way: WayIn::Http, attended: Attended(0), readings: number, newest_ts: None };
    let reading = Reading { number, ts, value: Value::Number(1.0), changed: false };
    TableChange::Sign(SlotSign { slot: DeviceSlot(slot), seen, reading: Some(reading) })
}

/// All that a view can see: rows, signs of life and readings.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seeing {
    rows: BTreeMap<u8, Option<u64>>,
    seen: BTreeMap<u8, SeenChange>,
    readings: BTreeMap<u8, Vec<u32>>,
}

fn seeing(overlay: &Overlay, seq: u64) -> Seeing {
    let data = overlay.read();
    let mut all = Seeing::default();
    if let Some(rows) = data.rows(Table::JobHeads) {
        for (key, value) in rows.first_changed(&KeyRange::all(), seq, true, (usize::MAX, usize::MAX)).0 {
            let at = match rows.at(&key, seq) {
                OverlayRow::Value(value) => Some(Box::from(value)),
                OverlayRow::Deleted => None,
                OverlayRow::Untouched => panic!("a row of a range is touched"),
            };
            assert_eq!(at, value);
            let value = value.map(|value| u64::from_be_bytes((*value).try_into().expect("eight bytes")));
            all.rows.insert(key[0], value);
        }
    }
    if let Some(slice) = data.slice(0) {
        for within in 0..20 {
            all.seen.insert(within, slice.seen(within, seq));
            let parts = slice.chunks(within, seq).flat_map(|(_, part)| part.readings(Some(within)));
            all.readings.insert(within, parts.map(|r| r.expect("readable").reading.number).collect());
        }
    }
    all
}

#[test]
fn a_view_sees_the_same_for_as_long_as_it_is_open() {
    let existence = none();
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let overlay = Overlay::default();
        let mut views: Vec<(u64, Seeing)> = Vec::new();
        let mut number = 0;
        for seq in 1..60 {
            let change = |random: &mut Random| match random.below(4) {
                0 => put(Table::JobHeads, random.below(6) as u8, seq),
                1 => TableChange::Delete { table: Table::JobHeads, key: key(random.below(6) as u8) },
                2 if random.below(5) == 0 => TableChange::DropDevice(DeviceSlot(random.below(20) as u32)),
                _ => {
                    number += 1;
                    sign(random.below(20) as u32, number)
                }
            };
            let mut change = change;
            let changes = (0..random.below(12)).map(|_| change(&mut random)).collect();
            apply(&overlay, seq, changes, &existence);
            if random.below(3) == 0 {
                overlay.open_view(seq);
                views.push((seq, seeing(&overlay, seq)));
            }
            if !views.is_empty() && random.below(3) == 0 {
                let (seq, _) = views.swap_remove(random.below(views.len() as u64) as usize);
                overlay.close_view(seq);
            }
            for (seq, expect) in &views {
                let mut now = seeing(&overlay, *seq);
                let mut expect = expect.clone();
                // a device that no slice had is seen as untouched and without readings either way
                for all in [&mut now, &mut expect] {
                    all.seen.retain(|_, change| *change != SeenChange::Untouched);
                    all.readings.retain(|_, numbers| !numbers.is_empty());
                }
                assert_eq!(now, expect, "seed {seed} as of {seq}");
            }
        }
    }
}

#[test]
fn a_deletion_cancels_out_only_what_was_born_here() {
    let mut existence = none();
    existence.insert(Table::JobHeads, &key(1));
    let frozen = Overlay::default();
    apply(&frozen, 1, vec![put(Table::JobHeads, 2, 1)], &none());
    let overlay = Overlay::default();
    let below = Below { frozen: Some(&frozen), existence: &existence };
    let delete = |number| TableChange::Delete { table: Table::JobHeads, key: key(number) };
    let finals = |overlay: &Overlay| {
        let data = overlay.read();
        let rows = data.rows(Table::JobHeads).expect("changed");
        rows.finals().map(|(key, last)| (key[0], matches!(last, Final::Put(_)))).collect::<Vec<_>>()
    };
    let changes = (1..=3).flat_map(|n| [put(Table::JobHeads, n, 9), delete(n)]).collect();
    overlay.apply(batch(2, changes), Position(2), &below);
    assert_eq!(finals(&overlay), [(1, false), (2, false)], "only 3 was born here");
    let changes = vec![put(Table::JobHeads, 1, 10), delete(1), put(Table::JobHeads, 2, 11), delete(4)];
    overlay.apply(batch(3, changes), Position(3), &below);
    assert_eq!(finals(&overlay), [(1, false), (2, true)], "a row put again is an update");
}

#[test]
fn the_head_of_a_job_that_was_parked_leaves_nothing_to_delete() {
    let mut existence = ExistenceFilter::Marks(Marks::default());
    existence.insert(Table::ParkedIds, &key(9));
    let (overlay, delete) = (Overlay::default(), |table| TableChange::Delete { table, key: key(1) });
    apply(&overlay, 1, vec![delete(Table::ParkedIds), put(Table::JobHeads, 1, 7)], &existence);
    apply(&overlay, 2, vec![delete(Table::JobHeads)], &existence);
    let data = overlay.read();
    assert_eq!(data.rows(Table::JobHeads).map(ChangedRows::len), Some(0), "it was born here");
    assert_eq!(data.rows(Table::ParkedIds).map(ChangedRows::len), Some(1));
}

#[test]
fn without_views_nothing_is_kept_twice() {
    let existence = none();
    let overlay = Overlay::default();
    for seq in 1..100 {
        apply(&overlay, seq, vec![put(Table::JobHeads, 1, seq), sign(1, seq as u32)], &existence);
    }
    let data = overlay.read();
    assert_eq!(data.records(), 1);
    assert_eq!(data.rows(Table::JobHeads).expect("changed").at(&key(1), 98), OverlayRow::Untouched);
    assert_eq!((data.position(), data.head().seq), (Position(99), 99));
}

#[test]
fn the_memory_of_all_overlays_is_known_until_nobody_reads_them() {
    let memory = Arc::new(OverlayMemory::default());
    let existence = none();
    let (one, other) = (Overlay::new(&memory), Overlay::new(&memory));
    apply(&one, 1, (0..100).map(|number| put(Table::JobHeads, number, 7)).collect(), &existence);
    let rows = memory.bytes();
    assert!((100 * 8..100 * 400).contains(&rows), "{rows} bytes for 100 rows of 8");
    apply(&one, 2, (0..100).map(|number| put(Table::JobHeads, number, 8)).collect(), &existence);
    assert_eq!(memory.bytes(), rows, "what is overwritten takes nothing");
    apply(&other, 1, (0..100).map(|number| sign(number, number)).collect(), &existence);
    assert!(memory.bytes() >= rows + SliceOverlay::EMPTY_BYTES);
    let deletions = (0..100).map(|number| TableChange::Delete { table: Table::JobHeads, key: key(number) });
    apply(&one, 3, deletions.collect(), &existence);
    drop(other);
    assert_eq!(memory.bytes(), 0, "what was born here and deleted takes nothing, nor does what nobody reads");
}

#[test]
fn rows_are_copied_up_to_a_count_and_a_size() {
    let overlay = Overlay::default();
    let sized = |(number, bytes)| TableChange::Put {
        table: Table::JobHeads,
        key: key(number),
        value: vec![0; bytes].into(),
    };
    let mut changes: Vec<_> = (1..).zip([10, 200, 10, 10, 10]).map(sized).collect();
    changes.push(put(Table::JobHeads, 9, 1));
    apply(&overlay, 1, changes, &none());
    apply(&overlay, 2, vec![TableChange::Delete { table: Table::JobHeads, key: key(4) }], &none());
    apply(&overlay, 3, vec![put(Table::JobHeads, 0, 1)], &none());
    let data = overlay.read();
    let rows = data.rows(Table::JobHeads).expect("changed");
    for (ascending, most, copied, are_more) in [
        // What is deleted again was never there.
        (true, (usize::MAX, usize::MAX), &[1, 2, 3, 5, 9][..], false),
        (true, (5, usize::MAX), &[1, 2, 3, 5, 9], false),
        (true, (4, usize::MAX), &[1, 2, 3, 5], true),
        (true, (usize::MAX, 10), &[1], true),
        (true, (usize::MAX, 11), &[1, 2], true),
        (false, (2, usize::MAX), &[9, 5], true),
        (false, (usize::MAX, 30), &[9, 5, 3, 2], true),
    ] {
        let (found, more) = rows.first_changed(&KeyRange::all(), 2, ascending, most);
        let keys: Vec<u8> = found.iter().map(|(key, _)| key[0]).collect();
        assert_eq!((&keys[..], more), (copied, are_more), "{ascending} {most:?}");
    }
}
