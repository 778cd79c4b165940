//! Tasks that pick from a fifth of all devices: how soon the devices have their commands, and how
//! many picks a second are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fieldpost_client::{Client, DeviceSelection, Picks, TaskPlan};
use simulator::latency::Latency;
use tokio::task::JoinSet;

use super::report::Report;
use super::stage::Stage;
use super::{Failure, Sizes, percentiles};

/// About a fifth of a fleet: the second largest country of eight.
const SELECTOR: &str = "country=IN";
/// Callers that ask for tasks at the same time, each for one after the other.
const CALLERS: usize = 32;
const FLOOR: &str = "floor 5 / 20 ms, aim 2 / 8 ms";
const FLOOR_OF_RATE: &str = "floor 20,000 /s, aim 60,000 /s";

pub(super) async fn among_many(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let stage = Stage::set(sizes.devices, 0).await?;
    let eligible = stage.connected(&DeviceSelection::all().selector(SELECTOR)).await?;
    let all = stage.connected(&DeviceSelection::all()).await?;
    let name = format!("tasks_pick_{}_of_{eligible}_among_{all}_connected", sizes.count);
    let task = TaskPlan::json("ping", Picks::of(sizes.count).selector(SELECTOR))?;
    let picked = u64::from(sizes.count).min(eligible);
    let mut commands = 0;
    let (mut durable, mut received) = (Latency::default(), Latency::default());
    for _ in 0..sizes.rounds {
        let begun = Instant::now();
        stage.client.tasks().begin(&task).await?;
        durable.record(begun.elapsed());
        commands += picked;
        stage.settled(commands).await?;
        received.record(stage.ledger.last_received().saturating_duration_since(begun));
    }
    report.note(&format!("  {name}: 201 {durable}; until all devices have it {received}"))?;
    report.figure(&format!("{name} until_201 p50 / p99"), percentiles(&durable));
    let figure = format!("{} ({FLOOR})", percentiles(&received));
    report.figure(&format!("{name} until_all_received p50 / p99"), figure);

    let name = format!("tasks_of_{}_of_{eligible}_{CALLERS}callers", sizes.count);
    let begun = Instant::now();
    let tasks = asked_for(&stage.client, &task, Duration::from_secs(sizes.seconds)).await?;
    commands += tasks * picked;
    stage.settled(commands).await?;
    let took = stage.ledger.last_received().saturating_duration_since(begun);
    let rate = report.round(&format!("{name} ({FLOOR_OF_RATE})"), tasks * picked, took)?;
    report.rate(&format!("{name} picks_received ({FLOOR_OF_RATE})"), vec![rate], None);
    stage.clear().await
}

/// Tasks that callers begin within `span`.
async fn asked_for(client: &Client, task: &TaskPlan, span: Duration) -> Result<u64, Failure> {
    let (until, tasks) = (Instant::now() + span, Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (client, task, tasks) = (client.clone(), task.clone(), Arc::clone(&tasks));
        callers.spawn(async move {
            while Instant::now() < until {
                client.tasks().begin(&task).await?;
                tasks.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, fieldpost_client::Error>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(tasks.load(Ordering::Relaxed))
}
