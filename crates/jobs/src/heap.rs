//! Jobs that came in no order, linked through themselves: a leftist heap.
//!
//! The order is the caller's to keep: the same with every call, or [`Heap::reorder`].
//!
//! Every node's `rank` is one more than the lower rank of its children, and the left child's is not
//! the lower one: the path along the right children has at most log2(n + 1) nodes, and only that
//! path is walked.

use records::QueueOrder;

use crate::entry::Entry;
use crate::slab::Handle;
use crate::table::Entries;

/// A job's place among the others of its heap, or of its [run](crate::run::Run): there the left one
/// is before it and the right one behind it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Links {
    pub(crate) left: Option<Handle<Entry>>,
    pub(crate) right: Option<Handle<Entry>>,
    parent: Option<Handle<Entry>>,
}

/// A heap over some of the entries.
#[derive(Default)]
pub(crate) struct Heap {
    root: Option<Handle<Entry>>,
    len: u32,
}

impl Heap {
    pub(crate) fn first(&self) -> Option<Handle<Entry>> {
        self.root
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Adds an entry that is in no heap.
    pub(crate) fn insert(&mut self, entries: &mut Entries, new: Handle<Entry>, order: QueueOrder) {
        let (links, rank) = entries.links_and_rank_mut(new);
        (*links, *rank) = (Links::default(), 1);
        self.root = Some(match self.root {
            Some(root) => merge(entries, root, new, order),
            None => new,
        });
        self.len += 1;
    }

    /// Takes out an entry of this heap.
    pub(crate) fn remove(&mut self, entries: &mut Entries, gone: Handle<Entry>, order: QueueOrder) {
        let Links { left, right, parent } = std::mem::take(entries.links_mut(gone));
        let rest = match (left, right) {
            (Some(left), Some(right)) => Some(merge(entries, left, right, order)),
            (one, other) => one.or(other),
        };
        if let Some(rest) = rest {
            entries.links_mut(rest).parent = parent;
        }
        match parent {
            None => self.root = rest,
            Some(parent) => {
                let links = entries.links_mut(parent);
                let side = if links.left == Some(gone) { &mut links.left } else { &mut links.right };
                *side = rest;
                rank_upwards(entries, parent);
            }
        }
        self.len -= 1;
    }

    /// Has the heap be in another order from now on.
    pub(crate) fn reorder(&mut self, entries: &mut Entries, from: QueueOrder, to: QueueOrder) {
        let mut other = Self::default();
        while let Some(first) = self.first() {
            self.remove(entries, first, from);
            other.insert(entries, first, to);
        }
        *self = other;
    }
}

/// Makes one heap of two, neither of which has a parent that counts; answers its root, whose parent
/// is unset.
fn merge(
    entries: &mut Entries,
    one: Handle<Entry>,
    other: Handle<Entry>,
    order: QueueOrder,
) -> Handle<Entry> {
    let (root, mut rest) = in_order(entries, one, other, order);
    entries.links_mut(root).parent = None;
    let mut place = root;
    while let Some(below) = entries[place].links.right {
        let (first, second) = in_order(entries, below, rest, order);
        entries.links_mut(place).right = Some(first);
        entries.links_mut(first).parent = Some(place);
        place = first;
        rest = second;
    }
    entries.links_mut(place).right = Some(rest);
    entries.links_mut(rest).parent = Some(place);
    let mut next = Some(place);
    while let Some(node) = next {
        rank(entries, node);
        next = entries[node].links.parent;
    }
    root
}

fn in_order(
    entries: &Entries,
    one: Handle<Entry>,
    other: Handle<Entry>,
    order: QueueOrder,
) -> (Handle<Entry>, Handle<Entry>) {
    let is_first = entries[one].order() <= entries[other].order();
    if is_first == (order == QueueOrder::Fifo) { (one, other) } else { (other, one) }
}

/// Restores the ranks from `node` upwards after one of its children became another. Ranks that
/// change grow with every step up, so that this ends after at most as many steps as there are
/// ranks.
fn rank_upwards(entries: &mut Entries, node: Handle<Entry>) {
    let mut next = Some(node);
    while let Some(node) = next {
        next = if rank(entries, node) { entries[node].links.parent } else { None };
    }
}

/// Puts the higher child on the left and sets the rank; whether it became another.
fn rank(entries: &mut Entries, node: Handle<Entry>) -> bool {
    let Links { left, right, .. } = entries[node].links;
    let rank_of = |child: Option<Handle<Entry>>| child.map_or(0, |child| entries[child].rank);
    let (left_rank, right_rank) = (rank_of(left), rank_of(right));
    let rank = left_rank.min(right_rank) + 1;
    let (links, rank_before) = entries.links_and_rank_mut(node);
    if left_rank < right_rank {
        (links.left, links.right) = (right, left);
    }
    std::mem::replace(rank_before, rank) != rank
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::random::Random;
    use records::QueueOrder::{Fifo, Lifo};

    use super::*;

    /// Checks order, ranks and links below `node`; answers how many nodes there are.
    fn check(entries: &Entries, node: Handle<Entry>, order: QueueOrder) -> usize {
        let mut count = 0;
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            count += 1;
            let Entry { links, rank, .. } = &entries[node];
            let rank_of = |child: Option<Handle<Entry>>| child.map_or(0, |child| entries[child].rank);
            assert!(rank_of(links.left) >= rank_of(links.right), "the higher child is on the left");
            assert_eq!(*rank, rank_of(links.right) + 1);
            for child in [links.left, links.right].into_iter().flatten() {
                assert!(entries[child].links.parent == Some(node));
                let ascends = entries[node].order() < entries[child].order();
                assert_eq!(ascends, order == Fifo);
                open.push(child);
            }
        }
        count
    }

