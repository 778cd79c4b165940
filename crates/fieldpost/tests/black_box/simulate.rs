//! `fieldpost simulate` as its users run it: the real program against a real server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use simulator::api_client::ApiClient;
use simulator::server::{RunningServer, Site};
use tokio::net::TcpSocket;
use tokio::process::Command;

use crate::rabbitmq;

const BINARY: &str = env!("CARGO_BIN_EXE_fieldpost");
/// Longer than a run waits for its last answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server, and those who ask it.
struct Rig {
    site: Site,
    api: ApiClient,
    /// Killed when the rig is dropped.
    _server: RunningServer,
}

impl Rig {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    async fn start_with(settings: &[(&str, &str)]) -> Self {
        let site = Site::new(Path::new(BINARY), settings).expect("a directory");
        let server = site.start(PATIENCE).await.expect("a server");
        let api = ApiClient::new(site.http.clone(), PATIENCE);
        Self { site, api, _server: server }
    }

    /// `simulate` over MQTT to this server.
    async fn over_mqtt(&self, flags: &str) -> Command {
        let (mqtt, http) = (self.site.mqtt.address().await, self.site.http.address().await);
        simulate(&format!("--url mqtt://{mqtt} --http http://{http} {flags}"))
    }

    /// `simulate` over HTTP to this server.
    async fn over_http(&self, flags: &str) -> Command {
        let http = self.site.http.address().await;
        simulate(&format!("--url http://{http} {flags}"))
    }

    /// What the history holds of a device, oldest first.
    async fn values(&self, device: &str) -> Vec<Value> {
        let path = format!("/v1/devices/{device}/readings?order=asc");
        let readings: Vec<Value> = self.api.list(&path).await.expect("a list");
        readings.iter().map(|reading| reading["data"].clone()).collect()
    }

    /// Readings of `count` devices whose ids are a prefix and a digit.
    async fn readings_of(&self, prefix: &str, count: u32) -> u64 {
        let mut readings = 0;
        for number in 0..count {
            readings += self.values(&format!("{prefix}{number}")).await.len() as u64;
        }
        readings
    }
}

