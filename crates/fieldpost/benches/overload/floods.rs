//! Those who ask for more than there is.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use simulator::fleet::{PayloadFormat, Plan, ReportRecording, ReportingFleet, Way};
use simulator::traffic::{DeviceIds, Flood};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::Failure;
use super::polite::Polite;
use super::raw::{Http, Mqtt, connect, request};
use super::report::Report;
use super::site::Fieldpost;

const SLOW_CALLERS: usize = 6_000;
const STORM_CONNECTIONS: usize = 12_000;
const WRONG_REQUESTS: u64 = 1_000_000;
const WRONG_CALLERS: u64 = 32;
const WRONG_AHEAD: u64 = 50;
const FLOOD_REPORTS: u64 = 3_000_000;
const FLOOD_CONNECTIONS: u32 = 640;
const PATIENCE: Duration = Duration::from_secs(300);

/// Thousands of heads, bodies and idle connections, to each of which a byte is added every second.
pub(super) async fn slow_callers(report: &mut Report) -> Result<(), Failure> {
    let server = Fieldpost::start().await?;
    let polite = Polite::meet(&server).await?;
    let address = server.site.http.address().await;
    let callers = async {
        let mut callers = Vec::new();
        for number in 0..SLOW_CALLERS {
            let mut caller = Http::open(address).await?;
            let begun: &[u8] = match number % 3 {
                0 => b"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
                1 => b"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
                _ => b"",
            };
            caller.send(begun).await?;
            callers.push(caller);
        }
        let mut seconds = interval(Duration::from_secs(1));
        for _ in 0..10 {
            seconds.tick().await;
            for (_, caller) in (0..).zip(&mut callers).filter(|(number, _)| number % 3 < 2) {
                // Who is evicted stays so.
                let _gone = caller.send(b" ").await;
            }
        }
        Ok(())
    };
    polite.endure(&format!("slow_http_callers_{SLOW_CALLERS}"), report, callers).await?;
    server.stop().await
}

/// Thousands of connections to the MQTT listener that say nothing, or half of a CONNECT.
pub(super) async fn connection_storm(report: &mut Report) -> Result<(), Failure> {
    let server = Fieldpost::start().await?;
    let polite = Polite::meet(&server).await?;
    let address = server.site.mqtt.address().await;
    let storm = async {
        let mut connections = Vec::new();
        for number in 0..STORM_CONNECTIONS {
            let mut one = Mqtt::open(address).await?;
            if number % 2 == 0 {
                let half = &connect("half")[..9];
                // Who took too long may be gone already.
                let _gone = tokio::io::AsyncWriteExt::write_all(&mut one.0, half).await;
            }
            connections.push(one);
        }
        sleep(Duration::from_secs(3)).await;
        Ok(())
    };
    polite.endure(&format!("mqtt_connection_storm_{STORM_CONNECTIONS}"), report, storm).await?;
    server.stop().await
}

/// A million requests that are wrong.
pub(super) async fn a_million_wrong_requests(report: &mut Report) -> Result<(), Failure> {
    let server = Fieldpost::start().await?;
    let polite = Polite::meet(&server).await?;
    let address = server.site.http.address().await;
    let name = format!("wrong_http_requests_{WRONG_REQUESTS}");
    let start = Instant::now();
    let all = async {
        let mut callers = JoinSet::new();
        for _ in 0..WRONG_CALLERS {
            callers.spawn(wrong_caller(address, WRONG_REQUESTS / WRONG_CALLERS));
        }
        while let Some(ended) = callers.join_next().await {
            ended??;
        }
        Ok(start.elapsed())
    };
    let took = polite.endure(&name, report, all).await?;
    let rate = report.round(&name, WRONG_REQUESTS, took)?;
    report.rate(&format!("{name} answered"), vec![rate], None);
    server.stop().await
}

async fn wrong_caller(address: SocketAddr, requests: u64) -> Result<(), Failure> {
    let json = "Content-Type: application/json\r\n";
    let wrong = [
        request("POST", "/v1/devices", json, b"{"),
        request("POST", "/v1/reports", json, br#"{"device_id":"not an id","data":1}"#),
        request("GET", "/v1/devices/nobody", "", b""),
        request("GET", "/v2/nothing", "", b""),
    ];
    let ahead: Vec<_> = wrong.iter().cycle().take(WRONG_AHEAD as usize).flatten().copied().collect();
    let mut http = Http::open(address).await?;
    for _ in 0..requests / WRONG_AHEAD {
        http.send(&ahead).await?;
        for _ in 0..WRONG_AHEAD {
            let answer = http.answer().await?;
            if !(400..500).contains(&answer.status) {
                return Err(format!("a wrong request was answered {answer:?}").into());
            }
        }
    }
    Ok(())
}

/// Reports from ten times as many connections as in the other benchmark, each with as much on its
/// way as it may have.
pub(super) async fn ten_times(report: &mut Report) -> Result<(), Failure> {
    let server = Fieldpost::start().await?;
    let polite = Polite::meet(&server).await?;
    let devices = DeviceIds::new("D", 10_000);
    let share = FLOOD_REPORTS / u64::from(FLOOD_CONNECTIONS);
    let flood = async {
        let lanes = 0..FLOOD_CONNECTIONS;
        let floods = lanes.map(|lane| Flood::new(devices.lane(lane, FLOOD_CONNECTIONS), share, 10));
        let plan = Plan {
            way: Way::LeanMqtt { in_flight: 1_000 },
            endpoint: server.site.mqtt.clone(),
            devices: devices.clone(),
            payload: PayloadFormat::Dated,
            keep: ReportRecording::Counts,
        };
        let outcome = ReportingFleet::start(plan, floods.collect()).finish(PATIENCE).await;
        if outcome.unanswered > 0 || outcome.stats.broken > 0 {
            return Err(format!("not every report was acknowledged at once: {:?}", outcome.stats).into());
        }
        Ok(())
    };
    polite.endure(&format!("mqtt_flood_{FLOOD_CONNECTIONS}x1000"), report, flood).await?;
    server.stop().await
}
