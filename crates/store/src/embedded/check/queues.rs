//! What a partition of queues says of itself: jobs and their queues, parked jobs and the rows that
//! find them, dead letters, kept answers.
//!
//! A queue is there as long as it has anything, be it deleted; its counts are exact.

use std::collections::{BTreeMap, HashSet};

use base::PartitionId;
use base::hash::queue_partition;
use records::{DeadJob, JobHead, JobId, ParkedJob, Parking, Queue, QueueCounts, QueueKey};

use super::rows::{CheckedPartition, RowCheck, Wrong};
use crate::codec::key;
use crate::table::Table;

/// What is known of a partition's queues from one table to the next.
#[derive(Default)]
struct KnownQueues {
    /// How much each queue has that is not resident: as it says, and as it was found.
    queues: BTreeMap<QueueKey, [QueueCounts; 2]>,
    names: HashSet<(String, String)>,
    /// Whose bodies there may be besides those of jobs: successors, and dead letters.
    others: HashSet<JobId>,
}

impl KnownQueues {
    fn found(&mut self, queue: QueueKey) -> Result<&mut QueueCounts, Wrong> {
        let counts = self.queues.get_mut(&queue).map(|[_, found]| found);
        counts.ok_or_else(|| format!("there is no queue {}", queue.0))
    }
}

impl RowCheck<'_, '_> {
    /// Everything of a partition of queues.
    pub(super) fn partition_of_queues(&mut self, within: &CheckedPartition) {
        let mut known = KnownQueues::default();
        self.queues(within, &mut known);
        self.resident_jobs(within, &mut known);
        self.parked_jobs(within, &mut known);
        self.dead_letters(within, &mut known);
        self.counts_of_queues(within, &known);
        self.bodies(within, &known);
        self.coordination(within);
    }

    fn queues(&mut self, within: &CheckedPartition, known: &mut KnownQueues) {
        let partition = within.partition;
        self.indexed(partition, |check, queue: &Queue| {
            known.queues.insert(queue.key, [QueueCounts::default(); 2]);
            let right = queue_partition(&queue.namespace, &queue.name, check.partitions);
            if right != partition {
                return Err(format!("the queue belongs to partition {right}"));
            }
            let name = (queue.namespace.to_string(), queue.name.to_string());
            if queue.deleted || known.names.insert(name) {
                Ok(())
            } else {
                Err("another queue has its name".to_owned())
            }
        });
        self.records(Table::QueueCounts, partition, |_, key, counts: QueueCounts| {
            let queue = key[..].try_into().map_err(|_| "its key is not that of a queue")?;
            let queue = known.queues.get_mut(&QueueKey(u64::from_be_bytes(queue)));
            queue.ok_or("there is no such queue")?[0] = counts;
            Ok(())
        });
    }

    fn resident_jobs(&mut self, within: &CheckedPartition, known: &mut KnownQueues) {
        let partition = within.partition;
        self.indexed(partition, |check, job: &JobHead| {
            known.found(job.queue)?;
            known.others.extend(job.successor.iter().map(|successor| successor.id));
            match check.get(Table::ParkedIds, partition, &key::job(job.id))? {
                None => check.carries(partition, job.id, false),
                Some(_) => Err("it is parked too".to_owned()),
            }
        });
    }

    fn parked_jobs(&mut self, within: &CheckedPartition, known: &mut KnownQueues) {
        self.indexed(within.partition, |check, job: &ParkedJob| {
            let found = known.found(job.head.queue)?;
            match job.parking {
                Parking::Time => found.parked_scheduled += 1,
                Parking::Worker | Parking::Head => found.parked_ready += 1,
            }
            check.carries(within.partition, job.head.id, job.body.is_some())
        });
    }

    /// What a job carries is in one place.
    fn carries(&self, partition: PartitionId, job: JobId, with_it: bool) -> Result<(), Wrong> {
        match (with_it, self.get(Table::JobBodies, partition, &key::job(job))?.is_some()) {
            (true, true) => Err("what it carries is there twice".to_owned()),
            (false, false) => Err("what it carries is missing".to_owned()),
            _ => Ok(()),
        }
    }

    fn dead_letters(&mut self, within: &CheckedPartition, known: &mut KnownQueues) {
        self.indexed(within.partition, |check, dead: &DeadJob| {
            known.found(dead.queue)?.dead += 1;
            known.others.insert(dead.id);
            if dead.number < within.head.next_dead {
                check.carries(within.partition, dead.id, false)
            } else {
                Err(format!("no dead letter ever had number {}", dead.number))
            }
        });
    }

    fn counts_of_queues(&mut self, within: &CheckedPartition, known: &KnownQueues) {
        for (queue, [said, found]) in &known.queues {
            if said != found {
                let what = format!("it says {said:?}, there are {found:?}");
                self.wrong(Table::QueueCounts, within.partition, &key::queue(*queue), what);
            }
        }
    }

    fn bodies(&mut self, within: &CheckedPartition, known: &KnownQueues) {
        self.rows(Table::JobBodies, within.partition, |check, key, _| {
            let id = key::job_from(key).map_err(|_| "its key is not that of a job")?;
            if known.others.contains(&id) || check.get(Table::JobHeads, within.partition, key)?.is_some() {
                return Ok(());
            }
            let is_parked = check.get(Table::ParkedIds, within.partition, key)?.is_some();
            if is_parked { Ok(()) } else { Err("nothing carries it".to_owned()) }
        });
    }
}
