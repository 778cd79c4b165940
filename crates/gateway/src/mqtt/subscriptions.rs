//! What one connection has subscribed to. Only the server publishes: commands (`downlink.rs`), and
//! copies of accepted reports (`mirror.rs`).

use rmqtt_codec::types::QoS;

use super::mirror::matches;
use super::topic_rules;

/// The subscriptions of a connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Vec<Subscription>);

#[derive(Debug, PartialEq, Eq)]
struct Subscription {
    filter: Box<str>,
    qos: QoS,
}

/// How a filter of a SUBSCRIBE was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granted {
    Qos(QoS),
    FilterInvalid,
    TooMany,
    /// So many connections watch that already.
    WatchedByTooMany,
    SharedNotSupported,
    /// The login may not.
    NotAuthorized,
}

impl Subscriptions {
    /// Why nobody can subscribe to this, if so.
    pub(super) fn refusal(filter: &str) -> Option<Granted> {
        if topic_rules::is_shared(filter) {
            return Some(Granted::SharedNotSupported);
        }
        (!topic_rules::is_filter(filter)).then_some(Granted::FilterInvalid)
    }

    /// Adds a subscription to a filter that can be subscribed to, or changes the one with the same
    /// filter. We publish with QoS 1 at most.
    pub(super) fn add(&mut self, filter: &str, qos: QoS, max: usize) -> Granted {
        let qos = qos.less_value(QoS::AtLeastOnce);
        if let Some(known) = self.0.iter_mut().find(|known| &*known.filter == filter) {
            known.qos = qos;
        } else if self.0.len() < max {
            // Most connections have one, and many thousands of them do.
            self.0.reserve_exact(1);
            self.0.push(Subscription { filter: filter.into(), qos });
        } else {
            return Granted::TooMany;
        }
        Granted::Qos(qos)
    }

    /// Removes a subscription: whether there was one.
    pub(super) fn remove(&mut self, filter: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|known| &*known.filter != filter);
        self.0.len() < before
    }

    /// The QoS of what is published to a topic; `None` if no subscription matches it.
    pub(super) fn qos_of(&self, topic: &str) -> Option<QoS> {
        let matching = self.0.iter().filter(|known| matches(&known.filter, topic));
        matching.map(|known| known.qos).max_by_key(|qos| qos.value())
    }

    pub(super) fn filters(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|known| &*known.filter)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What they take in memory.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|known| size_of::<Subscription>() + known.filter.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_counted_by_filter() {
        let mut subscriptions = Subscriptions::default();
        for (filter, qos, expect, len) in [
            ("a", QoS::AtMostOnce, Granted::Qos(QoS::AtMostOnce), 1),
            ("a", QoS::ExactlyOnce, Granted::Qos(QoS::AtLeastOnce), 1),
            ("b/#", QoS::AtLeastOnce, Granted::Qos(QoS::AtLeastOnce), 2),
            ("c", QoS::AtLeastOnce, Granted::TooMany, 2),
        ] {
            assert_eq!(subscriptions.add(filter, qos, 2), expect, "{filter}");
            assert_eq!(subscriptions.len(), len, "{filter}");
        }
        assert_eq!(subscriptions.bytes(), 2 * size_of::<Subscription>() + 4);
        assert!(subscriptions.remove("a"));
        assert!(!subscriptions.remove("a"));
        assert_eq!(subscriptions.add("c", QoS::AtMostOnce, 2), Granted::Qos(QoS::AtMostOnce));
        assert!(subscriptions.filters().eq(["b/#", "c"]));
    }

    #[test]
    fn the_highest_qos_of_those_that_match_counts() {
        let mut subscriptions = Subscriptions::default();
        for (filter, qos) in [("dev/+/+", QoS::AtMostOnce), ("dev/lock/0xA", QoS::AtLeastOnce)] {
            subscriptions.add(filter, qos, 9);
        }
        for (topic, expect) in [
            ("dev/lock/0xA", Some(QoS::AtLeastOnce)),
            ("dev/lock/0xB", Some(QoS::AtMostOnce)),
            ("dev/lock/0xB/state", None),
        ] {
            assert_eq!(subscriptions.qos_of(topic), expect, "{topic}");
        }
    }

    #[test]
    fn some_filters_are_nobodys() {
        for (filter, expect) in [
            ("a/#", None),
            ("b#", Some(Granted::FilterInvalid)),
            ("", Some(Granted::FilterInvalid)),
            ("$share/g/a", Some(Granted::SharedNotSupported)),
        ] {
            assert_eq!(Subscriptions::refusal(filter), expect, "{filter}");
        }
    }
}
