//! Who reads each subscription, as calls of readers begin and end: the rule that there is one, in
//! its simplest form.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::Timestamp;

use super::subscriptions::SubscriptionId;

/// The readers of all subscriptions, in one life of the process.
#[derive(Debug, Default)]
pub(crate) struct ReaderCalls {
    /// Calls so far.
    calls: u64,
    last: BTreeMap<SubscriptionId, LastReader>,
}

/// Who read a subscription last.
#[derive(Debug)]
struct LastReader {
    reader: Box<str>,
    /// Its calls that are under way.
    under_way: BTreeSet<u64>,
    /// As its latest call has it.
    ttl: Duration,
    /// When it last ended a call, or committed.
    heard_at: Timestamp,
}

impl ReaderCalls {
    /// Who has a subscription: while a call of it is under way, and for its `ttl` from then on.
    pub(crate) fn holder(&self, of: &SubscriptionId, now: Timestamp) -> Option<&str> {
        let last = self.last.get(of)?;
        let holds = !last.under_way.is_empty() || last.heard_at.after(last.ttl) > now;
        holds.then_some(&*last.reader)
    }

    /// Who had it last.
    pub(crate) fn last(&self, of: &SubscriptionId) -> Option<&str> {
        self.last.get(of).map(|last| &*last.reader)
    }

    /// A reader begins a call: the number of that.
    pub(crate) fn begin(
        &mut self,
        of: SubscriptionId,
        reader: &str,
        (ttl, now): (Duration, Timestamp),
    ) -> u64 {
        self.calls += 1;
        if self.last(&of).is_some_and(|last| *last != *reader) {
            self.last.remove(&of);
        }
        let last = self.last.entry(of).or_insert_with(|| LastReader {
            reader: reader.into(),
            under_way: BTreeSet::new(),
            ttl,
            heard_at: now,
        });
        last.ttl = ttl;
        last.under_way.insert(self.calls);
        self.calls
    }

    /// A call ends.
    pub(crate) fn end(&mut self, call: u64, now: Timestamp) {
        for last in self.last.values_mut() {
            if last.under_way.remove(&call) {
                last.heard_at = now;
            }
        }
    }

    /// A reader commits.
    pub(crate) fn go_on(&mut self, of: &SubscriptionId, reader: &str, now: Timestamp) {
        if let Some(last) = self.last.get_mut(of).filter(|last| *last.reader == *reader) {
            last.heard_at = now;
        }
    }

    /// A subscription is gone: nobody has it.
    pub(crate) fn forget(&mut self, of: &SubscriptionId) {
        self.last.remove(of);
    }
}
