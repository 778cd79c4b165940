//! The MQTT clients that people use, against the built program: `mosquitto_pub`, `mosquitto_sub`,
//! paho and rumqttc.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rumqttc::v5;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use simulator::api_client::ApiClient;
use simulator::server::{RunningServer, Site};
use simulator::wire_time;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

const BINARY: &str = env!("CARGO_BIN_EXE_fieldpost");

/// Nothing here takes longer, even on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server with a lock and a meter.
struct Rig {
    api: ApiClient,
    mqtt_port: String,
    server: RunningServer,
    site: Site,
}

/// Logins as `[[auth.mqtt]]` gives them; the password of each is its username.
const LOGINS: [(&str, &str); 4] = [
    ("device", "device = \"0xA\""),
    ("prefix", "prefix = \"0x\""),
    ("label", "label = \"site=12\""),
    ("admin", "admin = true"),
];

/// How a client ended, and what it wrote.
struct Ended {
    success: bool,
    stdout: String,
    stderr: String,
}

impl Rig {
    async fn start() -> Self {
        Self::start_on(Site::new(Path::new(BINARY), &[]).expect("a directory")).await
    }

    /// A server with a config file, which lists logins.
    async fn start_with_logins(directory: &Path) -> Self {
        let logins = LOGINS.map(|(username, speaks_for)| {
            let sha256 = Sha256::digest(username);
            format!(
                "[[auth.mqtt]]\nusername = \"{username}\"\npassword_sha256 = \"{sha256:x}\"\n{speaks_for}\n"
            )
        });
        Self::start_with_config(directory, &logins.concat()).await
    }

    /// A server with this config file. The site starts a script that adds the file to its
    /// arguments.
    async fn start_with_config(directory: &Path, text: &str) -> Self {
        let (config, script) = (directory.join("fieldpost.toml"), directory.join("fieldpost"));
        std::fs::write(&config, text).expect("written");
        let start = format!("#!/bin/sh\nexec '{BINARY}' \"$@\" --config '{}'\n", config.display());
        std::fs::write(&script, start).expect("written");
        std::fs::set_permissions(&script, Permissions::from_mode(0o700)).expect("executable");
        Self::start_on(Site::new(&script, &[]).expect("a directory")).await
    }

    async fn start_on(site: Site) -> Self {
        let server = site.start(PATIENCE).await.expect("a server");
        let api = ApiClient::new(site.http.clone(), PATIENCE);
        for (id, kind) in [("0xA", "lock"), ("m1", "meter")] {
            let _: Value =
                api.post("/v1/devices", &json!({"id": id, "kind": kind})).await.expect("registered");
        }
        let mqtt_port = site.mqtt.address().await.port().to_string();
        Self { api, mqtt_port, server, site }
    }

    /// SIGKILL, and a new process on the same data.
    async fn restart(self) -> Self {
        let Self { api, server, site, .. } = self;
        server.kill().await.expect("killed");
        let server = site.start(PATIENCE).await.expect("a server");
        let mqtt_port = site.mqtt.address().await.port().to_string();
        Self { api, mqtt_port, server, site }
    }

    /// Runs a client of mosquitto's against the server.
    async fn mosquitto(&self, program: &str, arguments: &[&str], stdin: &str) -> Ended {
        run(program, &[&["-h", "127.0.0.1", "-p", &self.mqtt_port], arguments].concat(), stdin).await
    }

    /// A device on paho that reports these messages.
    async fn paho(&self, version: &str, messages: &Value) -> Value {
        self.paho_as(version, &json!({"messages": messages})).await
    }

