//! Jobs that wait in the store: how fast they are parked, and how long the soonest take to be read
//! in. Also what one takes of memory and of the disk's writes.
//!
//! They are due at random within a day, in batches of 1,000 over all partitions of queues. They go
//! through the threads of the embedded store on a real disk below `target/`, every commit synced.
//! What is read in is read after a restart. `PARKED_JOBS` says how many; one million if it does
//! not. Nothing is compared with another program here.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use base::random::Random;
use base::{Clock, PartitionId, Timestamp};
use blocklog::RealDisk;
use records::{
    Batch, HeadState, JobClock, JobHead, JobId, JobTerms, Op, ParkedJob, Parking, PartitionHead, Queue,
    QueueCounts, QueueKey, QueueSettings,
};
use store::port::{CommitOutcome, ParkedScan, QueueResident, Store, View};
use store::{EmbeddedOptions, EmbeddedStore, Running};

type Failure = Box<dyn Error>;

const START: i64 = 1_800_057_600_000;
const DAY_MS: u64 = 86_400_000;
const BATCH: usize = 1_000;
/// What a partition reads in at once.
const READ_IN: usize = 20_000;
/// Batches of a partition under way.
const WINDOW: usize = 2;
const BODY: &[u8] = &[b'x'; 104];
const QUEUE: QueueKey = QueueKey(1);

/// Time as it passes, from some moment on.
struct Passing {
    from: Timestamp,
    since: Instant,
}

impl Passing {
    fn from(from: Timestamp) -> Arc<Self> {
        Arc::new(Self { from, since: Instant::now() })
    }
}

impl Clock for Passing {
    fn now(&self) -> Timestamp {
        self.from.after(self.since.elapsed())
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

fn main() -> Result<(), Failure> {
    let jobs: usize = std::env::var("PARKED_JOBS").map_or(Ok(1_000_000), |jobs| jobs.parse())?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    park(folder.path(), jobs)?;
    read_in(folder.path())
}

fn tell(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

fn proc(file: &str, field: &str) -> Result<u64, Failure> {
    let text = std::fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)).ok_or("the kernel does not say")?;
    let number = line.split_whitespace().find_map(|word| word.parse().ok());
    Ok(number.ok_or("the kernel gives no number")?)
}

fn written_bytes() -> Result<u64, Failure> {
    proc("/proc/self/io", "write_bytes:")
}

fn metric(store: &EmbeddedStore, name: &str) -> f64 {
    store.metrics().iter().find(|metric| metric.name == name).map_or(0.0, |metric| metric.value)
}

fn memory() -> Result<String, Failure> {
    let [now, most] = ["VmRSS:", "VmHWM:"].map(|field| proc("/proc/self/status", field));
    Ok(format!("{} MiB, at most {} MiB", now? / 1_024, most? / 1_024))
}

fn open(folder: &Path) -> Result<Arc<EmbeddedStore>, Failure> {
    let disk = Arc::new(RealDisk::open_dir(folder, true)?);
    Ok(Arc::new(EmbeddedStore::open(disk, EmbeddedOptions::default())?))
}

/// One partition of queues, as an engine would have it.
struct Publishing {
    partition: PartitionId,
    head: PartitionHead,
    under_way: Vec<Receiver<CommitOutcome>>,
}

impl Publishing {
    fn give(&mut self, store: &EmbeddedStore, now: Timestamp, ops: Vec<Op>) -> Result<(), Failure> {
        self.head.seq += 1;
        self.head.now = now;
        let (sender, outcome) = channel();
        let batch = Batch { partition: self.partition, head: self.head.clone(), ops };
        // the receiver waits for it
        store.commit(batch, Box::new(move |outcome| drop(sender.send(outcome))));
        self.under_way.push(outcome);
        self.wait_for_all_but(WINDOW - 1)
    }

    fn wait_for_all_but(&mut self, left: usize) -> Result<(), Failure> {
        while self.under_way.len() > left {
            match self.under_way.remove(0).recv()? {
                CommitOutcome::Durable => {}
                other => return Err(other.to_string().into()),
            }
        }
        Ok(())
    }

