//! The MQTT clients that people use, against the built program: `mosquitto_pub`, `mosquitto_sub` and paho.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use simulator::api_client::Api;
use simulator::server::{Server, Site};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Nothing here takes longer, even on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server with a lock and a meter.
struct Rig {
    api: Api,
    mqtt_port: String,
    _server: Server,
    _site: Site,
}

/// How a client ended, and what it wrote.
struct Ended {
    success: bool,
    stdout: String,
    stderr: String,
}

impl Rig {
    async fn start() -> Self {
        let site = Site::new(Path::new(env!("CARGO_BIN_EXE_fieldpost")), &[]).expect("a directory");
        let server = site.start(PATIENCE).await.expect("a server");
        let api = Api::new(site.http.clone(), PATIENCE);
        for (id, kind) in [("0xA", "lock"), ("m1", "meter")] {
            let _: Value =
                api.post("/v1/devices", &json!({"id": id, "kind": kind})).await.expect("registered");
        }
        let mqtt_port = site.mqtt.address().await.port().to_string();
        Self { api, mqtt_port, _server: server, _site: site }
    }

    /// Runs a client of mosquitto's against the server.
    async fn mosquitto(&self, program: &str, arguments: &[&str], stdin: &str) -> Ended {
        run(program, &[&["-h", "127.0.0.1", "-p", &self.mqtt_port], arguments].concat(), stdin).await
    }

    async fn paho(&self, version: &str, messages: &Value) -> Value {
        // Debian's modules belong to Debian's Python, whichever comes first on PATH.
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/paho_client.py");
        let arguments = [script, &self.mqtt_port, version];
        let ended = run("/usr/bin/python3", &arguments, &messages.to_string()).await;
        assert!(ended.success, "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).expect("JSON")
    }

    /// Waits until the device has so many readings.
    async fn has_readings(&self, device: &str, readings: usize) {
        let path = format!("/v1/devices/{device}/readings");
        let enough = |list: &Value| list["items"].as_array().is_some_and(|items| items.len() == readings);
        self.api.until(&path, PATIENCE, enough).await.expect("the readings come");
    }

    /// A device's readings, oldest first.
    async fn readings(&self, device: &str) -> Vec<Value> {
        let path = format!("/v1/devices/{device}/readings?order=asc");
        let readings: Vec<Value> = self.api.list(&path).await.expect("a list");
        readings.into_iter().map(|reading| reading["data"].clone()).collect()
    }
}

async fn run(program: &str, arguments: &[&str], stdin: &str) -> Ended {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("{program} is not there ({error}); scripts/setup test installs it"));
    let mut input = child.stdin.take().expect("it is piped");
    let write_and_wait = async move {
        input.write_all(stdin.as_bytes()).await.expect("it reads its input");
        drop(input);
        child.wait_with_output().await.expect("it can be awaited")
    };
    let output = timeout(PATIENCE, write_and_wait).await.expect("in time");
    Ended {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Zeros and ones in turn.
fn turns(reports: usize) -> Vec<Value> {
    (0..reports).map(|at| json!(at % 2)).collect()
}

#[tokio::test]
async fn mosquitto_pub_reports_in_both_versions() {
    let rig = Rig::start().await;
    let sent = [
        ("mqttv311", "0", "1"),
        ("mqttv311", "1", r#"{"data":0}"#),
        ("mqttv5", "0", "1"),
        ("mqttv5", "1", r#"{"data":0.0,"ts":"2026-01-01T00:00:00Z","id":"r-1"}"#),
    ];
    for ((version, qos, message), readings) in sent.into_iter().zip(1..) {
        let published = ["-V", version, "-q", qos, "-t", "dev/lock/0xA/state", "-m", message];
        let ended = rig.mosquitto("mosquitto_pub", &published, "").await;
        assert!(ended.success && ended.stderr.is_empty(), "{version} QoS {qos}: {}", ended.stderr);
        // With QoS 0 the client is gone before the report is durable.
        rig.has_readings("0xA", readings).await;
    }
    // The report with a `ts` of its own stands where that belongs.
    assert_eq!(rig.readings("0xA").await, [json!(0), json!(1), json!(0), json!(1)]);
}

#[tokio::test]
async fn mosquitto_pub_sends_many_lines_over_one_connection() {
    let rig = Rig::start().await;
    let lines: String = (0..500).map(|at| format!("{}\n", at % 2)).collect();
    for version in ["mqttv311", "mqttv5"] {
        let published = ["-V", version, "-q", "1", "-t", "dev/lock/0xA/state", "-l"];
        let ended = rig.mosquitto("mosquitto_pub", &published, &lines).await;
        assert!(ended.success && ended.stderr.is_empty(), "{version}: {}", ended.stderr);
    }
    assert_eq!(rig.readings("0xA").await, turns(1_000));
}

#[tokio::test]
async fn mosquitto_pub_is_told_why_a_report_is_refused() {
    let rig = Rig::start().await;
    for (topic, message, word) in [
        ("dev/lock/0xA/state", "2", "value_not_allowed"),
        ("dev/lock/0xF/state", "1", "unknown_device"),
        ("dev/meter/0xA/state", "1", "wrong_kind"),
        ("anything", "1", "unknown_topic"),
    ] {
        let published = ["-V", "mqttv5", "-q", "1", "-t", topic, "-m", message];
        let ended = rig.mosquitto("mosquitto_pub", &published, "").await;
        assert!(ended.stderr.contains(word), "{word} is not in {}", ended.stderr);
    }
    assert!(rig.readings("0xA").await.is_empty());
}

#[tokio::test]
async fn mosquitto_sub_is_granted_its_subscription() {
    let rig = Rig::start().await;
    for version in ["mqttv311", "mqttv5"] {
        let subscribed = ["-V", version, "-q", "1", "-t", "dev/lock/0xA/#", "-E"];
        let ended = rig.mosquitto("mosquitto_sub", &subscribed, "").await;
        assert!(ended.success && ended.stderr.is_empty(), "{version}: {}", ended.stderr);
    }
}

#[tokio::test]
async fn paho_reports_in_both_versions() {
    let rig = Rig::start().await;
    let messages: Value =
        turns(500).iter().map(|value| json!(["dev/lock/0xA/state", value.to_string()])).collect();
    for version in ["3", "5"] {
        let told = rig.paho(version, &messages).await;
        assert_eq!(told["acknowledged"], 500, "{told}");
        assert_eq!((&told["in_order"], &told["session_present"]), (&json!(true), &json!(0)), "{told}");
        assert_eq!(told["granted"], json!([1]), "{told}");
    }
    assert_eq!(rig.readings("0xA").await, turns(1_000));
}

#[tokio::test]
async fn paho_sends_every_form_of_a_report() {
    let rig = Rig::start().await;
    let messages = json!([
        ["dev/meter/m1/state", "21.50"],
        ["dev/meter/m1/state", r#"{"data":{"b":1,"a":[1.0]}}"#],
        ["dev/meter/m1/state", r#"{"b":1,"a":2}"#],
        ["sensors", r#"{"sensor_id":"m1","data":"x"}"#],
        ["dev/meter/m1/heartbeat", ""],
        ["dev/meter/m1/state", "not json"],
    ]);
    for version in ["3", "5"] {
        assert_eq!(rig.paho(version, &messages).await["acknowledged"], 6);
    }
    let once = [json!(21.5), json!({"a": [1], "b": 1}), json!({"a": 2, "b": 1}), json!("x")];
    assert_eq!(rig.readings("m1").await, [once.clone(), once].concat());
}
