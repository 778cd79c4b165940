//! Commands on their way to connections: on the topic of their device, to every live session with a
//! subscription that covers it.
//!
//! The engine hands a command over and goes on. What a connection does not take in time is dropped,
//! because the engine sends it again until the device answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use base::DeviceId;
use base::locks::locked;
use engine::{Downlink, Engine, PublishedCommand};

use super::fan_out::{Queued, Slow, WatchOutcome, WatchSubject, Watcher, Watchers};
use super::limits::{COMMANDS_ALL_WAITING_BYTES_MAX, COMMANDS_WAITING_BYTES_MAX};
use super::metrics::CommandMetrics;
use crate::decode::kinds::KindForms;

/// The connections that commands go to.
pub(super) struct CommandRoutes {
    kinds: Arc<KindForms>,
    watchers: Mutex<Watchers<CommandCopy>>,
    slow: Mutex<Slow<CommandCopy>>,
    /// Commands that are not written to their connections yet, in bytes, counted for each.
    waiting_bytes: AtomicUsize,
    metrics: CommandMetrics,
}

/// A command as its device is shown it.
#[derive(Debug)]
pub(super) struct CommandCopy {
    pub(super) device: DeviceId,
    pub(super) topic: Box<str>,
    pub(super) payload: Box<[u8]>,
}

impl Queued for CommandCopy {
    const CONNECTION_BYTES_MAX: usize = COMMANDS_WAITING_BYTES_MAX;
    const ALL_BYTES_MAX: usize = COMMANDS_ALL_WAITING_BYTES_MAX;

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.topic.len() + self.payload.len()
    }
}

impl CommandCopy {
    /// `None` if the payload has no place for the command's id.
    fn of(command: &PublishedCommand, kinds: &KindForms) -> Option<Self> {
        let PublishedCommand { device, kind, id, payload } = command;
        let (topic, payload) = kinds.command((kind, device), *id, payload)?;
        Some(Self { device: device.clone(), topic, payload })
    }
}

/// What the engine has of the routes: it does not keep them alive.
struct Carrier(Weak<CommandRoutes>);

impl Downlink for Carrier {
    fn publish(&self, command: PublishedCommand) {
        if let Some(routes) = self.0.upgrade() {
            routes.publish(&command);
        }
    }
}

impl CommandRoutes {
    /// Nobody is there yet.
    pub(super) fn new(kinds: Arc<KindForms>, metrics: CommandMetrics) -> Arc<Self> {
        Arc::new(Self {
            kinds,
            watchers: Mutex::default(),
            slow: Mutex::default(),
            waiting_bytes: AtomicUsize::new(0),
            metrics,
        })
    }

    /// Has the engine's commands go these ways.
    pub(super) fn carry_for(self: &Arc<Self>, engine: &Engine) {
        engine.carry_commands_by(Arc::new(Carrier(Arc::downgrade(self))));
    }

    /// Has commands come to a connection: whether there was room for that.
    pub(super) fn add(&self, watcher: &Arc<Watcher<CommandCopy>>, watched: WatchSubject) -> bool {
        locked(&self.watchers).add(watcher, watched) != WatchOutcome::NoRoom
    }

    /// No longer.
    pub(super) fn remove(&self, watcher: &Arc<Watcher<CommandCopy>>, watched: WatchSubject) {
        locked(&self.watchers).remove(watcher, watched);
    }

    /// The connection ended.
    pub(super) fn leave(
        &self,
        watcher: &Arc<Watcher<CommandCopy>>,
        watched: impl Iterator<Item = WatchSubject>,
    ) {
        watched.for_each(|watched| self.remove(watcher, watched));
        watcher.close(&self.waiting_bytes);
        self.show_waiting();
    }

    /// These were written to their connection, or never will be.
    pub(super) fn settle(&self, bytes: usize) {
        if bytes > 0 {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.show_waiting();
        }
    }

    pub(super) fn metrics(&self) -> &CommandMetrics {
        &self.metrics
    }

