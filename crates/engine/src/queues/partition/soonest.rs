//! The soonest parked jobs of a clock, by time and id. One scan of the store's keys serves many
//! pages.
//!
//! The store keeps parked jobs in spans of 4.4 minutes. A span is runs of jobs that were published
//! one after the other, and a run is in order of time. A pass takes a span's keys in chunks, and
//! keeps the soonest that fit into memory. Up to the last of these the list is exact: every job
//! parked or taken out meanwhile is noted. When half of it is used up, the next pass begins behind
//! it. It looks as far as the one before it came, so it reads few keys of each run that it does not
//! keep.

use std::collections::BTreeSet;

use base::Timestamp;
use records::{JobClock, JobId};
use store::{PARKED_SPAN_MS, ParkedScan, ParkedTimes, parked_span};

/// A place in the order of time.
pub(super) type TimePlace = (Timestamp, JobId);

/// Places that are kept in memory, and as many again while a pass is under way; at some 40 bytes
/// each, 5.2 MB.
const KEPT_MAX: usize = 1 << 17;
/// Behind every other id.
pub(super) const LAST_ID: JobId = JobId([u8::MAX; 16]);
/// Before every job.
const FIRST: TimePlace = (Timestamp(i64::MIN), JobId([0; 16]));

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
    /// Milliseconds of a pass that begins within a span; `None` if it looks through all of that.
    width_ms: Option<i64>,
}

/// A pass through the store's keys, behind what is known.
#[derive(Debug)]
struct ScanPass {
    found: BTreeSet<TimePlace>,
    /// What comes behind this is not kept: it is not looked for, or there was too much of it.
    cut: Option<TimePlace>,
    /// Whether there was too much.
    is_full: bool,
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
        Self { known: BTreeSet::new(), reach: KnownReach::Nothing, pass: None, kept_max, width_ms: None }
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
    pub(super) fn wants(
        &mut self,
        clock: JobClock,
        parked: impl Iterator<Item = TimePlace>,
    ) -> Option<ParkedScan> {
        if self.reach == KnownReach::All || self.known.len() > self.kept_max / 2 {
            return None;
        }
        let known = match self.reach {
            KnownReach::To(to) => to,
            KnownReach::Nothing | KnownReach::All => FIRST,
        };
        let pass = match self.pass.take() {
            Some(pass) => pass,
            None => self.new_pass(known, parked),
        };
        let until = pass.cut.unwrap_or((Timestamp::MAX, LAST_ID));
        let scan = ParkedScan { clock, after: pass.next, known, until };
        self.pass = Some(pass);
        Some(scan)
    }

