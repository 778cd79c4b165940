//! When posts of notices are due, over all clients and for each.

use std::collections::{BTreeMap, BTreeSet};

use base::{Incarnation, Timestamp};
use records::NoticeKey;

use super::Place;

/// Posts by the time at which they are due. Those that are leased are due when their lease ends.
#[derive(Debug, Default)]
pub(super) struct DuePosts {
    all: BTreeSet<(Timestamp, Place)>,
    of: BTreeMap<Incarnation, BTreeSet<(Timestamp, NoticeKey)>>,
}

impl DuePosts {
    pub(super) fn insert(&mut self, at: Timestamp, (client, notice): Place) {
        self.all.insert((at, (client, notice)));
        self.of.entry(client).or_default().insert((at, notice));
    }

    pub(super) fn remove(&mut self, at: Timestamp, (client, notice): Place) {
        self.all.remove(&(at, (client, notice)));
        if let Some(posts) = self.of.get_mut(&client) {
            posts.remove(&(at, notice));
            if posts.is_empty() {
                self.of.remove(&client);
            }
        }
    }

    /// The post of a client that is due first.
    pub(super) fn first_of(&self, client: Incarnation) -> Option<(Timestamp, NoticeKey)> {
        self.of.get(&client).and_then(BTreeSet::first).copied()
    }

    /// The next time after `now` at which one comes due.
    pub(super) fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let first = (Incarnation(0), NoticeKey { at: Timestamp(i64::MIN), number: 0 });
        self.all.range((Timestamp(now.0.saturating_add(1)), first)..).next().map(|(at, _)| *at)
    }

    pub(super) fn is_any_due(&self, now: Timestamp) -> bool {
        self.all.first().is_some_and(|(at, _)| *at <= now)
    }
}
