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

/// Subscriptions that are shown at most, those that are furthest behind: each is two labelled
/// values.
const SHOWN_MAX: usize = 1_000;
/// Subscriptions that are looked at for these, at most: each is some rows.
const LOOKED_AT_MAX: usize = 2_000;

/// Looks at subscriptions when `/metrics` is asked for.
#[derive(Debug)]
pub(crate) struct SubscriptionCollector {
    pub(crate) engine: Engine,
}

/// How far a reader is behind.
struct SubscriptionLag {
    stream: StreamName,
    subscription: Box<str>,
    position: u64,
    messages: u64,
}

/// The same with the age of the oldest message.
struct AgedLag {
    lag: SubscriptionLag,
    seconds: f64,
}

impl Collector for SubscriptionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        // What cannot be read now is not shown; a store that fails says so elsewhere.
        let lags = self.lags().unwrap_or_default();
        let labels = |AgedLag { lag, .. }: &AgedLag| {
            [
                ("namespace", lag.stream.namespace().to_owned()),
                ("stream", lag.stream.stream().to_owned()),
                ("subscription", lag.subscription.to_string()),
            ]
        };
        let help =
            "Messages that the reader of a subscription has not committed, of the 1,000 furthest behind";
        let name = "fieldpost_streams_subscription_lag_messages";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for one in &lags {
            let value = i64::try_from(one.lag.messages).unwrap_or(i64::MAX);
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
    /// Those that are furthest behind, in order of name.
    fn lags(&self) -> Result<Vec<AgedLag>, StoreError> {
        let store = self.engine.store();
        let mut all = Vec::new();
        for index in 0..store.partitions() {
            let view = store.view(PartitionId::of_streams(index))?;
            for subscription in view.subscriptions(LOOKED_AT_MAX - all.len())? {
                all.extend(self.lag(&*view, subscription)?);
            }
            if all.len() >= LOOKED_AT_MAX {
                break;
            }
        }
        let shown = furthest_behind(all, SHOWN_MAX);
        shown.into_iter().filter_map(|lag| self.aged(lag).transpose()).collect()
    }

    fn lag(
        &self,
        view: &dyn View,
        subscription: StreamSubscription,
    ) -> Result<Option<SubscriptionLag>, StoreError> {
        let Some(row) = view.stream(subscription.stream)? else { return Ok(None) };
        let stream = StreamName::unchecked(&row.namespace, &row.name);
        // Deleted since the view was opened.
        let Ok((found, kept)) = self.reader().find_counted(&stream) else { return Ok(None) };
        let StreamSubscription { name, position, .. } = subscription;
        let messages = lag(position, &found.tail, kept, found.next);
        Ok(Some(SubscriptionLag { stream, subscription: name, position, messages }))
    }

    fn aged(&self, lag: SubscriptionLag) -> Result<Option<AgedLag>, StoreError> {
        let oldest = match lag.messages {
            0 => None,
            _ => {
                let Ok(found) = self.reader().find(&lag.stream) else { return Ok(None) };
                oldest_behind(&found, found.stream, lag.position)?
            }
        };
        let now = self.engine.clock().now();
        let seconds = oldest.map_or(0.0, |at| now.0.saturating_sub(at.0).max(0) as f64 / 1_000.0);
        Ok(Some(AgedLag { lag, seconds }))
    }

    fn reader(&self) -> StreamReader<'_> {
        StreamReader { store: self.engine.store(), context: &self.engine.context().streams }
    }
}

fn furthest_behind(mut all: Vec<SubscriptionLag>, most: usize) -> Vec<SubscriptionLag> {
    all.sort_by_key(|one| std::cmp::Reverse(one.messages));
    all.truncate(most);
    all.sort_by(|a, b| (&a.stream, &a.subscription).cmp(&(&b.stream, &b.subscription)));
    all
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
    if let Some(chunk) = found.view.stream_chunks(stream, from..u64::MAX, 1)?.first() {
        return Ok(Some(chunk.at));
    }
    let open = found.open.as_ref().map(|open| open.read(from, 1).chunks);
    Ok(open.iter().flatten().next().map(|chunk| chunk.at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_furthest_behind_are_shown() {
        let stream = StreamName::new("shop", "orders").expect("a name");
        let lag = |(name, messages): (&str, u64)| SubscriptionLag {
            stream: stream.clone(),
            subscription: name.into(),
            position: 0,
            messages,
        };
        let all = [("a", 0), ("b", 7), ("c", 1), ("d", 9)].map(lag).into();
        let shown = furthest_behind(all, 2);
        let names: Vec<&str> = shown.iter().map(|one| &*one.subscription).collect();
        assert_eq!(names, ["b", "d"]);
    }
}
