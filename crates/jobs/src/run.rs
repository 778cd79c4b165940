//! Jobs that came in order, in a ring through themselves: each leads to the one before it and the
//! one behind it, and the last to the first.
//!
//! Where leases are as long as each other, and jobs are published in the order of their time, every
//! job goes to the end. It is added and leaves at the cost of its two neighbours, whatever else is
//! there.

use crate::entry::Entry;
use crate::slab::Handle;
use crate::table::Entries;

/// A new entry goes before this many at most: a few that wait for long keep nobody out.
const PASSED_MAX: usize = 4;
const RING: &str = "every entry of a run leads to the next and to the one before";

/// A run over some of the entries, in ascending order.
#[derive(Default)]
pub(crate) struct Run {
    last: Option<Handle<Entry>>,
    len: u32,
}

impl Run {
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn first(&self, entries: &Entries) -> Option<Handle<Entry>> {
        self.last.map(|last| next(entries, last))
    }

    pub(crate) fn last(&self) -> Option<Handle<Entry>> {
        self.last
    }

    /// Adds an entry that is in no place, unless too many would be behind it: whether it is here.
    pub(crate) fn insert(&mut self, entries: &mut Entries, new: Handle<Entry>) -> bool {
        let Some(last) = self.last else {
            self.last = Some(new);
            self.len = 1;
            join(entries, new, new);
            return true;
        };
        let order = entries[new].order();
        let (mut before, mut passed) = (Some(last), 0);
        while let Some(late) = before.filter(|before| entries[*before].order() > order) {
            if passed == PASSED_MAX {
                return false;
            }
            passed += 1;
            before = Some(previous(entries, late)).filter(|previous| *previous != last);
        }
        // To be before all of a ring is to be behind its last.
        let place = before.unwrap_or(last);
        let behind = next(entries, place);
        join(entries, place, new);
        join(entries, new, behind);
        if before == Some(last) {
            self.last = Some(new);
        }
        self.len += 1;
        true
    }

    /// Takes out an entry of this run.
    pub(crate) fn remove(&mut self, entries: &mut Entries, gone: Handle<Entry>) {
        let (before, behind) = (previous(entries, gone), next(entries, gone));
        join(entries, before, behind);
        if self.last == Some(gone) {
            self.last = Some(before).filter(|before| *before != gone);
        }
        self.len -= 1;
    }
}

fn next(entries: &Entries, of: Handle<Entry>) -> Handle<Entry> {
    entries[of].links.right.expect(RING)
}

fn previous(entries: &Entries, of: Handle<Entry>) -> Handle<Entry> {
    entries[of].links.left.expect(RING)
}

fn join(entries: &mut Entries, before: Handle<Entry>, behind: Handle<Entry>) {
    entries.links_mut(before).right = Some(behind);
    entries.links_mut(behind).left = Some(before);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from the first on and from the last back, which say the same.
    fn numbers(run: &Run, entries: &Entries) -> Vec<u64> {
        let walk = |from: Option<Handle<Entry>>, next: fn(&Entry) -> Option<Handle<Entry>>| {
            let steps = std::iter::successors(from, |job| next(&entries[*job])).take(run.len());
            steps.map(|job| entries[job].number).collect::<Vec<_>>()
        };
        let forth = walk(run.first(entries), |entry| entry.links.right);
        let mut back = walk(run.last(), |entry| entry.links.left);
        back.reverse();
        assert_eq!(forth, back);
        forth
    }

    #[test]
    fn who_comes_a_little_late_goes_before_a_few() {
        let (mut entries, mut run) = (Entries::default(), Run::default());
        let mut add = |at: i64, number: u64| {
            let new = entries.add(Entry::sample(at, number));
            run.insert(&mut entries, new)
        };
        assert!(add(100, 0) && add(90, 1) && add(100, 2) && add(80, 3) && add(95, 4));
        assert!(!add(70, 5), "all five would be behind it");
        assert!(add(100, 6));
        assert_eq!(numbers(&run, &entries), [3, 1, 4, 0, 2, 6]);
    }

    #[test]
    fn whoever_leaves_the_others_stay_in_order() {
        for gone in 0..3 {
            let (mut entries, mut run) = (Entries::default(), Run::default());
            let jobs = [0, 1, 2].map(|number| entries.add(Entry::sample(number, number.unsigned_abs())));
            assert!(jobs.into_iter().all(|job| run.insert(&mut entries, job)));
            run.remove(&mut entries, jobs[gone]);
            let stay: Vec<_> = (0..3).filter(|number| *number != gone as u64).collect();
            assert_eq!(numbers(&run, &entries), stay);
            jobs.iter().enumerate().filter(|(place, _)| *place != gone).for_each(|(_, job)| {
                run.remove(&mut entries, *job);
            });
            assert!(run.last().is_none() && run.first(&entries).is_none() && run.len() == 0);
        }
    }
}
