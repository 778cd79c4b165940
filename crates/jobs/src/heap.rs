//! Jobs that came out of order, linked through themselves: a leftist heap.
//!
//! The order is the caller's to keep: the same with every call, or [`Heap::reorder`].
//!
//! Every node's `rank` is one more than the lower rank of its children, and the left child's is not
//! the lower one. So the path along the right children has at most log2(n + 1) nodes. Only that
//! path is walked.

use records::QueueOrder;

use crate::entry::{JobEntry, Links};
use crate::slab::Handle;
use crate::table::Entries;

/// A heap over some of the entries.
#[derive(Default)]
pub(crate) struct Heap {
    root: Option<Handle<JobEntry>>,
    len: u32,
}

impl Heap {
    pub(crate) fn first(&self) -> Option<Handle<JobEntry>> {
        self.root
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Adds an entry that is in no queue.
    pub(crate) fn insert(&mut self, entries: &mut Entries, new: Handle<JobEntry>, order: QueueOrder) {
        let (links, rank) = entries.links_and_rank_mut(new);
        (*links, *rank) = (Links::default(), 1);
        self.root = Some(match self.root {
            Some(root) => merge(entries, root, new, order),
            None => new,
        });
        self.len += 1;
    }

    /// Takes out an entry of this heap.
    pub(crate) fn remove(&mut self, entries: &mut Entries, gone: Handle<JobEntry>, order: QueueOrder) {
        let (links, rank) = entries.links_and_rank_mut(gone);
        let Links { left, right, parent } = std::mem::take(links);
        *rank = 0;
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
    one: Handle<JobEntry>,
    other: Handle<JobEntry>,
    order: QueueOrder,
) -> Handle<JobEntry> {
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

/// Two entries, the one that goes first before the other.
pub(crate) fn in_order(
    entries: &Entries,
    one: Handle<JobEntry>,
    other: Handle<JobEntry>,
    order: QueueOrder,
) -> (Handle<JobEntry>, Handle<JobEntry>) {
    let is_first = entries[one].order() <= entries[other].order();
    if is_first == (order == QueueOrder::Fifo) { (one, other) } else { (other, one) }
}

/// Restores the ranks from `node` upwards after one of its children became another. Ranks that
/// change grow with every step up, so that this ends after at most as many steps as there are
/// ranks.
fn rank_upwards(entries: &mut Entries, node: Handle<JobEntry>) {
    let mut next = Some(node);
    while let Some(node) = next {
        next = if rank(entries, node) { entries[node].links.parent } else { None };
    }
}

/// Puts the higher child on the left and sets the rank; whether it became another.
fn rank(entries: &mut Entries, node: Handle<JobEntry>) -> bool {
    let Links { left, right, .. } = entries[node].links;
    let rank_of = |child: Option<Handle<JobEntry>>| child.map_or(0, |child| entries[child].rank);
    let (left_rank, right_rank) = (rank_of(left), rank_of(right));
    let rank = left_rank.min(right_rank) + 1;
    let (links, rank_before) = entries.links_and_rank_mut(node);
    if left_rank < right_rank {
        (links.left, links.right) = (right, left);
    }
    std::mem::replace(rank_before, rank) != rank
}

#[cfg(test)]
impl Heap {
    /// Checks order, ranks, links and the number of nodes.
    pub(crate) fn check(&self, entries: &Entries, order: QueueOrder) {
        let rank_of = |child: Option<Handle<JobEntry>>| child.map_or(0, |child| entries[child].rank);
        let mut count = 0;
        let mut open = Vec::from_iter(self.root);
        while let Some(node) = open.pop() {
            count += 1;
            let JobEntry { links, rank, .. } = &entries[node];
            assert!(rank_of(links.left) >= rank_of(links.right), "the higher child is on the left");
            assert_eq!(*rank, rank_of(links.right) + 1);
            for child in [links.left, links.right].into_iter().flatten() {
                assert!(entries[child].links.parent == Some(node));
                let ascends = entries[node].order() < entries[child].order();
                assert_eq!(ascends, order == QueueOrder::Fifo);
                open.push(child);
            }
        }
        assert_eq!(count, self.len());
    }
}

#[cfg(test)]
mod tests {
    use records::QueueOrder::Fifo;

    use super::*;

    #[test]
    fn the_path_that_is_walked_stays_short_in_every_order_of_adding() {
        let orders: [fn(i64) -> i64; 4] = [|n| n, |n| -n, |n| (n * 7_919) % 10_007, |_| 0];
        for order in orders {
            let (mut entries, mut heap) = (Entries::default(), Heap::default());
            for n in 0..10_000_i64 {
                let new = entries.add(JobEntry::sample(order(n), n.unsigned_abs()));
                heap.insert(&mut entries, new, Fifo);
            }
            let root = heap.first().expect("there are many");
            assert!(entries[root].rank <= 13, "log2 of 10,001: {}", entries[root].rank);
            heap.check(&entries, Fifo);
        }
    }
}
