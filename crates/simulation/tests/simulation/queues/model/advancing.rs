//! What the passing of time brings in the model: jobs expire, leases run out, jobs come due.

use engine::queues::QueueName;
use records::DeadReason;

use super::Partition;
use super::ending::Cost;
use super::evidence::Evidence;
use super::job::{Job, Stands};
use crate::harness::violation::Checked;

impl Partition {
    /// What the passing of time brings before the next lease of each queue.
    pub(super) fn advance(&mut self, evidence: &mut Evidence) -> Checked {
        let names: Vec<QueueName> = self.queues.keys().cloned().collect();
        for name in names {
            if self.is_parking {
                let (now, wall) = (self.now, self.wall);
                self.queue(&name).jobs.iter_mut().for_each(|job| job.look_again(now, wall));
            }
            self.advance_to_next_lease(&name, evidence)?;
        }
        Ok(())
    }

    /// Where jobs are parked, it is seen in the batch when one that has expired leaves. It is seen
    /// too when a lease runs out in a step that does not get to the end of what is due. What comes
    /// behind a lease in the batch counts after it.
    pub(super) fn advance_to_next_lease(&mut self, name: &QueueName, evidence: &mut Evidence) -> Checked {
        let queue = self.queue(name);
        let next = evidence.next_lease_at(|job| queue.place_of(job).is_some());
        while self.advance_one(name, next.unwrap_or(usize::MAX), evidence)? {}
        Ok(())
    }

    /// The first thing that is due in a queue. Whether there was any: what expires, then by the
    /// engine clock, then by the wall clock.
    fn advance_one(&mut self, name: &QueueName, before: usize, evidence: &mut Evidence) -> Checked<bool> {
        let (now, wall, is_parking) = (self.now, self.wall, self.is_parking);
        let stops_early = self.stops_early;
        let jobs = &self.queue(name).jobs;
        let first = |is: &dyn Fn(&Job) -> bool, order: &dyn Fn(&Job) -> (base::Timestamp, u64)| {
            let found = (0..jobs.len()).filter(|place| is(&jobs[*place]));
            found.min_by_key(|place| order(&jobs[*place]))
        };
        let is_noticed = |job: &Job| !is_parking || evidence.has_left(job, before);
        let expires = |job: &Job| !job.is_reserved() && job.has_expired(now) && is_noticed(job);
        let by_expiry = |job: &Job| (job.expires_at.unwrap_or(base::Timestamp::MAX), job.number);
        if let Some(place) = first(&expires, &by_expiry) {
            self.counts.expired += 1;
            self.expired_in_step += 1;
            if !self.comes_again(name, place) {
                self.end(name, place);
            }
            return Ok(true);
        }
        // Of very many leases that run out, a step that stops early leaves some to the next.
        let is_let_go =
            |job: &Job| !(job.is_reserved() && is_parking && stops_early) || evidence.lets_go(job, before);
        let is_told = |job: &Job| is_parking && stops_early && job.stands == Stands::MayBeDue;
        let waits = |job: &Job| {
            let is_time = job.is_time(now, wall) && !job.has_expired_waiting(now);
            is_time && !job.is_due() && !is_told(job) && is_let_go(job)
        };
        let engine = |job: &Job| waits(job) && !job.waits_by_wall();
        let by_wall = |job: &Job| waits(job) && job.waits_by_wall();
        let Some(place) = first(&engine, &Job::order).or_else(|| first(&by_wall, &Job::order)) else {
            return Ok(false);
        };
        self.come_due(name, place, evidence)?;
        Ok(true)
    }

    /// Who holds an alias may have waited for too long, and who follows it too: also one that has
    /// started only now.
    pub(super) fn settle_alias(&mut self, name: &QueueName, alias: &str) {
        let now = self.now;
        while let Some(place) = self.queue(name).holder_of(alias) {
            let job = &mut self.queue(name).jobs[place];
            if job.has_expired_waiting(now) {
                self.counts.expired += 1;
                if !self.comes_again(name, place) {
                    self.end(name, place);
                }
            } else if job.next.take_if(|next| next.job.has_expired(now) && next.job.is_last_run()).is_none() {
                return;
            }
        }
    }

    fn come_due(&mut self, name: &QueueName, place: usize, evidence: &mut Evidence) -> Checked {
        let job = self.queue(name).jobs[place].clone();
        let Stands::Reserved(lease) = job.stands else {
            // A step that stops early may not have come to it.
            let may_be = self.is_parking && self.stops_early;
            self.queue(name).jobs[place].stands = if may_be { Stands::MayBeDue } else { Stands::Due };
            return Ok(());
        };
        self.counts.lapsed += 1;
        let cost = match lease.process {
            Some(_) => Cost::NeverLast,
            None => Cost::Counted { reason: DeadReason::TimedOut, error: None },
        };
        self.end_run(name, place, job.visible_at, cost, evidence)
    }
}
