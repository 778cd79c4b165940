//! What a partition of queues says of itself: jobs and their queues, parked jobs and the rows by which they are found, dead letters,
//! kept answers.
//!
//! A queue is there as long as it has anything, be it deleted; its counts are exact.

use std::collections::{BTreeMap, HashSet};

use base::hash::queue_partition;
use base::{PartitionId, Timestamp};
use records::{
    AnswerKey, DeadJob, JobHead, JobId, KeptAnswer, ParkedJob, Parking, Queue, QueueCounts, QueueKey,
};

use super::rows::{RowCheck, Within, Wrong, same_key};
use crate::change::places;
use crate::codec::key::{self, Key, TimedKey};
use crate::embedded::tables::Table;

/// Tables that only partitions of queues have rows in.
pub(super) const OF_QUEUES: [Table; 8] = [
    Table::Queues,
    Table::QueueCounts,
    Table::ParkedJobs,
    Table::ParkedByTime,
    Table::ParkedByLine,
    Table::ParkedAliases,
    Table::Dead,
    Table::DeadIds,
];

/// Tables that partitions of queues have rows in as others do.
const SHARED: [Table; 6] =
    [Table::Directory, Table::Heads, Table::JobHeads, Table::JobBodies, Table::Answers, Table::AnswersByTime];

/// What is known of a partition's queues from one table to the next.
#[derive(Default)]
struct Known {
    /// How much each queue has that is not resident: as it says, and as it was found.
    queues: BTreeMap<QueueKey, [QueueCounts; 2]>,
    names: HashSet<(String, String)>,
    /// Whose bodies there may be besides those of jobs: successors, and dead letters.
    others: HashSet<JobId>,
}

impl Known {
    fn found(&mut self, queue: QueueKey) -> Result<&mut QueueCounts, Wrong> {
        let counts = self.queues.get_mut(&queue).map(|[_, found]| found);
        counts.ok_or_else(|| format!("there is no queue {}", queue.0))
    }
}

impl RowCheck<'_, '_> {
    /// Everything of a partition of queues.
    pub(super) fn partition_of_queues(&mut self, within: &Within) {
        let foreign = |table: &Table| !OF_QUEUES.contains(table) && !SHARED.contains(table);
        self.no_rows(within.partition, Table::ALL.into_iter().filter(foreign));
        let mut known = Known::default();
        self.queues(within, &mut known);
        self.resident_jobs(within, &mut known);
        self.parked_jobs(within, &mut known);
        self.dead_letters(within, &mut known);
        self.counts_of_queues(within, &known);
        self.bodies(within, &known);
        self.answers(within);
    }

    /// Tables that have no rows in a partition.
    pub(super) fn no_rows(&mut self, partition: PartitionId, tables: impl Iterator<Item = Table>) {
        for table in tables {
            self.rows(table, partition, |_, _, _| Err("such rows are not kept in this partition".to_owned()));
        }
    }

    fn queues(&mut self, within: &Within, known: &mut Known) {
        let partition = within.partition;
        self.records(Table::Queues, partition, |check, key, queue: Queue| {
            same_key(key, &key::queue(queue.key))?;
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
            let queue = key.as_slice().try_into().map_err(|_| "its key is not that of a queue")?;
            let queue = known.queues.get_mut(&QueueKey(u64::from_be_bytes(queue)));
            queue.ok_or("there is no such queue")?[0] = counts;
            Ok(())
        });
    }

    fn resident_jobs(&mut self, within: &Within, known: &mut Known) {
        let partition = within.partition;
        self.records(Table::JobHeads, partition, |check, key, job: JobHead| {
            same_key(key, &key::job(job.id))?;
            known.found(job.queue)?;
            known.others.extend(job.successor.map(|successor| successor.id));
            match check.get(Table::ParkedJobs, partition, key)? {
                None => Ok(()),
                Some(_) => Err("it is parked too".to_owned()),
            }
        });
    }

