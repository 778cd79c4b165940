//! Reports through a real RabbitMQ, published with lapin and with Python's pika, taken by the built
//! program.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Channel, Confirmation};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use simulator::api_client::Api;
use simulator::server::{Server, Site};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};

use crate::rabbitmq::proxy::Proxy;
use crate::rabbitmq::{self, RabbitMq, url_at, waiting_in};

/// Nothing here takes longer, even on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that has no signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A server that is stopped has answered by then.
const STOP_MAX: Duration = Duration::from_secs(20);
const METERS: [&str; 4] = ["m1", "m2", "m3", "m4"];

/// A server that consumes a queue of its own.
struct Rig {
    api: Api,
    site: Site,
    server: Option<Server>,
}

impl Rig {
    /// With a lock and four meters.
    async fn start(broker: SocketAddr, queue: &str, settings: &[(&str, &str)]) -> Self {
        Self::start_with_url(&url_at(broker), queue, settings).await
    }

    async fn start_with_url(url: &str, queue: &str, settings: &[(&str, &str)]) -> Self {
        let amqp = [("FIELDPOST_AMQP__URL", url), ("FIELDPOST_AMQP__QUEUE", queue)];
        let settings = [&amqp, settings].concat();
        let site = Site::new(Path::new(env!("CARGO_BIN_EXE_fieldpost")), &settings).expect("a directory");
        let server = Some(site.start(PATIENCE).await.expect("a server"));
        let api = Api::new(site.http.clone(), PATIENCE);
        let rig = Self { api, site, server };
        rig.register("0xA", &json!({"kind": "lock"})).await;
        for meter in METERS {
            rig.register(meter, &json!({"kind": "meter"})).await;
        }
        rig
    }

    async fn register(&self, id: &str, fields: &Value) {
        let mut device = fields.clone();
        device["id"] = id.into();
        let _: Value = self.api.post("/v1/devices", &device).await.expect("registered");
    }

    async fn crash(&mut self) {
        self.server.take().expect("it runs").kill().await.expect("killed");
        self.server = Some(self.site.start(PATIENCE).await.expect("a server"));
    }

    /// A device's readings, oldest first.
    async fn readings(&self, device: &str) -> Vec<Value> {
        let path = format!("/v1/devices/{device}/readings?order=asc");
        let readings: Vec<Value> = self.api.list(&path).await.expect("a list");
        readings.into_iter().map(|reading| reading["data"].clone()).collect()
    }

    /// Waits until the device has at least so many readings.
    async fn has_readings(&self, device: &str, readings: usize) -> Vec<Value> {
        eventually("the readings come", async || {
            let all = self.readings(device).await;
            (all.len() >= readings).then_some(all)
        })
        .await
    }

    /// A figure as `/metrics` shows it.
    async fn figure(&self, name: &str) -> f64 {
        let metrics = self.api.any(hyper::Method::GET, "/metrics", None).await.expect("metrics");
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().expect("a number"))
    }

    async fn figure_is(&self, name: &str, expect: f64) {
        eventually(name, async || (self.figure(name).await == expect).then_some(())).await;
    }

    /// For what goes on growing.
    async fn figure_reaches(&self, name: &str, least: f64) {
        eventually(name, async || (self.figure(name).await >= least).then_some(())).await;
    }

    /// The types of a device's events, oldest first.
    async fn events(&self, device: &str) -> Vec<String> {
        let events: Vec<Value> =
            self.api.list(&format!("/v1/events?device={device}&order=asc")).await.expect("a list");
        events.iter().map(|event| event["type"].as_str().expect("a type").to_owned()).collect()
    }

    async fn has_event(&self, device: &str, event: &str) {
        eventually(event, async || {
            self.events(device).await.iter().any(|known| known == event).then_some(())
        })
        .await;
    }
}

/// Asks at intervals until there is an answer.
async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let asking = async {
        let mut again = interval(LOOK_EVERY);
        loop {
            again.tick().await;
            if let Some(answer) = ask().await {
                return answer;
            }
        }
    };
    timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

fn report(device: &str, data: impl Into<Value>) -> String {
    json!({"sensor_id": device, "data": data.into()}).to_string()
}

/// A channel with publisher confirms.
async fn confirming(broker: &RabbitMq) -> Channel {
    let channel = broker.channel().await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    channel
}

/// Publishes; whether the broker confirmed that it is in the queue.
async fn publish(channel: &Channel, queue: &str, body: &str) -> lapin::Result<bool> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let sent = channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), persistent).await?;
    Ok(matches!(sent.await?, Confirmation::Ack(None)))
}

