//! How far readers are behind, in messages and in seconds, by subscription: read when somebody asks
//! for it. The age is that of the block or chunk that has the oldest unread message. It may be more
//! than the message's own, by as much as a block is open.

use ::streams::subscriptions::lag;
use base::{Incarnation, PartitionId, Timestamp};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use records::StreamSubscription;
use store::{StoreError, View};

use super::StreamName;
use super::reading::{FoundStream, StreamReader};
use crate::Engine;

/// Subscriptions that are shown at most: each is four labelled values.
const SHOWN_MAX: usize = 200;

/// Looks at subscriptions when `/metrics` is asked for.
#[derive(Debug)]
pub(crate) struct SubscriptionCollector {
    pub(crate) engine: Engine,
}

/// How far a reader is behind.
struct SubscriptionLag {
    stream: StreamName,
    subscription: Box<str>,
    messages: u64,
    /// The age of the oldest one.
    seconds: f64,
}

impl Collector for SubscriptionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        // What cannot be read now is not shown; a store that fails says so elsewhere.
        let lags = self.lags().unwrap_or_default();
        let labels = |one: &SubscriptionLag| {
            [
                ("namespace", one.stream.namespace().to_owned()),
                ("stream", one.stream.stream().to_owned()),
                ("subscription", one.subscription.to_string()),
            ]
        };
        let help = "Messages that the reader of a subscription has not committed, of up to 200 subscriptions";
        let name = "fieldpost_streams_subscription_lag_messages";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for one in &lags {
            let value = i64::try_from(one.messages).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(family.encode_family(&labels(one))?)?;
        }
        let help = "Age of the oldest of these messages, to within the age of a block; 0 without one";
        let name = "fieldpost_streams_subscription_lag_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for one in &lags {
            ConstGauge::new(one.seconds).encode(family.encode_family(&labels(one))?)?;
        }
        Ok(())
    }
}

impl SubscriptionCollector {
    fn lags(&self) -> Result<Vec<SubscriptionLag>, StoreError> {
        let store = self.engine.store();
        let mut all = Vec::new();
        for index in 0..store.partitions() {
            let view = store.view(PartitionId::of_streams(index))?;
            for subscription in view.subscriptions(SHOWN_MAX - all.len())? {
                all.extend(self.lag(&*view, subscription)?);
            }
            if all.len() >= SHOWN_MAX {
                break;
            }
        }
        Ok(all)
    }

    fn lag(
        &self,
        view: &dyn View,
        subscription: StreamSubscription,
    ) -> Result<Option<SubscriptionLag>, StoreError> {
        let Some(row) = view.stream(subscription.stream)? else { return Ok(None) };
        let stream = StreamName::unchecked(&row.namespace, &row.name);
        let reader = StreamReader { store: self.engine.store(), context: &self.engine.context().streams };
        // Deleted since the view was opened.
        let Ok(found) = reader.find(&stream) else { return Ok(None) };
        let unsaved = found.open.as_deref().map_or(0, |open| open.stands().unsaved.0);
        let messages = lag(subscription.position, &found.tail, found.tail.messages + unsaved, found.next);
        let oldest = match messages {
            0 => None,
            _ => oldest_behind(&found, subscription.stream, subscription.position)?,
        };
        let now = self.engine.clock().now();
        let seconds = oldest.map_or(0.0, |at| now.0.saturating_sub(at.0).max(0) as f64 / 1_000.0);
        Ok(Some(SubscriptionLag { stream, subscription: subscription.name, messages, seconds }))
    }
}

/// When the block or chunk that has the first message behind a position was begun.
fn oldest_behind(
    found: &FoundStream,
    stream: Incarnation,
    position: u64,
) -> Result<Option<Timestamp>, StoreError> {
    let from = position.saturating_add(1);
    if let Some(block) = found.view.stream_blocks(stream, from, 1)?.first() {
        return Ok(Some(block.created_at));
    }
    if let Some(chunk) = found.view.stream_chunks(stream, from, 1)?.first() {
        return Ok(Some(chunk.at));
    }
    let open = found.open.as_ref().map(|open| open.read(from, 1).chunks);
    Ok(open.iter().flatten().next().map(|chunk| chunk.at))
}
