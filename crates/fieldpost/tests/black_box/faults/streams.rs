//! Streams on a disk that gets full: `when_full` decides before the store finds that it cannot
//! write, and room that comes back is seen.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::server::Site;

use crate::faults::disk::Disk;
use crate::faults::{PATIENCE, site};

/// Of the disk of 192 MiB: below the bound from which `when_full` decides, and above what the store
/// needs.
const LITTLE: u64 = 17_000_000;
/// More than the disk has.
const FLOOD: usize = 400;

/// A site on a small disk of which streams are told; `None` where nothing can be mounted: then the
/// rules alone are tested, in `streams`.
fn on_small_disk() -> Option<(Site, Disk)> {
    let mut site = site();
    site.set("FIELDPOST_STREAMS__DISK_FREE", "512MB");
    let disk = Disk::mounted(&mut site).expect("mounted or not");
    if disk.is_none() {
        eprintln!("nothing can be mounted here: how streams see a disk fill is not tested");
    }
    Some((site, disk?))
}

async fn append(api: &ApiClient, stream: &str, payload: &str) -> (StatusCode, Value) {
    let path = format!("/v1/streams/shop/{stream}/messages");
    let answer = api.once(Method::POST, &path, Some(&json!({ "payload": payload }))).await.expect("answered");
    (answer.status, answer.json()["code"].clone())
}

/// Appends until it is answered so.
async fn until(api: &ApiClient, stream: &str, expect: StatusCode) {
    let asked = async { while append(api, stream, "x").await.0 != expect {} };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("{stream}: never {expect}"));
}

async fn rejects(api: &ApiClient, stream: &str) {
    let path = format!("/v1/streams/shop/{stream}/settings");
    let answer = api.once(Method::PUT, &path, Some(&json!({"when_full": "reject"}))).await.expect("answered");
    assert_eq!(answer.status, StatusCode::NO_CONTENT, "{answer:?}");
}

async fn is_well(api: &ApiClient) {
    let answer = api.once(Method::GET, "/readyz", None).await.expect("answered");
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_disk_is_used_and_when_full_decides_at_its_end() {
    let Some((site, disk)) = on_small_disk() else { return };
    let server = site.start(PATIENCE).await.expect("a server");
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    rejects(&api, "strict").await;
    // Far less than 2 GB is free.
    assert_eq!(append(&api, "kept", "x").await.0, StatusCode::CREATED);
    assert_eq!(append(&api, "strict", "x").await.0, StatusCode::CREATED);
    disk.leave(LITTLE).expect("filled");
    until(&api, "strict", StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(append(&api, "strict", "x").await.1, "stream_full");
    assert_eq!(append(&api, "kept", "x").await.0, StatusCode::CREATED, "it has nothing to drop");
    assert_eq!(append(&api, "new", "x").await.0, StatusCode::CREATED);
    is_well(&api).await;
    disk.make_room().expect("emptied");
    until(&api, "strict", StatusCode::CREATED).await;
    let stopped = server.stop(PATIENCE).await.expect("it ends");
    assert!(stopped.success(), "{stopped}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_streams_fill_themselves_ends_no_intake() {
    let Some((site, _disk)) = on_small_disk() else { return };
    let server = site.start(PATIENCE).await.expect("a server");
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    rejects(&api, "strict").await;
    let payload = "x".repeat(1_000_000);
    let mut refused = 0;
    for stream in ["strict", "kept"] {
        for _ in 0..FLOOD {
            let (status, code) = append(&api, stream, &payload).await;
            match status {
                StatusCode::CREATED => {}
                StatusCode::SERVICE_UNAVAILABLE => {
                    assert_eq!(code, "stream_full", "{stream}");
                    refused += 1;
                    break;
                }
                other => panic!("{stream}: {other} {code}"),
            }
        }
    }
    assert!(refused > 0, "the disk has less room than was sent");
    is_well(&api).await;
    let stopped = server.stop(PATIENCE).await.expect("it ends");
    assert!(stopped.success(), "{stopped}");
}
