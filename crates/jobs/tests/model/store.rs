//! What a store would hold after the batches so far, and the pages that a caller reads from it.

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;
use jobs::{Horizon, Jobs, ReadRequest};
use records::{Batch, JobClock, JobHead, JobId, Op, ParkedJob, Parking, QueueKey, QueueOrder};

/// The tables.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) heads: BTreeMap<JobId, JobHead>,
    pub(crate) parked: BTreeMap<JobId, ParkedJob>,
    /// What jobs and dead letters carry.
    pub(crate) bodies: BTreeSet<JobId>,
    pub(crate) dead: BTreeSet<JobId>,
    pub(crate) counts: BTreeMap<QueueKey, (u64, u64)>,
    /// How often jobs were parked: until their time, in a queue's line, in a group's, as a group's
    /// head.
    pub(crate) parkings: [u64; 4],
}

impl Stored {
    pub(crate) fn apply(&mut self, batch: Batch) {
        for op in batch.ops {
            match op {
                Op::PutJob(head) => {
                    assert!(!self.parked.contains_key(&head.id), "a job is resident or parked");
                    self.heads.insert(head.id, *head);
                }
                Op::DeleteJob(id) => {
                    assert!(!self.parked.contains_key(&id), "what is parked is unparked first");
                    self.heads.remove(&id);
                    assert!(self.bodies.remove(&id), "what is deleted was stored");
                }
                Op::DeleteJobHead(id) => {
                    assert!(self.heads.remove(&id).is_some(), "who dies was resident");
                    self.dead.insert(id);
                }
                Op::DeleteJobBody(id) => assert!(self.bodies.remove(&id), "what is deleted was stored"),
                Op::ParkJob(parked) => self.park(*parked),
                Op::UnparkJob(key) => {
                    let parked = self.parked.remove(&key.id).expect("it was parked");
                    assert_eq!(parked.key(), *key, "the store finds all its rows");
                }
                other => panic!("jobs change nothing but jobs: {other:?}"),
            }
        }
    }

    fn park(&mut self, parked: ParkedJob) {
        let kind = match (parked.parking, parked.head.terms.group) {
            (Parking::Time, _) => 0,
            (Parking::Worker, None) => 1,
            (Parking::Worker, Some(_)) => 2,
            (Parking::Head, _) => 3,
        };
        self.parkings[kind] += 1;
        self.heads.remove(&parked.head.id);
        let before = self.parked.insert(parked.head.id, parked);
        assert!(before.is_none(), "a job is parked once");
    }

    /// Every job, resident or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = &JobHead> {
        self.heads.values().chain(self.parked.values().map(|parked| &parked.head))
    }

    /// The first jobs of what is wanted, `limit` of them, and how far that reaches.
    pub(crate) fn page(
        &self,
        request: ReadRequest,
        order: QueueOrder,
        limit: usize,
    ) -> (Vec<ParkedJob>, Option<Horizon>) {
        let mut found: Vec<_> = self
            .parked
            .values()
            .filter_map(|parked| Some((place(parked, request)?, parked.clone())))
            .collect();
        found.sort_by_key(|(place, _)| *place);
        if order == QueueOrder::Lifo && matches!(request, ReadRequest::Line { group: None, .. }) {
            found.reverse();
        }
        let rest = found.split_off(limit.min(found.len()));
        let to = rest.first().and_then(|((at, number), _)| match request {
            ReadRequest::Time { .. } => Some(Horizon::just_before(*at, *number)),
            ReadRequest::Line { .. } => {
                found.last().map(|((at, number), _)| Horizon { at: *at, number: *number })
            }
        });
        (found.into_iter().map(|(_, parked)| parked).collect(), to)
    }

    /// Takes what the engine says of its counts, and holds it against what there is.
    pub(crate) fn check_counts(&mut self, jobs: &mut Jobs) {
        let mut changed = Vec::new();
        jobs.take_changed_counts(&mut changed);
        for (queue, scheduled, ready) in changed {
            self.counts.insert(queue, (scheduled, ready));
        }
        self.counts.retain(|_, counts| *counts != (0, 0));
        let mut counts: BTreeMap<QueueKey, (u64, u64)> = BTreeMap::new();
        for parked in self.parked.values() {
            let counted = counts.entry(parked.head.queue).or_default();
            match parked.parking {
                Parking::Time => counted.0 += 1,
                Parking::Worker | Parking::Head => counted.1 += 1,
            }
        }
        assert_eq!(self.counts, counts, "counts tell what is parked");
        for (queue, counted) in counts {
            assert_eq!(jobs.parked(queue), counted);
        }
    }

    /// After a crash a group is known by a job of it that is resident, or by its head in its
    /// queue's line.
    pub(crate) fn check_groups(&self) {
        let lines = self.parked.values().filter(|parked| parked.parking == Parking::Worker);
        for parked in lines.filter(|parked| parked.head.terms.group.is_some()) {
            let (queue, group) = (parked.head.queue, parked.head.terms.group);
            let is_of_group = |head: &JobHead| head.queue == queue && head.terms.group == group;
            let is_head = |parked: &&ParkedJob| parked.parking == Parking::Head && is_of_group(&parked.head);
            let heads: Vec<_> = self.parked.values().filter(is_head).collect();
            let is_known = heads.len() == 1 || self.heads.values().any(is_of_group);
            let (at, number) = (parked.head.visible_at, parked.head.number);
            let is_first = heads.iter().all(|head| (head.head.visible_at, head.head.number) < (at, number));
            assert!(is_first, "the head of group {group:?} of {queue:?} goes before what is parked of it");
            assert!(is_known, "group {group:?} of {queue:?} has only parked jobs");
        }
    }
}

/// Where a parked job is in the order of what is wanted, if it is of that.
fn place(parked: &ParkedJob, request: ReadRequest) -> Option<(Timestamp, u64)> {
    let JobHead { queue, visible_at, number, terms, .. } = parked.head;
    match (request, parked.parking) {
        (ReadRequest::Time { clock, .. }, Parking::Time) => {
            (parked.head.clock_of_wait() == clock).then_some((visible_at, number))
        }
        (ReadRequest::Time { clock: JobClock::Engine, .. }, Parking::Worker | Parking::Head) => {
            Some((terms.expires_at?, 0))
        }
        (ReadRequest::Line { queue: of, group }, Parking::Worker | Parking::Head) => {
            let is_head = parked.parking == Parking::Head && group.is_none();
            (queue == of && (terms.group == group || is_head)).then_some((visible_at, number))
        }
        (ReadRequest::Time { .. } | ReadRequest::Line { .. }, _) => None,
    }
}
