//! Several ordered sources read as one, a little of each at a time. So a page of a list over all
//! partitions reads hardly more than it shows.

use std::collections::VecDeque;

use base::Problem;

/// Items that are read beyond a source's share, so that few sources are read twice.
const SLACK_ITEMS: usize = 16;

/// One source, as far as it was read.
struct MergeSource<K, T> {
    items: VecDeque<(K, T)>,
    last: Option<K>,
    ended: bool,
}

/// The first `limit` items of `sources` together, each with its source. `read` gives a source's
/// next items, in order, behind a key; fewer than it was asked for are its last. `before` says
/// which of two keys comes first.
pub(super) fn merge<K: Clone, T>(
    sources: usize,
    limit: usize,
    before: impl Fn(&K, &K) -> bool,
    read: impl Fn(usize, Option<&K>, usize) -> Result<Vec<(K, T)>, Problem>,
) -> Result<Vec<(usize, K, T)>, Problem> {
    let share = if sources == 1 { limit } else { limit.min(limit.div_ceil(sources.max(1)) + SLACK_ITEMS) };
    let empty = || MergeSource { items: VecDeque::new(), last: None, ended: limit == 0 };
    let mut open: Vec<MergeSource<K, T>> = (0..sources).map(|_| empty()).collect();
    let mut merged = Vec::with_capacity(limit.min(1_024));
    while merged.len() < limit {
        let mut first: Option<usize> = None;
        for at in 0..sources {
            open[at].fill(share, |last| read(at, last, share))?;
            let Some((key, _)) = open[at].items.front() else { continue };
            let is_first = first.and_then(|first| open[first].items.front());
            if is_first.is_none_or(|(other, _)| before(key, other)) {
                first = Some(at);
            }
        }
        let Some(at) = first else { break };
        merged.extend(open[at].items.pop_front().map(|(key, item)| (at, key, item)));
    }
    Ok(merged)
}

impl<K: Clone, T> MergeSource<K, T> {
    fn fill(
        &mut self,
        share: usize,
        read: impl FnOnce(Option<&K>) -> Result<Vec<(K, T)>, Problem>,
    ) -> Result<(), Problem> {
        if self.ended || !self.items.is_empty() {
            return Ok(());
        }
        self.items = read(self.last.as_ref())?.into();
        self.ended = self.items.len() < share;
        self.last = self.items.back().map(|(key, _)| key.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a sorted list behind a key.
    fn behind(list: &[u32], last: Option<&u32>, limit: usize) -> Vec<(u32, u32)> {
        let rest = list.iter().filter(|item| last.is_none_or(|last| *item > last));
        rest.take(limit).map(|item| (*item, item * 10)).collect()
    }

    #[test]
    fn sources_of_any_length_come_as_one() {
        for (lengths, limit) in
            [([0, 0, 0], 5), ([100, 0, 3], 60), ([1, 200, 90], 250), ([7, 7, 7], 21), ([50, 50, 50], 0)]
        {
            let list =
                |source: u32| (0..lengths[source as usize]).map(|n| n * 3 + source).collect::<Vec<u32>>();
            let lists = [list(0), list(1), list(2)];
            let mut expect: Vec<u32> = lists.concat();
            expect.sort_unstable();
            expect.truncate(limit);
            let read = |at: usize, last: Option<&u32>, most| Ok(behind(&lists[at], last, most));
            let merged = merge(3, limit, |a, b| a < b, read).expect("readable");
            assert_eq!(merged.iter().map(|(_, key, _)| *key).collect::<Vec<_>>(), expect, "{lengths:?}");
            assert!(merged.iter().all(|(at, key, item)| *item == key * 10 && lists[*at].contains(key)));
        }
    }

    #[test]
    fn little_more_is_read_than_is_shown() {
        let list: Vec<u32> = (0..100_000).collect();
        let read_items = std::cell::Cell::new(0);
        let read = |at: usize, last: Option<&u32>, most| {
            let of_source: Vec<u32> = list.iter().filter(|n| **n % 16 == at as u32).copied().collect();
            read_items.set(read_items.get() + most);
            Ok(behind(&of_source, last, most))
        };
        assert_eq!(merge(16, 1_000, |a, b| a < b, read).expect("readable").len(), 1_000);
        assert!(read_items.get() <= 1_000 + 16 * 17, "{} were read", read_items.get());
    }
}