    fn parked_jobs(&mut self, within: &Within, known: &mut Known) {
        let partition = within.partition;
        self.records(Table::ParkedJobs, partition, |check, key, job: ParkedJob| {
            same_key(key, &key::job(job.head.id))?;
            let found = known.found(job.head.queue)?;
            match job.parking {
                Parking::Time => found.parked_scheduled += 1,
                Parking::Worker | Parking::Head => found.parked_ready += 1,
            }
            places(&job.key()).try_for_each(|(table, place)| check.needs(table, partition, &place))
        });
        for table in [Table::ParkedByTime, Table::ParkedByLine, Table::ParkedAliases] {
            self.rows(table, partition, |check, key, value| {
                let id = match table {
                    Table::ParkedByTime => TimedKey::from_key(key).map(|timed| timed.id),
                    _ => key::job_from(value),
                };
                let id = id.map_err(|error| error.to_string())?;
                let job: Option<ParkedJob> = check.record(Table::ParkedJobs, partition, &key::job(id))?;
                let job = job.ok_or("the job that it names is not parked")?;
                let is_found_there = places(&job.key()).any(|place| place == (table, key.clone()));
                if is_found_there { Ok(()) } else { Err("the job that it names stands elsewhere".to_owned()) }
            });
        }
    }

    fn dead_letters(&mut self, within: &Within, known: &mut Known) {
        let partition = within.partition;
        self.records(Table::Dead, partition, |check, key, dead: DeadJob| {
            same_key(key, &key::dead(dead.queue, dead.number))?;
            known.found(dead.queue)?.dead += 1;
            known.others.insert(dead.id);
            if dead.number >= within.head.next_dead {
                return Err(format!("no dead letter ever had number {}", dead.number));
            }
            check.needs(Table::DeadIds, partition, &key::job_of(dead.queue, dead.id))
        });
        self.rows(Table::DeadIds, partition, |check, key, value| {
            let queue = key.first_chunk().map(|queue| QueueKey(u64::from_be_bytes(*queue)));
            let number = value.try_into().ok().map(u64::from_be_bytes);
            let (queue, number) = queue.zip(number).ok_or("it is no number of a dead letter")?;
            let dead = key::dead(queue, number);
            let dead: Option<DeadJob> = check.record(Table::Dead, partition, &dead)?;
            let dead = dead.ok_or("the dead letter that it names is missing")?;
            same_key(key, &key::job_of(dead.queue, dead.id))
        });
    }

    fn counts_of_queues(&mut self, within: &Within, known: &Known) {
        for (queue, [said, found]) in &known.queues {
            if said != found {
                let what = format!("it says {said:?}, there are {found:?}");
                self.wrong(Table::QueueCounts, within.partition, &key::queue(*queue), what);
            }
        }
    }

    fn bodies(&mut self, within: &Within, known: &Known) {
        self.rows(Table::JobBodies, within.partition, |check, key, _| {
            let id = key::job_from(key).map_err(|_| "its key is not that of a job")?;
            if known.others.contains(&id) || check.get(Table::JobHeads, within.partition, key)?.is_some() {
                return Ok(());
            }
            let is_parked = check.get(Table::ParkedJobs, within.partition, key)?.is_some();
            if is_parked { Ok(()) } else { Err("nothing carries it".to_owned()) }
        });
    }

    /// What requests were answered, in any partition.
    pub(super) fn answers(&mut self, within: &Within) {
        let partition = within.partition;
        self.records(Table::Answers, partition, |check, key, answer: KeptAnswer| {
            same_key(key, &key::answer(answer.key))?;
            check.needs(Table::AnswersByTime, partition, &key::answer_at(answer.at, answer.key))
        });
        self.rows(Table::AnswersByTime, partition, |check, key, _| {
            let (at, answer) = key::answer_from_key(key).map_err(|error| error.to_string())?;
            check.given_at(partition, answer, at)
        });
    }

    fn given_at(&self, partition: PartitionId, answer: AnswerKey, at: Timestamp) -> Result<(), Wrong> {
        let key: Key = key::answer(answer);
        match self.record::<KeptAnswer>(Table::Answers, partition, &key)? {
            Some(answer) if answer.at == at => Ok(()),
            Some(_) => Err("the answer that it names is of another time".to_owned()),
            None => Err("the answer that it names is missing".to_owned()),
        }
    }
}
