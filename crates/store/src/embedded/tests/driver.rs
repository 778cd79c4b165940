//! The threads of a store, on a real disk.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use base::SystemClock;
use blocklog::{DiskFile, RealDisk};

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

/// A disk that tells of every sync of the log.
struct Telling {
    disk: SimulatedDisk,
    syncs: Sender<()>,
}

struct TellingFile {
    file: Arc<dyn DiskFile>,
    syncs: Option<Sender<()>>,
}

impl Disk for Telling {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let syncs = name.starts_with("log-").then(|| self.syncs.clone());
        Ok(Arc::new(TellingFile { file: self.disk.open(name, create)?, syncs }))
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }
    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(name)
    }
    fn path(&self) -> PathBuf {
        self.disk.path()
    }
}

impl DiskFile for TellingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, data)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        // whoever listened may be gone
        let _told = self.syncs.as_ref().map(|syncs| syncs.send(()));
        Ok(())
    }
}

/// Damage to the last batch is told from a torn tail only because the log claimed it, without anyone asking.
#[test]
fn an_idle_log_claims_what_it_holds() {
    let disk = SimulatedDisk::new(1);
    let (syncs, synced) = channel();
    let telling: Arc<dyn Disk> = Arc::new(Telling { disk: disk.clone(), syncs });
    let store = Arc::new(EmbeddedStore::open(telling, small()).expect("opens"));
    let running =
        Running::start(Arc::clone(&store), Arc::new(SystemClock::start(Timestamp(0)))).expect("starts");
    while synced.try_recv().is_ok() {}
    let outcome = give(&store, all_traffic(1)[0].next_batch(5)).recv();
    assert!(matches!(outcome, Ok(CommitOutcome::Durable)));
    // the batch, then the claim
    let timeout = Duration::from_secs(20);
    assert_eq!((synced.recv_timeout(timeout), synced.recv_timeout(timeout)), (Ok(()), Ok(())));
    let copy = disk.copy_of_durable(1);
    let log = copy.list().expect("lists").into_iter().find(|name| name.starts_with("log-")).expect("a log");
    copy.corrupt(&log, 64 + 41, 1);
    assert!(matches!(open(&copy), Err(StoreError::Damaged { .. })));
    running.stop();
}
