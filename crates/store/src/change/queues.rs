//! What changes of queues are as rows: a parked job with all by which it is found, a dead letter, a kept answer.

use base::Timestamp;
use records::{AnswerKey, DeadJob, JobId, KeptAnswer, ParkedJob, ParkedKey, QueueKey};

use super::{Change, delete, mark, put};
use crate::codec::key::{self, Key, TimedKey};
use crate::port::{parked_lines, parked_time};
use crate::table::Table;

pub(super) fn park(job: &ParkedJob, out: &mut Vec<Change>) {
    let (key, id) = (job.key(), job.head.id);
    out.push(delete(Table::JobHeads, key::job(id)));
    out.push(put(Table::ParkedJobs, key::job(id), job));
    out.extend(places(&key).map(|(table, place)| match table {
        Table::ParkedByTime => mark(table, place),
        _ => Change::Put { table, key: place, value: Box::from(id.0) },
    }));
}

pub(super) fn unpark(key: &ParkedKey, out: &mut Vec<Change>) {
    out.push(delete(Table::ParkedJobs, key::job(key.id)));
    out.extend(places(key).map(|(table, place)| delete(table, place)));
}

/// The rows by which a parked job is found, besides that by its id.
pub(crate) fn places(job: &ParkedKey) -> impl Iterator<Item = (Table, Key)> + '_ {
    let id = job.id;
    let time = parked_time(job).map(|(clock, at)| TimedKey { clock, at, id }.to_key());
    let place = (job.visible_at, job.number);
    let lines = parked_lines(job).map(move |group| key::place_in_line(job.queue, group, place));
    let alias = job.alias.map(|alias| key::alias(job.queue, alias));
    let time = time.map(|key| (Table::ParkedByTime, key));
    let alias = alias.map(|key| (Table::ParkedAliases, key));
    time.into_iter().chain(lines.map(|key| (Table::ParkedByLine, key))).chain(alias)
}

pub(super) fn delete_queue(queue: QueueKey, out: &mut Vec<Change>) {
    out.push(delete(Table::Queues, key::queue(queue)));
    out.push(delete(Table::QueueCounts, key::queue(queue)));
}

pub(super) fn put_dead(dead: &DeadJob, out: &mut Vec<Change>) {
    out.push(put(Table::Dead, key::dead(dead.queue, dead.number), dead));
    let (key, value) = (key::job_of(dead.queue, dead.id), Box::from(dead.number.to_be_bytes()));
    out.push(Change::Put { table: Table::DeadIds, key, value });
}

pub(super) fn delete_dead(queue: QueueKey, number: u64, id: JobId, out: &mut Vec<Change>) {
    out.push(delete(Table::Dead, key::dead(queue, number)));
    out.push(delete(Table::DeadIds, key::job_of(queue, id)));
}

pub(super) fn put_answer(answer: &KeptAnswer, out: &mut Vec<Change>) {
    out.push(put(Table::Answers, key::answer(answer.key), answer));
    out.push(mark(Table::AnswersByTime, key::answer_at(answer.at, answer.key)));
}

pub(super) fn delete_answer(answer: AnswerKey, at: Timestamp, out: &mut Vec<Change>) {
    out.push(delete(Table::Answers, key::answer(answer)));
    out.push(delete(Table::AnswersByTime, key::answer_at(at, answer)));
}
