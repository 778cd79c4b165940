//! The soonest parked jobs of a clock, by time and id. One scan of the store's keys serves many
//! pages.
//!
//! The store keeps parked jobs in spans of 4.4 minutes, and a span in the order of publishing. A
//! scan takes a span's keys in chunks, and keeps the soonest that fit into memory. Up to the
//! last of these the list is exact: every job parked or taken out meanwhile is noted. When half of
//! it is used up, the next scan begins behind it.

use std::collections::BTreeSet;

use base::Timestamp;
use records::JobId;
use store::{PARKED_SPAN_MS, ParkedTimes, parked_span};

/// A place in the order of time.
pub(super) type TimePlace = (Timestamp, JobId);

/// Places that are kept in memory, and as many again while a pass is under way; at some 40 bytes
/// each, 5.2 MB.
const KEPT_MAX: usize = 1 << 17;
/// Behind every other id.
pub(super) const LAST_ID: JobId = JobId([u8::MAX; 16]);

/// How far all parked jobs are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownReach {
    Nothing,
    To(TimePlace),
    All,
}

impl KnownReach {
    fn covers(self, moment: TimePlace) -> bool {
        match self {
            Self::Nothing => false,
            Self::To(to) => moment <= to,
            Self::All => true,
        }
    }
}

/// The soonest parked jobs.
#[derive(Debug)]
pub(super) struct Soonest {
    known: BTreeSet<TimePlace>,
    reach: KnownReach,
    pass: Option<ScanPass>,
    kept_max: usize,
}

/// A pass through the store's keys, behind what is known.
#[derive(Debug)]
struct ScanPass {
    found: BTreeSet<TimePlace>,
    /// What comes behind this is not kept: there was too much of it.
    cut: Option<TimePlace>,
    /// Where to go on, in the store's order.
    next: TimePlace,
}

/// The soonest jobs, or none yet.
pub(super) enum SoonestPage {
    /// These, and up to where they are all; `None` if they are all there are.
    Jobs(Vec<TimePlace>, Option<TimePlace>),
    /// The pass is not over.
    NotYet,
}

impl Soonest {
    /// Of a partition that keeps so many jobs in memory.
    pub(super) fn new(resident_max: usize) -> Self {
        let kept_max = resident_max.saturating_mul(2).clamp(16, KEPT_MAX);
        Self { known: BTreeSet::new(), reach: KnownReach::Nothing, pass: None, kept_max }
    }

    /// A job was parked.
    pub(super) fn insert(&mut self, moment: TimePlace) {
        if self.reach.covers(moment) {
            self.known.insert(moment);
            if self.known.len() > self.kept_max {
                self.known.pop_last();
                self.draw_in();
            }
        } else if let Some(pass) = &mut self.pass {
            pass.insert(moment, self.kept_max);
        }
    }

    /// The last one was dropped: all up to the one before it are known. A pass from further on says
    /// nothing any more.
    fn draw_in(&mut self) {
        self.reach = self.known.last().map_or(KnownReach::Nothing, |last| KnownReach::To(*last));
        self.pass = None;
    }

    /// A job is parked no longer.
    pub(super) fn remove(&mut self, moment: TimePlace) {
        self.known.remove(&moment);
        if let Some(pass) = &mut self.pass {
            pass.found.remove(&moment);
        }
    }

    /// Where the store should be looked through, if that is worth it now: little is known. `parked`
    /// are jobs that the store does not show yet.
    pub(super) fn wants(&mut self, parked: impl Iterator<Item = TimePlace>) -> Option<TimePlace> {
        if self.reach == KnownReach::All || self.known.len() > self.kept_max / 2 {
            return None;
        }
        if self.pass.is_none() {
            let from = match self.reach {
                // The end of a span: it is known to its end.
                KnownReach::To((at, LAST_ID)) => Timestamp(at.0.saturating_add(1)),
                KnownReach::To((at, _)) => Timestamp(parked_span(at).saturating_mul(PARKED_SPAN_MS)),
                KnownReach::Nothing | KnownReach::All => Timestamp(i64::MIN),
            };
            let next = (Timestamp(from.0.saturating_sub(1)), LAST_ID);
            let mut pass = ScanPass { found: BTreeSet::new(), cut: None, next };
            for moment in parked.filter(|moment| !self.reach.covers(*moment)) {
                pass.insert(moment, self.kept_max);
            }
            self.pass = Some(pass);
        }
        self.pass.as_ref().map(|pass| pass.next)
    }

