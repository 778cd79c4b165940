//! How soon every call of every page is answered, with many devices and many jobs.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::latency::Latency;
use tokio::task::JoinSet;

use super::machine::ms;
use super::raw::{Http, request};
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, PATIENCE, Sizes};

/// How often each call is made.
const TIMES: u32 = 100;
/// Lines of one request that fills the server.
const LINES: u32 = 5_000;
/// Devices that share the label `site`; jobs are spread over so many queues.
const DEVICES_PER_SITE: u32 = 500;
const QUEUES: u32 = 64;
const JOBS_IN_EACH_CALL: u32 = 1_000;
const PUBLISHERS: u32 = 8;
/// Devices that a client is told of, and commands that wait for devices that are away.
const LINKED: u32 = 1_000;
const COMMANDS: u32 = 1_000;

/// A call of each kind that a page makes: its page, and its path. `{n}` is another number each
/// time.
const CALLS: [(&str, &str); 40] = [
    ("shell", "/v1/caller"),
    ("overview", "/v1/overview"),
    ("overview", "/v1/events?limit=50"),
    ("devices", "/v1/devices?limit=100"),
    ("devices", "/v1/devices?limit=100&label.site={n}"),
    ("devices", "/v1/devices?limit=100&connection=lost"),
    ("devices", "/v1/devices?limit=100&connected=true"),
    ("devices", "/v1/devices?limit=100&waiting=true"),
    ("devices", "/v1/devices?limit=100&id_prefix=D{n}"),
    ("devices", "/v1/devices?limit=100&last_seen_before=2026-01-01T00:00:00Z"),
    ("device", "/v1/devices/D{n}"),
    ("device", "/v1/devices/D{n}/clients"),
    ("device", "/v1/devices/D{n}/readings?limit=100"),
    ("device", "/v1/devices/D{n}/readings/summary?path=/open"),
    ("device", "/v1/devices/D{n}/timeline?limit=50"),
    ("device", "/v1/devices/D{n}/commands?limit=50"),
    ("device", "/v1/devices/D{n}/desired"),
    ("device", "/v1/events?device=D{n}&limit=50"),
    ("clients", "/v1/clients?limit=100"),
    ("clients", "/v1/clients?limit=100&failing=true"),
    ("client", "/v1/clients/acme"),
    ("client", "/v1/clients/acme/devices?limit=100"),
    ("client", "/v1/stats?metric=deliveries&client=acme"),
    ("deliveries", "/v1/deliveries?limit=50"),
    ("deliveries", "/v1/deliveries?limit=50&client=acme"),
    ("deliveries", "/v1/deliveries?limit=50&status=failed"),
    ("queues", "/v1/queues?limit=100"),
    ("queue", "/v1/queues/bench/q{q}"),
    ("queue", "/v1/queues/bench/q{q}/jobs?limit=50"),
    ("queue", "/v1/queues/bench/q{q}/jobs?limit=50&state=reserved"),
    ("queue", "/v1/queues/bench/q{q}/dead?limit=50"),
    ("queue", "/v1/queues/bench/small/jobs?limit=50"),
    ("commands", "/v1/commands?limit=50"),
    ("commands", "/v1/commands?limit=50&status=scheduled"),
    ("commands", "/v1/commands?limit=50&status=failed"),
    ("rollouts", "/v1/rollouts?limit=50"),
    ("quarantine", "/v1/quarantine?limit=50"),
    ("operations", "/v1/operations?limit=50"),
    ("notices", "/v1/notices?limit=50"),
    ("system", "/v1/system"),
];

