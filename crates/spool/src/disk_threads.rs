//! The two threads that go to the disk. One makes what is accepted durable, many requests with one
//! sync. The other saves how far everything is, and makes room.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::Timestamp;
use base::locks::locked;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::destination::Destination;
use crate::log::{AppendError, SpoolLog, SpoolWriter};
use crate::record::SpoolEntry;

/// Requests that wait for the disk.
const WAITING_MAX: usize = 1_024;
/// What is made durable with one sync, in requests and bytes of bodies.
const COMMIT_REQUESTS_MAX: usize = 512;
const COMMIT_BYTES_MAX: usize = 2 * 1_024 * 1_024;
/// How often it is looked how full the disk is.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether the file system has less room than is to be kept free.
pub(crate) type IsDiskFull = Box<dyn Fn() -> io::Result<bool> + Send>;

/// Hands in what is to be spooled; clones hand in to the same spool.
#[derive(Clone)]
pub(crate) struct SpoolIntake {
    requests: mpsc::Sender<AppendRequest>,
}

struct AppendRequest {
    entries: Vec<SpoolEntry>,
    answer: oneshot::Sender<Result<u64, AppendError>>,
}

impl SpoolIntake {
    /// Makes a request durable, whole or not at all: how many items it was.
    ///
    /// # Errors
    /// When nothing of it was accepted.
    pub(crate) async fn append(&self, entries: Vec<SpoolEntry>) -> Result<u64, AppendError> {
        let (answer, answered) = oneshot::channel();
        let handed_in = self.requests.send(AppendRequest { entries, answer }).await;
        handed_in.map_err(|_| AppendError::Stopping)?;
        answered.await.map_err(|_| AppendError::Stopping)?
    }

    /// The same, from a thread of one's own.
    pub(crate) fn append_blocking(&self, entries: Vec<SpoolEntry>) -> Result<u64, AppendError> {
        let (answer, answered) = oneshot::channel();
        let handed_in = self.requests.blocking_send(AppendRequest { entries, answer });
        handed_in.map_err(|_| AppendError::Stopping)?;
        answered.blocking_recv().map_err(|_| AppendError::Stopping)?
    }
}

/// Who waits for records of which destination.
#[derive(Default)]
pub(crate) struct RecordArrivals {
    waiting: Mutex<Waiters>,
    /// Some destination has nobody yet.
    pub(crate) newcomer: Notify,
}

#[derive(Default)]
struct Waiters {
    forwarders: HashMap<Destination, Arc<Notify>>,
    newcomers: HashSet<Destination>,
}

impl RecordArrivals {
    /// Something of a destination is there.
    pub(crate) fn tell(&self, destination: &Destination) {
        let mut waiters = locked(&self.waiting);
        if let Some(forwarder) = waiters.forwarders.get(destination) {
            forwarder.notify_one();
        } else if waiters.newcomers.insert(destination.clone()) {
            self.newcomer.notify_one();
        }
    }

    /// Destinations that have nobody yet, and what wakes who is begun for them.
    pub(crate) fn take_newcomers(&self) -> Vec<(Destination, Arc<Notify>)> {
        let mut waiters = locked(&self.waiting);
        let newcomers: Vec<_> = waiters.newcomers.drain().map(|new| (new, Arc::default())).collect();
        waiters.forwarders.extend(newcomers.iter().cloned());
        newcomers
    }

    /// Whoever waits for a destination ends if nothing of it is there.
    pub(crate) fn leave(&self, destination: &Destination, log: &SpoolLog) -> bool {
        let mut waiters = locked(&self.waiting);
        let leaves = !log.waits(destination);
        if leaves {
            waiters.forwarders.remove(destination);
        }
        leaves
    }
}

