//! Jobs that are not resident: what a step has parked and taken out, and those that a call is
//! about.

use std::sync::Arc;

use records::{AliasKey, JobHead, JobId, Op, ParkedJob, QueueKey};
use store::{StoreError, StoredJob, parked_time};

use super::{QueuePartition, QueueStep};

impl QueuePartition {
    /// Notes what this step has parked and taken out so far: a view does not show it yet.
    pub(super) fn note_parked(&mut self, step: &mut QueueStep<'_>) {
        for op in &step.batch.ops[step.own.noted..] {
            match op {
                Op::ParkJob(parked) => {
                    self.parked.park(step.seq, parked);
                    if let Some((clock, at)) = parked_time(&parked.key()) {
                        self.clocks.of(clock).insert((at, parked.head.id));
                    }
                }
                Op::UnparkJob(key) => {
                    self.parked.unpark(step.seq, key);
                    if let Some((clock, at)) = parked_time(key) {
                        self.clocks.of(clock).remove((at, key.id));
                    }
                }
                _ => {}
            }
        }
        step.own.noted = step.batch.ops.len();
    }

    /// A job that is parked.
    pub(super) fn parked_job(
        &mut self,
        id: JobId,
        step: &mut QueueStep<'_>,
    ) -> Result<Option<ParkedJob>, StoreError> {
        if !self.jobs.has_parked() {
            return Ok(None);
        }
        self.note_parked(step);
        match self.parked.get(id) {
            Some(recent) => Ok(recent.cloned()),
            None => match step.fetch.view()?.job(id)? {
                Some(StoredJob::Parked(parked)) => Ok(Some(parked)),
                Some(StoredJob::Resident(_)) | None => Ok(None),
            },
        }
    }

    /// A parked job for whoever asks for it: one that has expired is gone, or makes its next run,
    /// before anybody sees it.
    pub(super) fn parked_now(
        &mut self,
        parked: Option<ParkedJob>,
        step: &mut QueueStep<'_>,
    ) -> Result<Option<JobHead>, StoreError> {
        let Some(parked) = parked else { return Ok(None) };
        let id = parked.head.id;
        if parked.head.terms.expires_at.is_none_or(|at| at > step.now) {
            return Ok(Some(parked.head));
        }
        self.unpark(&parked, step);
        self.expire_now(id, step)?;
        match self.jobs.get(id) {
            Some(head) => Ok(Some(head)),
            None => Ok(self.parked_job(id, step)?.map(|parked| parked.head)),
        }
    }

    /// The job that is parked and holds an alias.
    pub(super) fn parked_under(
        &mut self,
        queue: QueueKey,
        alias: AliasKey,
        step: &mut QueueStep<'_>,
    ) -> Result<Option<ParkedJob>, StoreError> {
        if !self.jobs.has_parked() {
            return Ok(None);
        }
        self.note_parked(step);
        match self.parked.holder(queue, alias) {
            Some(Some(id)) => self.parked_job(id, step),
            Some(None) => Ok(None),
            None => match step.fetch.view()?.parked_alias(queue, alias)? {
                Some(parked) => self.parked_job(parked.head.id, step),
                None => Ok(None),
            },
        }
    }

    /// Makes the job resident that holds an alias: the rules see it then.
    pub(super) fn read_in_alias(
        &mut self,
        queue: QueueKey,
        alias: AliasKey,
        step: &mut QueueStep<'_>,
    ) -> Result<(), StoreError> {
        if self.jobs.has_parked() && self.jobs.by_alias(queue, alias).is_none() {
            let parked = self.parked_under(queue, alias, step)?;
            parked.iter().for_each(|parked| self.unpark(parked, step));
        }
        Ok(())
    }

    /// Makes a job resident: the rules see it then.
    pub(super) fn read_in_job(&mut self, id: JobId, step: &mut QueueStep<'_>) -> Result<(), StoreError> {
        if self.jobs.has_parked() && self.jobs.get(id).is_none() {
            let parked = self.parked_job(id, step)?;
            parked.iter().for_each(|parked| self.unpark(parked, step));
        }
        Ok(())
    }

    fn unpark(&mut self, parked: &ParkedJob, step: &mut QueueStep<'_>) {
        self.note_body(parked, step.seq);
        self.jobs.unpark(parked, &mut step.jobs());
    }

    /// Notes what a job carries that was parked with it, and is with the others' from now on.
    pub(super) fn note_body(&mut self, parked: &ParkedJob, seq: u64) {
        if let Some(body) = &parked.body {
            self.bodies.put(seq, parked.head.id, Some(Arc::clone(body)));
        }
    }
}
