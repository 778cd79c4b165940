//! A backup of a running server, and everything that can be wrong with one.

use std::fs;
use std::path::{Path, PathBuf};

use hyper::StatusCode;
use serde_json::json;
use simulator::api_client::ApiClient;
use simulator::server::Site;

use super::compare::difference;
use super::contents;
use super::program::{copy, run, site, word};
use super::queues;
use super::story::{self, PATIENCE};

/// A queue with ready jobs.
const HOLDS: &str = "shop/invoices";

fn backup_file(directory: &Path) -> PathBuf {
    directory.join("fieldpost.backup")
}

async fn url(site: &Site) -> String {
    format!("http://{}", site.http.address().await)
}

/// Asks for a backup of the running server into a new directory.
async fn backed_up(site: &Site, name: &str) -> PathBuf {
    let directory = site.data_dir().with_file_name(name);
    let ended = run(&["backup", word(&directory), "--url", &url(site).await]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("rows"), "{ended:?}");
    directory
}

#[tokio::test]
async fn a_running_server_is_backed_up_and_restored_whole() {
    let site = site();
    let server = site.start(PATIENCE).await.expect("ready");
    story::tell(&site).await;
    story::tell_late(&site, "late").await;
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    let held = queues::consume(&api, HOLDS, 1).await;
    let expect = contents::read(&site).await.expect("readable");
    let published = queues::keyed(&site.http).await;
    queues::delete_the_leaving(&api).await;
    let backup = backed_up(&site, "backup").await;
    // what comes later is not in it
    story::tell_late(&site, "later").await;
    assert_eq!(queues::consume(&api, HOLDS, 1).await.len(), 1);
    server.kill().await.expect("killed");
    let checked = run(&["check", word(&backup)]);
    assert_eq!(checked.code, Some(0), "{checked:?}");

    let restored = super::program::site();
    let ended = run(&["restore", word(&backup), "--data-dir", word(&restored.data_dir())]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let checked = run(&["check", word(&restored.data_dir())]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let server = restored.start(PATIENCE).await.expect("ready");
    let found = contents::read(&restored).await.expect("readable");
    assert_eq!(difference(&expect, &found, ""), None);
    assert_eq!(queues::keyed(&restored.http).await, published, "the key is known");
    // who had a job shows in vain what another server gave
    let api = ApiClient::new(restored.http.clone(), PATIENCE);
    assert_eq!(queues::tell(&api, HOLDS, &held[0], "ack", json!({})).await, StatusCode::CONFLICT);
    let again = queues::consume(&api, HOLDS, 1).await;
    assert_eq!(queues::tell(&api, HOLDS, &again[0], "ack", json!({})).await, StatusCode::NO_CONTENT);
    story::tell_late(&restored, "after").await;
    assert!(server.stop(PATIENCE).await.expect("stopped").success());
}

#[tokio::test]
async fn a_stopped_servers_directory_is_backed_up_without_it() {
    let site = site();
    let server = site.start(PATIENCE).await.expect("ready");
    story::tell(&site).await;
    let expect = contents::read(&site).await.expect("readable");
    let data = site.data_dir();
    let backup = data.with_file_name("backup");
    let arguments = ["backup", word(&backup), "--data-dir", word(&data)];
    let in_use = run(&arguments);
    assert_eq!(in_use.code, Some(1), "{in_use:?}");
    assert!(in_use.err.contains("in use"), "{in_use:?}");
    server.kill().await.expect("killed");
    let ended = run(&arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let restored = super::program::site();
    let ended = run(&["restore", word(&backup_file(&backup)), "--data-dir", word(&restored.data_dir())]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let server = restored.start(PATIENCE).await.expect("ready");
    let found = contents::read(&restored).await.expect("readable");
    assert_eq!(difference(&expect, &found, ""), None);
    server.kill().await.expect("killed");
}

#[tokio::test]
async fn a_backup_that_is_cut_off_or_damaged_is_refused_before_anything_is_written() {
    let site = site();
    let server = site.start(PATIENCE).await.expect("ready");
    story::tell(&site).await;
    let backup = backed_up(&site, "backup").await;
    server.kill().await.expect("killed");
    let whole = fs::read(backup_file(&backup)).expect("readable");
    let data = site.data_dir().with_file_name("restored");
    let cuts = [0, 10, whole.len() / 2, whole.len() - 1].map(|end| whole[..end].to_vec());
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in cuts.into_iter().chain([flipped]) {
        fs::write(backup_file(&backup), &damaged).expect("written");
        let ended = run(&["restore", word(&backup), "--data-dir", word(&data)]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("offset") && ended.err.contains("fieldpost.backup"), "{ended:?}");
        assert!(!data.exists(), "nothing was written");
        let checked = run(&["check", word(&backup)]);
        assert_eq!(checked.code, Some(1), "{checked:?}");
        assert!(checked.out.contains("WRONG: ") && checked.out.contains("offset"), "{checked:?}");
    }
}

#[test]
fn what_cannot_be_done_at_all_exits_2_and_says_why() {
    let empty = tempfile::tempdir().expect("a directory");
    let full = tempfile::tempdir().expect("a directory");
    fs::write(full.path().join("file"), "x").expect("written");
    let partial = tempfile::tempdir().expect("a directory");
    fs::write(partial.path().join("fieldpost.backup.partial"), "x").expect("written");
    let (empty, full, partial) = (word(empty.path()), word(full.path()), word(partial.path()));
    for (arguments, expect) in [
        (vec!["check", empty], "neither a data directory nor a backup"),
        (vec!["check", "/nonexistent"], "neither a data directory nor a backup"),
        (vec!["check"], "DIR"),
        (vec!["restore", empty, "--data-dir", empty], "there is no backup"),
        (vec!["restore", partial, "--data-dir", empty], "never finished"),
        (vec!["restore", partial], "--data-dir"),
        (vec!["backup", full], "is there already"),
        (vec!["backup", empty, "--data-dir", full], "is no data directory"),
    ] {
        let ended = run(&arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(expect), "{arguments:?}: {ended:?}");
    }
    let unheard = run(&["backup", empty, "--url", "http://127.0.0.1:1"]);
    assert_eq!((unheard.code, fs::read_dir(empty).expect("listed").count()), (Some(3), 0), "{unheard:?}");
}

#[tokio::test]
async fn a_directory_that_is_not_empty_is_not_restored_into() {
    let site = site();
    let server = site.start(PATIENCE).await.expect("ready");
    let backup = backed_up(&site, "backup").await;
    server.kill().await.expect("killed");
    let before = site.data_dir().with_file_name("before");
    copy(&site.data_dir(), &before);
    let ended = run(&["restore", word(&backup), "--data-dir", word(&site.data_dir())]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    for entry in fs::read_dir(&before).expect("listed") {
        let entry = entry.expect("listed");
        let same = |path: &Path| fs::read(path).expect("readable");
        assert!(same(&entry.path()) == same(&site.data_dir().join(entry.file_name())), "{entry:?}");
    }
}
