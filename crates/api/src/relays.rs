//! The outbox relays that say they are there, wherever they run. Kept in memory: one that has said
//! nothing for half a minute is forgotten.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Problem, Timestamp};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// How long a relay is believed to be there.
const KEPT_FOR: Duration = Duration::from_secs(30);
/// Relays at a time; labels of metrics grow with them.
const RELAYS_MAX: usize = 100;

/// What a relay said of itself last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RelayWord {
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

/// A relay that is there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnownRelay {
    pub(crate) name: Box<str>,
    pub(crate) word: RelayWord,
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
        registry.register_collector(Box::new(RelayFigures { relays: self.clone(), now: Box::new(now) }));
    }

    /// Takes note of what a relay says.
    ///
    /// # Errors
    /// `too_many_relays`.
    pub(crate) fn heard(&self, name: &str, word: RelayWord, now: Timestamp) -> Result<(), Problem> {
        let mut known = self.known();
        known.retain(|_, relay| now.since(relay.last_seen_at) < KEPT_FOR);
        if known.len() >= RELAYS_MAX && !known.contains_key(name) {
            let detail = format!("{RELAYS_MAX} relays are known already");
            return Err(Problem::new(503, "too_many_relays", detail));
        }
        let before = known.get(name).map(|relay| (relay.word.moved, relay.last_seen_at));
        let rate = before.map_or(0.0, |(moved, at)| {
            let seconds = now.since(at).as_secs_f64().max(0.001);
            word.moved.saturating_sub(moved) as f64 / seconds
        });
        let relay = KnownRelay { name: name.into(), word, rate, last_seen_at: now };
        known.insert(name.into(), relay);
        Ok(())
    }

    /// Those that are there, by their names, behind this one.
    pub(crate) fn all(&self, after: Option<&str>, now: Timestamp) -> Vec<KnownRelay> {
        let known = self.known();
        let is_there = |relay: &&KnownRelay| {
            now.since(relay.last_seen_at) < KEPT_FOR && after.is_none_or(|after| &*relay.name > after)
        };
        known.values().filter(is_there).cloned().collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Box<str>, KnownRelay>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct RelayFigures {
    relays: KnownRelays,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl fmt::Debug for RelayFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RelayFigures")
    }
}

impl Collector for RelayFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let now = (self.now)();
        let relays = self.relays.all(None, now);
        let count = |number: Option<u64>| number.unwrap_or_default() as f64;
        let age = |relay: &KnownRelay| relay.word.oldest_at.map_or(0.0, |at| now.since(at).as_secs_f64());
        type Figure<'a> = (&'a str, &'a str, &'a dyn Fn(&KnownRelay) -> f64);
        let gauges: [Figure<'_>; 6] = [
            ("fieldpost_relay_working", "1 for a relay that works, 0 for one that waits", &|relay| {
                f64::from(u8::from(relay.word.state == "working"))
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
            for relay in &relays {
                let labels = [("relay", &*relay.name)];
                ConstGauge::new(figure(relay)).encode(metric.encode_family(&labels)?)?;
            }
        }
        let kind = ConstCounter::new(0_u64).metric_type();
        let help = "Rows that a relay has moved since it began";
        let mut metric = encoder.encode_descriptor("fieldpost_relay_moved", help, None, kind)?;
        for relay in &relays {
            let labels = [("relay", &*relay.name)];
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
        let word = |moved| RelayWord { moved, ..RelayWord::default() };
        relays.heard("a", word(10), now).expect("room");
        now = now.after(Duration::from_secs(2));
        relays.heard("a", word(30), now).expect("room");
        assert_eq!(relays.all(None, now).iter().map(|relay| relay.rate).collect::<Vec<_>>(), [10.0]);
        assert_eq!(relays.all(Some("a"), now), []);
        for n in 1..RELAYS_MAX {
            relays.heard(&format!("b{n}"), word(0), now).expect("room");
        }
        assert!(relays.heard("c", word(0), now).is_err());
        assert!(relays.heard("a", word(31), now).is_ok());
        now = now.after(KEPT_FOR);
        assert_eq!(relays.all(None, now), []);
        assert!(relays.heard("c", word(0), now).is_ok());
    }
}
