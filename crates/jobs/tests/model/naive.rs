//! Jobs as a list that is searched from end to end.

use base::Timestamp;
use jobs::{Acked, Charge, Lapsed, Leased, Loaded, NewJob, OnConflict, Progress, Published};
use jobs::{Released, Retry, Stale, Unmoved};
use records::{AliasKey, Holder, JobId, Process, QueueKey, Reservation};
use std::time::Duration;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) queue: QueueKey,
    pub(crate) number: u64,
    pub(crate) run_at: Timestamp,
    pub(crate) visible_at: Timestamp,
    pub(crate) attempt: u32,
    pub(crate) tries: u32,
    pub(crate) lease: Option<(u64, Holder)>,
    pub(crate) alias: Option<AliasKey>,
    pub(crate) next: Option<Next>,
    /// Whether `advance` or `publish` has made it available.
    pub(crate) ready: bool,
}

/// A successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) id: JobId,
    pub(crate) number: u64,
    pub(crate) run_at: Timestamp,
    pub(crate) tries: u32,
    pub(crate) waits_for_retries: bool,
}

#[derive(Default)]
pub(crate) struct Naive {
    pub(crate) jobs: Vec<Job>,
    pub(crate) published: u64,
    pub(crate) leased: u64,
    /// Queues that got their first ready job in the last call.
    pub(crate) wakes: Vec<QueueKey>,
}

impl Naive {
    pub(crate) fn publish(&mut self, now: Timestamp, new: &NewJob) -> Published {
        let holder = self
            .jobs
            .iter()
            .position(|job| job.queue == new.queue && job.alias.is_some() && job.alias == new.alias);
        let Some(place) = holder else {
            let number = self.number();
            self.start(now, new.queue, new.alias, (new.id, number, new.run_at, new.tries), new.run_at);
            return Published::New;
        };
        let holder = &self.jobs[place];
        let meant = holder.next.as_ref().map_or(holder.id, |next| next.id);
        match (new.on_conflict, holder.lease.is_some(), holder.next.is_some()) {
            (OnConflict::Reject, _, _) => Published::Conflict(meant),
            (OnConflict::Keep, true, false) => self.succeed(place, new, true),
            (OnConflict::Keep, _, _) => Published::Kept(meant),
            (OnConflict::Replace, true, _) => self.succeed(place, new, false),
            (OnConflict::Replace, false, _) => self.replace(now, place, new),
        }
    }

    fn succeed(&mut self, place: usize, new: &NewJob, waits_for_retries: bool) -> Published {
        let number = self.number();
        let next = Next { id: new.id, number, run_at: new.run_at, tries: new.tries, waits_for_retries };
        let replaced = self.jobs[place].next.replace(next).map(|next| next.id);
        Published::Succeeds { replaced }
    }

    fn replace(&mut self, now: Timestamp, place: usize, new: &NewJob) -> Published {
        let number = self.number();
        let old = self.jobs.remove(place);
        self.start(now, old.queue, old.alias, (old.id, number, new.run_at, new.tries), new.run_at);
        Published::Replaced { job: old.id, dropped: old.next.map(|next| next.id) }
    }

    pub(crate) fn lease(
        &mut self,
        now: Timestamp,
        queue: QueueKey,
        holder: Holder,
        ttr: Duration,
    ) -> Option<Leased> {
        let ready = self.jobs.iter_mut().filter(|job| job.queue == queue && job.ready);
        let job = ready.min_by_key(|job| (job.visible_at, job.number))?;
        assert!(job.visible_at <= now, "never early");
        job.ready = false;
        job.lease = Some((self.leased, holder));
        job.attempt += 1;
        job.visible_at = now.after(ttr);
        self.leased += 1;
        Some(Leased {
            reservation: Reservation { job: job.id, lease: self.leased - 1 },
            attempt: job.attempt,
            tries: job.tries,
            run_at: job.run_at,
            number: job.number,
            expires_at: None,
            until: job.visible_at,
        })
    }

    pub(crate) fn ack(&mut self, now: Timestamp, reservation: Reservation) -> Result<Acked, Stale> {
        let place = self.held(now, reservation)?;
        Ok(Acked { successor: self.end(now, place), next_run: None })
    }

    pub(crate) fn release(
        &mut self,
        now: Timestamp,
        reservation: Reservation,
        retry: Retry,
    ) -> Result<Released, Stale> {
        let place = self.held(now, reservation)?;
        Ok(self.end_run(now, place, now.after(retry.delay), retry.charge))
    }

    pub(crate) fn extend(
        &mut self,
        now: Timestamp,
        reservation: Reservation,
        ttr: Duration,
    ) -> Result<Timestamp, Stale> {
        let place = self.held(now, reservation)?;
        self.jobs[place].visible_at = now.after(ttr);
        Ok(now.after(ttr))
    }

    /// Whether there was such a job.
    pub(crate) fn cancel(&mut self, now: Timestamp, id: JobId) -> bool {
        if let Some(place) = self.jobs.iter().position(|job| job.id == id) {
            self.end(now, place);
            return true;
        }
        self.jobs.iter_mut().any(|job| {
            let is_it = job.next.as_ref().is_some_and(|next| next.id == id);
            if is_it {
                job.next = None;
            }
            is_it
        })
    }

