//! The jobs that are there, found by id and by alias. When a job is due is not kept here.
//!
//! A successor has no entry of its own: its id leads to the job before it.

use std::num::NonZeroU32;

use base::{Timestamp, hash};
use hashbrown::HashTable;
use records::{AliasKey, GroupKey, JobHead, JobId, JobState, Recurrence, Successor, Terms};

use crate::entry::{Claim, Entry, Extra, Lease, Next, Place};
use crate::heap::Links;
use crate::queues::Queue;
use crate::slab::{Handle, Slab};

/// Indexes below this size are not worth giving memory back.
const INDEX_ENTRIES_KEPT: usize = 1 << 12;

/// What an id stands for.
#[derive(Clone, Copy)]
pub(crate) enum Found {
    Job(Handle<Entry>),
    /// The successor of this one.
    SuccessorOf(Handle<Entry>),
}

/// The jobs.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) entries: Slab<Entry>,
    pub(crate) leases: Slab<Lease>,
    claims: Slab<Claim>,
    extras: Slab<Extra>,
    ids: HashTable<IdPlace>,
    aliases: HashTable<Handle<Entry>>,
}

/// A job that was taken out.
pub(crate) struct Removed {
    pub(crate) entry: Entry,
    pub(crate) claim: Option<Claim>,
}

impl Table {
    pub(crate) fn find(&self, id: JobId) -> Option<Found> {
        self.ids.find(hash_of_id(id), |place| self.id_at(*place) == id).map(|place| place.found())
    }

    /// The job of that queue that holds an alias.
    pub(crate) fn by_alias(&self, queue: Handle<Queue>, alias: AliasKey) -> Option<Handle<Entry>> {
        let holds = |job: &Handle<Entry>| {
            self.entries[*job].queue == queue && self.claim(*job).is_some_and(|claim| claim.alias == alias)
        };
        self.aliases.find(hash_of_alias(queue, alias), holds).copied()
    }

    /// Takes a job of `queue` in, in no heap yet. Neither its id nor its alias may be there.
    pub(crate) fn insert(&mut self, head: &JobHead, queue: Handle<Queue>) -> Handle<Entry> {
        debug_assert!(self.find(head.id).is_none(), "an id is given out once");
        let claim = head.alias.map(|alias| {
            debug_assert!(self.by_alias(queue, alias).is_none(), "an alias is held by one job");
            self.claims.insert(Claim { alias, next: Next::Nobody })
        });
        let lease = match head.state {
            JobState::Waiting => None,
            JobState::Reserved { lease: number, holder } => {
                Some(self.leases.insert(Lease { number, holder, visible_at_before: None }))
            }
        };
        let job = self.entries.insert(Entry {
            id: head.id,
            queue,
            number: head.number,
            run_at: head.run_at,
            visible_at: head.visible_at,
            attempt: head.attempt,
            tries: head.tries,
            lease,
            claim,
            extra: None,
            clock: head.terms.clock,
            links: Links::default(),
            rank: 0,
            place: Place::Nowhere,
        });
        self.set_terms(job, &head.terms);
        self.index_id(IdPlace::of_job(job));
        if let Some(alias) = head.alias {
            self.index_alias(queue, alias, job);
        }
        self.set_next(job, Next::from_stored(head.successor));
        job
    }

    /// Takes a job out that is in no heap; its successor, if any, is not there any more either.
    pub(crate) fn remove(&mut self, job: Handle<Entry>) -> Removed {
        debug_assert_eq!(self.entries[job].place, Place::Nowhere, "a heap leads to entries that are there");
        let next = self.set_next(job, Next::Nobody);
        debug_assert!(self.entries[job].lease.is_none(), "a run ends before its job");
        let Entry { id, queue, claim, extra, .. } = self.entries[job];
        if let Some(extra) = extra {
            self.extras.remove(extra);
        }
        self.forget_id(id);
        if let Some(Claim { alias, .. }) = self.claim(job) {
            self.forget_alias(queue, *alias);
        }
        let claim = claim.map(|claim| Claim { next, ..self.claims.remove(claim) });
        Removed { entry: self.entries.remove(job), claim }
    }

