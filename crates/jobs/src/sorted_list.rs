//! Jobs that came in order: a doubly linked list through themselves, whose last leads to the first.
//!
//! Where leases are as long as each other, and jobs are published in the order of their time, every
//! job goes to the end. It is added and leaves at the cost of its two neighbours, whatever else is
//! there.

use records::QueueOrder;

use crate::entry::JobEntry;
use crate::slab::Handle;
use crate::table::Entries;

/// How many later entries a new one may pass.
const PASSED_MAX: u32 = 4;
const RING: &str = "every entry of a list leads to the next and to the one before";

/// A list of some of the entries, in ascending order.
#[derive(Default)]
pub(crate) struct SortedList {
    last: Option<Handle<JobEntry>>,
    len: u32,
}

impl SortedList {
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The first in this order.
    pub(crate) fn first(&self, entries: &Entries, order: QueueOrder) -> Option<Handle<JobEntry>> {
        match order {
            QueueOrder::Fifo => self.last.map(|last| next(entries, last)),
            QueueOrder::Lifo => self.last,
        }
    }

    /// The one that comes after an entry of this list in this order.
    pub(crate) fn after(
        &self,
        entries: &Entries,
        of: Handle<JobEntry>,
        order: QueueOrder,
    ) -> Option<Handle<JobEntry>> {
        let after = match order {
            QueueOrder::Fifo => next(entries, of),
            QueueOrder::Lifo => previous(entries, of),
        };
        Some(after).filter(|after| self.first(entries, order) != Some(*after))
    }

    /// Adds an entry that is in no queue, unless it would pass more than [`PASSED_MAX`]; answers
    /// whether it did.
    pub(crate) fn try_insert(&mut self, entries: &mut Entries, new: Handle<JobEntry>) -> bool {
        let Some(last) = self.last else {
            self.last = Some(new);
            self.len = 1;
            join(entries, new, new);
            return true;
        };
        let order = entries[new].order();
        let (mut before, mut passed) = (last, 0);
        while passed < self.len && entries[before].order() > order {
            if passed == PASSED_MAX {
                return false;
            }
            before = previous(entries, before);
            passed += 1;
        }
        let behind = next(entries, before);
        join(entries, before, new);
        join(entries, new, behind);
        if passed == 0 {
            self.last = Some(new);
        }
        self.len += 1;
        true
    }

    /// Takes out an entry of this list.
    pub(crate) fn remove(&mut self, entries: &mut Entries, gone: Handle<JobEntry>) {
        let (before, behind) = (previous(entries, gone), next(entries, gone));
        join(entries, before, behind);
        if self.last == Some(gone) {
            self.last = Some(before).filter(|before| *before != gone);
        }
        self.len -= 1;
    }
}

fn next(entries: &Entries, of: Handle<JobEntry>) -> Handle<JobEntry> {
    entries[of].links.right.expect(RING)
}

fn previous(entries: &Entries, of: Handle<JobEntry>) -> Handle<JobEntry> {
    entries[of].links.left.expect(RING)
}

fn join(entries: &mut Entries, before: Handle<JobEntry>, behind: Handle<JobEntry>) {
    entries.links_mut(before).right = Some(behind);
    entries.links_mut(behind).left = Some(before);
}

#[cfg(test)]
mod tests {
    use records::QueueOrder::{Fifo, Lifo};

    use super::*;

    /// Numbers in ascending order, in which walks from both ends agree.
    fn numbers(list: &SortedList, entries: &Entries) -> Vec<u64> {
        let walk = |order| {
            let steps =
                std::iter::successors(list.first(entries, order), |job| list.after(entries, *job, order));
            steps.map(|job| entries[job].number).collect::<Vec<_>>()
        };
        let (forth, mut back) = (walk(Fifo), walk(Lifo));
        back.reverse();
        assert_eq!(forth, back);
        assert_eq!(forth.len(), list.len());
        forth
    }

    #[test]
    fn a_late_entry_passes_at_most_four() {
        let (mut entries, mut list) = (Entries::default(), SortedList::default());
        let mut add = |at: i64, number: u64| {
            let new = entries.add(JobEntry::sample(at, number));
            list.try_insert(&mut entries, new)
        };
        assert!(add(100, 0) && add(90, 1) && add(100, 2) && add(80, 3) && add(95, 4));
        assert!(!add(70, 5), "all five would be behind it");
        assert!(add(100, 6));
        assert_eq!(numbers(&list, &entries), [3, 1, 4, 0, 2, 6]);
    }

    #[test]
    fn removing_any_entry_keeps_the_others_in_order() {
        for gone in 0..3 {
            let (mut entries, mut list) = (Entries::default(), SortedList::default());
            let jobs = [0, 1, 2].map(|number| entries.add(JobEntry::sample(number, number.unsigned_abs())));
            assert!(jobs.into_iter().all(|job| list.try_insert(&mut entries, job)));
            list.remove(&mut entries, jobs[gone]);
            let stay: Vec<_> = (0..3).filter(|number| *number != gone as u64).collect();
            assert_eq!(numbers(&list, &entries), stay);
            jobs.iter().enumerate().filter(|(place, _)| *place != gone).for_each(|(_, job)| {
                list.remove(&mut entries, *job);
            });
            assert_eq!(numbers(&list, &entries), []);
        }
    }
}