    pub(super) fn publish(&self, command: &PublishedCommand) {
        let watchers = locked(&self.watchers).of(command.device.as_str());
        if watchers.is_empty() {
            return self.metrics.dropped.count("nobody");
        }
        let Some(copy) = CommandCopy::of(command, &self.kinds).map(Arc::new) else {
            return self.metrics.dropped.count("no_place");
        };
        for watcher in watchers {
            let dropped = {
                let mut slow = locked(&self.slow);
                watcher.put(&copy, &mut slow, &self.waiting_bytes)
            };
            (0..dropped).for_each(|_| self.metrics.dropped.count("slow"));
        }
        self.show_waiting();
    }

    fn show_waiting(&self) {
        self.metrics.waiting_bytes.set(self.waiting_bytes.load(Ordering::Relaxed) as i64);
    }
}

base::debug_as_name!(CommandRoutes);

#[cfg(test)]
mod tests {
    use access::Principal;
    use base::{EntityId, Kind, Timestamp};
    use engine::commands::COMMAND_ID_PREFIX;

    use super::*;
    use crate::mqtt::rights::Rights;

    fn watcher() -> Arc<Watcher<CommandCopy>> {
        Arc::new(Watcher::new(&Rights::new(Arc::new(Principal::anybody()))))
    }

    fn watched(filter: &str) -> WatchSubject {
        WatchSubject::of(filter, &KindForms::default())
    }

    fn command(device: &str, payload: &[u8]) -> PublishedCommand {
        PublishedCommand {
            device: DeviceId::new(device).expect("an id"),
            kind: Kind::lock(),
            id: EntityId { routing: 1, at: Timestamp(2), number: 3, tag: 4 },
            payload: payload.into(),
        }
    }

    #[test]
    fn a_command_comes_to_who_watches_its_device_and_is_made_once() {
        let routes = CommandRoutes::new(Arc::default(), CommandMetrics::default());
        let (one, wide, other) = (watcher(), watcher(), watcher());
        assert!(routes.add(&one, watched("dev/lock/0xA")) && routes.add(&wide, watched("dev/#")));
        assert!(routes.add(&other, watched("dev/lock/0xB")));
        let command = command("0xA", br#"{"open":true}"#);
        routes.publish(&command);
        let (copy, same) = (one.take_counted().expect("one"), wide.take_counted().expect("the same"));
        assert!(Arc::ptr_eq(&copy, &same) && other.take_counted().is_none());
        let id = command.id.to_text(COMMAND_ID_PREFIX);
        assert_eq!(&*copy.topic, "dev/lock/0xA");
        let payload = format!(r#"{{"message_id":"{id}","payload":{{"open":true}}}}"#);
        assert_eq!(*copy.payload, *payload.as_bytes());
        assert_eq!(routes.waiting_bytes.load(Ordering::Relaxed), 2 * copy.bytes(), "neither is written yet");
        routes.settle(2 * copy.bytes());
        assert_eq!(routes.waiting_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_a_slow_connection_does_not_take_is_dropped_and_counted() {
        let routes = CommandRoutes::new(Arc::default(), CommandMetrics::default());
        let slow = watcher();
        let large = command("0xA", &vec![b'1'; base::limits::COMMAND_PAYLOAD_BYTES_MAX]);
        routes.publish(&large);
        assert_eq!(routes.metrics.dropped.counter("nobody").get(), 1);
        assert!(routes.add(&slow, watched("dev/lock/0xA")));
        let fit =
            COMMANDS_WAITING_BYTES_MAX / CommandCopy::of(&large, &routes.kinds).expect("a place").bytes();
        for _ in 0..fit + 2 {
            routes.publish(&large);
        }
        assert_eq!(routes.metrics.dropped.counter("slow").get(), 2);
        routes.leave(&slow, [watched("dev/lock/0xA")].into_iter());
        assert_eq!(routes.waiting_bytes.load(Ordering::Relaxed), 0);
        routes.publish(&large);
        assert_eq!(routes.metrics.dropped.counter("nobody").get(), 2);
    }
}