    /// Sets who takes over; answers who would have. Only a job with an alias has a successor.
    pub(crate) fn set_next(&mut self, job: Handle<Entry>, next: Next) -> Next {
        let Some(claim) = self.entries[job].claim else {
            debug_assert!(next.successor().is_none(), "a successor takes over an alias");
            return Next::Nobody;
        };
        if let Some(Successor { id, .. }) = self.claims[claim].next.successor() {
            self.forget_id(*id);
        }
        let replaced = std::mem::replace(&mut self.claims[claim].next, next);
        if self.claims[claim].next.successor().is_some() {
            self.index_id(IdPlace::of_successor(job));
        }
        replaced
    }

    pub(crate) fn claim(&self, job: Handle<Entry>) -> Option<&Claim> {
        self.entries[job].claim.map(|claim| &self.claims[claim])
    }

    pub(crate) fn successor(&self, job: Handle<Entry>) -> Option<&Successor> {
        self.claim(job)?.next.successor()
    }

    pub(crate) fn successor_mut(&mut self, job: Handle<Entry>) -> Option<&mut Successor> {
        self.claims[self.entries[job].claim?].next.successor_mut()
    }

    /// What holds of a job.
    pub(crate) fn terms(&self, job: Handle<Entry>) -> Terms {
        let Entry { clock, extra, .. } = self.entries[job];
        let Some(extra) = extra.map(|extra| &self.extras[extra]) else {
            return Terms { clock, ..Terms::default() };
        };
        let recurrence = extra.recurrence.as_deref().copied();
        Terms { clock, expires_at: extra.expires_at, group: extra.group, recurrence }
    }

    /// Has other terms hold of a job, which is in no heap.
    pub(crate) fn set_terms(&mut self, job: Handle<Entry>, terms: &Terms) {
        let entry = &mut self.entries[job];
        debug_assert_eq!(entry.place, Place::Nowhere, "heaps and groups go by the terms");
        entry.clock = terms.clock;
        if let Some(extra) = entry.extra.take() {
            self.extras.remove(extra);
        }
        entry.extra = Extra::of(terms).map(|extra| self.extras.insert(extra));
    }

    /// Has another run, or another number of them left, hold of a job that comes again.
    pub(crate) fn set_recurrence(&mut self, job: Handle<Entry>, recurrence: Recurrence) {
        if let Some(extra) = self.entries[job].extra {
            self.extras[extra].recurrence = Some(Box::new(recurrence));
        }
    }

    /// Has a run that comes again expire as long after it is due, by the engine clock, as its runs are worth making. Other
    /// jobs expire when they would have.
    pub(crate) fn set_ttl_from(&mut self, job: Handle<Entry>, due: Timestamp) {
        debug_assert_eq!(self.entries[job].place, Place::Nowhere, "timers go by when a job expires");
        let Some(extra) = self.entries[job].extra.map(|extra| &mut self.extras[extra]) else { return };
        if let Some(recurrence) = &extra.recurrence {
            extra.expires_at = expires_at(recurrence, due);
        }
    }

    pub(crate) fn expires_at(&self, job: Handle<Entry>) -> Option<Timestamp> {
        self.extras[self.entries[job].extra?].expires_at
    }

    pub(crate) fn group(&self, job: Handle<Entry>) -> Option<GroupKey> {
        self.extras[self.entries[job].extra?].group
    }

    pub(crate) fn recurrence(&self, job: Handle<Entry>) -> Option<Recurrence> {
        self.extras[self.entries[job].extra?].recurrence.as_deref().copied()
    }

    pub(crate) fn lease(&self, job: Handle<Entry>) -> Option<Lease> {
        self.entries[job].lease.map(|lease| self.leases[lease])
    }

    /// Takes the lease from a job, if there is one: whether there was.
    pub(crate) fn end_lease(&mut self, job: Handle<Entry>) -> bool {
        let lease = self.entries[job].lease.take();
        lease.map(|lease| self.leases.remove(lease)).is_some()
    }

    /// How many jobs the larger index has room for.
    #[cfg(test)]
    pub(crate) fn indexed_max(&self) -> usize {
        self.ids.capacity().max(self.aliases.capacity())
    }