async fn publish_all(channel: &Channel, queue: &str, bodies: impl IntoIterator<Item = String>) {
    for body in bodies {
        assert!(publish(channel, queue, &body).await.expect("the broker is there"), "{body} is in no queue");
    }
}

/// Publishes with pika and waits for every confirm.
async fn publish_with_pika(url: &str, queue: &str, messages: &Value) {
    // Debian's modules belong to Debian's Python, whichever comes first on PATH.
    let mut child = Command::new("/usr/bin/python3")
        .args([concat!(env!("CARGO_MANIFEST_DIR"), "/tests/black_box/pika_publisher.py"), url, queue])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("scripts/setup test installs Python and pika");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(messages.to_string().as_bytes()).await.expect("it reads its input");
    drop(input);
    let output =
        timeout(PATIENCE, child.wait_with_output()).await.expect("in time").expect("it can be awaited");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let confirmed: usize = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(confirmed, messages.as_array().expect("a list").len());
}

/// Publishes one number after the other to each meter in turn, every one until it is confirmed,
/// over as many connections as that takes.
struct Stubborn {
    confirmed: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Stubborn {
    fn start(broker: &'static RabbitMq, queue: &'static str, numbers: usize) -> Self {
        let (progress, confirmed) = watch::channel(0);
        let task = tokio::spawn(async move {
            let mut channel = confirming(broker).await;
            for number in 0..numbers {
                let body = report(METERS[number % METERS.len()], number);
                while !matches!(publish(&channel, queue, &body).await, Ok(true)) {
                    channel = confirming(broker).await;
                }
                progress.send_replace(number + 1);
            }
        });
        Self { confirmed, task }
    }

    async fn has_confirmed(&mut self, numbers: usize) {
        let enough = timeout(PATIENCE, self.confirmed.wait_for(|confirmed| *confirmed >= numbers)).await;
        enough.expect("in time").expect("it publishes");
    }

    async fn ends(self) {
        timeout(PATIENCE, self.task).await.expect("in time").expect("no panic");
    }
}

/// Every number is in the history of its meter, each for the first time after the one before.
async fn check_history(rig: &Rig, numbers: usize) {
    for (place, meter) in METERS.into_iter().enumerate() {
        let numbers = (0..numbers as u64).filter(|number| *number as usize % METERS.len() == place);
        let expect: Vec<u64> = numbers.collect();
        let newest = format!("/v1/devices/{meter}/readings?limit=1");
        let is_last = |list: &Value| list["items"][0]["data"].as_u64() == expect.last().copied();
        rig.api.until(&newest, PATIENCE, is_last).await.expect("the last number comes");
        let readings = rig.readings(meter).await;
        let mut seen = Vec::new();
        for reading in readings {
            let number = reading.as_u64().expect("a number");
            // Without ids, what was not acknowledged in time comes twice.
            if !seen.contains(&number) {
                seen.push(number);
            }
        }
        assert_eq!(seen, expect, "{meter}");
    }
}

#[tokio::test]
async fn an_id_may_have_the_characters_that_the_setting_says() {
    let rabbitmq = rabbitmq::in_use().await;
    let extended = ("FIELDPOST_DEVICES__ID_CHARS", "extended");
    let rig = Rig::start(rabbitmq.broker.address(), "extended-ids", &[extended]).await;
    rig.register("SN_7.4-b:1", &json!({"kind": "meter"})).await;
    rig.figure_is("fieldpost_amqp_connected", 1.0).await;
    let channel = confirming(rabbitmq.broker).await;
    publish_all(&channel, "extended-ids", [report("SN_7.4-b:1", 7)]).await;
    assert_eq!(rig.has_readings("SN_7.4-b:1", 1).await, [json!(7)]);
}

#[tokio::test]
async fn what_pika_published_is_in_the_history_and_acknowledged() {
    let rabbitmq = rabbitmq::in_use().await;
    let rig = Rig::start(rabbitmq.broker.address(), "pika", &[]).await;
    rig.figure_is("fieldpost_amqp_connected", 1.0).await;
    let mut messages: Vec<Value> = (0..300).map(|at| json!([report("0xA", at % 2), null])).collect();
    messages.push(json!([
        r#"{"device_id":"m1","data":{"b":1,"a":[1.0]},"ts":"2026-01-01T00:00:00Z","id":"r-1"}"#,
        null
    ]));
    messages.push(json!([report("m1", "again"), "r-1"]));
    messages.push(json!([report("m1", "once"), "r-2"]));
    publish_with_pika(&url_at(rabbitmq.broker.address()), "pika", &json!(messages)).await;
    let turns: Vec<Value> = (0..300).map(|at| json!(at % 2)).collect();
    assert_eq!(rig.has_readings("0xA", 300).await, turns);
    assert_eq!(rig.has_readings("m1", 2).await, [json!({"a": [1], "b": 1}), json!("once")]);
    rig.figure_is("fieldpost_amqp_acknowledged_messages_total", 303.0).await;
    rig.figure_is("fieldpost_amqp_unacknowledged_messages", 0.0).await;
    let server = rig.server.expect("it runs");
    assert!(server.stop(STOP_MAX).await.expect("stopped").success());
    let channel = rabbitmq.broker.channel().await;
    assert_eq!(waiting_in(&channel, "pika").await, Some(0));
}

/// The queue is there before the server, neither durable nor without arguments.
#[tokio::test]
async fn a_queue_is_taken_as_it_is_and_what_is_bad_reaches_its_dead_letter_exchange() {
    const CODES: [&str; 6] = [
        "unreadable",
        "not_an_object",
        "missing_field",
        "unknown_device",
        "value_not_allowed",
        "message_too_large",
    ];
    let rabbitmq = rabbitmq::in_use().await;
    let channel = confirming(rabbitmq.broker).await;
    let mut arguments = FieldTable::default();
    let text = |text: &str| AMQPValue::LongString(LongString::from(text));
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text("bad-dead"));
    for (queue, arguments) in [("bad", arguments), ("bad-dead", FieldTable::default())] {
        channel.queue_declare(queue.into(), QueueDeclareOptions::default(), arguments).await.expect("made");
    }
    let rig = Rig::start(rabbitmq.broker.address(), "bad", &[]).await;
    let too_large = report("m1", "x".repeat(70_000));
    let bad = ["not json", "[]", r#"{"data":1}"#, &report("0xF", 1), &report("0xA", 2), &too_large];
    let good = |value: u32| report("0xA", value);
    let bodies =
        [&[good(1)], &bad.map(str::to_owned)[..4], &[good(0)], &bad.map(str::to_owned)[4..], &[good(1)]];
    publish_all(&channel, "bad", bodies.concat()).await;
    assert_eq!(rig.has_readings("0xA", 3).await, [json!(1), json!(0), json!(1)]);
    for expect in bad {
        let message = eventually("a dead letter comes", async || {
            let options = BasicGetOptions { no_ack: true };
            channel.basic_get("bad-dead".into(), options).await.expect("the queue is there")
        })
        .await;
        assert_eq!(String::from_utf8_lossy(&message.data), expect);
    }
    let kept: Vec<Value> = rig.api.list("/v1/quarantine").await.expect("a list");
    assert_eq!(kept.len(), bad.len());
    for (code, body) in CODES.into_iter().zip(bad) {
        let report = kept.iter().find(|report| report["code"] == code).expect(code);
        assert_eq!(report["source"], "amqp");
        let payload = report["payload"].as_str().expect("text");
        // One that is too large is cut.
        assert!(payload == body || code == "message_too_large" && body.starts_with(payload), "{payload}");
    }
    rig.figure_is("fieldpost_amqp_rejected_messages_total", 6.0).await;
    rig.figure_is("fieldpost_amqp_acknowledged_messages_total", 3.0).await;
    for code in CODES {
        rig.figure_is(&format!("fieldpost_amqp_reports_total{{result=\"{code}\"}}"), 1.0).await;
    }
    assert_eq!(rig.figure("fieldpost_amqp_connects_total{result=\"accepted\"}").await, 1.0);
}

#[tokio::test]
async fn a_queue_that_is_deleted_is_made_again_and_outlives_the_broker() {
    let rabbitmq = rabbitmq::in_use().await;
    let rig = Rig::start(rabbitmq.broker.address(), "deleted", &[]).await;
    rig.figure_is("fieldpost_amqp_attended", 1.0).await;
    let channel = confirming(rabbitmq.broker).await;
    channel.queue_delete("deleted".into(), QueueDeleteOptions::default()).await.expect("deleted");
    rig.figure_reaches("fieldpost_amqp_connects_total{result=\"accepted\"}", 2.0).await;
    publish_all(&channel, "deleted", [report("0xA", 1)]).await;
    assert_eq!(rig.has_readings("0xA", 1).await, [json!(1)]);
    // Refused if it were not durable.
    let declared =
        channel.queue_declare("deleted".into(), QueueDeclareOptions::durable(), FieldTable::default()).await;
    assert_eq!(declared.expect("durable").consumer_count(), 1);
}

#[tokio::test]
async fn over_tls_a_broker_has_to_be_trusted() {
    let rabbitmq = rabbitmq::in_use().await;
    let (url, certificate) = (rabbitmq.broker.tls_url(), rabbitmq.broker.certificate());
    let trusting = [("SSL_CERT_FILE", certificate.to_str().expect("UTF-8"))];
    let rig = Rig::start_with_url(&url, "tls", &trusting).await;
    rig.figure_is("fieldpost_amqp_attended", 1.0).await;
    publish_all(&confirming(rabbitmq.broker).await, "tls", [report("0xA", 1)]).await;
    assert_eq!(rig.has_readings("0xA", 1).await, [json!(1)]);
    let distrusting = Rig::start_with_url(&url, "tls", &[]).await;
    distrusting.figure_reaches("fieldpost_amqp_connects_total{result=\"broken\"}", 1.0).await;
    let said = distrusting.site.log_tail();
    assert!(said.contains("nothing is taken from RabbitMQ") && !said.contains("guest"), "{said}");
}

/// A password that RabbitMQ does not know is told as that, and not shown.
#[tokio::test]
async fn a_wrong_password_is_told_with_what_to_do() {
    let rabbitmq = rabbitmq::in_use().await;
    let url = url_at(rabbitmq.broker.address()).replace(":guest@", ":s3cret@");
    let rig = Rig::start_with_url(&url, "refused", &[]).await;
    rig.figure_reaches("fieldpost_amqp_connects_total{result=\"refused\"}", 1.0).await;
    let said = rig.site.log_tail();
    assert!(said.contains("look at user and password in amqp.url") && !said.contains("s3cret"), "{said}");
}

#[tokio::test]
async fn nothing_is_lost_when_connections_break() {
    const NUMBERS: usize = 1_500;
    let rabbitmq = rabbitmq::in_use().await;
    let wire = Proxy::start(rabbitmq.broker.address(), true).await;
    let rig = Rig::start(wire.address, "broken", &[]).await;
    rig.figure_is("fieldpost_amqp_connected", 1.0).await;
    let mut publisher = Stubborn::start(rabbitmq.broker, "broken", NUMBERS);
    for cuts in 1..4 {
        publisher.has_confirmed(cuts * NUMBERS / 4).await;
        wire.cut();
        rig.figure_is("fieldpost_amqp_connected", 0.0).await;
        wire.mend();
    }
    publisher.ends().await;
    check_history(&rig, NUMBERS).await;
    assert!(rig.figure("fieldpost_amqp_disconnects_total{reason=\"broken\"}").await >= 1.0);
}

/// Acknowledgements that come too late make RabbitMQ close the channel, and give all that it
/// carried to the next one.
#[tokio::test]
async fn nothing_is_lost_when_rabbitmq_closes_the_channel() {
    const NUMBERS: usize = 600;
    let rabbitmq = rabbitmq::owned().await;
    let wire = Proxy::start(rabbitmq.broker.address(), true).await;
    rabbitmq.impatient();
    let rig = Rig::start(wire.address, "closed", &[]).await;
    rig.figure_is("fieldpost_amqp_connected", 1.0).await;
    wire.hold();
    let publisher = Stubborn::start(rabbitmq.broker, "closed", NUMBERS);
    rig.figure_is("fieldpost_amqp_connected", 0.0).await;
    wire.release();
    rig.figure_is("fieldpost_amqp_connected", 1.0).await;
    publisher.ends().await;
    check_history(&rig, NUMBERS).await;
    rabbitmq.patient();
    let said = rig.site.log_tail();
    assert!(said.contains("PRECONDITION_FAILED"), "{said}");
}

#[tokio::test]
async fn nothing_is_lost_when_the_server_is_killed() {
    const NUMBERS: usize = 1_500;
    let rabbitmq = rabbitmq::in_use().await;
    let mut rig = Rig::start(rabbitmq.broker.address(), "killed", &[]).await;
    rig.figure_is("fieldpost_amqp_connected", 1.0).await;
    let mut publisher = Stubborn::start(rabbitmq.broker, "killed", NUMBERS);
    for kills in 1..3 {
        publisher.has_confirmed(kills * NUMBERS / 3).await;
        rig.crash().await;
    }
    publisher.ends().await;
    check_history(&rig, NUMBERS).await;
}

#[tokio::test]
async fn nothing_is_lost_when_rabbitmq_is_killed() {
    const NUMBERS: usize = 1_500;
    let rabbitmq = rabbitmq::owned().await;
    let rig = Rig::start(rabbitmq.broker.address(), "crashed", &[]).await;
    rig.figure_is("fieldpost_amqp_connected", 1.0).await;
    let mut publisher = Stubborn::start(rabbitmq.broker, "crashed", NUMBERS);
    publisher.has_confirmed(NUMBERS / 2).await;
    rabbitmq.kill();
    rig.figure_is("fieldpost_amqp_connected", 0.0).await;
    rabbitmq.start();
    publisher.ends().await;
    check_history(&rig, NUMBERS).await;
}

/// Stopped in the middle, nothing that was taken is sent again: what is in the history and what is
/// in the queue is all there is.
#[tokio::test]
async fn asked_to_stop_it_acknowledges_what_it_took() {
    const NUMBERS: usize = 3_000;
    let rabbitmq = rabbitmq::in_use().await;
    let channel = confirming(rabbitmq.broker).await;
    channel
        .queue_declare("stopped".into(), QueueDeclareOptions::durable(), FieldTable::default())
        .await
        .expect("made");
    let mut rig =
        Rig::start(rabbitmq.broker.address(), "stopped", &[("FIELDPOST_AMQP__PREFETCH", "20")]).await;
    rig.figure_is("fieldpost_amqp_connected", 1.0).await;
    let mut publisher = Stubborn::start(rabbitmq.broker, "stopped", NUMBERS);
    publisher.has_confirmed(NUMBERS / 3).await;
    // Without a process that does it: meanwhile the rest would be published, and taken.
    let server = rig.server.take().expect("it runs");
    let id = server.process_id().and_then(|id| Pid::from_raw(id as i32)).expect("it runs");
    kill_process(id, Signal::TERM).expect("it is there");
    assert!(server.ended(STOP_MAX).await.expect("stopped").success());
    publisher.ends().await;
    let waiting = waiting_in(&channel, "stopped").await.expect("it is there") as usize;
    assert!(0 < waiting && waiting < NUMBERS, "{waiting}");
    rig.server = Some(rig.site.start(PATIENCE).await.expect("a server"));
    check_history(&rig, NUMBERS).await;
    let mut readings = 0;
    for meter in METERS {
        readings += rig.readings(meter).await.len();
    }
    assert_eq!(readings, NUMBERS);
}

/// A server starts without RabbitMQ. Its devices are not lost for what lies unread in a queue, and
/// are once they are heard to be silent.
#[tokio::test]
async fn silence_is_not_counted_while_the_queue_is_not_read() {
    let rabbitmq = rabbitmq::in_use().await;
    let channel = confirming(rabbitmq.broker).await;
    channel
        .queue_declare("silence".into(), QueueDeclareOptions::durable(), FieldTable::default())
        .await
        .expect("made");
    let wire = Proxy::start(rabbitmq.broker.address(), false).await;
    let rig = Rig::start(wire.address, "silence", &[("FIELDPOST_DEVICES__RESTART_GRACE", "0s")]).await;
    let ready = rig.api.any(hyper::Method::GET, "/readyz", None).await.expect("an answer");
    assert!(ready.status.is_success());
    // One that will be heard over AMQP, one over HTTP, and one that will not be heard at all.
    let devices = ["overAmqp", "overHttp", "never"];
    for id in devices {
        rig.register(id, &json!({"kind": "meter", "report_interval": "1h"})).await;
    }
    // What is not acknowledged at the cut is sent again: by its id it is no other reading.
    let told =
        |data: u32| json!({"device_id": "overAmqp", "data": data, "id": format!("r-{data}")}).to_string();
    wire.mend();
    publish_all(&channel, "silence", [told(1)]).await;
    rig.has_event("overAmqp", "device.changed").await;
    wire.cut();
    rig.figure_is("fieldpost_amqp_attended", 0.0).await;
    rig.figure_is("fieldpost_amqp_connected", 0.0).await;
    // From now on a second of silence is too long, where silence counts.
    for id in devices {
        let change = json!({"report_interval": "1s"});
        rig.api.patch(&format!("/v1/devices/{id}"), &change).await.expect("changed");
    }
    let _: Value =
        rig.api.post("/v1/reports", &json!({"device_id": "overHttp", "data": 1})).await.expect("accepted");
    rig.has_event("overHttp", "device.lost").await;
    publish_all(&channel, "silence", [told(2)]).await;
    assert_eq!(rig.events("overAmqp").await, ["device.changed"]);
    wire.mend();
    rig.has_event("overAmqp", "device.lost").await;
    rig.has_event("never", "device.lost").await;
    assert_eq!(rig.has_readings("overAmqp", 2).await, [json!(1), json!(2)]);
    // What lay in the queue was heard before silence counted.
    let events = rig.events("overAmqp").await;
    assert_eq!(events[..3], ["device.changed", "device.changed", "device.lost"]);
}