    /// A device on paho as the object describes it.
    async fn paho_as(&self, version: &str, device: &Value) -> Value {
        // Debian's modules belong to Debian's Python, whichever comes first on PATH.
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/black_box/paho_client.py");
        let arguments = [script, &self.mqtt_port, version];
        let ended = run("/usr/bin/python3", &arguments, &device.to_string()).await;
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
    let hour_ago = wire_time::format_ms(wire_time::wall_now_ms() - 3_600_000);
    let sent = [
        ("mqttv311", "0", "1"),
        ("mqttv311", "1", r#"{"data":0}"#),
        ("mqttv5", "0", "1"),
        ("mqttv5", "1", &*format!(r#"{{"data":0.0,"ts":"{hour_ago}","id":"r-1"}}"#)),
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

#[tokio::test]
async fn clients_report_with_qos_2() {
    let rig = Rig::start().await;
    let messages: Value =
        turns(200).iter().map(|value| json!(["dev/lock/0xA/state", value.to_string()])).collect();
    let lines: String = (0..100).map(|at| format!("{}\n", at % 2)).collect();
    for (paho, mosquitto) in [("3", "mqttv311"), ("5", "mqttv5")] {
        let told = rig.paho_as(paho, &json!({"messages": messages, "qos": 2})).await;
        assert_eq!((&told["acknowledged"], &told["in_order"]), (&json!(200), &json!(true)), "{told}");
        let published = ["-V", mosquitto, "-q", "2", "-t", "dev/lock/0xA/state", "-l"];
        let ended = rig.mosquitto("mosquitto_pub", &published, &lines).await;
        assert!(ended.success && ended.stderr.is_empty(), "{mosquitto}: {}", ended.stderr);
    }
    assert_eq!(rig.readings("0xA").await, turns(600));
}

#[tokio::test]
async fn paho_finds_its_session_until_the_server_is_started_anew() {
    let mut rig = Rig::start().await;
    let device = json!({"messages": [["dev/lock/0xA/state", "1"]], "qos": 2, "lasting": true});
    for version in ["3", "5"] {
        for present in [0, 1, 1] {
            let told = rig.paho_as(version, &device).await;
            assert_eq!(told["session_present"], present, "{version}: {told}");
        }
        rig = rig.restart().await;
    }
}

#[tokio::test]
async fn the_will_of_paho_is_told_when_it_vanishes() {
    let rig = Rig::start().await;
    let will = json!(["dev/meter/m1/state", "\"gone\""]);
    for version in ["3", "5"] {
        rig.paho_as(version, &json!({"messages": [], "will": will})).await;
        let vanishing = json!({"messages": [["dev/meter/m1/state", "1"]], "will": will, "vanish": true});
        rig.paho_as(version, &vanishing).await;
        rig.has_readings("m1", if version == "3" { 2 } else { 4 }).await;
    }
    assert_eq!(rig.readings("m1").await, [json!(1), json!("gone"), json!(1), json!("gone")]);
}

/// Publishes over MQTT 5 with rumqttc, one after the other: the reason of each.
async fn rumqttc_reasons(rig: &Rig, publishes: &[(&str, &str, v5::mqttbytes::QoS)]) -> Vec<u8> {
    use v5::mqttbytes::v5::{Packet, PubAckReason, PubRecReason};
    let port = rig.mqtt_port.parse().expect("a port");
    let mut options = v5::MqttOptions::new("rumqttc", "127.0.0.1", port);
    options.set_keep_alive(Duration::from_secs(30)).set_connection_timeout(PATIENCE.as_secs());
    let (client, mut events) = v5::AsyncClient::new(options, 10);
    let mut reasons = Vec::new();
    for (topic, payload, qos) in publishes {
        client.publish(*topic, *qos, false, payload.to_string()).await.expect("queued");
        reasons.push(loop {
            match timeout(PATIENCE, events.poll()).await.expect("in time").expect("connected") {
                v5::Event::Incoming(Packet::PubAck(ack)) => {
                    break match ack.reason {
                        PubAckReason::Success => 0,
                        PubAckReason::NotAuthorized => 0x87,
                        PubAckReason::TopicNameInvalid => 0x90,
                        PubAckReason::PayloadFormatInvalid => 0x99,
                        other => panic!("{other:?}"),
                    };
                }
                v5::Event::Incoming(Packet::PubRec(ack)) if ack.reason != PubRecReason::Success => {
                    break match ack.reason {
                        PubRecReason::NotAuthorized => 0x87,
                        PubRecReason::TopicNameInvalid => 0x90,
                        PubRecReason::PayloadFormatInvalid => 0x99,
                        other => panic!("{other:?}"),
                    };
                }
                v5::Event::Incoming(Packet::PubComp(_)) => break 0,
                _ => {}
            }
        });
    }
    reasons
}

#[tokio::test]
async fn rumqttc_is_told_the_reason_of_every_refusal() {
    use v5::mqttbytes::QoS::{AtLeastOnce, ExactlyOnce};
    let rig = Rig::start().await;
    let cases = [
        ("dev/lock/0xA/state", "1", 0),
        ("dev/lock/0xA/state", "2", 0x99),
        ("dev/lock/0xA/state", "{", 0x99),
        ("dev/lock/0xF/state", "1", 0x99),
        ("dev/meter/0xA/state", "1", 0x99),
        ("dev/lock/0xA/state", r#"{"data":1,"ts":"2100-01-01T00:00:00Z"}"#, 0x99),
        ("anything", "1", 0x90),
        ("dev/lock/0xA/heartbeat", "", 0),
    ];
    for qos in [AtLeastOnce, ExactlyOnce] {
        let publishes = cases.map(|(topic, payload, _)| (topic, payload, qos));
        assert_eq!(rumqttc_reasons(&rig, &publishes).await, cases.map(|(_, _, reason)| reason), "{qos:?}");
    }
    assert_eq!(rig.readings("0xA").await, [json!(1), json!(1)]);
}

#[tokio::test]
async fn rumqttc_is_told_that_the_config_file_wants_no_copies_of_reports() {
    use v5::mqttbytes::v5::Packet;
    let directory = tempfile::tempdir().expect("a directory");
    let rig = Rig::start_with_config(directory.path(), "[mqtt]\nmirror = false\n").await;
    let port = rig.mqtt_port.parse().expect("a port");
    let mut options = v5::MqttOptions::new("rumqttc", "127.0.0.1", port);
    options.set_keep_alive(Duration::from_secs(30)).set_connection_timeout(PATIENCE.as_secs());
    let (client, mut events) = v5::AsyncClient::new(options, 10);
    client.subscribe("dev/#", v5::mqttbytes::QoS::AtMostOnce).await.expect("queued");
    let ack = loop {
        let event = timeout(PATIENCE, events.poll()).await.expect("in time").expect("connected");
        if let v5::Event::Incoming(Packet::SubAck(ack)) = event {
            break ack;
        }
    };
    let reason = ack.properties.and_then(|properties| properties.reason_string).unwrap_or_default();
    assert!(reason.contains("[mqtt] mirror is false"), "{reason:?}");
}

#[tokio::test]
async fn rumqttc_reports_over_mqtt_3_1_1_with_qos_2() {
    use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS};
    let rig = Rig::start().await;
    let mut options = MqttOptions::new("rumqttc", "127.0.0.1", rig.mqtt_port.parse().expect("a port"));
    options.set_keep_alive(Duration::from_secs(30)).set_clean_session(false);
    let (client, mut events) = AsyncClient::new(options, 10);
    events.network_options.set_connection_timeout(PATIENCE.as_secs());
    let publishing = tokio::spawn(async move {
        for value in turns(100) {
            let (topic, payload) = ("dev/lock/0xA/state", value.to_string());
            client.publish(topic, QoS::ExactlyOnce, false, payload).await.expect("queued");
        }
        client
    });
    let mut complete = 0;
    while complete < 100 {
        let event = timeout(PATIENCE, events.poll()).await.expect("in time").expect("connected");
        complete += usize::from(matches!(event, Event::Incoming(Packet::PubComp(_))));
    }
    publishing.await.expect("no panic");
    assert_eq!(rig.readings("0xA").await, turns(100));
}

#[tokio::test]
async fn logins_speak_for_their_own_devices() {
    let directory = tempfile::tempdir().expect("a directory");
    let rig = Rig::start_with_logins(directory.path()).await;
    let labelled = json!({"id": "s1", "kind": "meter", "labels": {"site": "12"}});
    let _: Value = rig.api.post("/v1/devices", &labelled).await.expect("registered");
    for (login, own, foreign, filter) in [
        ("device", "dev/lock/0xA/state", "dev/meter/m1/state", "dev/+/0xA/#"),
        ("prefix", "dev/lock/0xA/state", "dev/meter/m1/state", "dev/+/0xB/#"),
        ("label", "dev/meter/s1/state", "dev/lock/0xA/state", "dev/+/s1/#"),
        ("admin", "dev/meter/m1/state", "anything", "#"),
    ] {
        for (version, qos) in [("mqttv311", "1"), ("mqttv5", "1"), ("mqttv5", "2")] {
            for (topic, allowed) in [(own, true), (foreign, false)] {
                let published = ["-V", version, "-q", qos, "-u", login, "-P", login, "-t", topic, "-m", "1"];
                let Ended { stderr, .. } = rig.mosquitto("mosquitto_pub", &published, "").await;
                let refusal = if login == "admin" { "Topic name invalid" } else { "Not authorized" };
                let is_told = !allowed && version == "mqttv5";
                assert_eq!(
                    stderr.to_lowercase().contains(&refusal.to_lowercase()),
                    is_told,
                    "{topic}: {stderr}"
                );
            }
        }
        let subscribing = json!({"messages": [], "login": [login, login], "subscribe": [filter, "dev/lock/0xC/#", "$share/g/a"]});
        let other = if matches!(login, "device" | "label") { 0x87 } else { 1 };
        assert_eq!(rig.paho_as("5", &subscribing).await["granted"], json!([1, other, 0x9e]), "{login}");
    }
    assert_eq!(rig.readings("0xA").await.len(), 6, "of its own login and of that of its prefix");
}

#[tokio::test]
async fn who_has_no_login_is_told_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let rig = Rig::start_with_logins(directory.path()).await;
    for (login, old, new) in [
        (json!(["device", "wrong"]), 4, 0x86),
        (json!(["nobody", "device"]), 4, 0x86),
        (Value::Null, 5, 0x87),
    ] {
        let mut device = json!({"messages": []});
        if !login.is_null() {
            device["login"] = login.clone();
        }
        assert_eq!(rig.paho_as("3", &device).await["connected"], old, "{login}");
        assert_eq!(rig.paho_as("5", &device).await["connected"], new, "{login}");
    }
    let log = std::fs::read_to_string(rig.site.log_path()).expect("a log");
    assert!(log.contains("refused an MQTT login") && !log.contains("wrong"), "{log}");
}

#[tokio::test]
async fn mosquitto_pub_reports_over_tls() {
    let directory = tempfile::tempdir().expect("a directory");
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let (cert, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    std::fs::write(&cert, certified.cert.pem()).expect("written");
    std::fs::write(&key, certified.signing_key.serialize_pem()).expect("written");
    let (cert, key) = (cert.to_str().expect("a path"), key.to_str().expect("a path"));
    let settings = [
        ("FIELDPOST_TLS__CERT", cert),
        ("FIELDPOST_TLS__KEY", key),
        ("FIELDPOST_DEVICES__UNKNOWN", "register"),
    ];
    let site = Site::new(Path::new(BINARY), &settings).expect("a directory");
    let _server = site.start(PATIENCE).await.expect("a server");
    let port = site.mqtt.address().await.port().to_string();
    for version in ["mqttv311", "mqttv5"] {
        let published =
            ["-h", "127.0.0.1", "-p", &port, "-V", version, "-q", "1", "-t", "dev/lock/0xA/state", "-m", "1"];
        let ended = run("mosquitto_pub", &[&published[..], &["--cafile", cert]].concat(), "").await;
        assert!(ended.success && ended.stderr.is_empty(), "{version}: {}", ended.stderr);
        let plain = run("mosquitto_pub", &published, "").await;
        assert!(!plain.success, "without TLS nobody is let in");
    }
}
