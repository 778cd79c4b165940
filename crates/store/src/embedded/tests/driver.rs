//! The threads of a store, on a real disk.

use base::SystemClock;
use blocklog::RealDisk;

use super::*;

fn running(path: &std::path::Path, options: EmbeddedOptions) -> (Arc<EmbeddedStore>, Running) {
    let disk = RealDisk::open_dir(path, true).expect("opens");
    let store = Arc::new(EmbeddedStore::open(Arc::new(disk), options).expect("opens"));
    let clock = Arc::new(SystemClock::start(store.recorded_now()));
    let running = Running::start(Arc::clone(&store), clock).expect("starts");
    (store, running)
}

/// Commits from a thread of each partition, a few batches under way at a time, far beyond the room of the log.
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
    let figure = |name: &str| {
        let figures = store.figures();
        figures.iter().find(|figure| figure.name == name).expect("a figure").value
    };
    assert!(figure("fieldpost_store_checkpoints_total") > 1.0);
    assert_eq!(figure("fieldpost_store_frames_total"), f64::from(batches * 3));
    assert!(figure("fieldpost_store_syncs_total") <= f64::from(batches * 3));
    drop(store);
    let (store, _running) = self::running(path.path(), small());
    for id in PARTITIONS_OF_TEST {
        let head = store.load(id, &mut |_| {}).expect("loads");
        assert_eq!(head.seq, u64::from(batches as u32));
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
