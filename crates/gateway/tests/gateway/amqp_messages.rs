//! When the consumer settles what, and when it says that it is listening, against a broker that is
//! played.

use std::num::NonZeroU16;
use std::time::Duration;

use gateway::amqp::{AmqpConsumer, AmqpLimits, AmqpQueueName, AmqpSource, AmqpUrl};
use prometheus_client::registry::Registry;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::PATIENCE;
use crate::amqp_broker::{Broker, ConsumerAction, Link};
use crate::rig::{LOCKS, Rig};

/// Empty, and consumed by us alone.
const EMPTY: (u32, u32) = (0, 1);

struct Consumer {
    rig: Rig,
    broker: Broker,
    registry: Registry,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Consumer {
    async fn start() -> Self {
        Self::hanging_up_after(AmqpLimits::default().connect_timeout).await
    }

    /// One that waits so long for a broker to let it consume.
    async fn hanging_up_after(connect_timeout: Duration) -> Self {
        let (rig, broker) = (Rig::start().await, Broker::listen().await);
        let source = AmqpSource {
            url: AmqpUrl::parse(&broker.url()).expect("a URL"),
            queue: AmqpQueueName::new("q").expect("a name"),
            prefetch: NonZeroU16::MAX,
        };
        let shorter = AmqpLimits {
            connect_timeout,
            look_every: Duration::from_millis(5),
            retry_first: Duration::from_millis(5),
            ..AmqpLimits::default()
        };
        let consumer = AmqpConsumer::new(rig.engine.clone(), source, shorter);
        let mut registry = Registry::default();
        consumer.register_metrics(&mut registry);
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(consumer.run(stopping));
        Self { rig, broker, registry, stop, task }
    }

    fn figure(&self, name: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("text");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a number"))
    }

    async fn ends(self) {
        timeout(PATIENCE, self.task).await.expect("in time").expect("no panic");
    }
}

fn report(device: &str, data: u8) -> String {
    format!(r#"{{"sensor_id":"{device}","data":{data}}}"#)
}

/// Looks until the figure is as expected.
async fn becomes_attended(consumer: &Consumer, link: &mut Link) {
    while consumer.figure("fieldpost_amqp_attended") == 0 {
        assert_eq!(link.next().await, ConsumerAction::Looked);
    }
}

#[tokio::test]
async fn nothing_is_acknowledged_before_it_is_durable() {
    let consumer = Consumer::start().await;
    let mut link = consumer.broker.consumer(EMPTY).await;
    consumer.rig.store.hold();
    for value in [1, 0, 1] {
        link.deliver(&report(LOCKS[0], value)).await;
    }
    consumer.rig.store.holds(1).await;
    link.hears_only_looks().await;
    consumer.rig.store.release();
    while link.next_but_looks().await != ConsumerAction::Acknowledged(3) {}
    assert_eq!(consumer.rig.readings(LOCKS[0]), ["1", "0", "1"]);
}

#[tokio::test]
async fn a_later_message_that_is_durable_waits_for_an_earlier_one() {
    let consumer = Consumer::start().await;
    let mut link = consumer.broker.consumer(EMPTY).await;
    consumer.rig.store.hold();
    link.deliver(&report(LOCKS[0], 1)).await;
    consumer.rig.store.holds(1).await;
    link.deliver(&report(LOCKS[1], 1)).await;
    consumer.rig.store.holds(2).await;
    consumer.rig.store.release_last();
    link.hears_only_looks().await;
    consumer.rig.store.release();
    while link.next_but_looks().await != ConsumerAction::Acknowledged(2) {}
    assert_eq!(consumer.figure("fieldpost_amqp_acknowledged_messages_total"), 2);
}

#[tokio::test]
async fn what_is_refused_is_rejected_in_its_turn() {
    let consumer = Consumer::start().await;
    let mut link = consumer.broker.consumer(EMPTY).await;
    let bodies = [report(LOCKS[0], 1), "no report".into(), report(LOCKS[0], 2), report(LOCKS[1], 1)];
    for body in bodies {
        link.deliver(&body).await;
    }
    assert_eq!(link.next_but_looks().await, ConsumerAction::Acknowledged(1));
    let mut rejected = link.next_but_looks().await;
    if rejected == ConsumerAction::Rejected(2) {
        rejected = link.next_but_looks().await;
    }
    assert_eq!(rejected, ConsumerAction::Rejected(3));
    assert_eq!(link.next_but_looks().await, ConsumerAction::Acknowledged(4));
    assert_eq!(consumer.figure("fieldpost_amqp_rejected_messages_total"), 2);
}

#[tokio::test]
async fn a_store_that_fails_leaves_everything_to_the_broker() {
    let consumer = Consumer::start().await;
    let mut link = consumer.broker.consumer(EMPTY).await;
    consumer.rig.store.fail();
    link.deliver(&report(LOCKS[0], 1)).await;
    assert_eq!(link.next_but_looks().await, ConsumerAction::ClosedChannel);
    assert_eq!(link.next_but_looks().await, ConsumerAction::Closed);
    assert_eq!(consumer.figure("fieldpost_amqp_acknowledged_messages_total"), 0);
    consumer.stop.send_replace(true);
    consumer.ends().await;
}

#[tokio::test]
async fn a_stop_takes_nothing_more_and_finishes_what_was_taken() {
    let consumer = Consumer::start().await;
    let mut link = consumer.broker.consumer(EMPTY).await;
    consumer.rig.store.hold();
    link.deliver(&report(LOCKS[0], 1)).await;
    consumer.rig.store.holds(1).await;
    consumer.stop.send_replace(true);
    assert_eq!(link.next_but_looks().await, ConsumerAction::Cancelled);
    consumer.rig.store.release();
    for expect in [ConsumerAction::Acknowledged(1), ConsumerAction::ClosedChannel, ConsumerAction::Closed] {
        assert_eq!(link.next().await, expect);
    }
    consumer.ends().await;
}

#[tokio::test]
async fn a_broker_that_says_nothing_is_hung_up_on_and_called_again() {
    // Long enough for the second call on a machine that is busy.
    let consumer = Consumer::hanging_up_after(Duration::from_secs(5)).await;
    let mut silent = consumer.broker.accept().await;
    let mut heard = Vec::new();
    let hung_up = timeout(PATIENCE, silent.read_to_end(&mut heard)).await.expect("in time");
    hung_up.expect("an end");
    assert_eq!(heard, b"AMQP\0\0\x09\x01");
    let mut link = consumer.broker.consumer(EMPTY).await;
    becomes_attended(&consumer, &mut link).await;
    assert_eq!(consumer.figure("fieldpost_amqp_connects_total{result=\"timed_out\"}"), 1);
}

#[tokio::test]
async fn a_backlog_or_another_consumer_keeps_the_way_in_unattended() {
    let consumer = Consumer::start().await;
    let mut link = consumer.broker.consumer((5, 1)).await;
    link.hears_only_looks().await;
    link.queue = (0, 2);
    link.hears_only_looks().await;
    assert_eq!(consumer.figure("fieldpost_amqp_attended"), 0);
    link.queue = EMPTY;
    becomes_attended(&consumer, &mut link).await;
    assert_eq!(consumer.figure("fieldpost_amqp_queue_consumers"), 1);
}

#[tokio::test]
async fn a_lost_connection_is_unattended_and_made_again() {
    let consumer = Consumer::start().await;
    let mut link = consumer.broker.consumer(EMPTY).await;
    becomes_attended(&consumer, &mut link).await;
    drop(link);
    let mut link = consumer.broker.consumer((3, 1)).await;
    link.hears_only_looks().await;
    assert_eq!(consumer.figure("fieldpost_amqp_attended"), 0);
    assert_eq!(consumer.figure("fieldpost_amqp_connects_total{result=\"accepted\"}"), 2);
}
