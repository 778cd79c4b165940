//! Which stream has a block brought to another storage next. Few go to each at a time, and one
//! after the other to a storage that failed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{Incarnation, Timestamp};
use records::{LOCAL_STORAGE, StreamSettings};

/// Moves to a storage that a partition has under way.
pub(super) const MOVES_PER_STORAGE: usize = 2;
/// After how long a storage that failed is tried again, at first.
pub(super) const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest such time.
pub(super) const RETRY_MAX: Duration = Duration::from_secs(60);

/// The moves of a partition, by the storage that they go to.
#[derive(Debug, Default)]
pub(super) struct MoveScheduler {
    by_storage: BTreeMap<Box<str>, StorageMoves>,
    /// Where each stream that waits stands: the storage, and its place there.
    waiting: BTreeMap<Incarnation, (Box<str>, u64)>,
    next_place: u64,
}

#[derive(Debug, Default)]
struct StorageMoves {
    under_way: usize,
    waiting: BTreeSet<(u64, Incarnation)>,
    /// After a failure: when the next move goes, and after how long the one behind it.
    retry: Option<(Timestamp, Duration)>,
}

impl StorageMoves {
    fn is_free(&self, now: Timestamp) -> bool {
        match self.retry {
            Some((at, _)) => self.under_way == 0 && at <= now,
            None => self.under_way < MOVES_PER_STORAGE,
        }
    }
}

impl MoveScheduler {
    /// Begins a move if it may go; whether it does.
    pub(super) fn try_begin(&mut self, to: &str, is_next: bool, now: Timestamp) -> bool {
        let moves = self.by_storage.entry(to.into()).or_default();
        let may = moves.is_free(now) && (is_next || moves.waiting.is_empty());
        moves.under_way += usize::from(may);
        may
    }

    pub(super) fn wait(&mut self, stream: Incarnation, to: &str) {
        self.forget(stream);
        self.next_place += 1;
        self.waiting.insert(stream, (to.into(), self.next_place));
        self.by_storage.entry(to.into()).or_default().waiting.insert((self.next_place, stream));
    }

    /// A stream does not wait.
    pub(super) fn forget(&mut self, stream: Incarnation) {
        if let Some((to, place)) = self.waiting.remove(&stream)
            && let Some(moves) = self.by_storage.get_mut(&to)
        {
            moves.waiting.remove(&(place, stream));
        }
    }

    /// Of the streams that wait for the first free storage by name, that which waits longest. A
    /// storage that nobody waits for is passed over.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<Incarnation> {
        let mut free = self.by_storage.values().filter(|moves| moves.is_free(now));
        let stream = free.find_map(|moves| moves.waiting.first().map(|(_, stream)| *stream))?;
        self.forget(stream);
        Some(stream)
    }

    /// When a stream that waits may go on.
    pub(super) fn next_at(&self, now: Timestamp) -> Option<Timestamp> {
        let at = |moves: &StorageMoves| match moves.retry {
            _ if moves.waiting.is_empty() => None,
            Some((at, _)) => (moves.under_way == 0).then_some(at),
            None => moves.is_free(now).then_some(now),
        };
        self.by_storage.values().filter_map(at).min()
    }

    /// A move has ended.
    pub(super) fn end(&mut self, to: &str, is_target_away: bool, now: Timestamp) {
        let Some(moves) = self.by_storage.get_mut(to) else { return };
        moves.under_way = moves.under_way.saturating_sub(1);
        moves.retry = is_target_away.then(|| {
            let after = moves.retry.map_or(RETRY_MIN, |(_, after)| (after * 2).min(RETRY_MAX));
            (now.after(after), after)
        });
    }

    /// Whether the blocks of a stream leave the local storage, so that none has to be dropped for a
    /// disk that is nearly full.
    pub(super) fn free_local(&self, settings: &StreamSettings) -> bool {
        let is_failing = |to: &str| self.by_storage.get(to).is_some_and(|moves| moves.retry.is_some());
        let first = settings.moves.first();
        first.is_some_and(|first| *first.to != *LOCAL_STORAGE && !is_failing(&first.to))
    }

    pub(super) fn is_waiting(&self, stream: Incarnation) -> bool {
        self.waiting.contains_key(&stream)
    }
}
