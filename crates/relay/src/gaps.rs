//! Ids below the bound of what was read that may still appear. Pure.
//!
//! A sequence gives ids in order, but a row is seen only once its transaction has committed. The
//! row with id 5 may appear after that with id 6. So the ids that were missing when the bound went
//! past them are remembered, and looked for together with what is new. A gap is given up when
//! everybody who might own it has ended: a transaction whose number was given out later has later
//! ids. A number may be given out a moment after the id; the slow full look is for that. It is also
//! for gaps that are too wide or too many to be remembered.
//!
//! Where rows were found far below the bound, more are expected right above them: a sequence was
//! restarted, or a service chooses ids. That run of ids is looked at with every reading, too.

use std::time::{Duration, Instant};

/// Gaps remembered at a time; the oldest are left to the full look.
const GAPS_MAX: usize = 1_000;
/// Of a wider gap its end alone is remembered: what is in it was mostly deleted long ago, and
/// walking through it takes time.
const WIDTH_MAX: i64 = 10_000;
/// Without another row a run is looked at for so long; the full look finds where it begins again.
const RUN_KEPT: Duration = Duration::from_secs(60);
/// A gap is remembered for so long at least: a transaction gets its number a moment after an id.
const KEPT_MIN: Duration = Duration::from_secs(1);

/// Transactions, as one snapshot sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotEnds {
    /// All below have ended.
    pub(crate) xmin: i64,
    /// None from here on had a number yet.
    pub(crate) xmax: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IdGap {
    low: i64,
    high: i64,
    /// Owners have a lower number.
    owners_end: i64,
    since: Instant,
}

/// Ids below the bound at which rows appear now, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LowRun {
    low: i64,
    high: i64,
    until: Instant,
}

/// The gaps, by their ids, and the run.
#[derive(Debug, Default)]
pub(crate) struct IdGaps {
    gaps: Vec<IdGap>,
    /// No gap has an id of it.
    run: Option<LowRun>,
}

impl IdGaps {
    /// First and last ids of all that is looked for below the bound, one list for each; none twice.
    pub(crate) fn ranges(&self) -> (Vec<i64>, Vec<i64>) {
        let gaps = self.gaps.iter().map(|gap| (gap.low, gap.high));
        gaps.chain(self.run.map(|run| (run.low, run.high))).unzip()
    }

    /// Where the run begins.
    pub(crate) fn run_low(&self) -> Option<i64> {
        self.run.map(|run| run.low)
    }

    /// A row with this id was found behind the bound: from now on those above it are looked for.
    pub(crate) fn follow(&mut self, id: i64, bound: i64, now: Instant) {
        let near = |run: &LowRun| (id + 1..=id.saturating_add(WIDTH_MAX)).contains(&run.low);
        let low = self.run.filter(near).map_or(id + 1, |run| run.low);
        let high = bound.min(low.saturating_add(WIDTH_MAX - 1));
        self.run = (low <= high).then_some(LowRun { low, high, until: now + RUN_KEPT });
        if self.run.is_some() {
            self.cut_out(low, high);
        }
    }

    /// No gap has an id from `low` to `high` any more.
    fn cut_out(&mut self, low: i64, high: i64) {
        let outside = |gap: IdGap| {
            let below = IdGap { high: gap.high.min(low - 1), ..gap };
            let above = IdGap { low: gap.low.max(high + 1), ..gap };
            [below, above].into_iter().filter(|rest| rest.low <= rest.high)
        };
        self.gaps = std::mem::take(&mut self.gaps).into_iter().flat_map(outside).collect();
    }

    /// Takes note of a reading with these ids, in order, from all gaps and from above `bound`. It
    /// has all that there was if it `is_whole`, else all up to its last id. Gives the new bound.
    pub(crate) fn read(
        &mut self,
        bound: i64,
        ids: &[i64],
        is_whole: bool,
        (ends, now): (SnapshotEnds, Instant),
    ) -> i64 {
        let looked_to = if is_whole { i64::MAX } else { ids.last().copied().unwrap_or(0) };
        self.gaps.retain(|gap| {
            let may_appear = gap.owners_end > ends.xmin || now.duration_since(gap.since) < KEPT_MIN;
            may_appear || gap.high > looked_to
        });
        let mut after = bound;
        for id in ids {
            if *id <= bound {
                if let Some(run) = self.run.filter(|run| (run.low..=run.high).contains(id)) {
                    if run.low < *id {
                        let (low, high) = (run.low, *id - 1);
                        self.gaps.push(IdGap { low, high, owners_end: ends.xmax, since: now });
                    }
                    self.run = None;
                    self.follow(*id, bound, now);
                } else {
                    self.take_out(*id);
                }
                continue;
            }
            if *id > after + 1 {
                let low = (after + 1).max(*id - WIDTH_MAX);
                self.gaps.push(IdGap { low, high: *id - 1, owners_end: ends.xmax, since: now });
            }
            after = *id;
        }
        self.run = self.run.filter(|run| now < run.until);
        if self.gaps.len() > GAPS_MAX {
            self.gaps.drain(..self.gaps.len() - GAPS_MAX);
        }
        after
    }

