//! Tasks that pick from a fifth of all devices: how soon the devices have their commands, and how
//! many picks a second are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fieldpost_client::{Client, DeviceSelection, Picks, TaskPlan};
use simulator::commands::ResponseProfile;
use simulator::latency::Latency;
use tokio::task::JoinSet;

use super::report::Report;
use super::stage::Stage;
use super::{Failure, ROUNDS, Sizes, percentiles};

/// About a fifth of a fleet: the second largest country of eight.
const SELECTOR: &str = "country=IN";
/// Callers that ask for tasks at the same time, each for one after the other.
const CALLERS: usize = 32;
/// How long devices take for their answer where picks alone are counted.
const ANSWER_AFTER: Duration = Duration::from_secs(20);
const FLOOR: &str = "floor 5 / 20 ms, aim 2 / 8 ms";
const FLOOR_OF_RATE: &str = "floor 20,000 /s, aim 60,000 /s";

pub(super) async fn among_many(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let stage = Stage::set(sizes.devices, 0, ResponseProfile::default()).await?;
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

    stage.clear().await?;
    as_many_as_go(sizes, report).await
}

/// Tasks that callers begin one after the other, of devices that take their time to answer: what is
/// counted is what the devices have received.
async fn as_many_as_go(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let profile = ResponseProfile { answer_after: ANSWER_AFTER, ..ResponseProfile::default() };
    let stage = Stage::set(sizes.devices, 0, profile).await?;
    let eligible = stage.connected(&DeviceSelection::all().selector(SELECTOR)).await?;
    let picks = sizes.tasks * u64::from(sizes.count).min(eligible);
    let name = format!("tasks_of_{}_of_{eligible}_{CALLERS}callers", sizes.count);
    let picked = Picks::of(sizes.count).selector(SELECTOR).answer_timeout(5 * ANSWER_AFTER);
    let task = TaskPlan::json("ping", picked)?.deadline(6 * ANSWER_AFTER);
    let mut rates = Vec::new();
    for round in 1..=ROUNDS {
        let begun = Instant::now();
        begin_all(&stage.client, &task, sizes.tasks).await?;
        stage.received(round * picks).await?;
        let took = stage.ledger.last_received().saturating_duration_since(begun);
        rates.push(report.round(&format!("{name} ({FLOOR_OF_RATE})"), picks, took)?);
        stage.settled(round * picks).await?;
    }
    report.rate(&format!("{name} picks_received ({FLOOR_OF_RATE})"), rates, None);
    stage.clear().await
}

/// Begins so many tasks.
async fn begin_all(client: &Client, task: &TaskPlan, tasks: u64) -> Result<(), Failure> {
    let left = Arc::new(AtomicU64::new(tasks));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (client, task, left) = (client.clone(), task.clone(), Arc::clone(&left));
        callers.spawn(async move {
            let one_less = |left: u64| left.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
                client.tasks().begin(&task).await?;
            }
            Ok::<_, fieldpost_client::Error>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(())
}
