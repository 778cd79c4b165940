//! From a change to the webhook that tells of it: how many a second, and how long one takes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::fleet::{PayloadFormat, Plan, ReportRecording, ReportingFleet, Way};
use simulator::latency::Latency;
use simulator::receiver::{Retain, WebhookReceiver};
use simulator::sent::{ReportAnswer, Sent};
use simulator::traffic::{DeviceIds, Dial, DoorLockProfile, DoorLocks};
use tokio::task::JoinSet;

use super::machine::{self, ms};
use super::report::{Report, median};
use super::reports::all_acknowledged;
use super::sink::Sink;
use super::site::Fieldpost;
use super::{Failure, ROUNDS};

const PATIENCE: Duration = Duration::from_secs(120);
/// Calls of the API that are under way at a time while clients, devices and links are registered.
const CALLS_AT_A_TIME: usize = 32;

const CLIENTS: u32 = 1_000;
/// Webhooks of a round: devices times links.
const PER_ROUND: u32 = 20_000;

const TIMED_CLIENTS: u32 = 50;
const TIMED_DEVICES: u32 = 2_000;
const TIMED_CHANGES_PER_SECOND: u32 = 1_000;
const TIMED_FOR: Duration = Duration::from_secs(10);
const TIMED_CONNECTIONS: u32 = 8;

/// Webhooks to a sink that answers at once, for changes that concern one client, and ten. Also the
/// CPU time of the server for each, from HTTP report to answer.
pub(super) async fn deliveries(report: &mut Report) -> Result<(), Failure> {
    for links in [1, 10] {
        deliveries_with(links, report).await?;
    }
    Ok(())
}

/// Every device changes once a round and a round ends when all its webhooks have come, so that none
/// is replaced by a newer one.
async fn deliveries_with(links: u32, report: &mut Report) -> Result<(), Failure> {
    let name = format!("webhooks_delivered_{CLIENTS}clients_{links}links_fast_sink");
    let server = Fieldpost::start().await?;
    let process = server.process_id()?;
    let mut sink = Sink::open().await?;
    let devices = DeviceIds::new("W", PER_ROUND / links);
    let url = format!("http://{}/hook", sink.address);
    register(&server, &devices, CLIENTS, links, &url).await?;
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for (round, value) in (1..=ROUNDS as u64 + 1).zip([0, 1].into_iter().cycle()) {
        let (start, cpu) = (Instant::now(), machine::cpu_time(process)?);
        change_all(&server, &devices, value).await?;
        sink.until(round * u64::from(PER_ROUND), PATIENCE).await?;
        rates.push(report.round(&name, PER_ROUND.into(), start.elapsed())?);
        let cost = (machine::cpu_time(process)? - cpu) / PER_ROUND;
        report.note(&format!("  {name}: {:.1} us of server CPU each", ms(cost) * 1e3))?;
        costs.push(ms(cost) * 1e3);
    }
    server.stop().await?;
    // The first round opens the connections.
    rates.remove(0);
    costs.remove(0);
    report.rate(&name, rates, None);
    report.figure(&format!("{name} server CPU each"), format!("{:.1} us", median(costs)));
    Ok(())
}

/// One body that gives every device a value.
async fn change_all(server: &Fieldpost, devices: &DeviceIds, value: u8) -> Result<(), Failure> {
    let line = |index| format!("{{\"device_id\":\"{}\",\"data\":{value}}}\n", devices.id(index));
    let lines: String = (0..devices.count()).map(line).collect();
    let answer: Value =
        ApiClient::new(server.site.http.clone(), PATIENCE).post_lines("/v1/reports", lines).await?;
    if answer["accepted"] == devices.count() {
        Ok(())
    } else {
        Err(format!("not all accepted: {answer}").into())
    }
}

/// How long a webhook takes to come while devices change at an even rate well below what the
/// machine can do.
pub(super) async fn report_to_webhook(report: &mut Report) -> Result<(), Failure> {
    const NAME: &str = "report_to_webhook_1000changes_per_s_50clients";
    let server = Fieldpost::start().await?;
    let receiver = WebhookReceiver::open(Retain::Everything)?;
    let devices = DeviceIds::new("T", TIMED_DEVICES);
    register(&server, &devices, TIMED_CLIENTS, 1, &receiver.url()).await?;
    let sent = change_evenly(&server, &devices).await?;
    let settled = |ledger: &simulator::receiver::Ledger| {
        (0..devices.count()).all(|device| {
            let last = sent.of(device).last().map(|last| last.ts_ms);
            let told =
                ledger.latest(&devices.id(device)).and_then(|latest| latest.notification.changed_at_ms);
            last == told
        })
    };
    receiver.until(PATIENCE, settled).await?;
    let times = Times::of(&sent, &receiver);
    server.stop().await?;
    let note = format!(
        "  {NAME}: of {} webhooks, from sending {}; from acknowledgement {}",
        times.since_sent.count(),
        times.since_sent,
        times.since_accepted
    );
    report.note(&note)?;
    report.figure(&format!("{NAME} p50 / p99, from sending"), percentiles_of(&times.since_sent));
    report.figure(&format!("{NAME} p50 / p99, from acknowledgement"), percentiles_of(&times.since_accepted));
    Ok(())
}

