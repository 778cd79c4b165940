//! How runs end in the model: done, given back, out of time, or cut off; and jobs that come again.

use std::time::Duration;

use base::Timestamp;
use engine::queues::QueueName;
use records::{DeadReason, Process};

use super::Partition;
use super::evidence::Evidence;
use super::job::{Job, Rule, Stands};
use crate::harness::violation::Checked;
use crate::queues::meant::LeaseRef;

/// How a run ended that was not done.
#[derive(Clone, Copy)]
pub(super) enum Cost<'a> {
    /// A try.
    Counted { reason: DeadReason, error: Option<&'a str> },
    /// A try, but never the last.
    NeverLast,
    /// Nothing: as if it had not been leased.
    Uncounted,
}

const STALE: &str = "stale_reservation";

impl Partition {
    /// The place of the job that a lease holds, in the queue that is named.
    fn held(&mut self, name: &QueueName, lease: LeaseRef) -> Option<usize> {
        let now = self.now;
        let queue = self.queue(name);
        let place = queue.place_of(lease.job)?;
        let job = &queue.jobs[place];
        let is_it = matches!(&job.stands, Stands::Reserved(held) if held.consumer == lease.consumer);
        (is_it && job.visible_at > now).then_some(place)
    }

    pub(super) fn ack(
        &mut self,
        name: &QueueName,
        leases: &[LeaseRef],
        _: &mut Evidence,
    ) -> Checked<Vec<usize>> {
        let mut stale = Vec::new();
        for (index, lease) in leases.iter().enumerate() {
            let Some(place) = self.held(name, *lease) else {
                stale.push(index);
                continue;
            };
            self.counts.acked += 1;
            let gives_way = self.queue(name).jobs[place].next.as_ref().is_some_and(|next| !next.after_job);
            if gives_way || !self.comes_again(name, place) {
                self.end(name, place);
            }
        }
        Ok(stale)
    }

    pub(super) fn extend(
        &mut self,
        name: &QueueName,
        lease: LeaseRef,
        ttr: Duration,
    ) -> Result<Timestamp, &'static str> {
        let (place, until) = (self.held(name, lease).ok_or(STALE)?, self.now.after(ttr));
        self.queue(name).jobs[place].visible_at = until;
        self.counts.extended += 1;
        Ok(until)
    }

    pub(super) fn release(
        &mut self,
        name: &QueueName,
        lease: LeaseRef,
        delay: Duration,
        error: Option<&str>,
        evidence: &mut Evidence,
    ) -> Checked<Result<(), &'static str>> {
        let Some(place) = self.held(name, lease) else { return Ok(Err(STALE)) };
        self.counts.released += 1;
        let until = self.now.after(delay);
        let cost = Cost::Counted { reason: DeadReason::Released, error };
        self.end_run(name, place, until, cost, evidence)?;
        Ok(Ok(()))
    }

    pub(super) fn give_back(&mut self, leases: &[LeaseRef], evidence: &mut Evidence) -> Checked {
        for lease in leases {
            let names: Vec<QueueName> = self.queues.keys().cloned().collect();
            let found = names.into_iter().find_map(|name| Some((self.held(&name, *lease)?, name)));
            let Some((place, name)) = found else { continue };
            let now = self.now;
            self.queue(&name).give_token(now);
            let job = &self.queue(&name).jobs[place];
            let is_over = job.has_expired(now) || job.next.as_ref().is_some_and(|next| !next.after_job);
            let stood_at = match &job.stands {
                Stands::Reserved(lease) if !is_over => lease.stood_at,
                _ => None,
            };
            let Some(stood_at) = stood_at else {
                self.end_run(&name, place, now, Cost::Uncounted, evidence)?;
                continue;
            };
            let mut job = self.queue(&name).jobs.remove(place);
            (job.visible_at, job.attempt) = (stood_at, job.attempt - 1);
            self.file(&name, job);
        }
        Ok(())
    }

    /// A run is over without being done.
    pub(super) fn end_run(
        &mut self,
        name: &QueueName,
        place: usize,
        until: Timestamp,
        cost: Cost<'_>,
        evidence: &mut Evidence,
    ) -> Checked {
        let job = self.queue(name).jobs[place].clone();
        if job.next.as_ref().is_some_and(|next| !next.after_job) {
            self.counts.superseded += 1;
            self.end(name, place);
            return Ok(());
        }
        let has_expired = job.has_expired(self.now);
        let mut died = None;
        if let Cost::Counted { reason, error } = cost
            && !has_expired
            && job.attempt >= job.tries
        {
            died = Some((reason, error));
        }
        if !has_expired && died.is_none() {
            self.wait_again(name, place, until, cost);
            return Ok(());
        }
        self.counts.expired += u64::from(has_expired);
        if !self.comes_again(name, place) {
            self.end(name, place);
        }
        match died {
            Some((reason, error)) => self.bury(name, job, reason, error, evidence),
            None => Ok(()),
        }
    }

    /// The job is to be tried again.
    fn wait_again(&mut self, name: &QueueName, place: usize, until: Timestamp, cost: Cost<'_>) {
        let by_wall = self.on_wall(until);
        let mut job = self.queue(name).jobs.remove(place);
        if matches!(cost, Cost::Uncounted) {
            job.attempt -= 1;
        }
        job.visible_at = if job.waits_by_wall() { by_wall } else { until };
        self.file(name, job);
    }

    /// The run is over, and the next one waits, if there is one.
    pub(super) fn comes_again(&mut self, name: &QueueName, place: usize) -> bool {
        let (now, wall) = (self.now, self.wall);
        let job = &self.queue(name).jobs[place];
        let Some(again) = job.again.clone().filter(|again| again.left != Some(1)) else { return false };
        let by_wall = job.by_wall || matches!(again.rule, Rule::Cron(_));
        let run_at = again.rule.next(job.run_at, if by_wall { wall } else { now });
        let due = if by_wall { self.on_engine(run_at) } else { run_at };
        self.counts.runs += 1;
        let number = self.next_number();
        let mut job = self.queue(name).jobs.remove(place);
        (job.by_wall, job.run_at, job.visible_at) = (by_wall, run_at, run_at);
        (job.number, job.attempt) = (number, 0);
        job.expires_at = job.ttl.map(|ttl| due.after(ttl));
        job.again =
            Some(super::job::Again { left: again.left.map(|left| left - 1), run: again.run + 1, ..again });
        self.file(name, job);
        true
    }

    /// The job is gone, and its successor starts.
    pub(super) fn end(&mut self, name: &QueueName, place: usize) {
        let job = self.queue(name).jobs.remove(place);
        let Some(next) = job.next else { return };
        let next = next.job;
        let time = if next.by_wall { self.wall } else { self.now };
        let visible_at = next.run_at.max(time);
        self.file(name, Job { visible_at, ..next });
    }

    /// The process that held it is gone: what its workers held is tried again at once.
    pub(super) fn cut_off(&mut self, name: &QueueName, process: Process) {
        let is_cut = |job: &Job| matches!(&job.stands, Stands::Reserved(lease) if lease.process.is_some_and(|holder| holder != process));
        while let Some(place) = self.queue(name).jobs.iter().position(is_cut) {
            self.counts.cut_off += 1;
            let now = self.now;
            let job = &self.queue(name).jobs[place];
            if job.next.as_ref().is_some_and(|next| !next.after_job) {
                self.end(name, place);
            } else {
                self.wait_again(name, place, now, Cost::NeverLast);
            }
        }
        let is_parking = self.is_parking;
        for job in &mut self.queue(name).jobs {
            job.not_due_yet(is_parking);
        }
    }
}
