//! Which subscriptions are pushed. The sender, `notify`, has a task for each of them; it is told
//! when one is made, changed or gone.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base::locks::locked;
use base::{PartitionId, Timestamp};
use tokio::sync::Notify;

use super::StreamName;
use super::effect::PushChange;

/// A subscription that is pushed, by its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PushKey {
    /// The stream.
    pub stream: StreamName,
    /// The subscription.
    pub subscription: Box<str>,
}

/// A subscription that is pushed, as it is since its latest change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PushTarget {
    /// Which.
    pub key: PushKey,
    /// Another one after each change that was not made by a post of its own.
    pub generation: u64,
}

/// Why the latest post of a subscription was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushFailure {
    /// Posts that were not taken, one after the other.
    pub failures: u32,
    /// When the latest one ended.
    pub at: Timestamp,
    /// What came of it.
    pub error: Box<str>,
}

/// All subscriptions that are pushed.
#[derive(Debug, Default)]
pub(crate) struct PushedSubscriptions {
    known: Mutex<KnownPushes>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct KnownPushes {
    by_key: BTreeMap<PushKey, KnownPush>,
    generation: u64,
}

#[derive(Debug)]
struct KnownPush {
    partition: PartitionId,
    generation: u64,
    failure: Option<PushFailure>,
}

impl KnownPushes {
    fn put(&mut self, partition: PartitionId, key: PushKey) {
        self.generation += 1;
        let push = KnownPush { partition, generation: self.generation, failure: None };
        self.by_key.insert(key, push);
    }
}

impl PushedSubscriptions {
    /// A machine was loaded: these are pushed in its partition, and no others.
    pub(super) fn partition_loaded(&self, partition: PartitionId, pushed: &[(StreamName, Box<str>)]) {
        let mut known = locked(&self.known);
        known.by_key.retain(|_, push| push.partition != partition);
        for (stream, subscription) in pushed.iter().cloned() {
            known.put(partition, PushKey { stream, subscription });
        }
        drop(known);
        self.changed.notify_one();
    }

    pub(super) fn change(&self, partition: PartitionId, change: PushChange) {
        let PushChange { stream, subscription, is_pushed } = change;
        let (key, mut known) = (PushKey { stream, subscription }, locked(&self.known));
        if is_pushed {
            known.put(partition, key);
        } else {
            known.by_key.remove(&key);
        }
        drop(known);
        self.changed.notify_one();
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        locked(&self.known).by_key.len()
    }

    pub(super) fn has(&self, key: &PushKey) -> bool {
        locked(&self.known).by_key.contains_key(key)
    }

    pub(super) fn all(&self) -> Vec<PushTarget> {
        let known = locked(&self.known);
        let target = |(key, push): (&PushKey, &KnownPush)| PushTarget {
            key: key.clone(),
            generation: push.generation,
        };
        known.by_key.iter().map(target).collect()
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Notes what came of the latest post.
    pub(super) fn note(&self, target: &PushTarget, failure: Option<PushFailure>) {
        let mut known = locked(&self.known);
        let push = known.by_key.get_mut(&target.key);
        if let Some(push) = push.filter(|push| push.generation == target.generation) {
            push.failure = failure;
        }
    }

    pub(super) fn failure(&self, key: &PushKey) -> Option<PushFailure> {
        locked(&self.known).by_key.get(key)?.failure.clone()
    }
}