fn percentiles_of(latency: &Latency) -> String {
    format!("{:.1} / {:.1} ms", ms(latency.percentile(50.0)), ms(latency.percentile(99.0)))
}

async fn change_evenly(server: &Fieldpost, devices: &DeviceIds) -> Result<Sent, Failure> {
    let plan = Plan {
        way: Way::LeanMqtt { in_flight: 20 },
        endpoint: server.site.mqtt.clone(),
        devices: devices.clone(),
        payload: PayloadFormat::Dated,
        keep: ReportRecording::EveryReport,
    };
    let dial = Dial::new(devices);
    let pace = DoorLockProfile {
        reports_per_second: f64::from(TIMED_CHANGES_PER_SECOND / TIMED_CONNECTIONS),
        change_per_mille: 1_000,
        seed: 1,
    };
    let lanes = (0..TIMED_CONNECTIONS).map(|lane| devices.lane(lane, TIMED_CONNECTIONS));
    let fleet =
        ReportingFleet::start(plan, lanes.map(|lane| DoorLocks::new(lane, pace, dial.clone())).collect());
    tokio::time::sleep(TIMED_FOR).await;
    dial.finish();
    let outcome = fleet.finish(PATIENCE).await;
    all_acknowledged(&outcome, outcome.stats.sent)?;
    Ok(outcome.sent)
}

/// How long webhooks took, counted from two moments.
#[derive(Default)]
struct Times {
    since_sent: Latency,
    since_accepted: Latency,
}

impl Times {
    fn of(sent: &Sent, receiver: &WebhookReceiver) -> Self {
        let mut times = Self::default();
        for arrival in receiver.ledger().arrivals() {
            let told = &arrival.notification;
            let device = sent.devices().index(&told.device_id);
            let report = device.zip(told.changed_at_ms).and_then(|(device, ts_ms)| sent.find(device, ts_ms));
            let Some(report) = report else { continue };
            let since_sent = arrival.at.duration_since(report.first_sent);
            times.since_sent.record(since_sent);
            if let ReportAnswer::Acknowledged(after) = report.answer {
                times.since_accepted.record(since_sent.saturating_sub(after));
            }
        }
        times
    }
}

/// Registers clients that all listen at `url`, devices, and `links` clients for each device, in
/// turn.
async fn register(
    server: &Fieldpost,
    devices: &DeviceIds,
    clients: u32,
    links: u32,
    url: &str,
) -> Result<(), Failure> {
    let api = ApiClient::new(server.site.http.clone(), PATIENCE);
    let client = |index: u32| json!({"id": format!("c{index}"), "name": "bench", "url": url});
    all(&api, "/v1/clients", (0..clients).map(client)).await?;
    let line = |device: u32| {
        let linked: Vec<_> =
            (0..links).map(|link| format!("c{}", (device * links + link) % clients)).collect();
        format!("{}\n", json!({"id": devices.id(device), "clients": linked}))
    };
    let answer: Value =
        api.post_lines("/v1/devices/import", (0..devices.count()).map(line).collect()).await?;
    if answer["created"] == devices.count() {
        Ok(())
    } else {
        Err(format!("not all registered: {answer}").into())
    }
}

type Calls = JoinSet<Result<(), simulator::api_client::ApiError>>;

async fn all(
    api: &ApiClient,
    path: &'static str,
    bodies: impl Iterator<Item = Value>,
) -> Result<(), Failure> {
    let mut calls = Calls::new();
    for body in bodies {
        let api = api.clone();
        room(&mut calls).await?;
        calls.spawn(async move { api.post::<Value>(path, &body).await.map(drop) });
    }
    drain(calls).await
}

async fn room(calls: &mut Calls) -> Result<(), Failure> {
    while calls.len() >= CALLS_AT_A_TIME {
        if let Some(ended) = calls.join_next().await {
            ended??;
        }
    }
    Ok(())
}

async fn drain(mut calls: Calls) -> Result<(), Failure> {
    while let Some(ended) = calls.join_next().await {
        ended??;
    }
    Ok(())
}
