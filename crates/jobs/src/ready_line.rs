//! The jobs of a queue whose time has come: those that can be leased, in order, and how many are
//! behind others of their group.

use records::QueueOrder;

use crate::entry::{JobEntry, JobPlace};
use crate::priority_queue::PriorityQueue;
use crate::slab::Handle;
use crate::table::Entries;

/// The line. It is small: a queue may have one job only.
pub(crate) struct ReadyLine {
    ready: PriorityQueue,
    /// Jobs behind another of their group; groups keep their order.
    behind: u32,
    order: QueueOrder,
    /// Whether something could be leased when this was last looked at. Consumers have been woken
    /// then.
    is_open: bool,
}

impl ReadyLine {
    pub(crate) fn new() -> Self {
        Self { ready: PriorityQueue::default(), behind: 0, order: QueueOrder::Fifo, is_open: false }
    }

    /// The job that goes first.
    pub(crate) fn first(&self, entries: &Entries) -> Option<Handle<JobEntry>> {
        self.ready.first(entries, self.order)
    }

    /// Ready jobs of which one goes first.
    pub(crate) fn roots(&self, entries: &Entries) -> impl Iterator<Item = Handle<JobEntry>> {
        self.ready.roots(entries, self.order).into_iter().flatten()
    }

    /// Ready jobs next to one that go behind it.
    pub(crate) fn children(
        &self,
        entries: &Entries,
        of: Handle<JobEntry>,
    ) -> impl Iterator<Item = Handle<JobEntry>> {
        self.ready.children(entries, of, self.order).into_iter().flatten()
    }

    /// How many jobs are ready: none of them is behind another of its group.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many jobs are here.
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.behind as usize
    }

    pub(crate) fn order(&self) -> QueueOrder {
        self.order
    }

    /// Notes whether something can be leased; answers whether it could before.
    pub(crate) fn set_open(&mut self, is_open: bool) -> bool {
        std::mem::replace(&mut self.is_open, is_open)
    }

    /// Takes a job in that is in no place.
    pub(crate) fn insert(&mut self, entries: &mut Entries, job: Handle<JobEntry>, place: JobPlace) {
        let before = entries.set_place(job, place);
        debug_assert_eq!(before, JobPlace::Nowhere, "a job is in one place at a time");
        match place {
            JobPlace::Ready => self.ready.insert(entries, job, self.order),
            JobPlace::Behind => self.behind += 1,
            JobPlace::Nowhere | JobPlace::Timed => {
                unreachable!("a job that is due is ready or behind another")
            }
        }
    }

    /// Takes a job out whose place was `place`.
    pub(crate) fn remove(&mut self, entries: &mut Entries, job: Handle<JobEntry>, place: JobPlace) {
        match place {
            JobPlace::Ready => self.ready.remove(entries, job, self.order),
            JobPlace::Behind => self.behind -= 1,
            JobPlace::Nowhere | JobPlace::Timed => {
                unreachable!("a job that is due is ready or behind another")
            }
        }
    }

    /// Puts the ready jobs in another order: whether it is another.
    pub(crate) fn reorder(&mut self, entries: &mut Entries, order: QueueOrder) -> bool {
        let from = std::mem::replace(&mut self.order, order);
        if from != order {
            self.ready.reorder(entries, from, order);
        }
        from != order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line with a ready job for each time.
    fn line(times: &[i64]) -> (ReadyLine, Entries) {
        let (mut line, mut entries) = (ReadyLine::new(), Entries::default());
        for (number, at) in (0..).zip(times) {
            let job = entries.add(JobEntry::sample(*at, number));
            line.insert(&mut entries, job, JobPlace::Ready);
        }
        (line, entries)
    }

    fn drain(line: &mut ReadyLine, entries: &mut Entries) -> Vec<i64> {
        let first = || {
            let job = line.first(entries)?;
            entries.set_place(job, JobPlace::Nowhere);
            line.remove(entries, job, JobPlace::Ready);
            Some(entries[job].visible_at.0)
        };
        std::iter::from_fn(first).collect()
    }

    #[test]
    fn the_order_is_that_of_time_or_its_reverse_from_when_it_is_set() {
        let (mut oldest_first, mut entries) = line(&[30, 10, 20]);
        assert!(!oldest_first.reorder(&mut entries, QueueOrder::Fifo), "it is that already");
        assert_eq!(drain(&mut oldest_first, &mut entries), [10, 20, 30]);
        let (mut newest_first, mut entries) = line(&[30, 10, 20]);
        assert!(newest_first.reorder(&mut entries, QueueOrder::Lifo));
        assert_eq!(drain(&mut newest_first, &mut entries), [30, 20, 10]);
    }

    #[test]
    fn who_is_behind_another_of_its_group_is_counted_but_never_first() {
        let (mut line, mut entries) = line(&[10]);
        let behind = entries.add(JobEntry::sample(5, 9));
        line.insert(&mut entries, behind, JobPlace::Behind);
        assert_eq!((line.ready(), line.len()), (1, 2));
        assert_eq!(line.first(&entries).map(|job| entries[job].visible_at.0), Some(10));
        line.remove(&mut entries, behind, JobPlace::Behind);
        assert_eq!((line.ready(), line.len()), (1, 1));
    }
}
