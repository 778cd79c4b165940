//! Reports that are made durable: over MQTT beside messages through Mosquitto, and over HTTP as
//! lines.

use std::time::{Duration, Instant};

use simulator::endpoint::Endpoint;
use simulator::fleet::{FleetOutcome, PayloadFormat, Plan, ReportRecording, ReportingFleet, Way};
use simulator::traffic::{DeviceIds, Flood};

use super::mqtt_subscriber::Subscriber;
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, ROUNDS, mosquitto, nats};

const DEVICES: u32 = 10_000;
/// Each device's value changes with every tenth of its reports.
const CHANGE_EVERY: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(120);

const MQTT_CONNECTIONS: u32 = 64;
const MQTT_IN_FLIGHT: u16 = 20;
const MQTT_REPORTS: u64 = 500_000;
const MOSQUITTO_MESSAGES: u64 = 200_000;

const HTTP_CONNECTIONS: u32 = 8;
const HTTP_LINES: u16 = 1_000;
const HTTP_REPORTS: u64 = 1_000_000;
const NATS_IN_FLIGHT: u64 = 64;
const NATS_MESSAGES: u64 = 400_000;

/// From so many devices to so many the rate should hardly fall.
const FEW_DEVICES: u32 = 1_000;
const MANY_DEVICES: u32 = 1_000_000;

/// Who floods whom: what both peers have in common.
pub(super) struct Load {
    pub(super) way: Way,
    pub(super) connections: u32,
    pub(super) devices: DeviceIds,
    pub(super) change_every: u64,
}

impl Load {
    fn mqtt() -> Self {
        Self {
            way: Way::LeanMqtt { in_flight: MQTT_IN_FLIGHT },
            connections: MQTT_CONNECTIONS,
            devices: DeviceIds::new("D", DEVICES),
            change_every: CHANGE_EVERY,
        }
    }

    pub(super) fn http(devices: u32) -> Self {
        Self {
            way: Way::Http { lines: HTTP_LINES },
            connections: HTTP_CONNECTIONS,
            devices: DeviceIds::new("D", devices),
            change_every: CHANGE_EVERY,
        }
    }

    /// Sends `total` reports as fast as they are acknowledged, and says how long the last
    /// acknowledgement took.
    pub(super) async fn send(&self, endpoint: &Endpoint, total: u64) -> Result<Duration, Failure> {
        let lanes = 0..self.connections;
        let share = total / u64::from(self.connections);
        let flood = |lane| Flood::new(self.devices.lane(lane, self.connections), share, self.change_every);
        let plan = Plan {
            way: self.way,
            endpoint: endpoint.clone(),
            devices: self.devices.clone(),
            payload: PayloadFormat::Dated,
            keep: ReportRecording::Counts,
        };
        let start = Instant::now();
        let outcome = ReportingFleet::start(plan, lanes.map(flood).collect()).finish(PATIENCE).await;
        let took = start.elapsed();
        all_acknowledged(&outcome, share * u64::from(self.connections))?;
        Ok(took)
    }
}

/// A rate of reports that were refused, lost or acknowledged in disorder would be a rate of
/// nothing.
pub(super) fn all_acknowledged(outcome: &FleetOutcome, expected: u64) -> Result<(), Failure> {
    let stats = outcome.stats;
    if stats.acknowledged == expected && stats.broken == 0 && stats.disordered == 0 {
        return Ok(());
    }
    Err(format!("not every one of {expected} reports was acknowledged at once and in order: {stats:?}")
        .into())
}

/// Reports acknowledged a second, beside messages through Mosquitto from as many publishers to one
/// subscriber.
pub(super) async fn mqtt_beside_mosquitto(report: &mut Report) -> Result<(), Failure> {
    const OWN: &str = "mqtt_qos1_reports_64x20_10000devices_1in10changes";
    const PEER: &str = "mosquitto_qos1_64x20_to_1_subscriber";
    let load = Load::mqtt();
    let server = Fieldpost::start().await?;
    load.send(&server.site.mqtt, u64::from(DEVICES) * 2).await?;
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let took = load.send(&server.site.mqtt, MQTT_REPORTS).await?;
        own.push(report.round(OWN, whole(MQTT_REPORTS, MQTT_CONNECTIONS), took)?);
        let took = through_mosquitto(&load).await?;
        peer.push(report.round(PEER, whole(MOSQUITTO_MESSAGES, MQTT_CONNECTIONS), took)?);
    }
    server.stop().await?;
    report.rate(OWN, own, Some((PEER, peer)));
    Ok(())
}

async fn through_mosquitto(load: &Load) -> Result<Duration, Failure> {
    let broker = mosquitto::start(MQTT_IN_FLIGHT).await?;
    let mut subscriber = Subscriber::connect(broker.address).await?;
    let endpoint = Endpoint::at(broker.address);
    let start = Instant::now();
    let received = async { Ok(subscriber.receive(whole(MOSQUITTO_MESSAGES, load.connections)).await?) };
    tokio::try_join!(load.send(&endpoint, MOSQUITTO_MESSAGES), received)?;
    Ok(start.elapsed())
}

/// What is sent when each connection sends the same number.
fn whole(total: u64, connections: u32) -> u64 {
    total - total % u64::from(connections)
}

/// Reports accepted a second over HTTP, many lines in a request, beside messages published to a
/// stream of NATS.
pub(super) async fn http_lines_beside_nats(report: &mut Report) -> Result<(), Failure> {
    const OWN: &str = "http_ndjson_reports_8x1000lines_10000devices_1in10changes";
    const PEER: &str = "nats_jetstream_publish_8x64_100bytes_unsynced";
    let load = Load::http(DEVICES);
    let server = Fieldpost::start().await?;
    load.send(&server.site.http, u64::from(DEVICES) * 2).await?;
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let took = load.send(&server.site.http, HTTP_REPORTS).await?;
        own.push(report.round(OWN, whole(HTTP_REPORTS, HTTP_CONNECTIONS), took)?);
        let stream = nats::start().await?;
        let took = nats::publish_all(stream.address, HTTP_CONNECTIONS, NATS_IN_FLIGHT, NATS_MESSAGES).await?;
        peer.push(report.round(PEER, NATS_MESSAGES, took)?);
    }
    server.stop().await?;
    report.rate(OWN, own, Some((PEER, peer)));
    Ok(())
}

/// Reports a second of a thousand times as many devices, each of which has reported before, beside
/// those of few.
pub(super) async fn growth(report: &mut Report) -> Result<(), Failure> {
    const MANY: &str = "http_ndjson_reports_8x1000lines_1000000devices_1in10changes";
    const FEW: &str = "http_ndjson_reports_8x1000lines_1000devices_1in10changes";
    let mut rates = [Vec::new(), Vec::new()];
    let sizes = [(MANY, MANY_DEVICES), (FEW, FEW_DEVICES)];
    let mut servers = Vec::new();
    for (_, devices) in sizes {
        let server = Fieldpost::start().await?;
        Load::http(devices).send(&server.site.http, u64::from(devices) * 2).await?;
        servers.push(server);
    }
    for _ in 0..ROUNDS {
        for ((name, devices), (server, rates)) in sizes.iter().zip(servers.iter().zip(&mut rates)) {
            let took = Load::http(*devices).send(&server.site.http, u64::from(MANY_DEVICES)).await?;
            rates.push(report.round(name, whole(MANY_DEVICES.into(), HTTP_CONNECTIONS), took)?);
        }
    }
    for server in servers {
        server.stop().await?;
    }
    let [many, few] = rates;
    report.rate(MANY, many, Some((FEW, few)));
    Ok(())
}
