//! Who reads a subscription at the moment: one reader at a time.
//!
//! Only in memory: after a restart anybody may read on. Nothing is lost by that, because the
//! position is durable, and whoever read before is told that somebody else does now.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use base::locks::locked;
use base::{Incarnation, Problem, Timestamp};
use tokio::sync::Notify;

use super::StreamName;
use crate::context::EngineContext;

/// Holds from which on those that are over are looked for.
const PRUNED_FROM: usize = 1_024;

/// A subscription: its stream, and its name.
type HeldKey = (Incarnation, Box<str>);

/// The readers of all subscriptions.
#[derive(Debug, Default)]
pub(crate) struct ReaderHolds {
    held: Mutex<HeldSubscriptions>,
    /// Told when a subscription is gone.
    forgotten: Notify,
}

#[derive(Debug, Default)]
struct HeldSubscriptions {
    by_key: HashMap<HeldKey, ReaderHold>,
    /// So many were left when those that are over were last taken out.
    left: usize,
    /// Holds that there were so far.
    numbers: u64,
}

#[derive(Debug)]
struct ReaderHold {
    /// Another one for each, also of one subscription: a call ends the hold that it began under.
    number: u64,
    reader: Box<str>,
    /// Calls of the reader that are under way.
    calls: usize,
    ttl: Duration,
    /// Until when nobody else reads, once no call is under way.
    until: Timestamp,
}

impl ReaderHold {
    fn holds(&self, now: Timestamp) -> bool {
        self.calls > 0 || self.until > now
    }
}

impl ReaderHolds {
    /// Who has a subscription.
    pub(super) fn reader(&self, stream: Incarnation, name: &str, now: Timestamp) -> Option<Box<str>> {
        let held = locked(&self.held);
        let hold = held.by_key.get(&(stream, Box::from(name)))?;
        hold.holds(now).then(|| hold.reader.clone())
    }

    /// A reader begins a call: under which hold.
    fn begin(&self, key: &HeldKey, reader: &str, ttl: Duration, now: Timestamp) -> Result<u64, Problem> {
        let mut held = locked(&self.held);
        held.numbers += 1;
        let number = held.numbers;
        if held.by_key.len() >= PRUNED_FROM.max(2 * held.left) {
            held.by_key.retain(|_, hold| hold.holds(now));
            held.left = held.by_key.len();
        }
        let hold = held.by_key.entry(key.clone()).or_insert_with(|| ReaderHold {
            number,
            reader: reader.into(),
            calls: 0,
            ttl,
            until: now,
        });
        if *hold.reader != *reader {
            if hold.holds(now) {
                return Err(busy(&key.1, &hold.reader));
            }
            (hold.number, hold.reader, hold.calls) = (number, reader.into(), 0);
        }
        hold.calls += 1;
        hold.ttl = ttl;
        Ok(hold.number)
    }

    /// The subscription is gone: whoever read it holds nothing.
    pub(super) fn forget(&self, stream: Incarnation, name: &str) {
        locked(&self.held).by_key.remove(&(stream, Box::from(name)));
        self.forgotten.notify_waiters();
    }

    /// Whether a reader has a subscription under that hold.
    fn has(&self, key: &HeldKey, number: u64) -> bool {
        locked(&self.held).by_key.get(key).is_some_and(|hold| hold.number == number)
    }

    fn end(&self, key: &HeldKey, number: u64, now: Timestamp) {
        let mut held = locked(&self.held);
        let Some(hold) = held.by_key.get_mut(key).filter(|hold| hold.number == number) else { return };
        hold.calls = hold.calls.saturating_sub(1);
        hold.until = now.after(hold.ttl);
    }

    /// A reader goes on: another one is refused.
    pub(super) fn go_on(
        &self,
        stream: Incarnation,
        name: &str,
        reader: &str,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let mut held = locked(&self.held);
        match held.by_key.get_mut(&(stream, Box::from(name))) {
            Some(hold) if *hold.reader == *reader => hold.until = now.after(hold.ttl),
            Some(hold) if hold.holds(now) => return Err(busy(name, &hold.reader)),
            _ => {}
        }
        Ok(())
    }
}

fn busy(name: &str, reader: &str) -> Problem {
    let detail = format!("subscription {name} is read by {reader:?}; one reader reads at a time");
    Problem::new(409, "subscription_busy", detail)
}