    fn job(&mut self, now: Timestamp, random: &mut Random) -> JobHead {
        self.head.next_job += 1;
        let mut id = [0; 16];
        id[..6].copy_from_slice(&now.0.to_be_bytes()[2..]);
        id[6..14].copy_from_slice(&self.head.next_job.to_be_bytes());
        let due = Timestamp(now.0 + random.below(DAY_MS) as i64);
        JobHead {
            id: JobId(id),
            queue: QUEUE,
            number: self.head.next_job,
            run_at: due,
            visible_at: due,
            attempt: 0,
            tries: 3,
            state: HeadState::Waiting,
            alias: None,
            terms: JobTerms::default(),
            successor: None,
        }
    }
}

fn publishing(store: &EmbeddedStore) -> Vec<Publishing> {
    let of = |index| Publishing {
        partition: PartitionId::of_queues(index),
        head: PartitionHead::default(),
        under_way: Vec::new(),
    };
    (0..store.partitions()).map(of).collect()
}

fn park(folder: &Path, jobs: usize) -> Result<(), Failure> {
    let store = open(folder)?;
    let clock = Passing::from(Timestamp(START));
    let running = Running::start(Arc::clone(&store), Arc::clone(&clock) as Arc<dyn Clock>)?;
    let mut partitions = publishing(&store);
    let mut random = Random::new(1);
    let (written, began) = (written_bytes()?, Instant::now());
    let mut parked = 0;
    while parked < jobs {
        for partition in &mut partitions {
            let now = clock.now();
            let mut ops = Vec::with_capacity(BATCH + 2);
            if parked == 0 {
                let queue = Queue {
                    key: QUEUE,
                    namespace: "bench".into(),
                    name: "parked".into(),
                    deleted: false,
                    paused: false,
                    settings: QueueSettings::default(),
                };
                ops.push(Op::PutQueue(Box::new(queue)));
            }
            for _ in 0..BATCH {
                let (head, body) = (partition.job(now, &mut random), Some(Arc::from(BODY)));
                ops.push(Op::ParkJob(Box::new(ParkedJob { head, parking: Parking::Time, body })));
            }
            let counts = QueueCounts { parked_scheduled: partition.head.next_job, ..QueueCounts::default() };
            ops.push(Op::PutQueueCounts(QUEUE, counts));
            partition.give(&store, now, ops)?;
        }
        parked += BATCH * partitions.len();
    }
    partitions.iter_mut().try_for_each(|partition| partition.wait_for_all_but(0))?;
    let took = began.elapsed();
    tell(&format!(
        "parked {parked}: {:.0} k jobs/s, {}",
        parked as f64 / took.as_secs_f64() / 1e3,
        memory()?
    ))?;
    running.stop();
    store.checkpoint_all()?;
    let each = |bytes: f64| bytes / parked as f64;
    let (rows, log) = ("fieldpost_store_checkpoint_bytes_total", "fieldpost_store_frame_bytes_total");
    tell(&format!(
        "a job: {:.0} B written in all, {:.0} B in frames, {:.0} B in rows by {} checkpoints; {:.0} B of tables",
        each((written_bytes()? - written) as f64),
        each(metric(&store, log)),
        each(metric(&store, rows)),
        metric(&store, "fieldpost_store_checkpoints_total"),
        each(metric(&store, "fieldpost_store_tables_bytes")),
    ))?;
    Ok(())
}

/// Loads, reads in the soonest of one partition, and lets them be done.
fn read_in(folder: &Path) -> Result<(), Failure> {
    let began = Instant::now();
    let store = open(folder)?;
    tell(&format!("opened in {:.1} ms", began.elapsed().as_secs_f64() * 1e3))?;
    let began = Instant::now();
    let mut residents = 0_u64;
    let mut partitions = publishing(&store);
    for partition in &mut partitions {
        let view = store.load(partition.partition)?;
        view.queue_residents(&mut |resident| {
            residents += u64::from(matches!(resident, QueueResident::Job(_)));
        })?;
        partition.head = view.head().clone();
    }
    tell(&format!("loaded {residents} resident jobs in {:.1} ms", began.elapsed().as_secs_f64() * 1e3))?;
    let partition = &mut partitions[3];
    let began = Instant::now();
    let first = soonest(&*store.view(partition.partition)?, READ_IN)?;
    tell(&format!("read {} soonest in {:.1} ms", first.len(), began.elapsed().as_secs_f64() * 1e3))?;
    let began = Instant::now();
    let again = soonest(&*store.view(partition.partition)?, READ_IN)?;
    tell(&format!("and again {} in {:.1} ms", again.len(), began.elapsed().as_secs_f64() * 1e3))?;
    let began = Instant::now();
    let ten = soonest(&*store.view(partition.partition)?, 10)?;
    tell(&format!("the first {} in {:.3} ms", ten.len(), began.elapsed().as_secs_f64() * 1e3))?;
    done(&store, partition, &first)
}

/// The soonest of the parked jobs, and some more of their span.
fn soonest(view: &dyn View, count: usize) -> Result<Vec<ParkedJob>, Failure> {
    let times = view.parked_times(&ParkedScan::all(JobClock::Engine), count)?;
    let jobs = times.found.into_iter().map(|place| view.parked_at(JobClock::Engine, place));
    Ok(jobs.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn done(store: &Arc<EmbeddedStore>, partition: &mut Publishing, jobs: &[ParkedJob]) -> Result<(), Failure> {
    let clock: Arc<dyn Clock> = Passing::from(store.recorded_now());
    let running = Running::start(Arc::clone(store), Arc::clone(&clock))?;
    let (written, began) = (written_bytes()?, Instant::now());
    for jobs in jobs.chunks(BATCH) {
        let read_in = |job: &ParkedJob| {
            let id = job.head.id;
            let body = job.body.iter().map(move |body| Op::PutJobBody(id, Arc::clone(body)));
            let rows = [Op::UnparkJob(Box::new(job.key())), Op::PutJob(Box::new(job.head.clone()))];
            rows.into_iter().chain(body).collect::<Vec<_>>()
        };
        partition.give(store, clock.now(), jobs.iter().flat_map(read_in).collect())?;
        partition.give(store, clock.now(), jobs.iter().map(|job| Op::DeleteJob(job.head.id)).collect())?;
    }
    partition.wait_for_all_but(0)?;
    running.stop();
    let took = began.elapsed();
    let began = Instant::now();
    store.checkpoint_all()?;
    let bytes = (written_bytes()? - written) as f64 / jobs.len() as f64;
    tell(&format!(
        "read in and done: {:.0} k jobs/s, then {:.0} ms of checkpoints; {bytes:.0} B written for a job",
        jobs.len() as f64 / took.as_secs_f64() / 1e3,
        began.elapsed().as_secs_f64() * 1e3
    ))?;
    Ok(())
}
