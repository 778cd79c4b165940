//! The threads of a store, on a real disk.

use std::sync::Condvar;

use base::SystemClock;
use blocklog::RealDisk;

use super::watched_disk::WatchedDisk;
use super::*;

fn running(path: &std::path::Path, options: EmbeddedOptions) -> (Arc<EmbeddedStore>, Running) {
    let disk = RealDisk::open_dir(path, true).expect("opens");
    let store = Arc::new(EmbeddedStore::open(Arc::new(disk), options).expect("opens"));
    let clock = Arc::new(SystemClock::start(store.recorded_now()));
    let running = Running::start(Arc::clone(&store), clock).expect("starts");
    (store, running)
}

fn metric(store: &EmbeddedStore, name: &str) -> f64 {
    let metrics = store.metrics();
    metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}")).value
}

/// Commits from a thread of each partition, a few batches under way at a time, far beyond the room
/// of the log.
#[test]
fn commits_of_all_partitions_become_durable_and_make_room_for_each_other() {
    let path = tempfile::tempdir().expect("a directory");
    let (store, running) = running(path.path(), small());
    let batches = 60;
    std::thread::scope(|scope| {
        for mut traffic in all_traffic(5) {
            let store = &store;
            scope.spawn(move || {
                let mut open = std::collections::VecDeque::new();
                for _ in 0..batches {
                    open.push_back(give(store, traffic.next_batch(200)));
                    if open.len() > 3 {
                        let outcome = open.pop_front().expect("four are open").recv();
                        assert!(matches!(outcome, Ok(CommitOutcome::Durable)), "{outcome:?}");
                    }
                }
                for outcome in open {
                    assert!(matches!(outcome.recv(), Ok(CommitOutcome::Durable)));
                }
            });
        }
    });
    running.stop();
    assert!(metric(&store, "fieldpost_store_checkpoints_total") > 1.0);
    let frames = f64::from(batches * PARTITIONS_OF_TEST.len() as i32);
    assert_eq!(metric(&store, "fieldpost_store_frames_total"), frames);
    assert!(metric(&store, "fieldpost_store_syncs_total") <= frames);
    drop(store);
    let (store, _running) = self::running(path.path(), small());
    for id in PARTITIONS_OF_TEST {
        let view = store.load(id).expect("loads");
        assert_eq!(view.head().seq, u64::from(batches as u32));
    }
}

#[test]
fn a_stopped_store_has_committed_what_it_was_given_and_takes_no_more() {
    let path = tempfile::tempdir().expect("a directory");
    let (store, running) = running(path.path(), small());
    let mut traffic = all_traffic(1);
    let outcomes: Vec<_> = (0..20).map(|_| give(&store, traffic[0].next_batch(5))).collect();
    running.stop();
    for outcome in outcomes {
        assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
    }
    let refused = give(&store, traffic[0].next_batch(5)).try_recv().expect("told at once");
    assert_eq!(refused.to_string(), "failed: the store was stopped");
}

/// A running store on a disk that tells of every sync of the log from now on.
fn telling(disk: &SimulatedDisk, options: EmbeddedOptions) -> (Arc<EmbeddedStore>, Running, Receiver<()>) {
    let (syncs, synced) = channel();
    let after_sync = Arc::new(move |name: &str| {
        if name.starts_with("log-") {
            // whoever listened may be gone
            let _told = syncs.send(());
        }
    });
    let disk = WatchedDisk { disk: disk.clone(), after_sync };
    let store = Arc::new(EmbeddedStore::open(Arc::new(disk), options).expect("opens"));
    let clock = Arc::new(SystemClock::start(Timestamp(0)));
    let running = Running::start(Arc::clone(&store), clock).expect("starts");
    while synced.try_recv().is_ok() {}
    (store, running, synced)
}

const TIMEOUT: Duration = Duration::from_secs(20);

/// Damage to the last batch is told from a torn tail only because the log claimed it, without
/// anyone asking.
#[test]
fn an_idle_log_claims_what_it_holds() {
    let disk = SimulatedDisk::new(1);
    let (store, running, synced) = telling(&disk, small());
    let outcome = give(&store, all_traffic(1)[0].next_batch(5)).recv();
    assert!(matches!(outcome, Ok(CommitOutcome::Durable)));
    // the batch, then the claim
    assert_eq!((synced.recv_timeout(TIMEOUT), synced.recv_timeout(TIMEOUT)), (Ok(()), Ok(())));
    assert_claimed(&disk);
    running.stop();
}

fn assert_claimed(disk: &SimulatedDisk) {
    let copy = disk.copy_of_durable(1);
    let log = copy.list().expect("lists").into_iter().find(|name| name.starts_with("log-")).expect("a log");
    copy.corrupt(&log, 64 + 41, 1);
    assert!(matches!(open(&copy), Err(StoreError::Damaged { .. })));
}

