//! The entries of a table. Everybody may read one. The priority queues that are linked through them
//! change where one stands, and nobody but the table changes anything else.

use std::ops::Index;

use crate::entry::{JobEntry, JobPlace, Links};
use crate::slab::{Handle, Slab};

/// The entries.
#[derive(Default)]
pub(crate) struct Entries(Slab<JobEntry>);

impl Entries {
    /// The links of an entry to others of its queue.
    #[inline]
    pub(crate) fn links_mut(&mut self, job: Handle<JobEntry>) -> &mut Links {
        &mut self.0[job].links
    }

    /// The links of an entry, and its rank.
    #[inline]
    pub(crate) fn links_and_rank_mut(&mut self, job: Handle<JobEntry>) -> (&mut Links, &mut u8) {
        let entry = &mut self.0[job];
        (&mut entry.links, &mut entry.rank)
    }

    /// Notes in which queue an entry is; answers in which it was.
    #[inline]
    pub(crate) fn set_place(&mut self, job: Handle<JobEntry>, place: JobPlace) -> JobPlace {
        std::mem::replace(&mut self.0[job].place, place)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle<JobEntry>, &JobEntry)> {
        self.0.iter()
    }

    pub(super) fn insert(&mut self, entry: JobEntry) -> Handle<JobEntry> {
        self.0.insert(entry)
    }

    pub(super) fn remove(&mut self, job: Handle<JobEntry>) -> JobEntry {
        self.0.remove(job)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, job: Handle<JobEntry>) -> &mut JobEntry {
        &mut self.0[job]
    }
}

impl Index<Handle<JobEntry>> for Entries {
    type Output = JobEntry;

    #[inline]
    fn index(&self, job: Handle<JobEntry>) -> &JobEntry {
        &self.0[job]
    }
}

/// For tests of the parts that are linked through entries.
#[cfg(test)]
impl Entries {
    pub(crate) fn add(&mut self, entry: JobEntry) -> Handle<JobEntry> {
        self.insert(entry)
    }

    pub(crate) fn take(&mut self, job: Handle<JobEntry>) -> JobEntry {
        self.remove(job)
    }

    pub(crate) fn count(&self) -> usize {
        self.len()
    }

    /// An attempt at a job was begun.
    pub(crate) fn begin_attempt(&mut self, job: Handle<JobEntry>) {
        self.get_mut(job).attempt = 1;
    }
}
