//! What is kept no longer leaves the tables, a bounded number of rows at a time, whatever happens
//! in between.

use records::{
    Attempt, AttemptDetail, CountedOf, CountsKey, DeliveryKey, DeliveryProgress, DeliveryStatus, DeviceSlot,
    Happening, HourlyCounts, KeptFrom, Metric, Op, PartitionHead, TimelineEntry,
};

use super::*;
use crate::conformance::{all, delivery, event, sign};
use crate::embedded::tables::Table;
use crate::key_range::KeyRange;
use crate::table::Lifetime;

const PARTITION: PartitionId = PartitionId(0);
const DAY_MS: i64 = 86_400_000;
const DAYS: i64 = 3;
/// Events and deliveries of a day: more than are removed at once.
const OF_A_DAY: u32 = 2_500;
/// What has a time that is kept no longer.
const EXPIRING: [Table; 10] = [
    Table::Events,
    Table::Timeline,
    Table::EventsByDevice,
    Table::Deliveries,
    Table::Progress,
    Table::DeliveriesByClient,
    Table::DeliveriesByDevice,
    Table::Attempts,
    Table::Counts,
    Table::BlobIndex,
];

fn key(day: i64, number: u32) -> DeliveryKey {
    DeliveryKey { at: Timestamp(day * DAY_MS + i64::from(number)), number }
}

fn attempt(delivery: DeliveryKey) -> Attempt {
    let at = delivery.at;
    let detail = AttemptDetail::default();
    Attempt { delivery, number: 1, at, duration_ms: 1, status_code: Some(200), error: None, detail }
}

fn delivered() -> DeliveryProgress {
    DeliveryProgress { status: DeliveryStatus::Delivered, attempts: 1, next_attempt_at: None }
}

fn of_day(day: i64) -> Vec<Op> {
    let counts = CountsKey { day: day as u32, of: CountedOf::All, metric: Metric::Changes };
    let mut ops = vec![Op::PutCounts(counts, Box::new(HourlyCounts([1; 24])))];
    for number in 0..OF_A_DAY {
        let (key, slot) = (key(day, number), number % 700);
        ops.push(sign(slot, number + 1, 1.0));
        ops.push(Op::PutEvent(Box::new(event(slot, key.at.0, number))));
        let (at, what) = (key.at, Happening::Connected { address: None });
        let entry = TimelineEntry { slot: DeviceSlot(slot), at, number, what };
        ops.push(Op::PutTimelineEntry(Box::new(entry)));
        ops.push(Op::PutDelivery(Box::new(delivery(slot, 7, key.at.0, number))));
        ops.push(Op::PutAttempt(Box::new(attempt(key))));
    }
    ops
}

fn commit(store: &EmbeddedStore, head: &mut PartitionHead, ops: Vec<Op>) {
    head.seq += 1;
    let outcome = give(store, Batch { partition: PARTITION, head: head.clone(), ops });
    settle(store);
    assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
}

/// Three days of history in the tables.
fn filled(disk: &SimulatedDisk) -> (EmbeddedStore, PartitionHead) {
    let store = open(disk).expect("opens");
    let mut head = PartitionHead { next_slot: 700, ..PartitionHead::default() };
    for day in 0..DAYS {
        head.now = Timestamp(day * DAY_MS);
        commit(&store, &mut head, of_day(day));
        while store.checkpoint_step(Timestamp::MAX) == StepOutcome::Worked {}
    }
    (store, head)
}

/// From the last day on.
fn keep_the_last_day(store: &EmbeddedStore, head: &mut PartitionHead) {
    let from = Timestamp((DAYS - 1) * DAY_MS);
    head.kept_from = KeptFrom { readings: from, events: from, deliveries: from };
    commit(store, head, Vec::new());
}

fn rows(store: &EmbeddedStore, table: Table) -> usize {
    let snapshot = store.tables.snapshot().expect("reads");
    snapshot.range(table, PARTITION, &KeyRange::all()).expect("reads").count()
}

/// Blocks of blobs that there are, and that the index says there are.
fn blocks(store: &EmbeddedStore) -> (usize, usize) {
    let snapshot = store.tables.snapshot().expect("reads");
    let indexes = snapshot.range(Table::BlobIndex, PARTITION, &KeyRange::all()).expect("reads");
    let index =
        |row: Result<_, StoreError>| blobs::index("tables", &row.expect("reads")).expect("an index").1;
    (rows(store, Table::Blobs), indexes.map(|row| index(row).blocks() as usize).sum())
}

fn all_rows(store: &EmbeddedStore) -> Vec<usize> {
    EXPIRING.map(|table| rows(store, table)).to_vec()
}

fn expired(store: &EmbeddedStore) -> f64 {
    let metrics = store.metrics();
    let metric = metrics.iter().find(|metric| metric.name == "fieldpost_store_expired_rows_total");
    metric.expect("there is such a metric").value
}

