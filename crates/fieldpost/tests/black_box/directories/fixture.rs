//! A data directory that an earlier build wrote, opened by this one: nothing that is stored may
//! change its meaning.
//!
//! `make fixture` makes one of the format of now. A format with a new version gets a new one beside
//! those of before. For a later record of the same release, the newest is made again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hyper::Method;
use serde_json::Value;
use simulator::api_client::ApiClient;
use simulator::server::Site;
use tokio::time::timeout;

use super::compare::{difference, take_readings};
use super::contents;
use super::program::{run, site, word};
use super::queues::{LEAVES, LEAVING};
use super::story::{self, PATIENCE};

/// Where the fixtures are, one directory for each.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
/// Whoever clones the repository loads them too.
const BYTES_MAX: u64 = 1_000_000;

pub(crate) fn fixtures() -> Vec<PathBuf> {
    let entries = fs::read_dir(FIXTURES).expect("there are fixtures");
    let mut found: Vec<_> = entries.map(|entry| entry.expect("listed").path()).collect();
    found.sort();
    found
}

/// Unpacks the data directory of a fixture to `to`.
pub(crate) fn unpack(fixture: &Path, to: &Path) {
    fs::create_dir_all(to).expect("is made");
    let archive = fixture.join("data.tar.gz");
    let status = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(to).status();
    assert!(status.expect("tar is there").success(), "{}", archive.display());
}

/// What the server showed when the fixture was made.
pub(crate) fn expected(fixture: &Path) -> Value {
    let text = fs::read_to_string(fixture.join("contents.json")).expect("readable");
    serde_json::from_str(&text).expect("JSON")
}

#[tokio::test]
async fn every_directory_of_an_earlier_build_is_opened_and_holds_what_it_held() {
    assert!(!fixtures().is_empty());
    for fixture in fixtures() {
        let name = fixture.display().to_string();
        let bytes = fs::metadata(fixture.join("data.tar.gz")).expect("is there").len();
        assert!(bytes < BYTES_MAX, "{name} has {bytes} bytes");
        let site = site();
        unpack(&fixture, &site.data_dir());
        let checked = run(&["check", word(&site.data_dir())]);
        assert_eq!(checked.code, Some(0), "{name}: {checked:?}");
        has_something_of_everything(&fixture, &checked.out);
        let server = site.start(PATIENCE).await.expect("ready");
        let expect = expected(&fixture);
        let found = contents::read(&site).await.expect("readable");
        assert_eq!(difference(&expect, &found, &name), None);
        // and it goes on: what was applied from the log is written, and all is there after a clean
        // stop
        story::tell_late(&site, "now").await;
        if !fixture.ends_with("format-1") {
            the_deleted_queue_is_swept(&site).await;
        }
        assert!(server.stop(PATIENCE).await.expect("stopped").success());
        let checked = run(&["check", word(&site.data_dir())]);
        assert_eq!(checked.code, Some(0), "{name}: {checked:?}");
        let server = site.start(PATIENCE).await.expect("ready again");
        let mut found = contents::read(&site).await.expect("readable");
        let mut expect = expected(&fixture);
        let before = take_readings(&mut expect, story::LATE);
        let after = take_readings(&mut found, story::LATE);
        assert_eq!((after.len(), &after[..before.len()]), (before.len() + 6, &before[..]), "{name}");
        assert_eq!(difference(&expect, &found, &name), None);
        server.kill().await.expect("killed");
    }
}

/// Every table of its format that a check counts, but three. The marks of deleted devices, devices
/// that a rollout names, and tasks that run are gone within moments.
fn has_something_of_everything(fixture: &Path, checked: &str) {
    let counts = checked.lines().filter_map(|line| line.trim().split_once("  "));
    let counts = counts.filter_map(|(count, what)| Some((count.parse::<u64>().ok()?, what)));
    // These are behind all tables, and came with those of streams.
    let counts: Vec<_> = counts.filter(|(_, what)| *what != "files of blocks").collect();
    let later = first_table_of_later(fixture);
    let is_later = |(_, what): &(u64, &str)| Some(*what) == later;
    let end = counts.iter().position(is_later).unwrap_or(counts.len());
    assert!(end > 20 && (end < counts.len()) == later.is_some(), "{checked}");
    let has_queues = later != Some("queues");
    for (place, (count, what)) in counts.into_iter().enumerate() {
        let is_brief = matches!(what, "deleted_devices" | "rollout_devices" | "running_tasks");
        // What parked jobs of earlier formats are moved to.
        let is_moved_to = has_queues && matches!(what, "parked" | "parked_ids");
        let is_right = (count > 0) == (place < end || is_moved_to) || is_brief && place < end;
        assert!(is_right, "there are {count} of {what}:\n{checked}");
    }
}

/// The first table that the format of a fixture does not have. Tables are counted in the order in
/// which they came.
fn first_table_of_later(fixture: &Path) -> Option<&'static str> {
    match fixture.file_name().and_then(|name| name.to_str()) {
        Some("format-1") => Some("queues"),
        Some("format-2") => Some("commands"),
        Some("format-3") => Some("operations"),
        Some("format-4") => Some("pick_terms"),
        Some("format-5") => Some("streams"),
        Some("format-6") => Some("gathered_reports"),
        Some("format-7" | "format-8") => Some("parked"),
        _ => None,
    }
}

/// Returns once all jobs of the queue that was deleted last are gone: none of them were when the
/// server was killed.
async fn the_deleted_queue_is_swept(site: &Site) {
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    let expect = format!("fieldpost_engine_jobs_total{{outcome=\"cancelled\"}} {LEAVING}\n");
    let swept = async {
        loop {
            let metrics = api.any(Method::GET, "/metrics", None).await.expect("answered").body;
            if String::from_utf8_lossy(&metrics).contains(&expect) {
                return;
            }
        }
    };
    timeout(PATIENCE, swept).await.expect("it comes to that");
    let queue: Value = api.get(LEAVES).await.expect("answered");
    assert_eq!((&queue["scheduled"], &queue["dead"]), (&0.into(), &0.into()), "{queue}");
}