/// The messages of a subscription are pushed: nobody else reads them.
pub(super) fn is_pushed(stream: &StreamName, name: &str) -> Problem {
    let detail = format!("the messages of subscription {name} of stream {stream} are pushed");
    Problem::new(409, "subscription_busy", detail)
}

/// A call of a reader: until it is dropped, and for the reader's `ttl` from then on, no other
/// reader reads the subscription.
#[derive(Debug)]
pub struct SubscriptionHold {
    context: EngineContext,
    key: HeldKey,
    number: u64,
}

impl SubscriptionHold {
    pub(super) fn begin(
        context: &EngineContext,
        key: HeldKey,
        reader: &str,
        ttl: Duration,
    ) -> Result<Self, Problem> {
        let number = context.streams.holds.begin(&key, reader, ttl, context.kernel.clock.now())?;
        Ok(Self { context: context.clone(), key, number })
    }

    /// Returns once the subscription is deleted, with what its reader is to be told.
    pub async fn gone(&self) -> Problem {
        let holds = &self.context.streams.holds;
        loop {
            let told = holds.forgotten.notified();
            tokio::pin!(told);
            // Before it is looked at: what comes behind the look is told.
            told.as_mut().enable();
            if !holds.has(&self.key, self.number) {
                let detail = format!("subscription {} was deleted; make it again to read on", self.key.1);
                return Problem::unknown("unknown_subscription", detail);
            }
            told.await;
        }
    }
}

impl Drop for SubscriptionHold {
    fn drop(&mut self) {
        self.context.streams.holds.end(&self.key, self.number, self.context.kernel.clock.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn code<T>(result: Result<T, Problem>) -> Option<&'static str> {
        result.err().map(|problem| problem.code)
    }

    #[test]
    fn another_reader_waits_until_the_first_has_been_silent_for_its_ttl() {
        let (holds, key) = (ReaderHolds::default(), (Incarnation(1), Box::from("r")));
        let at = |seconds: i64| Timestamp(seconds * 1_000);
        let first = holds.begin(&key, "a", TTL, at(0)).expect("free");
        assert_eq!(code(holds.begin(&key, "b", TTL, at(900))), Some("subscription_busy"), "a call is open");
        holds.end(&key, first, at(1_000));
        assert_eq!(holds.reader(key.0, "r", at(1_029)).as_deref(), Some("a"));
        assert_eq!(code(holds.go_on(key.0, "r", "b", at(1_029))), Some("subscription_busy"));
        assert_eq!(code(holds.go_on(key.0, "r", "a", at(1_029))), None);
        assert_eq!(code(holds.begin(&key, "b", TTL, at(1_058))), Some("subscription_busy"));
        assert_eq!(holds.reader(key.0, "r", at(1_059)), None);
        assert_eq!(code(holds.begin(&key, "b", TTL, at(1_059))), None);
        assert_eq!(code(holds.go_on(key.0, "r", "a", at(1_060))), Some("subscription_busy"));
        holds.end(&key, first, at(1_060));
        assert_eq!(holds.reader(key.0, "r", at(9_999)).as_deref(), Some("b"), "its call is under way");
    }

    #[test]
    fn a_call_of_a_subscription_that_was_deleted_ends_no_hold_of_the_next() {
        let (holds, key) = (ReaderHolds::default(), (Incarnation(1), Box::from("r")));
        let at = |seconds: i64| Timestamp(seconds * 1_000);
        let before = holds.begin(&key, "a", TTL, at(0)).expect("free");
        holds.forget(key.0, "r");
        let since = holds.begin(&key, "a", TTL, at(1)).expect("free");
        holds.end(&key, before, at(2));
        assert_eq!(code(holds.begin(&key, "b", TTL, at(900))), Some("subscription_busy"), "a call is open");
        holds.end(&key, since, at(900));
        assert_eq!(code(holds.begin(&key, "b", TTL, at(930))), None);
    }

    #[test]
    fn holds_that_are_over_are_forgotten() {
        let holds = ReaderHolds::default();
        for number in 0..10 * PRUNED_FROM as u64 {
            let (key, now) = ((Incarnation(number), Box::from("r")), Timestamp(number as i64 * 60_000));
            let hold = holds.begin(&key, "a", TTL, now).expect("free");
            holds.end(&key, hold, now);
        }
        assert!(locked(&holds.held).by_key.len() <= PRUNED_FROM, "{}", locked(&holds.held).by_key.len());
    }
}
