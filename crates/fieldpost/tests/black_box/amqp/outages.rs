//! Connections break, and servers and brokers are killed or stopped: nothing is lost, and nobody is
//! told as lost for what lies unread.

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::rig::{METERS, PATIENCE, Rig, STOP_MAX, confirming, publish, publish_all, report};
use crate::rabbitmq::proxy::Proxy;
use crate::rabbitmq::{self, RabbitMq, waiting_in};

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
    rabbitmq.patient();
    wire.release();
    rig.figure_is("fieldpost_amqp_connected", 1.0).await;
    publisher.ends().await;
    check_history(&rig, NUMBERS).await;
    let said = rig.site.log();
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
    rabbitmq.broker.connect().await;
    publisher.ends().await;
    check_history(&rig, NUMBERS).await;
}

/// A server that was asked to stop while so many numbers came, and was started again. They are all
/// in its history.
async fn stopped_in_the_middle(broker: &'static RabbitMq, queue: &'static str, numbers: usize) -> Rig {
    let channel = confirming(broker).await;
    channel
        .queue_declare(queue.into(), QueueDeclareOptions::durable(), FieldTable::default())
        .await
        .expect("made");
    let mut rig = Rig::start(broker.address(), queue, &[("FIELDPOST_AMQP__PREFETCH", "20")]).await;
    rig.figure_is("fieldpost_amqp_connected", 1.0).await;
    let mut publisher = Stubborn::start(broker, queue, numbers);
    publisher.has_confirmed(numbers / 3).await;
    // Without a process that does it: meanwhile the rest would be published, and taken.
    let server = rig.server.take().expect("it runs");
    let id = server.process_id().and_then(|id| Pid::from_raw(id as i32)).expect("it runs");
    kill_process(id, Signal::TERM).expect("it is there");
    assert!(server.ended(STOP_MAX).await.expect("stopped").success());
    publisher.ends().await;
    let waiting = waiting_in(&channel, queue).await.expect("it is there") as usize;
    assert!(0 < waiting && waiting < numbers, "{waiting}");
    rig.server = Some(rig.site.start(PATIENCE).await.expect("a server"));
    check_history(&rig, numbers).await;
    rig
}

/// After a stop in the middle nothing that was taken is sent again: the history and the queue
/// together are all there is.
#[tokio::test]
async fn asked_to_stop_it_acknowledges_what_it_took() {
    const NUMBERS: usize = 3_000;
    let rabbitmq = rabbitmq::in_use().await;
    for queue in ["stopped", "stopped-again", "stopped-once-more"] {
        let rig = stopped_in_the_middle(rabbitmq.broker, queue, NUMBERS).await;
        // A stop that takes too long is given up, and proves nothing.
        if rig.site.log().contains("RabbitMQ did not let go in time") {
            eprintln!("the stop with the queue {queue} was given up");
            continue;
        }
        let mut readings = 0;
        for meter in METERS {
            readings += rig.readings(meter).await.len();
        }
        assert_eq!(readings, NUMBERS);
        return;
    }
    panic!("each stop was given up");
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
