//! Copies of accepted reports for subscribers: QoS 0, on the topic of the report, dropped where a
//! subscriber is slow.
//!
//! A thread of its own finds the subscribers, because it may read the store; the intake never waits
//! for it. A report without a topic is copied to its device's state topic. Without subscribers
//! nothing is copied.

mod topics;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Instant;

use base::locks::locked;
use base::{DeviceId, Kind};
use engine::Engine;
use engine::intake::Accepted;

use super::fan_out::{Queued, Slow, WatchOutcome, WatchSubject, Watcher, Watchers};
use super::labels::Labels;
use super::limits::{
    MIRROR_ALL_COPIES_BYTES_MAX, MIRROR_COPIES_BYTES_MAX, MIRROR_INCOMING_BYTES_MAX, MIRROR_KINDS_KEPT,
    MIRROR_KINDS_MAX,
};
use super::metrics::MirrorMetrics;
use crate::decode::kinds::KindForms;
use crate::decode::{self, DecodeRules};

pub(super) use self::topics::{matches, may_match};

/// Shows connections what is accepted.
pub(super) struct ReportMirror {
    engine: Engine,
    labels: Arc<Labels>,
    kinds: Arc<KindForms>,
    watchers: Mutex<Watchers<ReportCopy>>,
    /// What is watched: devices, or all of them, by so many connections.
    watched: Arc<AtomicIsize>,
    incoming: Mutex<Incoming>,
    came: Condvar,
    /// Reports that wait for connections, in bytes, counted for each.
    waiting_bytes: AtomicUsize,
    metrics: MirrorMetrics,
}

/// A report that was accepted.
#[derive(Debug)]
pub(super) struct ReportCopy {
    pub(super) topic: Box<str>,
    pub(super) payload: Box<[u8]>,
    /// The connection that it came over; 0 if that is not told.
    pub(super) source: u64,
}

impl Queued for ReportCopy {
    const CONNECTION_BYTES_MAX: usize = MIRROR_COPIES_BYTES_MAX;
    const ALL_BYTES_MAX: usize = MIRROR_ALL_COPIES_BYTES_MAX;

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.topic.len() + self.payload.len()
    }
}

/// What was accepted and is not shown yet.
#[derive(Default)]
struct Incoming {
    items: VecDeque<MirrorItem>,
    bytes: usize,
    closed: bool,
}

struct MirrorItem {
    topic: Option<Box<str>>,
    payload: Box<[u8]>,
    source: u64,
}

impl MirrorItem {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.payload.len() + self.topic.as_ref().map_or(0, |topic| topic.len())
    }
}

/// What the engine has of a mirror: it does not keep it alive.
struct MirrorHandle {
    watched: Arc<AtomicIsize>,
    mirror: Weak<ReportMirror>,
}

impl engine::intake::IntakeMirror for MirrorHandle {
    fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed) > 0
    }

    fn show(&self, accepted: Accepted<'_>) {
        if let Some(mirror) = self.mirror.upgrade() {
            mirror.take(accepted);
        }
    }
}

impl ReportMirror {
    /// Of all that the engine accepts; [`ReportMirror::run`] shows it.
    pub(super) fn of(
        engine: &Engine,
        labels: &Arc<Labels>,
        kinds: &Arc<KindForms>,
        metrics: MirrorMetrics,
    ) -> Arc<Self> {
        let mirror = Arc::new(Self {
            engine: engine.clone(),
            labels: Arc::clone(labels),
            kinds: Arc::clone(kinds),
            watchers: Mutex::default(),
            watched: Arc::default(),
            incoming: Mutex::default(),
            came: Condvar::new(),
            waiting_bytes: AtomicUsize::new(0),
            metrics,
        });
        let handle = MirrorHandle { watched: Arc::clone(&mirror.watched), mirror: Arc::downgrade(&mirror) };
        engine.mirror_to(Arc::new(handle));
        mirror
    }

    /// Shows a connection what it watches: whether there was room for that.
    pub(super) fn watch(&self, watcher: &Arc<Watcher<ReportCopy>>, watched: WatchSubject) -> bool {
        let watches = locked(&self.watchers).add(watcher, watched);
        if watches == WatchOutcome::New {
            self.watched.fetch_add(1, Ordering::Relaxed);
            self.metrics.watched.inc();
        }
        watches != WatchOutcome::NoRoom
    }

    /// No longer.
    pub(super) fn unwatch(&self, watcher: &Arc<Watcher<ReportCopy>>, watched: WatchSubject) {
        if locked(&self.watchers).remove(watcher, watched) {
            self.watched.fetch_sub(1, Ordering::Relaxed);
            self.metrics.watched.dec();
        }
    }