pub(super) async fn of_every_page(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let name = format!("console_calls_{}devices_{}jobs", sizes.devices, sizes.jobs);
    let server = Fieldpost::start().await?;
    let api = ApiClient::new(server.site.http.clone(), PATIENCE);
    fill(&api, sizes).await?;
    let (mut all, mut worst) = (Latency::default(), (Duration::ZERO, ""));
    let mut http = Http::open(server.site.http.address().await).await?;
    for (page, path) in CALLS {
        let mut latency = Latency::default();
        for time in 0..TIMES {
            let number = (time * (sizes.devices / TIMES)).min(sizes.devices - 1);
            let number = if path.contains("site=") { number / DEVICES_PER_SITE } else { number };
            let path =
                path.replace("{n}", &padded(path, number)).replace("{q}", &(time % QUEUES).to_string());
            let begun = Instant::now();
            let answer = http.ask(&request("GET", &path, "", b"")).await?;
            latency.record(begun.elapsed());
            if answer.status != 200 {
                return Err(format!("{path}: {} {}", answer.status, answer.body).into());
            }
        }
        report.note(&format!("  {name} {page} {path}: {latency}"))?;
        let p99 = latency.percentile(99.0);
        if p99 > worst.0 {
            worst = (p99, path);
        }
        all.merge(&latency);
    }
    report.figure(&format!("{name} p99 of all"), format!("{:.2} ms", ms(all.percentile(99.0))));
    report.figure(&format!("{name} p99 of the slowest"), format!("{:.2} ms: {}", ms(worst.0), worst.1));
    server.stop().await
}

/// A device's number as its id has it, a site's as it is.
fn padded(path: &str, number: u32) -> String {
    if path.contains("site=") { number.to_string() } else { format!("{number:07}") }
}

/// Devices that have reported, a client with links, commands that wait, and jobs.
async fn fill(api: &ApiClient, sizes: Sizes) -> Result<(), Failure> {
    let _made: Value = api
        .post("/v1/clients", &json!({"id": "acme", "name": "Acme", "url": "https://acme.example/hook"}))
        .await?;
    api.patch("/v1/clients/acme", &json!({"enabled": false})).await?;
    for first in (0..sizes.devices).step_by(LINES as usize) {
        let (mut devices, mut reports) = (String::new(), String::new());
        for number in first..(first + LINES).min(sizes.devices) {
            let site = number / DEVICES_PER_SITE;
            let clients = if number < LINKED { r#"["acme"]"# } else { "[]" };
            // Writing to a String cannot fail.
            let _written = writeln!(
                devices,
                r#"{{"id":"D{number:07}","kind":"probe","labels":{{"site":"{site}"}},"clients":{clients}}}"#
            );
            let _written = writeln!(reports, r#"{{"device_id":"D{number:07}","data":{{"open":true}}}}"#);
        }
        let imported: Value = api.post_lines("/v1/devices/import", devices).await?;
        let reported: Value = api.post_lines("/v1/reports", reports).await?;
        if imported["rejected_count"] != 0 || reported["rejected_count"] != 0 {
            let why = &reported["rejected"][0];
            return Err(format!("not everything was accepted: {why}").into());
        }
    }
    for number in 0..COMMANDS {
        let path = format!("/v1/devices/D{number:07}/commands");
        let _sent: Value = api.post(&path, &json!({"payload": {"open": true}})).await?;
    }
    let _published: Value =
        api.post("/v1/queues/bench/small/jobs", &json!({"payload": 1, "delay": "1h"})).await?;
    publish(api, sizes.jobs).await
}

/// Jobs for the next day, over all queues.
async fn publish(api: &ApiClient, jobs: u32) -> Result<(), Failure> {
    let job = json!({"payload": {"order": 1}, "delay": "12h"});
    let body = json!({"jobs": vec![job; JOBS_IN_EACH_CALL as usize]});
    let mut publishers = JoinSet::new();
    for publisher in 0..PUBLISHERS {
        let (api, body) = (api.clone(), body.clone());
        publishers.spawn(async move {
            for call in (publisher..jobs / JOBS_IN_EACH_CALL).step_by(PUBLISHERS as usize) {
                let path = format!("/v1/queues/bench/q{}/jobs", call % QUEUES);
                let _published: Value = api.post(&path, &body).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(ended) = publishers.join_next().await {
        ended??;
    }
    Ok(())
}
