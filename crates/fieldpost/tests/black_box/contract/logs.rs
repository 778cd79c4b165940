//! What the log says of whom: refusals, changes, and notifications that are given up.

use std::fs;

use serde_json::json;
use simulator::server::{RunningServer, Site};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::contract::rig::{BINARY, PATIENCE, Rig, has_status};
use crate::wire;

/// The lines that say `what`, once there are so many.
async fn lines(site: &Site, what: &str, count: usize) -> Vec<String> {
    let found = async {
        loop {
            let log = fs::read_to_string(site.log_path()).expect("a log");
            let found: Vec<_> = log.lines().filter(|line| line.contains(what)).map(str::to_owned).collect();
            if found.len() >= count {
                break found;
            }
            yield_now().await;
        }
    };
    timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("{what}: {}", site.log_tail()))
}

fn check_line(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

/// With one token, `ops`, that may only report.
async fn guarded() -> (Site, RunningServer, tempfile::TempDir) {
    use sha2::Digest;
    let folder = tempfile::tempdir().expect("a folder");
    let digest: String = sha2::Sha256::digest("secret").iter().map(|byte| format!("{byte:02x}")).collect();
    let entry = format!(
        "[[auth.tokens]]\nname = \"ops\"\nsha256 = \"{digest}\"\nscopes = [\"report\", \"jobs:a\"]\n"
    );
    let file = folder.path().join("f.toml");
    fs::write(&file, entry).expect("written");
    let mut site = Site::new(std::path::Path::new(BINARY), &[]).expect("a directory");
    site.start_through(["sh", "-c", &format!("exec \"$@\" --config {}", file.display()), "sh"]);
    let server = site.start(PATIENCE).await.expect("a server");
    (site, server, folder)
}

#[tokio::test]
async fn a_refusal_names_who_it_was() {
    let (site, server, _folder) = guarded().await;
    let address = site.http.address().await;
    let token = ("Authorization", "Bearer secret");
    let ndjson = ("Content-Type", "application/x-ndjson");
    let line = br#"{"device_id":"0xF","data":1}"#;
    assert_eq!(wire::ask(address, "POST", "/v1/reports", &[token], line).await.status, 404);
    assert_eq!(wire::ask(address, "POST", "/v1/reports", &[token, ndjson], line).await.status, 200);
    for line in lines(&site, "refused a report", 2).await {
        check_line(
            &line,
            &[
                "way=\"http\"",
                "device=\"0xF\"",
                "login=\"ops\"",
                "code=\"unknown_device\"",
                "peer=127.0.0.1:",
            ],
        );
    }
    // No device has such an id.
    let ack = "/v1/devices/no%20id/ack";
    assert_eq!(wire::ask(address, "POST", ack, &[token], br#"{"id":"x"}"#).await.status, 404);
    let line = &lines(&site, "an answer to a command", 1).await[0];
    check_line(
        line,
        &["refused a report", "way=\"http\"", "no id", "login=\"ops\"", "unknown_device", "peer=127.0.0.1:"],
    );
    let hostile = "/v1/x%0aINFO%1b[31m";
    assert_eq!(
        wire::ask(address, "DELETE", hostile, &[("Authorization", "Bearer wrong")], b"").await.status,
        401
    );
    assert_eq!(wire::ask(address, "GET", "/v1/devices", &[token], b"").await.status, 403);
    let refused = lines(&site, "refused a caller", 2).await;
    check_line(&refused[0], &["way=\"http\"", "code=\"unauthorized\"", "peer=127.0.0.1:", "method=DELETE"]);
    check_line(&refused[1], &["login=\"ops\"", "code=\"forbidden\"", "peer=127.0.0.1:", "/v1/devices"]);
    server.stop(PATIENCE).await.expect("it ends");
}

#[tokio::test]
async fn a_flood_of_refusals_makes_few_lines() {
    let (site, server, _folder) = guarded().await;
    let address = site.http.address().await;
    for _ in 0..60 {
        assert_eq!(wire::ask(address, "GET", "/v1/devices", &[], b"").await.status, 401);
    }
    // What was logged before it stops is all there.
    server.stop(PATIENCE).await.expect("it ends");
    let log = fs::read_to_string(site.log_path()).expect("a log");
    let count = log.lines().filter(|line| line.contains("refused a caller")).count();
    assert!((1..=20).contains(&count), "{count} lines");
}

#[tokio::test]
async fn a_change_names_who_made_it() {
    let rig = Rig::start(&[]).await;
    rig.device(&json!({"id": "a"})).await;
    let jobs = rig.json("POST", "/v1/queues/a/b/jobs", r#"{"payload":1}"#).await;
    assert_eq!(jobs.status, 201);
    let appended = rig.json("POST", "/v1/streams/a/b/messages", r#"{"payload":1}"#).await;
    assert_eq!(appended.status, 201);
    assert_eq!(rig.json("POST", "/v1/locks/a/b", r#"{"owner":"o"}"#).await.status, 200);
    assert_eq!(rig.json("DELETE", "/v1/devices/none", "").await.status, 404);
    assert_eq!(rig.json("DELETE", "/v1/devices/a", "").await.status, 204);
    let changes = lines(&rig.site, "changed through the API", 2).await;
    check_line(&changes[0], &["method=POST", "path=\"/v1/devices\"", "status=201", "peer=127.0.0.1:"]);
    check_line(&changes[1], &["method=DELETE", "path=\"/v1/devices/a\"", "status=204"]);
    assert_eq!(changes.len(), 2, "{changes:?}");
}

#[tokio::test]
async fn a_notification_that_is_given_up_is_told() {
    let rig = Rig::start_telling(&[("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "1")]).await;
    rig.device(&json!({"id": "a"})).await;
    let client = json!({"id": "c", "name": "n", "url": "http://127.0.0.1:9/none"});
    assert_eq!(rig.json("POST", "/v1/clients", &client.to_string()).await.status, 201);
    rig.api.put("/v1/devices/a/clients/c").await.expect("linked");
    rig.report("a", 1).await;
    let failed = rig.deliveries("a", 1, has_status("failed")).await;
    let line = &lines(&rig.site, "a notification failed for good", 1).await[0];
    let id = failed[0]["id"].as_str().expect("an id");
    check_line(line, &["WARN", id, "client=\"c\"", "device=\"a\"", "attempts=1"]);
}

#[tokio::test]
async fn an_outcome_that_is_given_up_is_told_without_what_its_url_hides() {
    let rig = Rig::start_telling(&[("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "1")]).await;
    rig.device(&json!({"id": "a"})).await;
    let command = json!({"payload": 1, "notify": {"url": "http://127.0.0.1:9/hidden"}});
    let sent = rig.json("POST", "/v1/devices/a/commands", &command.to_string()).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let id = sent.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(rig.json("DELETE", &format!("/v1/commands/{id}"), "").await.status, 204);
    let line = &lines(&rig.site, "the outcome of a command failed for good", 1).await[0];
    let receiver = "receiver=\"http://127.0.0.1:9\"";
    check_line(line, &["WARN", &format!("command=\"{id}\""), "device=\"a\"", receiver, "attempts=1"]);
}

#[tokio::test]
async fn a_notice_that_is_given_up_is_told() {
    let rig = Rig::start_telling(&[("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "1")]).await;
    for (id, notices) in [("watch", true), ("off", false)] {
        let client = json!({"id": id, "name": "n", "url": "http://127.0.0.1:9/none", "notices": notices});
        assert_eq!(rig.json("POST", "/v1/clients", &client.to_string()).await.status, 201);
    }
    assert_eq!(rig.json("PATCH", "/v1/clients/off", r#"{"enabled":false}"#).await.status, 200);
    let line = &lines(&rig.site, "a notice failed for good", 1).await[0];
    let subject = "subject=\"client off\"";
    check_line(line, &["WARN", "notice=\"ntc_", subject, "client=\"watch\"", "attempts=1"]);
}

#[tokio::test]
async fn the_end_of_a_task_that_is_given_up_is_told() {
    let rig = Rig::start_telling(&[("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "1")]).await;
    // There is nobody to ask, so it ends at once.
    let task = json!({"payload": 1, "count": 1, "notify": {"url": "http://127.0.0.1:9/none"}});
    let begun = rig.json("POST", "/v1/tasks", &task.to_string()).await;
    assert_eq!(begun.status, 201, "{begun:?}");
    let id = begun.json()["id"].as_str().expect("an id").to_owned();
    let line = &lines(&rig.site, "nobody took the end of a task: it is given up", 1).await[0];
    check_line(line, &["WARN", &format!("task=\"{id}\""), "left_out=0"]);
}
