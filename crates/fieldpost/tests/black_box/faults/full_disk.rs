//! A disk that gets full under load: the first write that fails ends intake, what was acknowledged
//! is kept.

use std::error::Error;

use hyper::{Method, StatusCode};
use serde_json::json;
use simulator::api_client::ApiClient;
use simulator::server::{RunningServer, Site};

use crate::faults::disk::Disk;
use crate::faults::load::{LANES, Load};
use crate::faults::scribe::Scribe;
use crate::faults::{PATIENCE, site};

const SEED: u64 = 7;
/// Before the disk is full.
const ACKNOWLEDGED: u64 = 3_000;

/// Says that nothing can be written any more, and takes nothing more; asked to stop, it fails.
pub(crate) async fn ends(
    site: &Site,
    server: RunningServer,
    load: &Load,
    error: &str,
) -> Result<(), Box<dyn Error>> {
    let why = why_not_ready(&load.api).await?;
    let file = site.data_dir().display().to_string();
    assert!(why.contains(&file) && why.contains(error), "{why}");
    takes_nothing_but_answers(&load.api, load).await?;
    let stopped = server.stop(PATIENCE).await?;
    assert_eq!(stopped.code(), Some(1), "{stopped}");
    Ok(())
}

/// What `/readyz` says once it is not well.
async fn why_not_ready(api: &ApiClient) -> Result<String, Box<dyn Error>> {
    let unwell = async {
        loop {
            let answer = api.once(Method::GET, "/readyz", None).await?;
            if answer.status == StatusCode::SERVICE_UNAVAILABLE {
                return Ok(answer.json()["detail"].to_string());
            }
        }
    };
    tokio::time::timeout(PATIENCE, unwell).await?
}

/// It lives and tells, and takes nothing.
async fn takes_nothing_but_answers(api: &ApiClient, load: &Load) -> Result<(), Box<dyn Error>> {
    // Every connection has broken, and whatever it had been told before is read.
    let acknowledged = load.until_broken(2 * u64::from(LANES)).await;
    for (method, path, body) in [
        (Method::POST, "/v1/reports", json!({"device_id": "counter", "data": 0})),
        (Method::POST, "/v1/devices", json!({"id": "late"})),
        (Method::POST, "/v1/clients", json!({"name": "late", "url": "http://127.0.0.1:1/"})),
    ] {
        let answer = api.once(method, path, Some(&body)).await?;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {answer:?}");
    }
    let alive = api.once(Method::GET, "/healthz", None).await?;
    assert_eq!(alive.status, StatusCode::OK);
    let metrics = api.once(Method::GET, "/metrics", None).await?;
    let metrics = String::from_utf8(metrics.body.to_vec())?;
    assert!(metrics.lines().any(|line| line == "fieldpost_store_failed 1.0"), "{metrics}");
    assert_eq!(load.until_broken(u64::from(LANES)).await, acknowledged, "something was acknowledged");
    Ok(())
}

async fn fill_under_load(site: Site, disk: Disk) -> Result<(), Box<dyn Error>> {
    let server = site.start(PATIENCE).await?;
    let load = Load::begin(&site, SEED).await?;
    let scribe = Scribe::begin(&site).await?;
    load.until_acknowledged(ACKNOWLEDGED).await;
    disk.fill(server.process_id())?;
    ends(&site, server, &load, disk.errors().0).await?;

    disk.make_room()?;
    let server = site.start(PATIENCE).await?;
    scribe.check().await?;
    load.until_acknowledged(ACKNOWLEDGED).await;
    scribe.finish().await?;
    load.close().await?;
    let stopped = server.stop(PATIENCE).await?;
    assert!(stopped.success(), "{stopped}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_intake_and_loses_nothing() {
    let mut site = site();
    let disk = Disk::below(&mut site).unwrap();
    fill_under_load(site, disk).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_file_sizes_ends_intake_and_loses_nothing() {
    let mut site = site();
    let disk = Disk::without_mounts(&mut site).unwrap();
    fill_under_load(site, disk).await.unwrap();
}
