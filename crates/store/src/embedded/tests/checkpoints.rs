//! When a checkpoint is due, what it writes, and what becomes of the log.

use records::{HeadState, JobHead, JobId, JobTerms, Op, ParkedJob, Parking, PartitionHead, QueueKey, Sign};

use super::*;
use base::WayIn;
use records::DeviceSlot;

const START: Timestamp = Timestamp(1_800_000_000_000);
const PARTITION: PartitionId = PartitionId(0);

fn commit(store: &EmbeddedStore, head: &mut PartitionHead, ops: Vec<Op>) {
    commit_to(store, PARTITION, head, ops);
}

fn commit_to(store: &EmbeddedStore, partition: PartitionId, head: &mut PartitionHead, ops: Vec<Op>) {
    head.seq += 1;
    head.now = START;
    let outcome = give(store, Batch { partition, head: head.clone(), ops });
    settle(store);
    assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
}

fn metric(store: &EmbeddedStore, name: &str) -> f64 {
    let metrics = store.metrics();
    metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}")).value
}

fn segments(disk: &SimulatedDisk) -> usize {
    disk.list().expect("lists").iter().filter(|name| name.starts_with("log-")).count()
}

fn job(number: u64) -> JobHead {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    JobHead {
        id: JobId(id),
        queue: QueueKey(1),
        number,
        run_at: START,
        visible_at: START,
        attempt: 0,
        tries: 1,
        state: HeadState::Waiting,
        alias: None,
        terms: JobTerms::default(),
        successor: None,
    }
}

fn put_jobs(numbers: std::ops::Range<u64>) -> Vec<Op> {
    numbers.map(|number| Op::PutJob(Box::new(job(number)))).collect()
}

fn delete_jobs(numbers: std::ops::Range<u64>) -> Vec<Op> {
    numbers.map(|number| Op::DeleteJob(job(number).id)).collect()
}

fn jobs(store: &EmbeddedStore) -> usize {
    let mut count = 0;
    let view = store.load(PARTITION).expect("loads");
    view.device_residents(&mut |resident| {
        count += usize::from(matches!(resident, crate::DeviceResident::Job(_)));
    })
    .expect("reads");
    count
}

#[test]
fn a_change_is_written_when_it_is_old_enough() {
    let store = open(&SimulatedDisk::new(1)).expect("opens");
    let mut head = PartitionHead::default();
    assert_eq!((store.next_checkpoint(), store.checkpoint_step(Timestamp::MAX)), (None, StepOutcome::Idle));
    commit(&store, &mut head, put_jobs(0..1));
    let due = START.after(small().checkpoint_age);
    assert_eq!(store.next_checkpoint(), Some(due));
    assert_eq!(store.checkpoint_step(Timestamp(due.0 - 1)), StepOutcome::Idle);
    assert_eq!(store.checkpoint_step(due), StepOutcome::Worked);
    assert_eq!((store.next_checkpoint(), store.checkpoint_step(Timestamp::MAX)), (None, StepOutcome::Idle));
    assert_eq!(metric(&store, "fieldpost_store_overlay_records"), 0.0);
}

#[test]
fn a_long_log_brings_checkpoints_and_is_freed_behind_them() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk).expect("opens");
    let mut traffic = all_traffic(1);
    for _ in 0..300 {
        for traffic in &mut traffic {
            let outcome = give(&store, traffic.next_batch(100));
            settle(&store);
            assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
        }
        // not by age
        while store.checkpoint_step(Timestamp(0)) == StepOutcome::Worked {}
        assert!(metric(&store, "fieldpost_store_log_bytes") <= 3.0 * 64.0 * 1_024.0);
        assert!(segments(&disk) <= 40, "{}", segments(&disk));
    }
    assert!(metric(&store, "fieldpost_store_checkpoints_total") >= 5.0);
}

#[test]
fn the_time_of_the_last_checkpoint_is_told() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk).expect("opens");
    let last = |store: &EmbeddedStore| {
        let metrics = store.metrics();
        metrics.iter().find(|metric| metric.name == "fieldpost_store_last_checkpoint_seconds").copied()
    };
    assert_eq!(last(&store), None, "there was none");
    give(&store, all_traffic(1)[0].next_batch(100));
    settle(&store);
    let late = store.next_checkpoint().expect("something was changed").after(Duration::from_millis(1_500));
    assert_eq!(store.checkpoint_step(late), StepOutcome::Worked);
    assert_eq!(last(&store).map(|metric| metric.value), Some(late.0 as f64 / 1e3));
}

/// Also when only one partition changes, and the others would hold the log for ever.
#[test]
fn partitions_without_changes_do_not_hold_the_log() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk).expect("opens");
    let mut traffic = all_traffic(1);
    for round in 0..200 {
        // the second partition has one batch, long ago
        let of = usize::from(round == 0);
        let outcome = give(&store, traffic[of].next_batch(200));
        settle(&store);
        assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
        while store.checkpoint_step(Timestamp(0)) == StepOutcome::Worked {}
    }
    assert!(segments(&disk) <= 40, "{}", segments(&disk));
    disk.crash();
    drop(store);
    let store = open(&disk).expect("opens again");
    assert_eq!(store.load(PARTITION).expect("loads").head().seq, 199);
}