#[test]
fn what_is_committed_without_a_sync_is_synced_soon_and_claimed() {
    let disk = SimulatedDisk::new(1);
    let sync = SyncMode::Interval(Duration::from_millis(5));
    let (store, running, synced) = telling(&disk, EmbeddedOptions { sync, ..small() });
    for _ in 0..3 {
        let outcome = give(&store, all_traffic(1)[0].next_batch(5)).recv();
        assert!(matches!(outcome, Ok(CommitOutcome::Durable)));
    }
    assert_eq!((synced.recv_timeout(TIMEOUT), synced.recv_timeout(TIMEOUT)), (Ok(()), Ok(())));
    let left = open(&disk.copy_of_durable(1)).expect("opens");
    assert_eq!(left.partition(PartitionId(0)).head().seq, 1, "the others are repeats");
    running.stop();
    assert_claimed(&disk);
}

#[test]
fn a_stop_syncs_what_was_committed_without_a_sync() {
    let disk = SimulatedDisk::new(1);
    let sync = SyncMode::Interval(Duration::from_secs(60));
    let (store, running, synced) = telling(&disk, EmbeddedOptions { sync, ..small() });
    let outcome = give(&store, all_traffic(1)[0].next_batch(5)).recv();
    assert!(matches!(outcome, Ok(CommitOutcome::Durable)));
    assert!(synced.try_recv().is_err(), "it would be synced in a minute");
    running.stop();
    assert_claimed(&disk);
}

/// What no checkpoint wrote before a failure is never written: nobody may look for it again and
/// again.
#[test]
fn after_a_failure_the_checkpointer_ends() {
    let disk = SimulatedDisk::new(1);
    let store = Arc::new(open(&disk).expect("opens"));
    let mut traffic = all_traffic(1);
    for fails in [false, true] {
        if fails {
            disk.fail_write(1);
        }
        let outcome = give(&store, traffic[0].next_batch(5));
        settle(&store);
        assert_eq!(matches!(outcome.try_recv(), Ok(CommitOutcome::Failed(_))), fails);
    }
    assert_eq!(store.next_checkpoint(), None, "there is something to write, and it will never be due");
    let clock = Arc::new(SystemClock::start(Timestamp(0)));
    let held_by_the_thread = Arc::downgrade(&clock);
    let running = Running::start(store, clock).expect("starts");
    let begun = std::time::Instant::now();
    while held_by_the_thread.strong_count() > 0 {
        assert!(begun.elapsed() < TIMEOUT, "the checkpointer goes on");
        std::thread::yield_now();
    }
    running.stop();
}

/// Lets through who comes, while it is open.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_shut: bool,
    somebody_waits: bool,
}

impl Gate {
    fn set_shut(&self, is_shut: bool) {
        self.state.lock().expect("nobody panics").is_shut = is_shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().expect("nobody panics");
        state.somebody_waits = state.is_shut;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| state.is_shut).expect("nobody panics"));
    }

    fn wait_for_somebody(&self) {
        let state = self.state.lock().expect("nobody panics");
        drop(self.changed.wait_while(state, |state| !state.somebody_waits).expect("nobody panics"));
    }
}

/// With checkpoints that hang, commits are slowed when the log is half as long again as it should
/// be. They end when it is three times as long as it should be. When the checkpoints go on, so do
/// the commits.
#[test]
fn commits_are_slowed_and_held_while_checkpoints_hang_and_go_on_when_there_is_room() {
    let gate = Arc::new(Gate::default());
    let at_gate = Arc::clone(&gate);
    let after_sync = Arc::new(move |name: &str| {
        if name == "tables" {
            at_gate.pass();
        }
    });
    let disk = WatchedDisk { disk: SimulatedDisk::new(1), after_sync };
    let store = Arc::new(EmbeddedStore::open(Arc::new(disk), small()).expect("opens"));
    gate.set_shut(true);
    let clock = Arc::new(SystemClock::start(Timestamp(0)));
    let running = Running::start(Arc::clone(&store), clock).expect("starts");
    let mut traffic = all_traffic(5);
    // metrics read the tables too, and would wait with them
    while store.log_bytes.load(Ordering::Acquire) * 2 < 5 * small().checkpoint_log_bytes {
        let outcome = give(&store, traffic[0].next_batch(100)).recv();
        assert!(matches!(outcome, Ok(CommitOutcome::Durable)), "{outcome:?}");
    }
    assert!(store.counters.paced_nanos.load(Ordering::Relaxed) > 0);
    gate.wait_for_somebody();
    let too_many = small().checkpoint_log_bytes / 100;
    let mut waiting: Vec<_> = (0..too_many).map(|_| give(&store, traffic[0].next_batch(100))).collect();
    let last = waiting.pop().expect("a batch");
    assert!(last.try_recv().is_err(), "there is no room for all of them");
    gate.set_shut(false);
    assert!(matches!(last.recv(), Ok(CommitOutcome::Durable)));
    running.stop();
    assert!(metric(&store, "fieldpost_store_checkpoints_total") > 1.0);
}
