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

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hyper::Method;
use serde_json::Value;
use simulator::api_client::{Api, ApiError};
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
    let backup = Api::new(site.http.clone(), story::PATIENCE).any(Method::GET, "/v1/backup", None).await?;
    if backup.status != 200 {
        return Err(format!("the backup was answered {}", backup.status).into());
    }
    story::tell_late(&site, "late").await;
    let contents = contents::read(&site).await?;
    queues::delete_the_leaving(&Api::new(site.http.clone(), story::PATIENCE)).await;
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
    let _there: Value = Api::new(site.http.clone(), story::PATIENCE)
        .until("/v1/devices/quiet", story::PATIENCE, is_there)
        .await?;
    Ok(session)
}
