//! What is taken from a queue, and what is not; and how the broker is reached.

use std::process::Stdio;

use lapin::options::{BasicGetOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::rig::{PATIENCE, Rig, STOP_MAX, confirming, eventually, publish_all, report};
use crate::rabbitmq::{self, url_at, waiting_in};

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
    let (log, peer) = (rig.site.log(), format!("peer={}", rabbitmq.broker.address()));
    let has_line = |parts: &[&str]| log.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    for code in CODES {
        let code = format!("code=\"{code}\"");
        let parts = ["refused a report", "way=\"amqp\"", "topic=\"bad\"", &code, &peer];
        assert!(has_line(&parts), "{parts:?}: {log}");
    }
    assert!(has_line(&["refused a report", "device=\"0xF\"", "code=\"unknown_device\""]), "{log}");
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
    let said = distrusting.log_with("nothing is taken from RabbitMQ").await;
    assert!(!said.contains("guest"), "{said}");
}

/// A password that RabbitMQ does not know is told as that, and not shown.
#[tokio::test]
async fn a_wrong_password_is_told_with_what_to_do() {
    let rabbitmq = rabbitmq::in_use().await;
    let url = url_at(rabbitmq.broker.address()).replace(":guest@", ":s3cret@");
    let rig = Rig::start_with_url(&url, "refused", &[]).await;
    rig.figure_reaches("fieldpost_amqp_connects_total{result=\"refused\"}", 1.0).await;
    let said = rig.log_with("look at user and password in amqp.url").await;
    assert!(!said.contains("s3cret"), "{said}");
}
