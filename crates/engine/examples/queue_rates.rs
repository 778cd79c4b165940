//! How many jobs a second go through the engine and the embedded store, without a protocol: what a
//! change costs or gains.
//!
//! `cargo run --release -p engine --example queue_rates -- DIR [SECONDS]`; `DIR` must not hold
//! anything.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::SystemClock;
use engine::queues::{ConsumeTerms, DueTime, JobPayload, NewJob, QueueCalls, QueueName};
use engine::{Engine, EngineSettings, Store};
use store::{EmbeddedOptions, EmbeddedStore, Running};

type Failed = Box<dyn Error + Send + Sync>;

const PAYLOAD_BYTES: usize = 100;

fn job(due: Option<DueTime>) -> NewJob {
    let text = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES - 2));
    NewJob { due, ..NewJob::new(JobPayload::Json(Arc::from(text))) }
}

/// Runs `workers` copies of `work`, which answers how many jobs it did, until the time is over;
/// jobs a second.
async fn measure<F>(
    name: &str,
    span: Duration,
    workers: usize,
    work: impl Fn(usize) -> F + Send + Sync + 'static,
) -> Result<(), Failed>
where
    F: Future<Output = Result<usize, Failed>> + Send + 'static,
{
    let (done, over, work) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)), Arc::new(work));
    let start = Instant::now();
    let tasks: Vec<_> = (0..workers)
        .map(|worker| {
            let (done, over, work) = (Arc::clone(&done), Arc::clone(&over), Arc::clone(&work));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let jobs = work(worker).await?;
                    done.fetch_add(jobs as u64, Ordering::Relaxed);
                }
                Ok::<_, Failed>(())
            })
        })
        .collect();
    tokio::time::sleep(span).await;
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await??;
    }
    let rate = done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    println!("{name:<44} {rate:>10.0} jobs/s");
    Ok(())
}

async fn publish(
    queues: QueueCalls,
    name: QueueName,
    count: usize,
    due: Option<DueTime>,
) -> Result<usize, Failed> {
    let jobs = (0..count).map(|_| job(due)).collect();
    Ok(queues.publish(&name, jobs, None).await?.len())
}

/// Consumes and acknowledges, or publishes where nothing is left.
async fn consume(queues: QueueCalls, name: QueueName, max: usize) -> Result<usize, Failed> {
    let want = ConsumeTerms { max, ttr: Duration::from_secs(60), wait: Duration::ZERO, process: None };
    let (jobs, hand_over) = queues.consume(std::slice::from_ref(&name), want).await?;
    hand_over.done();
    if jobs.is_empty() {
        return Err("the queue ran dry".into());
    }
    let held = jobs.iter().map(|job| job.reservation).collect();
    Ok(queues.ack(&name, held).await?.acked)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failed> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("usage: queue_rates DIR [SECONDS]")?);
    let span = Duration::from_secs(args.next().map_or(Ok(5), |text| text.parse())?);
    let disk = Arc::new(blocklog::RealDisk::open_dir(&dir, true)?);
    let store = Arc::new(EmbeddedStore::open(disk, EmbeddedOptions::default())?);
    let clock = Arc::new(SystemClock::start(store.recorded_now()));
    let running = Running::start(Arc::clone(&store), Arc::clone(&clock) as _)?;
    let engine = Engine::start(EngineSettings::for_tests(), store, clock).await?;
    let queues = engine.queues();
    let name = |n: usize| QueueName::new("bench", &format!("q{n}"));
    for (what, workers, count) in
        [("publish, 64 at once, 1 job a call", 64, 1), ("publish, 8 at once, 100 jobs a call", 8, 100)]
    {
        let queues = queues.clone();
        let names = (0..8).map(name).collect::<Result<Vec<_>, _>>()?;
        measure(what, span, workers, move |n| publish(queues.clone(), names[n % 8].clone(), count, None))
            .await?;
    }
    let later = Some(DueTime::After(Duration::from_secs(3_600)));
    let (delayed, one) = (name(100)?, name(0)?);
    let calls = queues.clone();
    measure("publish delayed, 8 at once, 100 jobs a call", span, 8, move |_| {
        publish(calls.clone(), delayed.clone(), 100, later)
    })
    .await?;
    for _ in 0..1_000 {
        publish(queues.clone(), one.clone(), 1_000, None).await?;
    }
    for (what, workers, max) in [
        ("consume + ack, one queue, 64 at once, 1 job", 64, 1),
        ("consume + ack, one queue, 8 at once, 50 jobs", 8, 50),
        ("consume + ack, one queue, 4 at once, 200 jobs", 4, 200),
    ] {
        let (queues, one) = (queues.clone(), one.clone());
        measure(what, span / 2, workers, move |_| consume(queues.clone(), one.clone(), max)).await?;
    }
    engine.stop().await;
    running.stop();
    Ok(())
}