/// Begins the thread that makes things durable; it ends with the last handle.
pub(crate) fn start_writer(
    mut writer: SpoolWriter,
    arrivals: Arc<RecordArrivals>,
    is_disk_full: IsDiskFull,
) -> io::Result<(SpoolIntake, std::thread::JoinHandle<()>)> {
    let (requests, mut waiting) = mpsc::channel::<AppendRequest>(WAITING_MAX);
    let work = move || {
        let mut looked = None::<(Instant, bool)>;
        while let Some(first) = waiting.blocking_recv() {
            let requests = together(first, &mut waiting);
            let is_full = match looked {
                Some((at, is_full)) if at.elapsed() < LOOK_EVERY => is_full,
                _ => is_disk_full().unwrap_or_else(|error| {
                    tracing::warn!(%error, "the disk does not say how full it is");
                    false
                }),
            };
            looked = looked.filter(|(at, _)| at.elapsed() < LOOK_EVERY).or(Some((Instant::now(), is_full)));
            commit(&mut writer, &arrivals, requests, is_full);
        }
    };
    let thread = std::thread::Builder::new().name("spool-writer".to_owned()).spawn(work)?;
    Ok((SpoolIntake { requests }, thread))
}

/// What waits, as far as it goes into one sync.
fn together(first: AppendRequest, waiting: &mut mpsc::Receiver<AppendRequest>) -> Vec<AppendRequest> {
    let bytes_of =
        |request: &AppendRequest| request.entries.iter().map(|entry| entry.body.len()).sum::<usize>();
    let mut bytes = bytes_of(&first);
    let mut requests = vec![first];
    while requests.len() < COMMIT_REQUESTS_MAX && bytes < COMMIT_BYTES_MAX {
        let Ok(next) = waiting.try_recv() else { break };
        bytes += bytes_of(&next);
        requests.push(next);
    }
    requests
}

fn commit(writer: &mut SpoolWriter, arrivals: &RecordArrivals, requests: Vec<AppendRequest>, is_full: bool) {
    let (entries, answers): (Vec<_>, Vec<_>) =
        requests.into_iter().map(|request| (request.entries, request.answer)).unzip();
    if is_full {
        for answer in answers {
            // Who has gone needs no answer.
            let _ = answer.send(Err(AppendError::Full));
        }
        return;
    }
    let touched: HashSet<Destination> =
        entries.iter().flatten().map(|entry| entry.destination.clone()).collect();
    let results = writer.commit(entries, now());
    for (answer, result) in answers.into_iter().zip(results) {
        let _ = answer.send(result);
    }
    for destination in touched.iter().filter(|destination| writer.log().waits(destination)) {
        arrivals.tell(destination);
    }
}

/// Asks for what is known to be saved.
#[derive(Clone)]
pub(crate) struct SaveRequests(mpsc::Sender<oneshot::Sender<bool>>);

impl SaveRequests {
    /// Once this is true, all that was known when it was called is saved.
    pub(crate) async fn save(&self) -> bool {
        let (answer, saved) = oneshot::channel();
        self.0.send(answer).await.is_ok() && saved.await.unwrap_or(false)
    }

    /// It is saved some time.
    pub(crate) fn save_soon(&self) {
        // Where many are waiting, they save this too.
        let _ = self.0.try_send(oneshot::channel().0);
    }
}

/// Begins the thread that saves; it ends with the last handle.
pub(crate) fn start_saving(log: Arc<SpoolLog>) -> io::Result<(SaveRequests, std::thread::JoinHandle<()>)> {
    let (requests, mut waiting) = mpsc::channel::<oneshot::Sender<bool>>(WAITING_MAX);
    let work = move || {
        while let Some(first) = waiting.blocking_recv() {
            let mut answers = vec![first];
            while let Ok(next) = waiting.try_recv() {
                answers.push(next);
            }
            let saved = log.tidy_up(false);
            if let Err(error) = &saved {
                tracing::warn!(%error, "it cannot be saved how far everything is; nothing is forwarded");
            }
            for answer in answers {
                let _ = answer.send(saved.is_ok());
            }
        }
    };
    let thread = std::thread::Builder::new().name("spool-saver".to_owned()).spawn(work)?;
    Ok((SaveRequests(requests), thread))
}

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