    /// The connection ended.
    pub(super) fn leave(
        &self,
        watcher: &Arc<Watcher<ReportCopy>>,
        watched: impl Iterator<Item = WatchSubject>,
    ) {
        watched.for_each(|watched| self.unwatch(watcher, watched));
        watcher.close(&self.waiting_bytes);
    }

    /// The next report that waits for a connection.
    pub(super) fn next(&self, watcher: &Watcher<ReportCopy>) -> Option<Arc<ReportCopy>> {
        watcher.take(&self.waiting_bytes)
    }

    /// It was written to the connection.
    pub(super) fn count_copy(&self) {
        self.metrics.copies.inc();
    }

    fn take(&self, Accepted { source, received, .. }: Accepted<'_>) {
        let topic = received.topic.map(Box::from);
        let item = MirrorItem { topic, payload: received.payload.into(), source };
        let mut incoming = locked(&self.incoming);
        if incoming.closed {
            return;
        }
        if incoming.bytes + item.bytes() > MIRROR_INCOMING_BYTES_MAX {
            return self.metrics.dropped.count("behind");
        }
        incoming.bytes += item.bytes();
        incoming.items.push_back(item);
        drop(incoming);
        self.came.notify_one();
    }

    /// Shows what comes until it is closed. For a thread of its own.
    pub(super) fn run(&self) {
        let (mut kinds, mut slow) = (Kinds::default(), Slow::default());
        loop {
            let items = {
                let mut incoming = locked(&self.incoming);
                while incoming.items.is_empty() && !incoming.closed {
                    incoming = self.came.wait(incoming).unwrap_or_else(PoisonError::into_inner);
                }
                if incoming.closed {
                    return;
                }
                incoming.bytes = 0;
                std::mem::take(&mut incoming.items)
            };
            for item in items {
                self.show(item, &mut kinds, &mut slow);
            }
        }
    }

    pub(super) fn close(&self) {
        locked(&self.incoming).closed = true;
        self.came.notify_all();
    }

    fn show(
        &self,
        MirrorItem { topic, payload, source }: MirrorItem,
        kinds: &mut Kinds,
        slow: &mut Slow<ReportCopy>,
    ) {
        let topic = topic.or_else(|| self.state_topic(&payload, kinds));
        let Some(topic) = topic else { return };
        let device = self.kinds.device_level(&topic).unwrap_or_default();
        let watchers = locked(&self.watchers).of(device);
        let may_see: Vec<_> = watchers.into_iter().filter(|watcher| self.may_see(watcher, device)).collect();
        let shown = Arc::new(ReportCopy { topic, payload, source });
        for watcher in may_see {
            for _ in 0..watcher.put(&shown, slow, &self.waiting_bytes) {
                self.metrics.dropped.count("slow");
            }
        }
    }

    /// A label may have gone since the subscription.
    fn may_see(&self, watcher: &Watcher<ReportCopy>, device: &str) -> bool {
        let Some(label) = watcher.label() else { return true };
        let Some(device) = DeviceId::new(device) else { return false };
        let known = self.labels.known(label.login, &device);
        known.unwrap_or_else(|| self.labels.read(&self.engine, label, &device).unwrap_or(false))
    }

    /// Where a report that came without a topic would have been published.
    fn state_topic(&self, payload: &[u8], kinds: &mut Kinds) -> Option<Box<str>> {
        let report = decode::object(payload, None, DecodeRules::of(&self.engine)).ok()?;
        let kind = kinds.of(&self.engine, &report.device)?;
        Some(format!("dev/{}/{}/state", kind.as_str(), report.device.as_str()).into())
    }
}

base::debug_as_name!(ReportMirror);

/// Kinds of devices, for a while: one that is deleted may come back as another.
struct Kinds {
    of: HashMap<DeviceId, Kind>,
    since: Instant,
}

impl Default for Kinds {
    fn default() -> Self {
        Self { of: HashMap::new(), since: Instant::now() }
    }
}

impl Kinds {
    fn of(&mut self, engine: &Engine, device: &DeviceId) -> Option<Kind> {
        if self.of.len() >= MIRROR_KINDS_MAX || self.since.elapsed() >= MIRROR_KINDS_KEPT {
            *self = Self::default();
        }
        if let Some(kind) = self.of.get(device) {
            return Some(kind.clone());
        }
        // A device that is gone by now, or a store that has failed: there is nobody to name.
        let kind = engine.queries().device(device).ok()??.profile.kind;
        self.of.insert(device.clone(), kind.clone());
        Some(kind)
    }
}
