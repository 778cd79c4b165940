//! The AMQP consumer as the settings want it. It is not waited for: a server starts without its
//! RabbitMQ and goes on looking for it.

use engine::Engine;
use gateway::amqp::{AmqpConsumer, AmqpLimits, AmqpSource};
use prometheus_client::registry::Registry;

use crate::config;

/// The consumer, if there is a queue to consume; its metrics go into `metrics`.
pub(super) fn consumer(
    settings: &config::AmqpSettings,
    engine: &Engine,
    metrics: &mut Registry,
) -> Option<AmqpConsumer> {
    let url = settings.url.clone()?;
    let source = AmqpSource { url, queue: settings.queue.clone(), prefetch: settings.prefetch };
    let consumer = AmqpConsumer::new(engine.clone(), source, AmqpLimits::default());
    consumer.register_metrics(metrics);
    Some(consumer)
}
