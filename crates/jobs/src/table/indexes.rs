//! Jobs by id and by alias, in four bytes each: the ids and aliases themselves stay in the records.

use std::num::NonZeroU32;

use base::hash;
use hashbrown::HashTable;
use records::{AliasKey, JobId};

use super::{FoundJob, Records};
use crate::entry::JobEntry;
use crate::queues::QueueEntry;
use crate::slab::Handle;

/// Indexes below this size are not worth giving memory back.
const INDEX_ENTRIES_KEPT: usize = 1 << 12;

/// The indexes of a table. An id is there before its record goes, and an alias too.
#[derive(Default)]
pub(super) struct Indexes {
    ids: HashTable<IdPlace>,
    aliases: HashTable<Handle<JobEntry>>,
}

impl Indexes {
    pub(super) fn find_id(&self, records: &Records, id: JobId) -> Option<FoundJob> {
        self.ids.find(hash_of_id(id), |place| records.id_at(*place) == id).map(|place| place.found())
    }

    /// The job of that queue that holds an alias.
    pub(super) fn find_alias(
        &self,
        records: &Records,
        queue: Handle<QueueEntry>,
        alias: AliasKey,
    ) -> Option<Handle<JobEntry>> {
        let holds = |job: &Handle<JobEntry>| records.holds(*job, queue, alias);
        self.aliases.find(hash_of_alias(queue, alias), holds).copied()
    }

    pub(super) fn insert_job(&mut self, records: &Records, job: Handle<JobEntry>) {
        self.insert_id(records, IdPlace::of_job(job));
    }

    /// The id of a job's successor leads to the job.
    pub(super) fn insert_successor(&mut self, records: &Records, job: Handle<JobEntry>) {
        self.insert_id(records, IdPlace::of_successor(job));
    }

    pub(super) fn insert_alias(&mut self, records: &Records, job: Handle<JobEntry>) {
        let hash = |job: &Handle<JobEntry>| records.hash_of_alias(*job);
        self.aliases.insert_unique(hash(&job), job, hash);
    }

    pub(super) fn remove_id(&mut self, records: &Records, id: JobId) {
        let found = self.ids.find_entry(hash_of_id(id), |place| records.id_at(*place) == id);
        let Ok(found) = found else { unreachable!("every job is indexed by its id") };
        found.remove();
        if is_sparse(&self.ids) {
            self.ids.shrink_to(2 * self.ids.len(), |place| hash_of_id(records.id_at(*place)));
        }
    }

    pub(super) fn remove_alias(&mut self, records: &Records, queue: Handle<QueueEntry>, alias: AliasKey) {
        let holds = |job: &Handle<JobEntry>| records.holds(*job, queue, alias);
        let found = self.aliases.find_entry(hash_of_alias(queue, alias), holds);
        let Ok(found) = found else { unreachable!("every alias that is held is indexed") };
        found.remove();
        if is_sparse(&self.aliases) {
            self.aliases.shrink_to(2 * self.aliases.len(), |job| records.hash_of_alias(*job));
        }
    }

    /// How many jobs the larger index has room for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.ids.capacity().max(self.aliases.capacity())
    }

    fn insert_id(&mut self, records: &Records, place: IdPlace) {
        let hash = |place: &IdPlace| hash_of_id(records.id_at(*place));
        self.ids.insert_unique(hash(&place), place, hash);
    }
}

impl Records {
    fn id_at(&self, place: IdPlace) -> JobId {
        match place.found() {
            FoundJob::Job(job) => self.entries[job].id,
            FoundJob::SuccessorOf(job) => {
                let successor = self.claim(job).and_then(|claim| claim.next.successor());
                successor.expect("a successor's id is forgotten before the successor").id
            }
        }
    }

    fn holds(&self, job: Handle<JobEntry>, queue: Handle<QueueEntry>, alias: AliasKey) -> bool {
        self.entries[job].queue == queue && self.claim(job).is_some_and(|claim| claim.alias == alias)
    }

    fn hash_of_alias(&self, job: Handle<JobEntry>) -> u64 {
        let claim = self.claim(job).expect("only jobs with an alias are indexed by it");
        hash_of_alias(self.entries[job].queue, claim.alias)
    }
}

/// Whether an index has far more room than it needs. Giving it back pays for itself: most of it was
/// filled since.
pub(crate) fn is_sparse<T>(table: &HashTable<T>) -> bool {
    table.capacity() > INDEX_ENTRIES_KEPT && table.len() < table.capacity() / 8
}

/// Whose id it is, in four bytes: a handle, and in its highest bit whether its successor is meant.
#[derive(Clone, Copy)]
struct IdPlace(NonZeroU32);

impl IdPlace {
    const SUCCESSOR: u32 = 1 << 31;

    fn of_job(job: Handle<JobEntry>) -> Self {
        Self(job.number())
    }

    fn of_successor(job: Handle<JobEntry>) -> Self {
        Self(job.number() | Self::SUCCESSOR)
    }

    fn found(self) -> FoundJob {
        let number = NonZeroU32::new(self.0.get() & !Self::SUCCESSOR);
        let job = Handle::from_number(number.expect("the number of a handle is not 0"));
        if self.0.get() & Self::SUCCESSOR == 0 { FoundJob::Job(job) } else { FoundJob::SuccessorOf(job) }
    }
}

fn hash_of_id(id: JobId) -> u64 {
    hash::derived(0, &id.0)
}

fn hash_of_alias(queue: Handle<QueueEntry>, alias: AliasKey) -> u64 {
    hash::derived(queue.number().get().into(), &alias.0.to_le_bytes())
}
