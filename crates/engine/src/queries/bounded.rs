//! Lists that filter behind their index: a call looks at a bounded number of rows, and says where
//! to go on. So a filter that nothing matches costs a page no more than one that everything does.

use std::cmp::Ordering;

use base::Problem;

/// What a call that answers a page may cost at most, in rows, over all partitions.
pub const LOOKED_AT_MAX: usize = 10_000;
/// Looking at so much of what a row carries costs as much as looking at a row.
const BYTES_OF_A_ROW: usize = 1_024;
/// Rows that are looked at in the first round. Each round looks at twice as many as the one before.
const LOOKED_AT_FIRST: usize = 1_000;

/// What it costs to look at a row that carries so many bytes, in rows.
#[must_use]
pub const fn cost_of_row(bytes: usize) -> usize {
    1 + bytes / BYTES_OF_A_ROW
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundedPage<T, K> {
    /// What was found, in order.
    pub found: Vec<T>,
    /// Where the list goes on, where less was found than was asked for and this was not its end.
    pub next: Option<K>,
    /// How many rows were looked at; `None` where an index answers all that is asked.
    pub looked_at: Option<u64>,
    /// What that cost, in rows: a large one costs as much as several ([`cost_of_row`]).
    pub cost: usize,
}

impl<T, K> Default for BoundedPage<T, K> {
    fn default() -> Self {
        Self::indexed(Vec::new())
    }
}

impl<T, K> BoundedPage<T, K> {
    /// What an index answers.
    #[must_use]
    pub fn indexed(found: Vec<T>) -> Self {
        Self { found, next: None, looked_at: None, cost: 0 }
    }
}

/// What was looked at of one source.
pub(super) struct ScannedSource<K, T> {
    /// What matches, in order.
    pub(super) found: Vec<(K, T)>,
    /// How many rows were looked at.
    pub(super) rows: usize,
    /// What that cost, in rows: a large one costs as much as several.
    pub(super) cost: usize,
    /// The last row that was looked at; `None` at the end of the source.
    pub(super) until: Option<K>,
}

/// The first `limit` matches of `sources` together, as far as the cost of `cost_max` rows leads.
/// `look` looks at rows of a source behind a key, at the cost of so many; `before` says which of
/// two keys comes first.
pub(super) fn bounded<K: Clone, T>(
    sources: usize,
    (limit, cost_max): (usize, usize),
    before: impl Fn(&K, &K) -> bool,
    look: impl Fn(usize, Option<&K>, usize) -> Result<ScannedSource<K, T>, Problem>,
) -> Result<BoundedPage<(usize, K, T), K>, Problem> {
    let in_order = |a: &K, b: &K| match (before(a, b), before(b, a)) {
        (true, _) => Ordering::Less,
        (_, true) => Ordering::Greater,
        _ => Ordering::Equal,
    };
    let (mut found, mut after, mut rows) = (Vec::new(), None, LOOKED_AT_FIRST.min(cost_max));
    let (mut looked_at, mut cost) = (0, 0);
    let next = loop {
        let share = (rows / sources.max(1)).max(1);
        let (mut round, mut until): (Vec<(usize, K, T)>, Option<K>) = (Vec::new(), None);
        for source in 0..sources {
            let looked = look(source, after.as_ref(), share)?;
            looked_at += looked.rows as u64;
            cost += looked.cost;
            round.extend(looked.found.into_iter().map(|(key, item)| (source, key, item)));
            // Behind the nearest of them something may be missing.
            until = match (until, looked.until) {
                (Some(nearest), Some(other)) if !before(&other, &nearest) => Some(nearest),
                (nearest, other) => other.or(nearest),
            };
        }
        if let Some(until) = &until {
            round.retain(|(_, key, _)| !before(until, key));
        }
        round.sort_by(|(_, a, _), (_, b, _)| in_order(a, b));
        found.extend(round);
        if found.len() >= limit {
            found.truncate(limit);
            break None;
        }
        let Some(until) = until else { break None };
        if cost >= cost_max {
            break Some(until);
        }
        after = Some(until);
        rows = (rows * 2).min(cost_max - cost);
    };
    Ok(BoundedPage { found, next, looked_at: Some(looked_at), cost })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at so many numbers of a source behind a key. Source `n` of `sources` has every number
    /// below `end` that is `n` modulo `sources`. Those that `step` divides match.
    fn look(
        (source, sources): (u32, u32),
        (end, step): (u32, u32),
        after: Option<&u32>,
        rows: usize,
    ) -> ScannedSource<u32, u32> {
        let all = (0..end).filter(|number| number % sources == source);
        let mut some: Vec<u32> =
            all.filter(|number| after.is_none_or(|after| number > after)).take(rows + 1).collect();
        let until = (some.len() > rows).then(|| some[rows - 1]);
        some.truncate(rows);
        let found = some.iter().filter(|number| *number % step == 0).map(|number| (*number, number * 2));
        ScannedSource { found: found.collect(), rows: some.len(), cost: some.len(), until }
    }

    #[test]
    fn all_matches_are_found_in_order_whatever_they_lie_between() {
        for (sources, end, step, limit) in [
            (1, 50_000, 7_001, 3),
            (16, 60_000, 9_973, 100),
            (3, 100, 1, 17),
            (16, 40_000, 50_000, 10),
            (4, 0, 1, 5),
        ] {
            let (mut found, mut after, mut calls): (Vec<u32>, Option<u32>, u32) = (Vec::new(), None, 0);
            loop {
                let before = |a: &u32, b: &u32| a < b;
                let chunk = bounded(sources, (limit, LOOKED_AT_MAX), before, |source, behind, rows| {
                    let place = (source as u32, sources as u32);
                    Ok(look(place, (end, step), behind.or(after.as_ref()), rows))
                });
                let chunk = chunk.expect("readable");
                let most = (LOOKED_AT_MAX + sources) as u64;
                assert!(chunk.looked_at.is_some_and(|rows| rows <= most), "{:?}", chunk.looked_at);
                assert!(chunk.found.iter().all(|(_, key, item)| *item == key * 2));
                let whole = chunk.found.len() == limit;
                found.extend(chunk.found.iter().map(|(_, key, _)| *key));
                calls += 1;
                after = chunk.next.or(found.last().copied().filter(|_| whole));
                if after.is_none() {
                    break;
                }
                assert!(calls < 100, "it does not come forward");
            }
            let expect: Vec<u32> = (0..end).step_by(step as usize).collect();
            assert_eq!(found, expect, "{sources} sources, {end}, {step}");
        }
    }
}
