//! Jobs in the order (`visible_at`, publish number) or the reverse: a [`SortedList`] of those that
//! came in order, and a [`Heap`] of the others.
//!
//! One kind of order serves the timers of a partition and the ready jobs of a queue. A job is in
//! one of them at a time. The order is the caller's to keep: the same with every call, or
//! [`PriorityQueue::reorder`]. Adding, taking the first and leaving from the middle cost at most
//! O(log n), not on average but each time. No array doubles; there is no pass over all after a
//! quiet hour, and no cascade at the full hour. For jobs that come in order they cost O(1). An
//! empty queue is sixteen bytes, so that a million queues cost what their jobs cost.

use records::QueueOrder;

use crate::entry::JobEntry;
use crate::heap::{Heap, in_order};
use crate::slab::Handle;
use crate::sorted_list::SortedList;
use crate::table::Entries;

/// A priority queue over some of the entries.
#[derive(Default)]
pub(crate) struct PriorityQueue {
    list: SortedList,
    heap: Heap,
}

impl PriorityQueue {
    pub(crate) fn first(&self, entries: &Entries, order: QueueOrder) -> Option<Handle<JobEntry>> {
        match self.roots(entries, order) {
            [Some(of_list), Some(of_heap)] => Some(in_order(entries, of_list, of_heap, order).0),
            [one, other] => one.or(other),
        }
    }

    /// The first of either part: the first of all is one of them.
    pub(crate) fn roots(&self, entries: &Entries, order: QueueOrder) -> [Option<Handle<JobEntry>>; 2] {
        [self.list.first(entries, order), self.heap.first()]
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len() + self.heap.len()
    }

    /// Those next to an entry that come after it: from [`PriorityQueue::roots`] on they lead to
    /// every entry.
    pub(crate) fn children(
        &self,
        entries: &Entries,
        of: Handle<JobEntry>,
        order: QueueOrder,
    ) -> [Option<Handle<JobEntry>>; 2] {
        if is_in_heap(entries, of) {
            [entries[of].links.left, entries[of].links.right]
        } else {
            [self.list.after(entries, of, order), None]
        }
    }

    /// Adds an entry that is in no queue.
    pub(crate) fn insert(&mut self, entries: &mut Entries, new: Handle<JobEntry>, order: QueueOrder) {
        if self.list.try_insert(entries, new) {
            return;
        }
        // The last of the list makes way: a few that wait for long do not send all others to the
        // heap. Each goes there once at most.
        if let Some(last) = self.list.first(entries, QueueOrder::Lifo) {
            self.list.remove(entries, last);
            self.heap.insert(entries, last, order);
        }
        if !self.list.try_insert(entries, new) {
            self.heap.insert(entries, new, order);
        }
    }

    /// Takes out an entry of this queue.
    pub(crate) fn remove(&mut self, entries: &mut Entries, gone: Handle<JobEntry>, order: QueueOrder) {
        if is_in_heap(entries, gone) {
            self.heap.remove(entries, gone, order);
        } else {
            self.list.remove(entries, gone);
        }
    }

    /// Has the queue be in another order from now on. The list is read from its other end then.
    pub(crate) fn reorder(&mut self, entries: &mut Entries, from: QueueOrder, to: QueueOrder) {
        self.heap.reorder(entries, from, to);
    }
}

/// Whether an entry of a queue is in its heap, where each has a rank.
fn is_in_heap(entries: &Entries, job: Handle<JobEntry>) -> bool {
    entries[job].rank > 0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::Timestamp;
    use base::random::Random;
    use records::QueueOrder::{Fifo, Lifo};

    use super::*;

    /// All entries that the roots lead to, sorted.
    fn reached(queue: &PriorityQueue, entries: &Entries, order: QueueOrder) -> Vec<(Timestamp, u64)> {
        let mut open: Vec<_> = queue.roots(entries, order).into_iter().flatten().collect();
        let mut reached = Vec::new();
        while let Some(job) = open.pop() {
            reached.push(entries[job].order());
            for child in queue.children(entries, job, order).into_iter().flatten() {
                assert_eq!(entries[job].order() < entries[child].order(), order == Fifo);
                open.push(child);
            }
        }
        reached.sort_unstable();
        reached
    }

    #[test]
    fn the_first_is_the_least_after_any_adding_and_leaving() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let mut order = if random.chance(1, 2) { Fifo } else { Lifo };
            let (mut entries, mut queue) = (Entries::default(), PriorityQueue::default());
            let mut there = Vec::new();
            let mut model = BTreeSet::new();
            let in_order = random.below(101);
            for number in 0..1_000 {
                if random.chance(1, 100) {
                    let other = if order == Fifo { Lifo } else { Fifo };
                    queue.reorder(&mut entries, order, other);
                    order = other;
                }
                let leaving = random.below(100) < 45;
                if leaving && !there.is_empty() {
                    let first = random.chance(1, 2);
                    let place = match queue.first(&entries, order).filter(|_| first) {
                        Some(root) => there.iter().position(|it| *it == root).expect("it is there"),
                        None => random.below(there.len() as u64) as usize,
                    };
                    let gone = there.swap_remove(place);
                    queue.remove(&mut entries, gone, order);
                    model.remove(&entries.take(gone).order());
                } else {
                    let at = if random.below(100) < in_order { number / 3 } else { random.below(400) };
                    let new = entries.add(JobEntry::sample(at.cast_signed(), number));
                    queue.insert(&mut entries, new, order);
                    model.insert(entries[new].order());
                    there.push(new);
                }
                let first = if order == Fifo { model.first() } else { model.last() };
                let found = queue.first(&entries, order).map(|it| entries[it].order());
                assert_eq!(found, first.copied());
                queue.heap.check(&entries, order);
                assert_eq!(queue.len(), model.len());
            }
            assert_eq!(reached(&queue, &entries, order), Vec::from_iter(model));
        }
    }

    #[test]
    fn some_that_wait_for_long_do_not_keep_the_others_out_of_the_list() {
        let (mut entries, mut queue) = (Entries::default(), PriorityQueue::default());
        for number in 0..1_000_u64 {
            let waits = if number % 10 == 0 { 1_000_000 } else { 0 };
            let new = entries.add(JobEntry::sample(number.cast_signed() + waits, number));
            queue.insert(&mut entries, new, Fifo);
        }
        assert!(queue.heap.len() <= 100, "{} of 100 that wait for long", queue.heap.len());
    }

    #[test]
    fn jobs_added_in_order_stay_out_of_the_heap() {
        let (mut entries, mut queue) = (Entries::default(), PriorityQueue::default());
        for number in 0..1_000_u64 {
            let new = entries.add(JobEntry::sample(number.cast_signed() / 10, number));
            queue.insert(&mut entries, new, Fifo);
        }
        assert_eq!((queue.list.len(), queue.heap.len()), (1_000, 0));
    }
}
