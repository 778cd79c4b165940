//! The outbox relays that say they are there, wherever they run. Kept in memory: one that has said
//! nothing for ten seconds is forgotten, and one that announces its end at once.
//!
//! A relay is known by its name, which is another after each start. Metrics name the outbox, which
//! stays.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::locks::locked;
use base::{Problem, Timestamp};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Characters of each name of an outbox in a label of a metric, at most.
const LABEL_CHARS_MAX: usize = 128;
/// A relay that is silent for so long is forgotten. It announces itself every two seconds, over
/// lines that may be slow.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Relays at a time; labels of metrics grow with their outboxes.
const RELAYS_MAX: usize = 100;
/// The one that works, and those that do not.
pub(crate) const WORKING: &str = "working";
pub(crate) const WAITING: &str = "waiting";
/// A relay that stops announces this.
pub(crate) const STOPPED: &str = "stopped";

/// What a relay said of itself last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RelayAnnouncement {
    pub(crate) database: String,
    pub(crate) table: String,
    pub(crate) state: String,
    pub(crate) on_refused: Option<String>,
    pub(crate) waiting: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) held: Option<u64>,
    pub(crate) refused: Option<u64>,
    pub(crate) oldest_at: Option<Timestamp>,
    pub(crate) moved: u64,
    pub(crate) error: Option<String>,
}

impl RelayAnnouncement {
    fn is_of_outbox(&self, other: &Self) -> bool {
        (&self.database, &self.table) == (&other.database, &other.table)
    }
}

/// A relay that is there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnownRelay {
    pub(crate) name: Box<str>,
    /// Whose token it has; empty where none is asked for, and inside the server.
    by: Box<str>,
    pub(crate) word: RelayAnnouncement,
    /// Rows a second that were moved between the last two words.
    pub(crate) rate: f64,
    pub(crate) last_seen_at: Timestamp,
}

/// Of all relays, by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownRelays(Arc<Mutex<BTreeMap<Box<str>, KnownRelay>>>);

impl KnownRelays {
    pub(crate) fn register(
        &self,
        registry: &mut Registry,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) {
        registry.register_collector(Box::new(RelayMetrics { relays: self.clone(), now: Box::new(now) }));
    }

    /// Takes note of what a relay says. Of the relays of an outbox one works: that which said so
    /// last. A token speaks for its own relays.
    ///
    /// # Errors
    /// 403 for a relay of another token, `too_many_relays`.
    pub(crate) fn heard(
        &self,
        (name, by): (&str, &str),
        word: RelayAnnouncement,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let mut known = locked(&self.0);
        known.retain(|_, relay| now.since(relay.last_seen_at) < KEPT_FOR);
        let is_own = |relay: &KnownRelay| by.is_empty() || *relay.by == *by;
        if known.get(name).is_some_and(|relay| !is_own(relay)) {
            let detail = format!("relay {name} was made known by another token");
            return Err(Problem::new(403, "forbidden", detail));
        }
        if word.state == STOPPED {
            known.remove(name);
            return Ok(());
        }
        if known.len() >= RELAYS_MAX && !known.contains_key(name) {
            let detail = format!("{RELAYS_MAX} relays are known already");
            return Err(Problem::new(503, "too_many_relays", detail));
        }
        let before = known.get(name).map(|relay| (relay.word.moved, relay.last_seen_at));
        let rate = before.map_or(0.0, |(moved, at)| {
            let seconds = now.since(at).as_secs_f64().max(0.001);
            word.moved.saturating_sub(moved) as f64 / seconds
        });
        if word.state == WORKING {
            let of_outbox = |relay: &&mut KnownRelay| relay.word.is_of_outbox(&word);
            let is_to_rest = |relay: &&mut KnownRelay| relay.word.state == WORKING && is_own(relay);
            for other in known.values_mut().filter(of_outbox).filter(is_to_rest) {
                WAITING.clone_into(&mut other.word.state);
            }
        }
        let relay = KnownRelay { name: name.into(), by: by.into(), word, rate, last_seen_at: now };
        known.insert(name.into(), relay);
        Ok(())
    }

    /// Those that are there, by their names, behind this one.
    pub(crate) fn all(&self, after: Option<&str>, now: Timestamp) -> Vec<KnownRelay> {
        let known = locked(&self.0);
        let is_there = |relay: &&KnownRelay| {
            now.since(relay.last_seen_at) < KEPT_FOR && after.is_none_or(|after| &*relay.name > after)
        };
        known.values().filter(is_there).cloned().collect()
    }

    /// Of each outbox the relay that works, or else the one that was heard last; with its label.
    fn by_outbox(&self, now: Timestamp) -> BTreeMap<String, KnownRelay> {
        let mut found = BTreeMap::<String, KnownRelay>::new();
        let rank = |relay: &KnownRelay| (relay.word.state == WORKING, relay.last_seen_at);
        for relay in self.all(None, now) {
            let shown = |text: &str| text.chars().take(LABEL_CHARS_MAX).collect::<String>();
            let label = format!("{}/{}", shown(&relay.word.database), shown(&relay.word.table));
            if found.get(&label).is_none_or(|other| rank(other) < rank(&relay)) {
                found.insert(label, relay);
            }
        }
        found
    }
}