    fn take_out(&mut self, id: i64) {
        let Some(place) = self.gaps.iter().position(|gap| (gap.low..=gap.high).contains(&id)) else { return };
        let gap = self.gaps.remove(place);
        let rest = [IdGap { high: id - 1, ..gap }, IdGap { low: id + 1, ..gap }];
        self.gaps.splice(place..place, rest.into_iter().filter(|gap| gap.low <= gap.high));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(xmin: i64, xmax: i64) -> SnapshotEnds {
        SnapshotEnds { xmin, xmax }
    }

    #[test]
    fn a_missing_id_is_looked_for_until_its_owners_have_ended() {
        let (mut gaps, start) = (IdGaps::default(), Instant::now());
        let later = start + KEPT_MIN;
        assert_eq!(gaps.read(10, &[11, 14, 15], true, (ends(100, 105), start)), 15);
        assert_eq!(gaps.ranges(), (vec![12], vec![13]));
        assert_eq!(gaps.read(15, &[13], true, (ends(100, 110), later)), 15);
        assert_eq!(gaps.ranges(), (vec![12], vec![12]));
        assert_eq!(gaps.read(15, &[], true, (ends(104, 110), later)), 15);
        assert_eq!(gaps.ranges(), (vec![12], vec![12]), "104 may have it");
        assert_eq!(gaps.read(15, &[], true, (ends(105, 110), later)), 15);
        assert_eq!(gaps.ranges(), (vec![], vec![]));
    }

    #[test]
    fn a_gap_that_was_not_looked_at_stays() {
        let (mut gaps, start) = (IdGaps::default(), Instant::now());
        let later = start + KEPT_MIN;
        gaps.read(0, &[2, 4, 6], true, (ends(1, 2), start));
        gaps.read(6, &[3], false, (ends(9, 9), later));
        assert_eq!(gaps.ranges(), (vec![5], vec![5]));
    }

    #[test]
    fn wide_and_many_gaps_are_bounded() {
        let (mut gaps, now) = (IdGaps::default(), Instant::now());
        assert_eq!(gaps.read(0, &[1_000_000], true, (ends(1, 2), now)), 1_000_000);
        assert_eq!(gaps.ranges(), (vec![990_000], vec![999_999]));
        let ids: Vec<i64> = (0..3_000).map(|n| 1_000_002 + 2 * n).collect();
        gaps.read(1_000_000, &ids, true, (ends(1, 2), now));
        assert_eq!(gaps.ranges().0.len(), GAPS_MAX);
    }

    #[test]
    fn where_a_sequence_began_again_its_next_rows_are_looked_for() {
        let (mut gaps, start) = (IdGaps::default(), Instant::now());
        let bound = gaps.read(0, &[20_000], true, (ends(1, 2), start));
        assert_eq!(gaps.ranges(), (vec![10_000], vec![19_999]));
        gaps.follow(3, bound, start);
        assert_eq!(gaps.ranges(), (vec![10_004, 4], vec![19_999, 10_003]), "no id is in two of them");
        // One behind another that commits later.
        assert_eq!(gaps.read(bound, &[4, 6], true, (ends(1, 9), start)), bound);
        assert_eq!(gaps.ranges(), (vec![10_007, 5, 7], vec![19_999, 5, 10_006]));
        // Several destinations tell of the same rows, the one that is behind last.
        gaps.follow(2, bound, start);
        assert_eq!(gaps.ranges().0, [10_007, 5, 7]);
        let idle = start + RUN_KEPT;
        gaps.read(bound, &[], true, (ends(9, 9), idle));
        assert_eq!(gaps.ranges(), (vec![], vec![]));
        gaps.follow(bound, bound, idle);
        assert_eq!(gaps.ranges(), (vec![], vec![]), "above is what is new");
    }

    /// Writers take ids in order and commit in any; whoever reads reads pages of them.
    fn histories() -> impl Strategy<Value = Vec<(u8, u8)>> {
        proptest::collection::vec((0..4_u8, any::<u8>()), 1..200)
    }

    proptest! {
        #[test]
        fn no_committed_row_is_passed_over(history in histories()) {
            let (mut gaps, start) = (IdGaps::default(), Instant::now());
            let (mut next_id, mut bound, mut clock) = (1_i64, 0_i64, start);
            let mut open: Vec<i64> = Vec::new(); // transaction numbers are the ids
            let (mut visible, mut taken) = (Vec::<i64>::new(), Vec::<i64>::new());
            let mut steps = history;
            steps.extend([(1, 0); 200].iter().chain(&[(3, 255); 200]));
            for (what, chance) in steps {
                clock += Duration::from_millis(300);
                match what {
                    0 => {
                        open.push(next_id);
                        next_id += 1;
                    }
                    1 | 2 if !open.is_empty() => {
                        let id = open.remove(usize::from(chance) % open.len());
                        if what == 1 {
                            visible.push(id);
                        }
                    }
                    _ => {
                        let ends = ends(open.first().copied().unwrap_or(next_id), next_id);
                        let (lows, highs) = gaps.ranges();
                        let sought = |id: &i64| {
                            *id > bound || lows.iter().zip(&highs).any(|(l, h)| (*l..=*h).contains(id))
                        };
                        let mut page: Vec<i64> = visible.iter().copied().filter(sought).collect();
                        page.sort_unstable();
                        let limit = 1 + usize::from(chance) % 5;
                        let is_whole = page.len() < limit;
                        page.truncate(limit);
                        bound = gaps.read(bound, &page, is_whole, (ends, clock));
                        visible.retain(|id| !page.contains(id));
                        taken.extend(page);
                    }
                }
            }
            prop_assert!(visible.is_empty(), "never taken: {visible:?}");
            let mut once = taken.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), taken.len());
        }
    }
}
