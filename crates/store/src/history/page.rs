//! One page of a device's readings, gathered from sources whose times overlap.

use base::Timestamp;
use records::Reading;

use crate::port::{Page, ReadingKey};

/// The times of some readings, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadingSpan {
    pub(crate) min: Timestamp,
    pub(crate) max: Timestamp,
}

impl ReadingSpan {
    /// The span of no readings.
    pub(crate) const EMPTY: Self = Self { min: Timestamp::MAX, max: Timestamp(i64::MIN) };

    pub(crate) fn contains(&self, ts: Timestamp) -> bool {
        self.min <= ts && ts <= self.max
    }

    /// Whether any time is in both.
    pub(crate) fn meets(&self, other: Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }

    pub(crate) fn cover(&mut self, ts: Timestamp) {
        self.min = self.min.min(ts);
        self.max = self.max.max(ts);
    }
}

/// Collects the readings of a page: the first `limit` in its direction among all that is added.
///
/// Sources may be added in any order; added in the direction of the page, most can be passed by.
#[derive(Debug)]
pub(crate) struct ReadingPage {
    page: Page<ReadingKey>,
    found: Vec<Reading>,
}

fn key(reading: &Reading) -> ReadingKey {
    ReadingKey { ts: reading.ts, number: reading.number }
}

impl ReadingPage {
    pub(crate) fn new(page: Page<ReadingKey>) -> Self {
        Self { page, found: Vec::new() }
    }

    /// The times that may still be on the page: a source outside need not be read.
    pub(crate) fn open_span(&self) -> ReadingSpan {
        let mut span = ReadingSpan { min: self.page.from, max: Timestamp(self.page.to.0.saturating_sub(1)) };
        let full = self.found.len() >= self.page.limit;
        let worst = self.found.last().filter(|_| full).map(|reading| reading.ts);
        let after = self.page.after.map(|after| after.ts);
        let (first, last) = if self.page.ascending { (after, worst) } else { (worst, after) };
        span.min = first.map_or(span.min, |first| span.min.max(first));
        span.max = last.map_or(span.max, |last| span.max.min(last));
        span
    }

    /// Whether a source with these times may hold something for the page.
    pub(crate) fn wants(&self, source: ReadingSpan) -> bool {
        let open = self.open_span();
        self.page.limit > 0 && open.min <= open.max && source.meets(open)
    }

    fn holds(&self, reading: &Reading) -> bool {
        let after = self.page.after.is_none_or(|after| match self.page.ascending {
            true => key(reading) > after,
            false => key(reading) < after,
        });
        after && self.page.from <= reading.ts && reading.ts < self.page.to
    }

    /// Adds a source's readings of the device, which are in the order of its feed.
    pub(crate) fn add(&mut self, readings: impl IntoIterator<Item = Reading>) {
        let before = self.found.len();
        let mut found = std::mem::take(&mut self.found);
        found.extend(readings.into_iter().filter(|reading| self.holds(reading)));
        if !self.page.ascending {
            found[before..].reverse();
        }
        let is_behind = |pair: &[Reading]| self.is_in_order(&pair[0], &pair[1]);
        // mostly each source lies behind those before it
        if !found[before.saturating_sub(1)..].windows(2).all(is_behind) {
            // stable: made for what is in order already, in pieces
            if self.page.ascending {
                found.sort_by_key(key);
            } else {
                found.sort_by_key(|reading| std::cmp::Reverse(key(reading)));
            }
        }
        found.truncate(self.page.limit);
        self.found = found;
    }

    fn is_in_order(&self, first: &Reading, second: &Reading) -> bool {
        if self.page.ascending { key(first) <= key(second) } else { key(first) >= key(second) }
    }

    /// Whether the page reads from the oldest on.
    pub(crate) fn is_ascending(&self) -> bool {
        self.page.ascending
    }

    pub(crate) fn finish(self) -> Vec<Reading> {
        self.found
    }
}