fn simulate(flags: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.arg("simulate").args(flags.split_whitespace());
    for own in ["FIELDPOST_TOKEN", "FIELDPOST_PASSWORD", "FIELDPOST_URL"] {
        command.env_remove(own);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn ended(mut command: Command) -> Output {
    let running = command.spawn().expect("the program starts");
    let output = tokio::time::timeout(PATIENCE, running.wait_with_output()).await;
    output.expect("it ends in time").expect("it can be awaited")
}

/// The account of a run with `--json` that was to end with `code`.
fn account(output: &Output, code: i32) -> Value {
    let (told, shown) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{told}\n{shown}");
    serde_json::from_str(&told).expect("one JSON object")
}

fn number(account: &Value, pointer: &str) -> u64 {
    account.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {account}"))
}

#[tokio::test]
async fn over_mqtt_every_good_report_is_in_the_history_once_and_every_bad_one_is_refused() {
    let rig = Rig::start().await;
    // No more in flight than ids are kept of a device: all of it goes out again after a
    // reconnection.
    let flags = "--devices 8 --id-prefix m --rate 400 --reports 800 --seed 7 --bad-payloads 0.1 \
                 --reconnects 0.01 --ids --connections 4 --in-flight 8 --json";
    let account = account(&ended(rig.over_mqtt(flags).await).await, 0);
    assert_eq!((number(&account, "/sent"), number(&account, "/unanswered")), (800, 0), "{account}");
    assert!(number(&account, "/reconnects") > 0 && number(&account, "/bad/refused") > 40, "{account}");
    assert_eq!(number(&account, "/refused"), number(&account, "/bad/sent"));
    assert_eq!(number(&account, "/registered/created"), 8);
    let reasons = account["refused_by_reason"].as_object().expect("reasons");
    assert!(reasons.len() >= 2 && !reasons.contains_key("unknown_device"), "{account}");
    assert_eq!(rig.readings_of("m", 8).await, number(&account, "/acknowledged"));
}

#[tokio::test]
async fn over_http_every_good_report_is_in_the_history_and_every_bad_one_is_refused() {
    let rig = Rig::start().await;
    let flags = "--devices 8 --id-prefix h --kind gate --rate 2000 --reports 2000 --seed 7 \
                 --bad-payloads 0.05 --json";
    let account = account(&ended(rig.over_http(flags).await).await, 0);
    assert_eq!((number(&account, "/sent"), number(&account, "/unanswered")), (2000, 0), "{account}");
    assert_eq!(number(&account, "/refused"), number(&account, "/bad/sent"));
    assert!(number(&account, "/refused") > 50, "{account}");
    assert!(account.pointer("/latency_ms/since_due/p99").is_some_and(Value::is_number), "{account}");
    assert_eq!(rig.readings_of("h", 8).await, number(&account, "/acknowledged"));
}

#[tokio::test]
async fn over_amqp_every_good_report_is_in_the_history_once() {
    let rabbitmq = rabbitmq::in_use().await;
    let url = rabbitmq::url_at(rabbitmq.broker.address());
    let queue = "simulated";
    let rig =
        Rig::start_with(&[("FIELDPOST_AMQP__URL", url.as_str()), ("FIELDPOST_AMQP__QUEUE", queue)]).await;
    let http = rig.site.http.address().await;
    // No more in flight than ids are kept of a device, as over MQTT.
    let flags = format!(
        "--url {url} --queue {queue} --http http://{http} --devices 8 --id-prefix q --rate 400 --reports 400 \
         --seed 7 --bad-payloads 0.1 --reconnects 0.02 --ids --connections 4 --in-flight 8 --json"
    );
    let account = account(&ended(simulate(&flags)).await, 0);
    assert_eq!((number(&account, "/acknowledged"), number(&account, "/refused")), (400, 0), "{account}");
    let good = 400 - number(&account, "/bad/sent");
    assert!(number(&account, "/reconnects") > 0 && good < 400, "{account}");
    let stats = "/v1/stats?metric=reports&by=hour";
    let counted = |list: &Value| {
        let items = list["items"].as_array().into_iter().flatten();
        items.filter_map(|item| item["count"].as_u64()).sum::<u64>() >= good
    };
    let _: Value = rig.api.until(stats, PATIENCE, counted).await.expect("the queue is emptied");
    assert_eq!(rig.readings_of("q", 8).await, good);
}

#[tokio::test]
async fn a_queue_that_nobody_made_takes_no_report() {
    let rabbitmq = rabbitmq::in_use().await;
    let url = rabbitmq::url_at(rabbitmq.broker.address());
    let flags = format!("--url {url} --queue nobodyMadeIt --no-register --rate 1000 --reports 20 --json");
    let account = account(&ended(simulate(&flags)).await, 1);
    assert_eq!(number(&account, "/refused_by_reason/no queue takes it"), 20, "{account}");
}

#[tokio::test]
async fn the_same_seed_gives_the_same_reports_of_each_device_on_any_way_and_number_of_connections() {
    let rig = Rig::start().await;
    let common = "--devices 5 --interval 20ms --reports 150 --change-probability 0.5 --silence-probability 0.1 \
                  --silence-for 60ms --json";
    let one = rig.over_mqtt(&format!("{common} --id-prefix a --seed 11 --connections 1")).await;
    let five = rig.over_http(&format!("{common} --id-prefix b --seed 11 --connections 5")).await;
    let other = rig.over_http(&format!("{common} --id-prefix c --seed 12 --connections 5")).await;
    let (one, five, other) = tokio::join!(ended(one), ended(five), ended(other));
    for output in [one, five, other] {
        assert_eq!(number(&account(&output, 0), "/acknowledged"), 150);
    }
    let mut differ = false;
    for number in 0..5 {
        let (a, b) = (rig.values(&format!("a{number}")).await, rig.values(&format!("b{number}")).await);
        // How many of all reports are a device's depends on how lanes share them; their order does
        // not.
        let common = a.len().min(b.len());
        assert!(common > 15, "{common}");
        assert_eq!(a[..common], b[..common], "device {number}");
        differ |= rig.values(&format!("c{number}")).await[..10] != a[..10];
    }
    assert!(differ, "another seed, other reports");
}

#[tokio::test]
async fn every_quality_of_service_and_version_of_mqtt_is_spoken() {
    let rig = Rig::start().await;
    for (qos, version, acknowledged) in [(0, "5", 0), (1, "3.1.1", 100), (2, "5", 100), (2, "3.1.1", 100)] {
        let flags = format!(
            "--devices 4 --rate 1000 --reports 100 --qos {qos} --mqtt-version {version} --connection-per-device --json"
        );
        let account = account(&ended(rig.over_mqtt(&flags).await).await, 0);
        let counted = (number(&account, "/sent"), number(&account, "/acknowledged"));
        assert_eq!(counted, (100, acknowledged), "{qos} {version}: {account}");
    }
}

#[tokio::test]
async fn refused_reports_are_a_failure_with_the_reason() {
    let rig = Rig::start().await;
    let flags = "--devices 4 --rate 1000 --reports 20 --no-register --json";
    for command in [rig.over_mqtt(flags).await, rig.over_http(flags).await] {
        let account = account(&ended(command).await, 1);
        assert_eq!(number(&account, "/refused_by_reason/unknown_device"), 20, "{account}");
        assert_eq!(account["faults"].as_array().map(Vec::len), Some(2), "{account}");
    }
}

#[tokio::test]
async fn people_are_told_progress_and_an_account() {
    let rig = Rig::start().await;
    let output = ended(rig.over_http("--devices 4 --rate 1000 --reports 100 --seed 3").await).await;
    let (told, shown) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{shown}");
    for part in ["acknowledged 100", "p99.9", "seed            3", "Everything was answered as it should be."]
    {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    assert!(shown.contains("4 registered") && shown.contains("seed 3"), "{shown}");
}

#[tokio::test]
async fn an_interrupted_run_tells_what_it_has() {
    let rig = Rig::start().await;
    let running =
        rig.over_mqtt("--devices 4 --rate 200 --duration 1h --json").await.spawn().expect("started");
    let reported = |list: &Value| list["items"].as_array().is_some_and(|items| items.len() >= 4);
    let events = rig.api.until("/v1/events", PATIENCE, reported).await;
    let _: Value = events.expect("the first report of each device is an event");
    let id = running.id().expect("it runs").to_string();
    let asked = Command::new("kill").args(["-INT", &id]).status().await.expect("kill is there");
    assert!(asked.success());
    let output =
        tokio::time::timeout(PATIENCE, running.wait_with_output()).await.expect("it ends").expect("ended");
    let account = account(&output, 0);
    assert_eq!((account["interrupted"].as_bool(), number(&account, "/unanswered")), (Some(true), 0));
    assert!(number(&account, "/acknowledged") >= 4);
}

#[tokio::test]
async fn a_fleet_that_cannot_be_registered_does_not_report() {
    let rig = Rig::start().await;
    let output = ended(rig.over_mqtt("--id-prefix longerThanAnyIdMayBe").await).await;
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("no device was registered") && shown.contains("invalid_id"), "{shown}");
}

#[tokio::test]
async fn devices_are_told_and_their_answers_are_accounted_for() {
    let rig = Rig::start_with(&[("FIELDPOST_COMMANDS__ACK_TIMEOUT", "300ms")]).await;
    let flags = "--devices 8 --id-prefix c --kind gate --rate 100 --duration 2s --seed 7 --commands-per-second 100 \
                 --answer-after 5ms --refuse 0.2 --answer-twice 0.2 --silent 0.05 --patience 50s --json";
    let output = ended(rig.over_mqtt(flags).await).await;
    let account = account(&output, 0);
    let commands = &account["commands"];
    let count = |what: &str| commands[what].as_u64().unwrap_or_default();
    let sent = count("sent");
    // What was to be sent in a stall at the end of the run is not sent.
    assert!(sent >= 20 && count("not_accepted") == 0, "{commands}");
    assert_eq!((count("received"), count("unreceived")), (sent, 0), "{commands}");
    let outcome = |status: &str| commands["outcomes"][status].as_u64().unwrap_or_default();
    assert_eq!(outcome("acknowledged") + outcome("failed"), sent, "{commands}");
    assert!(outcome("failed") >= sent / 10, "{commands}");
    // Of a few commands none may have met with silence.
    assert!(sent < 150 || count("received_again") > 0, "{commands}");
    let received = &commands["latency_ms"]["accepted_to_received"];
    assert!(received["p99"].as_f64().is_some(), "{commands}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_at_once() {
    // Nobody else is given the port of a socket that is bound, and never listens.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    let closed = socket.local_addr().expect("it is bound");
    for flags in [
        format!("--url mqtt://{closed} --no-register"),
        format!("--url http://{closed}"),
        format!("--url amqp://{closed} --no-register"),
    ] {
        let output = ended(simulate(&flags)).await;
        let shown = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{shown}");
        assert!(shown.contains(&closed.to_string()) && shown.contains("running"), "{shown}");
    }
}

#[tokio::test]
async fn flags_that_do_not_go_together_are_told() {
    let output = ended(simulate("--via http --qos 2")).await;
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("--qos"), "{shown}");
}
