//! `--follow`: each complete line arrives once and in order, across both kinds of rotation and a
//! kill.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::rig::SpoolRig;

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("it opens");
    file.write_all(text.as_bytes()).expect("written");
}

fn lines(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| Value::from(*name)).collect()
}

async fn arrived(rig: &SpoolRig, expected: &[&str]) {
    rig.until(|state| state["forwarded"] == expected.len() && state["waiting"] == 0).await;
    assert_eq!(rig.server.payloads("site/log").await, lines(expected));
}

/// An agent that follows a file, which says something already, and has begun to.
async fn start() -> (SpoolRig, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory").keep();
    let path = folder.join("app.log");
    append(&path, "before\n");
    let rig = SpoolRig::start(&["--follow", &path.to_string_lossy(), "--stream", "site/log"]).await;
    let begun = || rig.site.log().contains("following");
    while !begun() {
        tokio::task::yield_now().await;
    }
    (rig, path)
}

#[tokio::test]
async fn lines_arrive_from_the_files_end_on_and_only_when_they_are_complete() {
    let (mut rig, path) = start().await;
    append(&path, "one\ntwo\nthr");
    arrived(&rig, &["one", "two"]).await;
    rig.kill().await;
    append(&path, "ee\nfour\n");
    rig.start_again().await;
    arrived(&rig, &["one", "two", "three", "four"]).await;
}

#[tokio::test]
async fn a_file_that_is_renamed_is_read_to_its_end() {
    let (mut rig, path) = start().await;
    append(&path, "one\n");
    arrived(&rig, &["one"]).await;
    let rotated = path.with_extension("log.1");
    fs::rename(&path, &rotated).expect("renamed");
    append(&rotated, "two\n");
    append(&path, "three\n");
    arrived(&rig, &["one", "two", "three"]).await;
    rig.kill().await;
    append(&path, "four\n");
    fs::rename(&path, &rotated).expect("renamed");
    append(&path, "five\n");
    rig.start_again().await;
    arrived(&rig, &["one", "two", "three", "four", "five"]).await;
}

#[tokio::test]
async fn a_file_that_is_copied_and_cut_is_read_to_its_end() {
    let (mut rig, path) = start().await;
    append(&path, "one\n");
    arrived(&rig, &["one"]).await;
    let cut = || {
        fs::copy(&path, path.with_extension("log.1")).expect("copied");
        File::options().write(true).open(&path).and_then(|file| file.set_len(0)).expect("cut");
    };
    cut();
    append(&path, "two\n");
    arrived(&rig, &["one", "two"]).await;
    rig.kill().await;
    append(&path, "three\n");
    cut();
    append(&path, "four, and longer than what was there before\n");
    rig.start_again().await;
    arrived(&rig, &["one", "two", "three", "four, and longer than what was there before"]).await;
}