    fn id_at(&self, place: IdPlace) -> JobId {
        id_at(&self.entries, &self.claims, place)
    }

    fn index_id(&mut self, place: IdPlace) {
        let Self { entries, claims, ids, .. } = self;
        let hash = |place: &IdPlace| hash_of_id(id_at(entries, claims, *place));
        ids.insert_unique(hash(&place), place, hash);
    }

    fn forget_id(&mut self, id: JobId) {
        let Self { entries, claims, ids, .. } = self;
        let found = ids.find_entry(hash_of_id(id), |place| id_at(entries, claims, *place) == id);
        let Ok(found) = found else { unreachable!("every job is indexed by its id") };
        found.remove();
        if is_sparse(ids) {
            ids.shrink_to(2 * ids.len(), |place| hash_of_id(id_at(entries, claims, *place)));
        }
    }

    fn index_alias(&mut self, queue: Handle<Queue>, alias: AliasKey, job: Handle<Entry>) {
        let Self { entries, claims, aliases, .. } = self;
        aliases.insert_unique(hash_of_alias(queue, alias), job, |job| hash_of_claim(entries, claims, *job));
    }

    fn forget_alias(&mut self, queue: Handle<Queue>, alias: AliasKey) {
        let Self { entries, claims, aliases, .. } = self;
        let holds = |job: &Handle<Entry>| {
            let entry = &entries[*job];
            entry.queue == queue && entry.claim.is_some_and(|claim| claims[claim].alias == alias)
        };
        let found = aliases.find_entry(hash_of_alias(queue, alias), holds);
        let Ok(found) = found else { unreachable!("every alias that is held is indexed") };
        found.remove();
        if is_sparse(aliases) {
            aliases.shrink_to(2 * aliases.len(), |job| hash_of_claim(entries, claims, *job));
        }
    }
}

/// When a run that is due then, by the engine clock, is not worth making any more.
pub(crate) fn expires_at(recurrence: &Recurrence, due: Timestamp) -> Option<Timestamp> {
    recurrence.ttl_ms.map(|ttl_ms| Timestamp(due.0.saturating_add_unsigned(ttl_ms)))
}

/// Whether an index has far more room than it read_queue. Giving it back pays for itself: most of it was filled since.
pub(crate) fn is_sparse<T>(table: &HashTable<T>) -> bool {
    table.capacity() > INDEX_ENTRIES_KEPT && table.len() < table.capacity() / 8
}

/// Whose id it is, in four bytes: a handle, and in its highest bit whether its successor is meant.
#[derive(Clone, Copy)]
struct IdPlace(NonZeroU32);

impl IdPlace {
    const SUCCESSOR: u32 = 1 << 31;

    fn of_job(job: Handle<Entry>) -> Self {
        Self(job.number())
    }

    fn of_successor(job: Handle<Entry>) -> Self {
        Self(job.number() | Self::SUCCESSOR)
    }

    fn found(self) -> Found {
        let number = NonZeroU32::new(self.0.get() & !Self::SUCCESSOR);
        let job = Handle::from_number(number.expect("the number of a handle is not 0"));
        if self.0.get() & Self::SUCCESSOR == 0 { Found::Job(job) } else { Found::SuccessorOf(job) }
    }
}

fn id_at(entries: &Slab<Entry>, claims: &Slab<Claim>, place: IdPlace) -> JobId {
    match place.found() {
        Found::Job(job) => entries[job].id,
        Found::SuccessorOf(job) => {
            let successor = entries[job].claim.and_then(|claim| claims[claim].next.successor());
            successor.expect("a successor's id is forgotten before the successor").id
        }
    }
}

fn hash_of_id(id: JobId) -> u64 {
    hash::derived(0, &id.0)
}

fn hash_of_alias(queue: Handle<Queue>, alias: AliasKey) -> u64 {
    hash::derived(queue.number().get().into(), &alias.0.to_le_bytes())
}

fn hash_of_claim(entries: &Slab<Entry>, claims: &Slab<Claim>, job: Handle<Entry>) -> u64 {
    let entry = &entries[job];
    let claim = entry.claim.expect("only jobs with an alias are indexed by it");
    hash_of_alias(entry.queue, claims[claim].alias)
}
