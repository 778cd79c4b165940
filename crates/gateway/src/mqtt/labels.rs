//! Whether a device has a label, for logins of sites: asked of the engine, and remembered for a
//! moment.
//!
//! Blocking threads read the store, a few answers at a time; a connection's task reads only the
//! cache. What is remembered of a device holds until its labels change, and for twice
//! [`LABELS_KEPT`] at the most. The cache has two generations, so that it is bounded and old
//! answers expire without a search.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use base::locks::locked;
use base::{DeviceId, Problem};
use engine::intake::NotAccepting;
use engine::{Engine, LabelChanges};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::limits::{LABEL_READS_MAX, LABELS_KEPT, LABELS_KEPT_MAX};

/// Remembers which devices have the label of which login.
#[derive(Debug)]
pub(super) struct Labels {
    remembered: Mutex<Generations>,
    changes: Arc<LabelChanges>,
    lookups: Counter,
    reading: Semaphore,
}

/// The label of a login.
#[derive(Clone, Debug)]
pub(super) struct LabelOf {
    /// The login's number.
    pub(super) login: u32,
    pub(super) key: String,
    pub(super) value: String,
}

/// Whether a device has the label that was asked for.
pub(super) type Answer = (DeviceId, bool);

/// A login's number and a device.
type Asked = (u32, DeviceId);

/// An answer, and the number of the device's labels when these were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RememberedLabel {
    has: bool,
    change: u64,
}

#[derive(Debug)]
struct Generations {
    young: HashMap<Asked, RememberedLabel>,
    old: HashMap<Asked, RememberedLabel>,
    young_since: Instant,
}

impl Labels {
    pub(super) fn new(changes: Arc<LabelChanges>, lookups: Counter) -> Self {
        let remembered =
            Generations { young: HashMap::new(), old: HashMap::new(), young_since: Instant::now() };
        let reading = Semaphore::new(LABEL_READS_MAX);
        Self { remembered: Mutex::new(remembered), changes, lookups, reading }
    }

    /// Whether the device has the label of the login with this number, if that is remembered.
    pub(super) fn known(&self, login: u32, device: &DeviceId) -> Option<bool> {
        let asked = (login, device.clone());
        let change = self.changes.number(device);
        let known = self.remembered(|generations| generations.get(&asked, Instant::now()));
        known.filter(|known| known.change == change).map(|known| known.has)
    }

    /// Reads whether devices have a label, and remembers it.
    ///
    /// # Errors
    /// When the store cannot be read. Whether the login may is not known then, so it is told to
    /// come back, not that it may not.
    pub(super) async fn look_up(
        self: Arc<Self>,
        engine: Engine,
        label: LabelOf,
        devices: Vec<DeviceId>,
    ) -> Result<Vec<Answer>, NotAccepting> {
        // The semaphore is never closed.
        let _turn = self.reading.acquire().await;
        let labels = Arc::clone(&self);
        let reading = spawn_blocking(move || {
            let read = |device: DeviceId| labels.read(&engine, &label, &device).map(|has| (device, has));
            devices.into_iter().map(read).collect()
        });
        let read: Result<Vec<Answer>, Problem> = reading.await.map_err(|_| NotAccepting)?;
        read.map_err(|problem| {
            tracing::debug!(%problem, "the labels of a device cannot be read");
            NotAccepting
        })
    }

    /// The same for one device, for a thread that may wait.
    pub(super) fn read(&self, engine: &Engine, label: &LabelOf, device: &DeviceId) -> Result<bool, Problem> {
        self.lookups.inc();
        let LabelOf { login, key, value } = label;
        // In front of the labels: what changes while they are read is not remembered.
        let change = self.changes.number(device);
        let found = engine.queries().device(device)?;
        let has = found.is_some_and(|device| {
            device.profile.labels.iter().any(|(known, its)| known == key && its == value)
        });
        self.remembered(|generations| {
            generations.put((*login, device.clone()), RememberedLabel { has, change });
        });
        Ok(has)
    }

    fn remembered<T>(&self, then: impl FnOnce(&mut Generations) -> T) -> T {
        then(&mut locked(&self.remembered))
    }
}

impl Generations {
    fn get(&mut self, asked: &Asked, now: Instant) -> Option<RememberedLabel> {
        let age = now.saturating_duration_since(self.young_since);
        if age >= LABELS_KEPT {
            self.turn(now);
            if age >= 2 * LABELS_KEPT {
                self.old.clear();
            }
        }
        self.young.get(asked).or_else(|| self.old.get(asked)).copied()
    }

    fn put(&mut self, asked: Asked, known: RememberedLabel) {
        if self.young.len() >= LABELS_KEPT_MAX {
            self.turn(self.young_since);
        }
        self.young.insert(asked, known);
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

    const HAS: RememberedLabel = RememberedLabel { has: true, change: 0 };

    #[test]
    fn an_answer_is_remembered_for_a_moment() {
        let start = Instant::now();
        for (after, expect) in [
            (Duration::ZERO, Some(HAS)),
            (LABELS_KEPT / 2, Some(HAS)),
            (LABELS_KEPT, Some(HAS)),
            (2 * LABELS_KEPT, None),
        ] {
            let mut generations =
                Generations { young: HashMap::new(), old: HashMap::new(), young_since: start };
            generations.put(asked(1), HAS);
            assert_eq!(generations.get(&asked(1), start + after), expect, "{after:?}");
            assert_eq!(generations.get(&asked(2), start + after), None, "another login");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let start = Instant::now();
        let mut generations = Generations { young: HashMap::new(), old: HashMap::new(), young_since: start };
        for number in 0..3 * LABELS_KEPT_MAX as u32 {
            generations.put(asked(number), HAS);
        }
        assert!(generations.young.len() + generations.old.len() <= 2 * LABELS_KEPT_MAX);
        assert_eq!(generations.get(&asked(0), start), None);
        assert_eq!(generations.get(&asked(3 * LABELS_KEPT_MAX as u32 - 1), start), Some(HAS));
    }
}