struct RelayMetrics {
    relays: KnownRelays,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

base::debug_as_name!(RelayMetrics);

impl Collector for RelayMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let now = (self.now)();
        let relays = self.relays.by_outbox(now);
        let count = |number: Option<u64>| number.map(|number| number as f64);
        let age = |relay: &KnownRelay| {
            let age = relay.word.oldest_at.map_or(0.0, |at| now.since(at).as_secs_f64());
            relay.word.waiting.map(|_| age)
        };
        /// What was not counted is not shown: 0 would end an alarm.
        type Figure<'a> = (&'a str, &'a str, &'a dyn Fn(&KnownRelay) -> Option<f64>);
        let gauges: [Figure<'_>; 6] = [
            ("fieldpost_relay_working", "1 for an outbox on which a relay works, else 0", &|relay| {
                Some(f64::from(u8::from(relay.word.state == WORKING)))
            }),
            ("fieldpost_relay_waiting", "Rows of the outbox that wait", &|relay| count(relay.word.waiting)),
            ("fieldpost_relay_bytes", "Bytes of the rows that wait", &|relay| count(relay.word.bytes)),
            ("fieldpost_relay_oldest_seconds", "How long the oldest row has waited", &age),
            ("fieldpost_relay_held", "Refused rows whose keys wait", &|relay| count(relay.word.held)),
            ("fieldpost_relay_refused", "Refused rows beside the outbox", &|relay| count(relay.word.refused)),
        ];
        for (name, help, figure) in gauges {
            let kind = ConstGauge::new(0.0).metric_type();
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for (label, relay) in &relays {
                let labels = [("outbox", label.as_str())];
                if let Some(value) = figure(relay) {
                    ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
                }
            }
        }
        let kind = ConstCounter::new(0_u64).metric_type();
        let help = "Rows that a relay has moved since it began";
        let mut metric = encoder.encode_descriptor("fieldpost_relay_moved", help, None, kind)?;
        for (label, relay) in &relays {
            let labels = [("outbox", label.as_str())];
            ConstCounter::new(relay.word.moved).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relays_are_forgotten_and_bounded() {
        let (relays, mut now) = (KnownRelays::default(), Timestamp(0));
        let word = |moved| RelayAnnouncement { moved, ..RelayAnnouncement::default() };
        relays.heard(("a", ""), word(10), now).expect("room");
        now = now.after(Duration::from_secs(2));
        relays.heard(("a", ""), word(30), now).expect("room");
        assert_eq!(relays.all(None, now).iter().map(|relay| relay.rate).collect::<Vec<_>>(), [10.0]);
        assert_eq!(relays.all(Some("a"), now), []);
        for n in 1..RELAYS_MAX {
            relays.heard((&format!("b{n}"), ""), word(0), now).expect("room");
        }
        assert!(relays.heard(("c", ""), word(0), now).is_err());
        assert!(relays.heard(("a", ""), word(31), now).is_ok());
        now = now.after(KEPT_FOR);
        assert_eq!(relays.all(None, now), []);
        assert!(relays.heard(("c", ""), word(0), now).is_ok());
    }

    fn word_of(table: &str, state: &str) -> RelayAnnouncement {
        let (table, state) = (table.to_owned(), state.to_owned());
        RelayAnnouncement {
            database: "db:5432/shop".to_owned(),
            table,
            state,
            ..RelayAnnouncement::default()
        }
    }

    #[test]
    fn one_relay_of_an_outbox_works_and_one_that_stops_is_gone_at_once() {
        let (relays, mut now) = (KnownRelays::default(), Timestamp(0));
        let states = |now| -> Vec<(String, String)> {
            relays.all(None, now).into_iter().map(|relay| (relay.name.into(), relay.word.state)).collect()
        };
        let shown = |relays: &[(&str, &str)]| -> Vec<(String, String)> {
            relays.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
        };
        for (name, table, state) in [("a", "t", WORKING), ("b", "t", WAITING), ("c", "other", WORKING)] {
            relays.heard((name, ""), word_of(table, state), now).expect("room");
        }
        // a was killed, and b has taken over.
        now = now.after(Duration::from_secs(1));
        relays.heard(("b", ""), word_of("t", WORKING), now).expect("room");
        assert_eq!(states(now), shown(&[("a", WAITING), ("b", WORKING), ("c", WORKING)]));
        relays.heard(("b", ""), word_of("t", STOPPED), now).expect("room");
        assert_eq!(states(now), shown(&[("a", WAITING), ("c", WORKING)]));
    }

    #[test]
    fn metrics_name_the_outbox_and_not_the_process() {
        let (relays, now) = (KnownRelays::default(), Timestamp(0));
        for (name, state, moved) in [("host:1", WORKING, 7), ("host:2", WAITING, 0), ("host:3", WAITING, 0)] {
            relays
                .heard((name, ""), RelayAnnouncement { moved, ..word_of("public.t", state) }, now)
                .expect("room");
        }
        let mut registry = Registry::default();
        relays.register(&mut registry, move || now);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes all");
        for line in [
            "fieldpost_relay_working{outbox=\"db:5432/shop/public.t\"} 1",
            "fieldpost_relay_moved_total{outbox=\"db:5432/shop/public.t\"} 7",
        ] {
            assert_eq!(text.lines().filter(|shown| shown.starts_with(line)).count(), 1, "{text}");
        }
        assert!(!text.contains("host:"), "{text}");
    }

    #[test]
    fn a_token_speaks_for_its_own_relays() {
        let (relays, now) = (KnownRelays::default(), Timestamp(1_000));
        relays.heard(("a", "shop"), word_of("t", WORKING), now).expect("new");
        let foreign = relays.heard(("a", "mail"), word_of("t", WORKING), now).expect_err("another's");
        assert_eq!((foreign.status, foreign.code), (403, "forbidden"));
        assert!(relays.heard(("a", "shop"), word_of("t", WORKING), now).is_ok());
        assert!(relays.heard(("a", ""), word_of("t", WORKING), now).is_ok(), "the server itself");
    }
}
