//! Jobs in the order (`visible_at`, publish number) or the reverse: a [`Run`] of those that came in
//! order, and a [`Heap`] of the others.
//!
//! One kind of order serves the timers of a partition and the ready jobs of a queue, because a job
//! is in one of them at a time. The order is the caller's to keep: the same with every call, or
//! [`PriorityQueue::reorder`]. Adding, taking the first and leaving from the middle cost at most
//! O(log n), not on average but each time: no array that doubles, no pass over all after a quiet
//! hour, no cascade at the full hour. In order they cost the same however many there are. An empty
//! one is sixteen bytes, so that a million queues cost what their jobs cost.

use records::QueueOrder;

use crate::entry::Entry;
use crate::heap::Heap;
use crate::run::Run;
use crate::slab::Handle;
use crate::table::Entries;

/// A queue over some of the entries.
#[derive(Default)]
pub(crate) struct PriorityQueue {
    run: Run,
    heap: Heap,
}

impl PriorityQueue {
    pub(crate) fn first(&self, entries: &Entries, order: QueueOrder) -> Option<Handle<Entry>> {
        let (of_run, of_heap) = self.tops(entries, order);
        let (Some(of_run), Some(of_heap)) = (of_run, of_heap) else { return of_run.or(of_heap) };
        let is_run_first = entries[of_run].order() <= entries[of_heap].order();
        Some(if is_run_first == (order == QueueOrder::Fifo) { of_run } else { of_heap })
    }

    /// The first of either part: the first of all is one of them.
    pub(crate) fn tops(
        &self,
        entries: &Entries,
        order: QueueOrder,
    ) -> (Option<Handle<Entry>>, Option<Handle<Entry>>) {
        let of_run = match order {
            QueueOrder::Fifo => self.run.first(entries),
            QueueOrder::Lifo => self.run.last(),
        };
        (of_run, self.heap.first())
    }

    pub(crate) fn len(&self) -> usize {
        self.run.len() + self.heap.len()
    }

    /// Those next to an entry that come after it.
    pub(crate) fn below(
        &self,
        entries: &Entries,
        of: Handle<Entry>,
        order: QueueOrder,
    ) -> impl Iterator<Item = Handle<Entry>> {
        let Entry { links, .. } = entries[of];
        let (one, other) = match order {
            _ if !is_in_run(entries, of) => (links.left, links.right),
            QueueOrder::Fifo => (links.right.filter(|_| self.run.last() != Some(of)), None),
            QueueOrder::Lifo => (links.left.filter(|_| self.run.first(entries) != Some(of)), None),
        };
        one.into_iter().chain(other)
    }

    /// Adds an entry that is in no place.
    pub(crate) fn insert(&mut self, entries: &mut Entries, new: Handle<Entry>, order: QueueOrder) {
        *entries.links_and_rank_mut(new).1 = 0;
        if !self.run.insert(entries, new) {
            self.heap.insert(entries, new, order);
        }
    }

    /// Takes out an entry of this queue.
    pub(crate) fn remove(&mut self, entries: &mut Entries, gone: Handle<Entry>, order: QueueOrder) {
        if is_in_run(entries, gone) {
            self.run.remove(entries, gone);
        } else {
            self.heap.remove(entries, gone, order);
        }
    }

    /// Has the queue be in another order from now on.
    pub(crate) fn reorder(&mut self, entries: &mut Entries, from: QueueOrder, to: QueueOrder) {
        self.heap.reorder(entries, from, to);
    }
}

/// Whether an entry is in the run of its queue: those of a heap have a rank.
fn is_in_run(entries: &Entries, job: Handle<Entry>) -> bool {
    entries[job].rank == 0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::random::Random;
    use records::QueueOrder::{Fifo, Lifo};

    use super::*;

    /// Everyone, in any order.
    fn all(queue: &PriorityQueue, entries: &Entries, order: QueueOrder) -> Vec<(base::Timestamp, u64)> {
        let (one, other) = queue.tops(entries, order);
        let (mut open, mut all) = (Vec::from_iter(one.into_iter().chain(other)), Vec::new());
        while let Some(job) = open.pop() {
            all.push(entries[job].order());
            for below in queue.below(entries, job, order) {
                assert_eq!(entries[job].order() < entries[below].order(), order == Fifo);
                open.push(below);
            }
        }
        all.sort_unstable();
        all
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
                    let new = entries.add(Entry::sample(at.cast_signed(), number));
                    queue.insert(&mut entries, new, order);
                    model.insert(entries[new].order());
                    there.push(new);
                }
                let first = if order == Fifo { model.first() } else { model.last() };
                let found = queue.first(&entries, order).map(|it| entries[it].order());
                assert_eq!(found, first.copied());
                assert_eq!(queue.len(), model.len());
            }
            assert_eq!(all(&queue, &entries, order), Vec::from_iter(model));
        }
    }

    #[test]
    fn those_that_come_in_order_are_in_no_heap() {
        let (mut entries, mut queue) = (Entries::default(), PriorityQueue::default());
        for number in 0..1_000_u64 {
            let new = entries.add(Entry::sample(number.cast_signed() / 10, number));
            queue.insert(&mut entries, new, Fifo);
        }
        assert_eq!((queue.run.len(), queue.heap.len()), (1_000, 0));
    }
}