    pub(crate) fn reschedule(&mut self, now: Timestamp, id: JobId, run_at: Timestamp) -> Result<(), Unmoved> {
        if let Some(next) =
            self.jobs.iter_mut().filter_map(|job| job.next.as_mut()).find(|next| next.id == id)
        {
            next.run_at = run_at;
            return Ok(());
        }
        let place = self.jobs.iter().position(|job| job.id == id).ok_or(Unmoved::Unknown)?;
        let job = &mut self.jobs[place];
        if job.lease.is_some() {
            return Err(Unmoved::Reserved);
        }
        job.visible_at = run_at;
        job.ready = false;
        if job.attempt == 0 {
            job.run_at = run_at;
        }
        self.offer(now, place);
        Ok(())
    }

    pub(crate) fn advance(&mut self, now: Timestamp, limit: usize) -> (Vec<Lapsed>, Progress) {
        let mut lapsed = Vec::new();
        for _ in 0..limit {
            let Some(place) = self.due(now) else { break };
            let job = self.jobs[place].clone();
            let Some((_, holder)) = job.lease else {
                self.offer(now, place);
                continue;
            };
            let charge = if holder == Holder::Outside { Charge::Counted } else { Charge::NeverLast };
            let released = self.end_run(now, place, job.visible_at, charge);
            let Job { id, queue, alias, attempt, tries, .. } = job;
            let group = None;
            lapsed.push(Lapsed { job: id, queue, alias, attempt, tries, group, holder, released });
        }
        (lapsed, if self.due(now).is_some() { Progress::More } else { Progress::Done })
    }

    /// A restart of the server, in the order in which the store gives the jobs.
    pub(crate) fn restart(&mut self, now: Timestamp, process: Process) -> Vec<Loaded> {
        self.jobs.sort_by_key(|job| job.id);
        let ids: Vec<_> = self.jobs.iter().map(|job| job.id).collect();
        let loaded = ids.iter().map(|id| self.load(now, *id, process)).collect();
        self.jobs.iter_mut().for_each(|job| job.ready = false);
        self.wakes.clear();
        loaded
    }

    fn load(&mut self, now: Timestamp, id: JobId, process: Process) -> Loaded {
        let place = self.jobs.iter().position(|job| job.id == id).expect("listed just before");
        match self.jobs[place].lease {
            Some((_, Holder::Own(holder))) if holder != process => {
                let attempt = self.jobs[place].attempt;
                let released = self.end_run(now, place, now, Charge::NeverLast);
                Loaded::Interrupted { job: id, attempt, released }
            }
            _ => Loaded::Kept,
        }
    }

    pub(crate) fn ready(&self, queue: QueueKey) -> usize {
        self.jobs.iter().filter(|job| job.queue == queue && job.ready).count()
    }

    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        self.jobs.iter().filter(|job| !job.ready).map(|job| job.visible_at).min()
    }

    fn due(&self, now: Timestamp) -> Option<usize> {
        let due = self.jobs.iter().enumerate().filter(|(_, job)| !job.ready && job.visible_at <= now);
        due.min_by_key(|(_, job)| (job.visible_at, job.number)).map(|(place, _)| place)
    }

    fn held(&self, now: Timestamp, reservation: Reservation) -> Result<usize, Stale> {
        let holds = |job: &Job| {
            job.id == reservation.job
                && job.lease.is_some_and(|(lease, _)| lease == reservation.lease)
                && job.visible_at > now
        };
        self.jobs.iter().position(holds).ok_or(Stale)
    }

    fn end_run(&mut self, now: Timestamp, place: usize, until: Timestamp, charge: Charge) -> Released {
        if self.jobs[place].next.as_ref().is_some_and(|next| !next.waits_for_retries) {
            let successor = self.end(now, place).expect("there is one");
            return Released::Superseded { successor };
        }
        let job = &mut self.jobs[place];
        if charge == Charge::Counted && job.attempt >= job.tries {
            self.end(now, place);
            return Released::Dead;
        }
        if charge == Charge::Uncounted {
            job.attempt -= 1;
        }
        job.lease = None;
        job.visible_at = until;
        self.offer(now, place);
        Released::Waiting { until }
    }

    /// Takes a job out and starts its successor.
    fn end(&mut self, now: Timestamp, place: usize) -> Option<JobId> {
        let job = self.jobs.remove(place);
        let next = job.next?;
        let start = (next.id, next.number, next.run_at, next.tries);
        self.start(now, job.queue, job.alias, start, next.run_at.max(now));
        Some(next.id)
    }

    fn start(
        &mut self,
        now: Timestamp,
        queue: QueueKey,
        alias: Option<AliasKey>,
        (id, number, run_at, tries): (JobId, u64, Timestamp, u32),
        visible_at: Timestamp,
    ) {
        self.jobs.push(Job {
            id,
            queue,
            number,
            run_at,
            visible_at,
            attempt: 0,
            tries,
            lease: None,
            alias,
            next: None,
            ready: false,
        });
        self.offer(now, self.jobs.len() - 1);
    }

    /// Makes a waiting job available if its time has come.
    fn offer(&mut self, now: Timestamp, place: usize) {
        let queue = self.jobs[place].queue;
        if self.jobs[place].visible_at <= now {
            if self.ready(queue) == 0 {
                self.wakes.push(queue);
            }
            self.jobs[place].ready = true;
        }
    }

    fn number(&mut self) -> u64 {
        self.published += 1;
        self.published - 1
    }
}
