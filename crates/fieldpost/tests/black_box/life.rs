//! The life of a server as an operator sees it: it starts once, stops when asked, and says exactly
//! what is wrong with its data.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::server::{ServerError, Site};

const BINARY: &str = env!("CARGO_BIN_EXE_fieldpost");
const PATIENCE: Duration = Duration::from_secs(30);
/// Behind the header of the log's first file and of its first frame: a byte of what the first batch
/// says.
const IN_THE_FIRST_FRAME: usize = 64 + 40 + 3;

fn site() -> Site {
    Site::new(Path::new(BINARY), &[]).expect("a directory")
}

fn data_dir(site: &Site) -> PathBuf {
    site.log_path().with_file_name("data")
}

/// The newest file of the log.
fn log_file(site: &Site) -> PathBuf {
    let files = fs::read_dir(data_dir(site)).expect("a data directory");
    let logs = files.map(|file| file.expect("an entry").path());
    logs.filter(|path| path.extension().is_some_and(|ending| ending == "seg")).max().expect("a log file")
}

/// A device with three readings, all durable.
async fn fill(site: &Site) {
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    let _device: Value = api.post("/v1/devices", &json!({"id": "0xA"})).await.expect("registered");
    for value in [0, 1, 0] {
        let report = json!({"device_id": "0xA", "data": value});
        let answer: Value = api.post("/v1/reports", &report).await.expect("accepted");
        assert_eq!(answer["accepted"], 1);
    }
}

async fn readings(site: &Site) -> Vec<Value> {
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    let readings: Vec<Value> = api.list("/v1/devices/0xA/readings?order=asc").await.expect("readable");
    readings.into_iter().map(|reading| reading["data"].clone()).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a log file");
    bytes[at] ^= 0x40;
    fs::write(path, bytes).expect("written");
}

#[tokio::test]
async fn asked_to_stop_it_ends_well_and_keeps_everything() {
    let site = site();
    let server = site.start(PATIENCE).await.expect("ready");
    fill(&site).await;
    let status = server.stop(PATIENCE).await.expect("stopped");
    assert!(status.success(), "{status}");
    let server = site.start(PATIENCE).await.expect("ready again");
    assert_eq!(readings(&site).await, [json!(0), json!(1), json!(0)]);
    server.kill().await.expect("killed");
}

#[tokio::test]
async fn callers_who_never_finish_do_not_hold_a_stop() {
    let site = site();
    let server = site.start(PATIENCE).await.expect("ready");
    let address = site.http.address().await;
    let mut callers = Vec::new();
    for begun in [
        "GET /hea",
        "POST /v1/devices HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{\"id\":",
        "POST /v1/reports HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}\n\r\n",
    ] {
        let mut caller = TcpStream::connect(address).expect("taken");
        caller.write_all(begun.as_bytes()).expect("written");
        callers.push(caller);
    }
    // The contract's 20 s, and what a busy machine may need beyond that.
    let status = server.stop(Duration::from_secs(20 + 10)).await.expect("stopped in time");
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_second_server_on_the_same_directory_is_refused() {
    let site = site();
    let server = site.start(PATIENCE).await.expect("ready");
    let directory = data_dir(&site);
    let second = Command::new(BINARY)
        .args(["serve", "--data-dir"])
        .arg(&directory)
        .env("FIELDPOST_HTTP__LISTEN", "127.0.0.1:0")
        .env("FIELDPOST_MQTT__LISTEN", "127.0.0.1:0")
        .env("FIELDPOST_GRPC__LISTEN", "127.0.0.1:0")
        .output()
        .expect("it ends");
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success());
    assert!(said.contains(&directory.display().to_string()) && said.contains("in use"), "{said}");
    fill(&site).await;
    server.kill().await.expect("killed");
}

#[tokio::test]
async fn a_flipped_byte_in_what_was_synced_is_refused_with_file_and_offset() {
    let site = site();
    let server = site.start(PATIENCE).await.expect("ready");
    fill(&site).await;
    server.stop(PATIENCE).await.expect("stopped; the log claims all that it holds");
    let log = log_file(&site);
    flip(&log, IN_THE_FIRST_FRAME);
    let refused = site.start(PATIENCE).await.expect_err("refused");
    let ServerError::Ended { status, log_tail } = refused else { panic!("{refused}") };
    assert!(!status.success());
    assert!(log_tail.contains(&log.display().to_string()) && log_tail.contains("offset 64"), "{log_tail}");
    flip(&log, IN_THE_FIRST_FRAME);
    let server = site.start(PATIENCE).await.expect("ready with the byte put right");
    assert_eq!(readings(&site).await, [json!(0), json!(1), json!(0)]);
    server.kill().await.expect("killed");
}

#[tokio::test]
async fn a_torn_end_is_cut_and_reported() {
    let site = site();
    let server = site.start(PATIENCE).await.expect("ready");
    fill(&site).await;
    server.stop(PATIENCE).await.expect("stopped; the log claims all that it holds");
    let log = log_file(&site);
    let bytes = fs::read(&log).expect("a log file");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("frames");
    flip(&log, last);
    let server = site.start(PATIENCE).await.expect("ready");
    assert_eq!(readings(&site).await, [json!(0), json!(1), json!(0)]);
    let said = site.log_tail();
    assert!(said.contains(&log.display().to_string()) && said.contains("cut"), "{said}");
    server.kill().await.expect("killed");
}

#[test]
fn a_listener_off_loopback_without_authentication_is_refused() {
    let refused = Command::new(BINARY)
        .args(["serve", "--data-dir", "never-made"])
        .env("FIELDPOST_HTTP__LISTEN", "0.0.0.0:0")
        .output()
        .expect("it ends");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("FIELDPOST_HTTP__LISTEN") && said.contains("loopback"), "{said}");
    assert!(!Path::new("never-made").exists());
}
