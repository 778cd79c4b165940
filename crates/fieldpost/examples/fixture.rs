//! Makes a fixture for the tests of data directories: `make fixture`, or
//! `cargo run -p fieldpost --example fixture -- PROGRAM crates/fieldpost/tests/fixtures/NAME`.
//!
//! A server is filled over its API and asked for a backup, which writes everything to its tables.
//! Then it is told a little more, and killed while it sweeps a queue that was deleted. Its
//! directory is packed, and beside it what the server showed last of all other queues.

#[path = "../tests/black_box/directories/commands.rs"]
mod commands;
#[path = "../tests/black_box/directories/contents.rs"]
mod contents;
#[path = "../tests/black_box/directories/queues.rs"]
mod queues;
#[path = "../tests/black_box/directories/registry.rs"]
mod registry;
#[path = "../tests/black_box/directories/story.rs"]
mod story;
#[path = "../tests/black_box/directories/streams.rs"]
mod streams;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use simulator::api_client::{ApiClient, ApiError};
use simulator::server::Site;
use tokio::task::JoinHandle;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [binary, fixture] = &arguments[..] else {
        return Err("which program, and which directory for the fixture?".into());
    };
    make(&fs::canonicalize(binary)?, fixture).await
}

async fn make(binary: &Path, fixture: &Path) -> Result<(), Box<dyn Error>> {
    let site = Site::new(binary, &story::SETTINGS)?;
    let server = site.start(story::PATIENCE).await?;
    story::tell(&site).await;
    let session = hold_session(&site).await?;
    pick(&ApiClient::new(site.http.clone(), story::PATIENCE)).await?;
    let backup =
        ApiClient::new(site.http.clone(), story::PATIENCE).any(Method::GET, "/v1/backup", None).await?;
    if backup.status != 200 {
        return Err(format!("the backup was answered {}", backup.status).into());
    }
    story::tell_late(&site, "late").await;
    let contents = contents::read(&site).await?;
    queues::delete_the_leaving(&ApiClient::new(site.http.clone(), story::PATIENCE)).await;
    server.kill().await?;
    session.abort();
    fs::create_dir_all(fixture)?;
    fs::write(fixture.join("contents.json"), format!("{contents:#}\n"))?;
    let packed = Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--sparse", "-czf"])
        .arg(fixture.join("data.tar.gz"))
        .arg("-C")
        .arg(site.data_dir())
        .arg(".")
        .status()?;
    if packed.success() { Ok(()) } else { Err(format!("tar ended with {packed}").into()) }
}

/// A task and a campaign pick the device that has a session, and it never answers. Then the
/// campaign is paused, and nobody listens where the task's end is told.
async fn pick(api: &ApiClient) -> Result<(), ApiError> {
    let asked = json!({"payload": {"do": "ping"}, "count": 1, "answer_timeout": "1s"});
    let mut campaign = asked.clone();
    campaign["id"] = "ping".into();
    campaign["every"] = "1s".into();
    let _campaign: Value = api.post("/v1/campaigns", &campaign).await?;
    let (slots, patience) = ("/v1/campaigns/ping/slots", story::PATIENCE);
    let ended = |slot: &Value| slot["picked"] == slot["expired"];
    let items = |page: &Value| page["items"].as_array().cloned().unwrap_or_default();
    let has_ended = |page: &Value| items(page).iter().any(|slot| slot["picked"] == 1 && ended(slot));
    let _slots: Value = api.until(slots, patience, has_ended).await?;
    let paused = api.any(Method::POST, "/v1/campaigns/ping/pause", None).await?;
    assert_eq!(paused.status, 204);
    let _slots: Value = api.until(slots, patience, |page: &Value| items(page).iter().all(ended)).await?;
    let mut task = asked;
    task["deadline"] = "1s".into();
    task["notify"] = json!({"url": "http://127.0.0.1:9/"});
    let ended: Value = api.post("/v1/tasks?wait=30s", &task).await?;
    assert_eq!((&ended["status"], &ended["expired"]), (&json!("done"), &json!(1)), "{ended}");
    Ok(())
}

/// A session of a device that only the list of all devices shows, and that takes no commands.
async fn hold_session(site: &Site) -> Result<JoinHandle<()>, ApiError> {
    let port = site.mqtt.address().await.port();
    let mut options = rumqttc::MqttOptions::new("quiet", "127.0.0.1", port);
    options.set_keep_alive(Duration::from_secs(30));
    let (client, mut events) = rumqttc::AsyncClient::new(options, 10);
    let session = tokio::spawn(async move {
        let _client = client;
        while events.poll().await.is_ok() {}
    });
    let is_there = |device: &Value| device["state"]["connected"] == true;
    let _there: Value = ApiClient::new(site.http.clone(), story::PATIENCE)
        .until("/v1/devices/quiet", story::PATIENCE, is_there)
        .await?;
    Ok(session)
}