    fn new_pass(&self, known: TimePlace, parked: impl Iterator<Item = TimePlace>) -> ScanPass {
        let (from, cut) = match known {
            FIRST => (known.0, None),
            // The end of a span: it is known to its end.
            (at, LAST_ID) if parked_span(at) < parked_span(Timestamp(at.0.saturating_add(1))) => {
                (Timestamp(at.0.saturating_add(1)), None)
            }
            (at, _) => {
                let end = self.width_ms.map(|width| Timestamp(at.0.saturating_add(width)));
                let end = end.filter(|end| parked_span(*end) == parked_span(at));
                (begin_of_span(at), end.map(|end| (end, LAST_ID)))
            }
        };
        let next = (Timestamp(from.0.saturating_sub(1)), LAST_ID);
        let mut pass = ScanPass { found: BTreeSet::new(), cut, is_full: false, next };
        for moment in parked.filter(|moment| !self.reach.covers(*moment)) {
            pass.insert(moment, self.kept_max);
        }
        pass
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
            let reach = pass.cut.map_or(KnownReach::All, KnownReach::To);
            self.end(pass, reach);
            return;
        };
        // All of the spans before this one were seen.
        let begins = begin_of_span(next.0);
        let to = (Timestamp(begins.0.saturating_sub(1)), LAST_ID);
        pass.next = next;
        match pass.cut {
            Some(cut) if cut <= to => self.end(pass, KnownReach::To(cut)),
            _ if pass.found.first().is_some_and(|first| *first <= to) => {
                drop(pass.found.split_off(&(begins, JobId([0; 16]))));
                self.end(pass, KnownReach::To(to));
            }
            _ => self.pass = Some(pass),
        }
    }

    fn end(&mut self, mut pass: ScanPass, reach: KnownReach) {
        let first_at = pass.found.first().map(|(at, _)| *at);
        self.width_ms = match (first_at, pass.cut) {
            (Some(first), Some(cut)) if pass.is_full => Some((cut.0.0 - first.0).max(1)),
            (Some(_), Some(_)) if pass.found.len() < self.kept_max / 2 => {
                self.width_ms.map(|width| width.saturating_mul(2))
            }
            (Some(_), Some(_)) => self.width_ms,
            _ => None,
        };
        self.known.append(&mut pass.found);
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

fn begin_of_span(at: Timestamp) -> Timestamp {
    Timestamp(parked_span(at).saturating_mul(PARKED_SPAN_MS))
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
            self.is_full = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use base::random::Random;

    use super::*;

    fn id(number: u64) -> JobId {
        JobId(u128::from(number).to_be_bytes())
    }

    /// Jobs of a run in these tests.
    const RUN: u128 = 64;

    /// The store's order: span, run, time, id.
    fn place((at, id): TimePlace) -> (i64, u128, TimePlace) {
        (parked_span(at), u128::from_be_bytes(id.0) / RUN, (at, id))
    }

    /// Looks at keys as the store does, and passes over the rest of a run where it may.
    fn scan(parked: &BTreeSet<(i64, u128, TimePlace)>, scan: ParkedScan, scan_max: usize) -> ParkedTimes {
        let (mut found, mut low, mut next) = (Vec::new(), place(scan.after), scan.after);
        for _ in 0..scan_max {
            let behind = parked.range((Bound::Excluded(low), Bound::Unbounded)).next();
            let Some((span, run, moment)) = behind.copied() else { return ParkedTimes { found, next: None } };
            (low, next) = ((span, run, moment), moment);
            if span > parked_span(scan.until.0) {
                break;
            } else if moment > scan.until {
                let end_of_run = JobId(((run + 1) * RUN - 1).to_be_bytes());
                next = (Timestamp((span + 1) * PARKED_SPAN_MS - 1), end_of_run);
                low = place(next);
            } else if moment > scan.known {
                found.push(moment);
            } else if span == parked_span(scan.known.0) {
                low = (span, run, scan.known);
            }
        }
        ParkedTimes { found, next: Some(next) }
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
                    parked.insert(place((at, id(number))));
                    by_time.insert((at, id(number)));
                    soonest.insert((at, id(number)));
                }
                if let Some(wanted) = soonest.wants(JobClock::Engine, std::iter::empty()) {
                    soonest.scanned(scan(&parked, wanted, 7), |_| true);
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
                    parked.remove(&place((at, id)));
                    soonest.remove(given);
                }
            }
            assert!(by_time.is_empty(), "seed {seed}: {} are left", by_time.len());
        }
    }

    #[test]
    fn of_a_span_that_does_not_fit_into_memory_keys_are_looked_at_about_twice() {
        const JOBS: u64 = 10_000;
        let due = |number: u64| Timestamp(100_000 + (number * 7_919 % 1_000) as i64);
        let mut parked: BTreeSet<_> = (0..JOBS).map(|number| place((due(number), id(number)))).collect();
        let mut soonest = Soonest::new(512);
        let (mut looked_at, mut given) = (0, 0);
        while given < JOBS as usize {
            if let Some(wanted) = soonest.wants(JobClock::Engine, std::iter::empty()) {
                soonest.scanned(scan(&parked, wanted, 50), |_| true);
                looked_at += 50;
            }
            let SoonestPage::Jobs(page, _) = soonest.page(10) else { continue };
            given += page.len();
            for moment in page {
                parked.remove(&place(moment));
                soonest.remove(moment);
            }
        }
        assert!(looked_at < 3 * JOBS, "{looked_at} keys for {JOBS} jobs in pages of 10");
    }
}
