//! A rollout that waits for devices that are away: what it costs while nothing happens.

use std::sync::Arc;
use std::time::Duration;

use fieldpost_client::Method;
use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::commands::CommandLedger;
use simulator::traffic::DeviceIds;

use super::machine::{cpu_time, ms};
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, PATIENCE, Sizes, stage};

/// Of the devices that are meant, one in so many is present.
const PRESENT_ONE_IN: u32 = 5;
/// How long the server is left alone first: what happened is in its tables by then.
const QUIET: Duration = Duration::from_secs(70);
/// How long it is measured: every connection is kept alive as often in one such span as in another.
const SPAN: Duration = Duration::from_secs(60);

/// Commands a second, faster than any server takes them.
const AT_ONCE: f64 = 1e6;

/// What a server used in a second in which nothing happened.
struct Idle {
    cpu_ms: f64,
    frames: f64,
}

pub(super) async fn at_rest(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let present = (sizes.absent / PRESENT_ONE_IN).min(sizes.devices);
    let name = format!("rollout_to_{}devices_{present}present at_rest", sizes.absent);
    let server = Fieldpost::start().await?;
    let devices = stage::devices(present);
    stage::register(&server, &devices).await?;
    let absent = DeviceIds::new("a", sizes.absent - present).of_kind(devices.kind());
    stage::register(&server, &absent).await?;
    let ledger = Arc::new(CommandLedger::default());
    let connected = stage::connect(&server.site.mqtt, &devices, &ledger).await?;
    // Before both spans every device that is present has answered a command. A server that has had
    // work writes the clocks of its partitions one by one, with a sync each.
    let mut load = stage::load(&server, &devices, present.into(), AT_ONCE, &ledger);
    stage::all_settled(&ledger, present.into()).await?;
    load.sent().await;
    let without = idle(&server).await?;

    let api = ApiClient::new(server.site.http.clone(), PATIENCE);
    let rollout = json!({"payload": {"open": true}, "selector": format!("kind={}", devices.kind())});
    let begun: Value = api.post("/v1/rollouts", &rollout).await?;
    let path = format!("/v1/rollouts/{}", begun["id"].as_str().ok_or("a rollout without an id")?);
    let answered = |now: &Value| now["acknowledged"] == present;
    let now: Value = api.until(&path, PATIENCE, answered).await?;
    if now["status"] != "running" || now["waiting"] != absent.count() {
        return Err(format!("the rollout does not wait for those who are away: {now}").into());
    }
    let with = idle(&server).await?;
    report.note(&format!(
        "  {name}: {:.2} ms of CPU and {:.2} frames a second without, {:.2} ms and {:.2} with",
        without.cpu_ms, without.frames, with.cpu_ms, with.frames
    ))?;
    let more = format!("{:+.2} ms CPU/s", with.cpu_ms - without.cpu_ms);
    report.figure(&name, format!("{more}, {:+.2} frames/s", with.frames - without.frames));
    connected.disconnect().await;
    server.stop().await
}

async fn idle(server: &Fieldpost) -> Result<Idle, Failure> {
    let process = server.process_id()?;
    tokio::time::sleep(QUIET).await;
    let (cpu, frames) = (cpu_time(process)?, written(server).await?);
    tokio::time::sleep(SPAN).await;
    let cpu_ms = ms(cpu_time(process)?.saturating_sub(cpu));
    let frames = written(server).await? - frames;
    let seconds = SPAN.as_secs_f64();
    Ok(Idle { cpu_ms: cpu_ms / seconds, frames: frames / seconds })
}

/// Frames that the server has written to its log so far.
async fn written(server: &Fieldpost) -> Result<f64, Failure> {
    let api = ApiClient::new(server.site.http.clone(), PATIENCE);
    let answer = api.any(Method::GET, "/metrics", None).await?;
    let text = String::from_utf8(answer.body.to_vec())?;
    let line = text.lines().find_map(|line| line.strip_prefix("fieldpost_store_frames_total "));
    Ok(line.ok_or("no such figure")?.parse()?)
}
