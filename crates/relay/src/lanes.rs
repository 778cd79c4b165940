//! Destinations that are behind the others: one that cannot take anything now, and one that has
//! older rows than were read. Each has a bound of its own, until it has caught up. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Waits double from the first to the longest; the server may ask for a longer one, up to a limit.
pub(crate) const PAUSE_FIRST: Duration = Duration::from_millis(250);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(5);
pub(crate) const PAUSE_ASKED_MAX: Duration = Duration::from_secs(60);
/// Destinations behind at a time.
pub(crate) const LANES_MAX: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RelayLane {
    /// Rows with a higher id have not been sent.
    bound: i64,
    due: Instant,
    pause: Duration,
    /// Its rows were found behind what was read.
    is_behind: bool,
}

/// The destinations that are behind, by their text.
#[derive(Debug, Default)]
pub(crate) struct WaitingLanes(BTreeMap<String, RelayLane>);

impl WaitingLanes {
    /// Its rows from `first_id` on are sent by themselves, from now on.
    pub(crate) fn go_back(&mut self, destination: &str, first_id: i64, now: Instant) {
        let new = RelayLane { bound: i64::MAX, due: now, pause: PAUSE_FIRST, is_behind: false };
        let lane = self.0.entry(destination.to_owned()).or_insert(new);
        lane.bound = lane.bound.min(first_id.saturating_sub(1));
    }

    /// The same of rows that were found behind what was read. Those that a lane has before it
    /// anyhow are not behind.
    pub(crate) fn found_behind(&mut self, destination: &str, first_id: i64, now: Instant) {
        let is_behind = self.0.get(destination).is_none_or(|lane| first_id <= lane.bound);
        self.go_back(destination, first_id, now);
        if let Some(lane) = self.0.get_mut(destination) {
            lane.is_behind |= is_behind;
        }
    }

    pub(crate) fn is_behind(&self, destination: &str) -> bool {
        self.0.get(destination).is_some_and(|lane| lane.is_behind)
    }

    /// Its rows from `first_id` on are tried again after a pause, which grows.
    pub(crate) fn wait(&mut self, destination: &str, first_id: i64, asked: Option<Duration>, now: Instant) {
        self.go_back(destination, first_id, now);
        if let Some(lane) = self.0.get_mut(destination) {
            lane.due = now + lane.pause.max(asked.unwrap_or_default().min(PAUSE_ASKED_MAX));
            lane.pause = (lane.pause * 2).min(PAUSE_MAX);
        }
    }

    /// Its rows up to this one are sent, or being sent.
    pub(crate) fn advance(&mut self, destination: &str, last_id: i64) {
        if let Some(lane) = self.0.get_mut(destination) {
            lane.bound = last_id;
        }
    }

    /// It takes rows again.
    pub(crate) fn took(&mut self, destination: &str) {
        if let Some(lane) = self.0.get_mut(destination) {
            lane.pause = PAUSE_FIRST;
        }
    }

    /// It has caught up.
    pub(crate) fn caught_up(&mut self, destination: &str) {
        self.0.remove(destination);
    }

    pub(crate) fn has(&self, destination: &str) -> bool {
        self.0.contains_key(destination)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The one that is due for longest, with its bound.
    pub(crate) fn due(&self, now: Instant) -> Option<(String, i64)> {
        let due = self.0.iter().filter(|(_, lane)| lane.due <= now).min_by_key(|(_, lane)| lane.due);
        due.map(|(destination, lane)| (destination.clone(), lane.bound))
    }

    /// The next turn is another's, if another is due.
    pub(crate) fn had_turn(&mut self, destination: &str, now: Instant) {
        if let Some(lane) = self.0.get_mut(destination) {
            lane.due = lane.due.max(now);
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.0.values().map(|lane| lane.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_something_is_taken() {
        let (mut lanes, now) = (WaitingLanes::default(), Instant::now());
        lanes.wait("q", 5, None, now);
        assert_eq!((lanes.due(now), lanes.next_due()), (None, Some(now + PAUSE_FIRST)));
        let then = now + PAUSE_FIRST;
        assert_eq!(lanes.due(then), Some(("q".to_owned(), 4)));
        lanes.advance("q", 9);
        lanes.wait("q", 7, None, then);
        assert_eq!(lanes.due(then + PAUSE_FIRST * 2), Some(("q".to_owned(), 6)));
        for _ in 0..20 {
            lanes.wait("q", 7, None, then);
        }
        assert_eq!(lanes.next_due(), Some(then + PAUSE_MAX));
        lanes.wait("q", 7, Some(Duration::from_secs(3_600)), then);
        assert_eq!(lanes.next_due(), Some(then + PAUSE_ASKED_MAX));
        lanes.took("q");
        lanes.wait("q", 7, None, then);
        assert_eq!(lanes.next_due(), Some(then + PAUSE_FIRST));
        lanes.caught_up("q");
        assert!(!lanes.has("q"));
    }

    #[test]
    fn lanes_take_turns() {
        let (mut lanes, now) = (WaitingLanes::default(), Instant::now());
        lanes.go_back("a", 3, now);
        lanes.go_back("b", 2, now);
        lanes.go_back("b", 8, now);
        lanes.found_behind("a", 3, now);
        lanes.found_behind("b", 4, now);
        assert_eq!((lanes.is_behind("a"), lanes.is_behind("b")), (false, false), "their turn comes");
        lanes.found_behind("a", 2, now);
        lanes.found_behind("c", 1, now);
        assert_eq!((lanes.is_behind("a"), lanes.is_behind("c")), (true, true));
        lanes.caught_up("c");
        assert_eq!(lanes.due(now), Some(("a".to_owned(), 1)));
        lanes.had_turn("a", now + Duration::from_millis(1));
        assert_eq!(lanes.due(now + Duration::from_millis(1)), Some(("b".to_owned(), 1)));
    }
}
