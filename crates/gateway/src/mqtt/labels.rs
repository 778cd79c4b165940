//! Whether a device has a label, for logins of sites: asked of the engine, and remembered for a moment.
//!
//! A change of a device's labels is seen after twice [`LABELS_KEPT`] at the latest. Answers are kept in two generations, so that
//! what is remembered is bounded and old answers go without a search for them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use base::{DeviceId, Problem};
use engine::Engine;
use prometheus_client::metrics::counter::Counter;

use super::limits::{LABELS_KEPT, LABELS_KEPT_MAX};

/// Remembers which devices have the label of which login.
#[derive(Debug)]
pub(super) struct Labels {
    remembered: Mutex<Generations>,
    lookups: Counter,
}

/// A login's number and a device.
type Asked = (u32, DeviceId);

#[derive(Debug)]
struct Generations {
    young: HashMap<Asked, bool>,
    old: HashMap<Asked, bool>,
    young_since: Instant,
}

impl Labels {
    pub(super) fn new(lookups: Counter) -> Self {
        let remembered =
            Generations { young: HashMap::new(), old: HashMap::new(), young_since: Instant::now() };
        Self { remembered: Mutex::new(remembered), lookups }
    }

    /// Whether the device has this label, which is that of the login with this number.
    pub(super) fn has(
        &self,
        engine: &Engine,
        login: u32,
        device: &DeviceId,
        key: &str,
        value: &str,
    ) -> Result<bool, Problem> {
        let asked = (login, device.clone());
        if let Some(known) = self.remembered(|generations| generations.get(&asked, Instant::now())) {
            return Ok(known);
        }
        self.lookups.inc();
        let found = engine.queries().device(device)?;
        let has = found.is_some_and(|device| {
            device.profile.labels.iter().any(|(known, its)| known == key && its == value)
        });
        self.remembered(|generations| generations.put(asked, has));
        Ok(has)
    }

    fn remembered<T>(&self, then: impl FnOnce(&mut Generations) -> T) -> T {
        then(&mut self.remembered.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Generations {
    fn get(&mut self, asked: &Asked, now: Instant) -> Option<bool> {
        let age = now.saturating_duration_since(self.young_since);
        if age >= LABELS_KEPT {
            self.turn(now);
            if age >= 2 * LABELS_KEPT {
                self.old.clear();
            }
        }
        self.young.get(asked).or_else(|| self.old.get(asked)).copied()
    }

    fn put(&mut self, asked: Asked, has: bool) {
        if self.young.len() >= LABELS_KEPT_MAX {
            self.turn(self.young_since);
        }
        self.young.insert(asked, has);
    }

    /// Forgets the older half.
    fn turn(&mut self, now: Instant) {
        self.old = std::mem::take(&mut self.young);
        self.young_since = now;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn asked(number: u32) -> Asked {
        (number, DeviceId::new("0xA").expect("an id"))
    }

    #[test]
    fn an_answer_is_remembered_for_a_moment() {
        let start = Instant::now();
        for (after, expect) in [
            (Duration::ZERO, Some(true)),
            (LABELS_KEPT / 2, Some(true)),
            (LABELS_KEPT, Some(true)),
            (2 * LABELS_KEPT, None),
        ] {
            let mut generations =
                Generations { young: HashMap::new(), old: HashMap::new(), young_since: start };
            generations.put(asked(1), true);
            assert_eq!(generations.get(&asked(1), start + after), expect, "{after:?}");
            assert_eq!(generations.get(&asked(2), start + after), None, "another login");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let start = Instant::now();
        let mut generations = Generations { young: HashMap::new(), old: HashMap::new(), young_since: start };
        for number in 0..3 * LABELS_KEPT_MAX as u32 {
            generations.put(asked(number), true);
        }
        assert!(generations.young.len() + generations.old.len() <= 2 * LABELS_KEPT_MAX);
        assert_eq!(generations.get(&asked(0), start), None);
        assert_eq!(generations.get(&asked(3 * LABELS_KEPT_MAX as u32 - 1), start), Some(true));
    }
}