#[test]
fn only_the_days_that_are_kept_stay_in_the_tables() {
    let (store, mut head) = filled(&SimulatedDisk::new(1));
    let before = all_rows(&store);
    assert!(before.iter().all(|rows| rows.is_multiple_of(DAYS as usize) && *rows > 0), "{before:?}");
    keep_the_last_day(&store, &mut head);
    let mut steps = 0;
    let mut left = before.iter().sum::<usize>();
    while store.checkpoint_step(Timestamp::MAX) == StepOutcome::Worked {
        let now = all_rows(&store).iter().sum();
        assert!(left - now <= 20_000, "{} rows at once", left - now);
        left = now;
        steps += 1;
    }
    assert!(steps > 3, "{steps}");
    let of_a_day: Vec<_> = before.iter().map(|rows| rows / DAYS as usize).collect();
    assert_eq!(all_rows(&store), of_a_day);
    let (blocks, indexed) = blocks(&store);
    assert_eq!(blocks, indexed);
    assert!(expired(&store) >= f64::from(4 * OF_A_DAY), "{}", expired(&store));
}

/// Slots are never used again, so nearly all of them may be of devices that are gone. A pass over
/// all slots would not come to an end here.
#[test]
fn devices_that_are_gone_cost_no_time() {
    let (store, mut head) = filled(&SimulatedDisk::new(1));
    head.next_slot = u32::MAX;
    let blobs = rows(&store, Table::BlobIndex);
    keep_the_last_day(&store, &mut head);
    while store.checkpoint_step(Timestamp(0)) == StepOutcome::Worked {}
    let left = rows(&store, Table::BlobIndex);
    assert!(left > 0 && left < blobs, "{left} of {blobs}");
}

#[test]
fn history_of_one_sort_goes_without_the_others() {
    let (store, mut head) = filled(&SimulatedDisk::new(1));
    let before = all_rows(&store);
    head.kept_from = KeptFrom { events: Timestamp(DAY_MS), ..KeptFrom::EVER };
    commit(&store, &mut head, Vec::new());
    while store.checkpoint_step(Timestamp::MAX) == StepOutcome::Worked {}
    for (table, (before, now)) in EXPIRING.into_iter().zip(before.into_iter().zip(all_rows(&store))) {
        let with_events =
            matches!(table, Table::Events | Table::Timeline | Table::EventsByDevice | Table::Counts);
        let expect = if with_events { before * 2 / 3 } else { before };
        assert_eq!(now, expect, "{table:?}");
    }
}

#[test]
fn what_a_crash_interrupts_goes_on_after_it() {
    for seed in 0..4 {
        let disk = SimulatedDisk::new(seed);
        let (mut store, mut head) = filled(&disk);
        let expect: Vec<_> = all_rows(&store).iter().map(|rows| rows / DAYS as usize).collect();
        keep_the_last_day(&store, &mut head);
        for life in 0..3 {
            for _ in 0..=life {
                store.checkpoint_step(Timestamp::MAX);
            }
            if seed % 2 == 0 {
                disk.crash();
            } else {
                disk.fail_sync(1);
                store.checkpoint_step(Timestamp::MAX);
                disk.crash();
            }
            drop(store);
            store = open(&disk).expect("opens again");
            let view = store.view(PARTITION).expect("opens");
            let events = view.events(crate::port::FeedFilter::default(), all(), &|_| true).expect("reads");
            assert_eq!(events.first().map(|event| event.id.at), Some(head.kept_from.events), "seed {seed}");
        }
        while store.checkpoint_step(Timestamp::MAX) == StepOutcome::Worked {}
        assert_eq!(all_rows(&store), expect, "seed {seed}");
    }
}

#[test]
fn what_comes_for_a_delivery_that_is_gone_is_not_seen_and_goes_with_the_next_day() {
    let (store, mut head) = filled(&SimulatedDisk::new(1));
    keep_the_last_day(&store, &mut head);
    while store.checkpoint_step(Timestamp::MAX) == StepOutcome::Worked {}
    let (gone, kept) = (key(0, 5), key(DAYS - 1, 5));
    let late = [gone, kept].into_iter().flat_map(|key| {
        let attempt = Attempt { number: 2, ..attempt(key) };
        [Op::PutProgress(key, delivered()), Op::PutAttempt(Box::new(attempt))]
    });
    commit(&store, &mut head, late.collect());
    for _ in 0..2 {
        let view = store.view(PARTITION).expect("opens");
        assert_eq!(view.delivery(gone).expect("reads"), None);
        assert!(view.attempts(gone).expect("reads").is_empty());
        assert_eq!(view.delivery(kept).expect("reads").map(|kept| kept.progress), Some(delivered()));
        assert_eq!(view.attempts(kept).expect("reads").len(), 2);
        drop(view);
        while store.checkpoint_step(Timestamp::MAX) == StepOutcome::Worked {}
    }
    head.kept_from.deliveries = Timestamp(DAYS * DAY_MS);
    commit(&store, &mut head, Vec::new());
    while store.checkpoint_step(Timestamp::MAX) == StepOutcome::Worked {}
    assert_eq!((rows(&store, Table::Progress), rows(&store, Table::Attempts)), (0, 0));
}

/// How far a round has come is kept for one table.
#[test]
fn one_table_is_gone_through_in_rounds() {
    let in_rounds = Table::ALL.into_iter().filter(|table| table.lifetime() == Lifetime::DeviceAndEvents);
    assert_eq!(in_rounds.collect::<Vec<_>>(), [Table::Timeline]);
}