    #[test]
    fn the_first_is_the_least_after_any_adding_and_leaving() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut order = if random.chance(1, 2) { Fifo } else { Lifo };
            let (mut entries, mut heap) = (Entries::default(), Heap::default());
            let mut there = Vec::new();
            let mut model = BTreeSet::new();
            for number in 0..1_000 {
                if random.chance(1, 100) {
                    let other = if order == Fifo { Lifo } else { Fifo };
                    heap.reorder(&mut entries, order, other);
                    order = other;
                }
                let leaving = random.below(100) < 45;
                if leaving && !there.is_empty() {
                    let first = random.chance(1, 2);
                    let place = match heap.first().filter(|_| first) {
                        Some(root) => there.iter().position(|it| *it == root).expect("it is there"),
                        None => random.below(there.len() as u64) as usize,
                    };
                    let gone = there.swap_remove(place);
                    heap.remove(&mut entries, gone, order);
                    model.remove(&entries.take(gone).order());
                } else {
                    let new = entries.add(Entry::sample(random.below(40).cast_signed(), number));
                    heap.insert(&mut entries, new, order);
                    model.insert(entries[new].order());
                    there.push(new);
                }
                let first = if order == Fifo { model.first() } else { model.last() };
                assert_eq!(heap.first().map(|it| entries[it].order()), first.copied());
                assert_eq!(heap.first().map_or(0, |root| check(&entries, root, order)), model.len());
                assert_eq!(heap.len(), model.len());
            }
        }
    }

    #[test]
    fn the_path_that_is_walked_stays_short_in_every_order_of_adding() {
        let orders: [fn(i64) -> i64; 4] = [|n| n, |n| -n, |n| (n * 7_919) % 10_007, |_| 0];
        for order in orders {
            let (mut entries, mut heap) = (Entries::default(), Heap::default());
            for n in 0..10_000_i64 {
                let new = entries.add(Entry::sample(order(n), n.unsigned_abs()));
                heap.insert(&mut entries, new, Fifo);
            }
            let root = heap.first().expect("there are many");
            assert!(entries[root].rank <= 13, "log2 of 10,001: {}", entries[root].rank);
            assert_eq!(check(&entries, root, Fifo), 10_000);
        }
    }
}