    /// What was found from there on; `is_there` says which of it is as the store shows it.
    pub(super) fn scanned(&mut self, times: ParkedTimes, is_there: impl Fn(JobId) -> bool) {
        let Some(mut pass) = self.pass.take() else { return };
        for moment in times.found {
            if !self.reach.covers(moment) && is_there(moment.1) {
                pass.insert(moment, self.kept_max);
            }
        }
        let Some(next) = times.next else {
            self.end(pass.found, pass.cut.map_or(KnownReach::All, KnownReach::To));
            return;
        };
        // All of the spans before this one were seen.
        let begins = Timestamp(parked_span(next.0).saturating_mul(PARKED_SPAN_MS));
        let to = (Timestamp(begins.0.saturating_sub(1)), LAST_ID);
        pass.next = next;
        match pass.cut {
            Some(cut) if cut <= to => self.end(pass.found, KnownReach::To(cut)),
            _ if pass.found.first().is_some_and(|first| *first <= to) => {
                drop(pass.found.split_off(&(begins, JobId([0; 16]))));
                self.end(pass.found, KnownReach::To(to));
            }
            _ => self.pass = Some(pass),
        }
    }

    fn end(&mut self, mut found: BTreeSet<TimePlace>, reach: KnownReach) {
        self.known.append(&mut found);
        self.reach = reach;
    }

    /// The soonest ones.
    pub(super) fn page(&self, page_max: usize) -> SoonestPage {
        let page: Vec<TimePlace> = self.known.iter().take(page_max).copied().collect();
        let to = match self.reach {
            _ if self.known.len() > page.len() => page.last().copied(),
            KnownReach::Nothing => return SoonestPage::NotYet,
            KnownReach::To(_) if page.is_empty() => return SoonestPage::NotYet,
            KnownReach::To(to) => Some(to),
            KnownReach::All => None,
        };
        SoonestPage::Jobs(page, to)
    }
}

impl ScanPass {
    fn insert(&mut self, moment: TimePlace, kept_max: usize) {
        if self.cut.is_some_and(|cut| moment > cut) {
            return;
        }
        self.found.insert(moment);
        if self.found.len() > kept_max {
            self.found.pop_last();
            self.cut = self.found.last().copied();
        }
    }
}

#[cfg(test)]
mod tests {
    use base::random::Random;

    use super::*;

    fn id(number: u64) -> JobId {
        JobId(u128::from(number).to_be_bytes())
    }

    /// The store's order: span, id.
    fn scan(parked: &BTreeSet<(i64, JobId, Timestamp)>, after: TimePlace, scan_max: usize) -> ParkedTimes {
        let low = (parked_span(after.0), after.1, after.0);
        let behind = parked.iter().filter(|place| **place > low);
        let found: Vec<_> = behind.map(|(_, id, at)| (*at, *id)).take(scan_max).collect();
        let next = found.last().copied().filter(|_| found.len() == scan_max);
        ParkedTimes { found, next }
    }

    #[test]
    fn every_job_is_given_once_in_the_order_of_time_whatever_comes_and_goes_meanwhile() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let mut parked = BTreeSet::new();
            let mut by_time = BTreeSet::new();
            let mut soonest = Soonest::new(16);
            let (mut number, mut given) = (0, (Timestamp(i64::MIN), id(0)));
            let spread = if seed % 2 == 0 { 3 * PARKED_SPAN_MS } else { 1_000 };
            for step in 0..2_000 {
                if step < 1_500 && random.chance(1, 2) {
                    let at = Timestamp(given.0.0.max(0) + random.below(spread as u64) as i64);
                    number += 1;
                    parked.insert((parked_span(at), id(number), at));
                    by_time.insert((at, id(number)));
                    soonest.insert((at, id(number)));
                }
                if let Some(after) = soonest.wants(std::iter::empty()) {
                    soonest.scanned(scan(&parked, after, 7), |_| true);
                }
                let SoonestPage::Jobs(page, to) = soonest.page(1 + random.below(5) as usize) else {
                    continue;
                };
                let expect: Vec<_> = by_time.iter().take(page.len()).copied().collect();
                assert_eq!(page, expect, "seed {seed}: the first there are");
                let rest = by_time.iter().nth(page.len());
                assert!(to.is_some() || rest.is_none(), "seed {seed}: there are more");
                assert!(rest.is_none_or(|rest| to.is_some_and(|to| to < *rest)), "seed {seed}");
                for (at, id) in page {
                    given = (at, id);
                    by_time.remove(&given);
                    parked.remove(&(parked_span(at), id, at));
                    soonest.remove(given);
                }
            }
            assert!(by_time.is_empty(), "seed {seed}: {} are left", by_time.len());
        }
    }

    #[test]
    fn a_span_is_looked_through_once_for_as_many_as_fit_into_memory() {
        let mut parked: BTreeSet<_> =
            (0..1_000).map(|number| (0, id(number), Timestamp((number * 7_919 % 1_000) as i64))).collect();
        let mut soonest = Soonest::new(256);
        let (mut scanned, mut given) = (0, 0);
        while given < 1_000 {
            if let Some(after) = soonest.wants(std::iter::empty()) {
                let times = scan(&parked, after, 50);
                scanned += times.found.len();
                soonest.scanned(times, |_| true);
            }
            let SoonestPage::Jobs(page, _) = soonest.page(10) else { continue };
            given += page.len();
            for (at, id) in page {
                parked.remove(&(0, id, at));
                soonest.remove((at, id));
            }
        }
        assert!(scanned < 8_000, "{scanned} keys for 1,000 jobs in pages of 10");
    }
}