#[test]
fn commits_wait_when_the_log_has_no_room() {
    let store = open(&SimulatedDisk::new(1)).expect("opens");
    let mut traffic = all_traffic(1);
    let mut outcomes = Vec::new();
    while store.commit_step() != StepOutcome::Full {
        outcomes.push(give(&store, traffic[0].next_batch(400)));
    }
    let waiting = outcomes.pop().expect("one waits");
    assert!(waiting.try_recv().is_err());
    assert!(outcomes.iter().all(|outcome| matches!(outcome.try_recv(), Ok(CommitOutcome::Durable))));
    assert_eq!(store.checkpoint_step(Timestamp(0)), StepOutcome::Worked);
    assert_eq!(store.commit_step(), StepOutcome::Worked);
    assert!(matches!(waiting.try_recv(), Ok(CommitOutcome::Durable)));
}

#[test]
fn what_comes_and_goes_between_checkpoints_never_touches_the_tables() {
    let store = open(&SimulatedDisk::new(1)).expect("opens");
    let mut head = PartitionHead::default();
    for round in 0..20 {
        let numbers = round * 100..(round + 1) * 100;
        commit(&store, &mut head, put_jobs(numbers.clone()));
        commit(&store, &mut head, delete_jobs(numbers));
    }
    assert_eq!(metric(&store, "fieldpost_store_overlay_records"), 0.0);
    assert_eq!(store.checkpoint_step(Timestamp::MAX), StepOutcome::Worked);
    assert_eq!(metric(&store, "fieldpost_store_checkpoint_bytes_total"), 0.0);
}

/// More jobs than the filter of what may be in the tables has room for at first.
#[test]
fn what_was_written_and_deleted_later_is_gone_after_a_restart() {
    let disk = SimulatedDisk::new(1);
    let mut store = open(&disk).expect("opens");
    let mut head = PartitionHead::default();
    for round in 0..8 {
        let numbers = round * 1_000..(round + 1) * 1_000;
        commit(&store, &mut head, put_jobs(numbers.clone()));
        store.checkpoint_step(Timestamp::MAX);
        // half at once, half after the next checkpoint; put again and deleted again on the way
        commit(&store, &mut head, delete_jobs(numbers.start..numbers.start + 500));
        commit(&store, &mut head, put_jobs(numbers.start..numbers.start + 10));
        commit(&store, &mut head, delete_jobs(numbers.start..numbers.start + 10));
        store.checkpoint_step(Timestamp::MAX);
        if round % 3 == 2 {
            drop(store);
            store = open(&disk).expect("opens again");
        }
        assert_eq!(jobs(&store), 500);
        commit(&store, &mut head, delete_jobs(numbers.start + 500..numbers.end));
        assert_eq!(jobs(&store), 0);
        store.checkpoint_step(Timestamp::MAX);
        assert_eq!(jobs(&store), 0);
    }
}

#[test]
fn many_devices_that_give_a_sign_write_few_rows() {
    let store = open(&SimulatedDisk::new(1)).expect("opens");
    let mut head = PartitionHead::default();
    let sign = |slot| {
        let (slot, way) = (DeviceSlot(slot), WayIn::Mqtt);
        Op::Sign(Sign { slot, way, readings: 5, newest_ts: None, reading: None })
    };
    commit(&store, &mut head, (0..10_000).map(sign).collect());
    store.checkpoint_step(Timestamp::MAX);
    let bytes = metric(&store, "fieldpost_store_checkpoint_bytes_total");
    assert!(bytes < 10_000.0 * 6.0, "{bytes}");
}

#[test]
fn a_checkpoint_is_due_for_memory_before_the_log_is_long() {
    let disk = SimulatedDisk::new(1);
    let options =
        EmbeddedOptions { checkpoint_memory_bytes: 100_000, checkpoint_log_bytes: 1 << 30, ..small() };
    let store = EmbeddedStore::open(Arc::new(disk) as Arc<dyn Disk>, options).expect("opens");
    let mut head = PartitionHead::default();
    commit(&store, &mut head, put_jobs(0..100));
    assert_eq!(store.checkpoint_step(START), StepOutcome::Idle);
    commit(&store, &mut head, put_jobs(100..2_000));
    assert_eq!(store.checkpoint_step(START), StepOutcome::Worked);
    assert_eq!(store.checkpoint_step(START), StepOutcome::Idle, "what was written takes no memory");
    assert_eq!(jobs(&store), 2_000);
}

#[test]
fn parked_jobs_make_a_checkpoint_due_sooner() {
    let disk = SimulatedDisk::new(1);
    let options =
        EmbeddedOptions { checkpoint_memory_bytes: 1_000_000, checkpoint_log_bytes: 1 << 30, ..small() };
    let store = EmbeddedStore::open(Arc::new(disk) as Arc<dyn Disk>, options).expect("opens");
    let (mut devices, mut queues) = (PartitionHead::default(), PartitionHead::default());
    commit(&store, &mut devices, put_jobs(0..2_500));
    assert_eq!(
        store.checkpoint_step(START),
        StepOutcome::Idle,
        "of jobs that may be done soon there may be many"
    );
    let parked = |number| {
        let job = ParkedJob { head: job(number), parking: Parking::Time, body: None };
        Op::ParkJob(Box::new(job))
    };
    commit_to(&store, PartitionId::of_queues(0), &mut queues, (0..500).map(parked).collect());
    assert_eq!(store.checkpoint_step(START), StepOutcome::Worked);
}
