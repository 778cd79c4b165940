//! Operations that have ended and are kept for a while, and which of them is forgotten next.
//!
//! Each goes when its time is over. Where there are too many, the oldest go before their time. But
//! those of a token that has more than its share go first, so that it pushes out nobody else's.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use base::{EntityId, Timestamp};

/// Operations that have ended and are kept; of more, the oldest go before their time.
const ENDED_MAX: usize = 1_000;
/// Of those, how many of one token stay where others need the places.
const ENDED_SHARE: usize = ENDED_MAX / 2;

/// When an operation ended, and which.
pub(super) type EndKey = (Timestamp, EntityId);

/// Operations that have ended, with the name of the token that began each.
#[derive(Debug, Default)]
pub(super) struct EndedOperations {
    by_end: BTreeMap<EndKey, Option<Box<str>>>,
    of_token: HashMap<Option<Box<str>>, usize>,
}

impl EndedOperations {
    pub(super) fn insert(&mut self, key: EndKey, by: Option<Box<str>>) {
        if self.by_end.insert(key, by.clone()).is_none() {
            *self.of_token.entry(by).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, key: EndKey) {
        let Some(by) = self.by_end.remove(&key) else { return };
        let left = self.of_token.get_mut(&by).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            self.of_token.remove(&by);
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = EntityId> {
        self.by_end.keys().map(|(_, id)| *id)
    }

    /// The operation that is to be forgotten now, if there is one.
    pub(super) fn due(&self, keep: Duration, now: Timestamp) -> Option<EndKey> {
        let oldest = *self.by_end.keys().next()?;
        if self.by_end.len() > ENDED_MAX {
            return Some(self.oldest_beyond_a_share().unwrap_or(oldest));
        }
        (oldest.0.after(keep) <= now).then_some(oldest)
    }

    /// When there will be one to forget.
    pub(super) fn next_due(&self, keep: Duration, now: Timestamp) -> Option<Timestamp> {
        let (at, _) = self.by_end.keys().next()?;
        Some(if self.by_end.len() > ENDED_MAX { now } else { at.after(keep) })
    }

    fn oldest_beyond_a_share(&self) -> Option<EndKey> {
        let (greedy, _) = self.of_token.iter().find(|(_, count)| **count > ENDED_SHARE)?;
        self.by_end.iter().find(|(_, by)| *by == greedy).map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(60);

    fn key(at: i64) -> EndKey {
        (Timestamp(at), EntityId { routing: 0, at: Timestamp(at), number: 0, tag: 0 })
    }

    fn ended(of_token: &[(&str, usize)]) -> EndedOperations {
        let mut ended = EndedOperations::default();
        let tokens = of_token.iter().flat_map(|(by, count)| std::iter::repeat_n(*by, *count));
        for (at, by) in (0..).zip(tokens) {
            ended.insert(key(at), Some(by.into()));
        }
        ended
    }

    #[test]
    fn each_is_forgotten_when_its_time_is_over() {
        let mut ended = ended(&[("a", 2)]);
        assert_eq!(ended.due(KEEP, Timestamp(59_999)), None);
        assert_eq!(ended.next_due(KEEP, Timestamp(0)), Some(Timestamp(60_000)));
        assert_eq!(ended.due(KEEP, Timestamp(60_000)), Some(key(0)));
        ended.remove(key(0));
        assert_eq!(ended.due(KEEP, Timestamp(60_000)), None);
    }

    #[test]
    fn a_token_with_more_than_its_share_pushes_out_its_own() {
        for (of_token, expect) in [
            (&[("few", 1), ("many", 1_000)][..], 1),
            (&[("one", 500), ("other", 500), ("third", 1)], 0),
            (&[("alone", 1_001)], 0),
            (&[("few", 499), ("many", 502)], 499),
        ] {
            let ended = ended(of_token);
            assert_eq!(ended.due(KEEP, Timestamp(0)), Some(key(expect)), "{of_token:?}");
            assert_eq!(ended.next_due(KEEP, Timestamp(7)), Some(Timestamp(7)), "{of_token:?}");
        }
        assert_eq!(ended(&[("many", 1_000)]).due(KEEP, Timestamp(0)), None);
    }
}
