//! Leasing in the model: to whoever asks, and at the end of a step to whoever waits.

use std::collections::VecDeque;

use engine::queues::QueueName;
use records::QueueOrder;

use super::evidence::Evidence;
use super::expected::{Expected, ShownLease};
use super::job::{Job, Lease, Stands};
use super::{Answers, Partition, Step};
use crate::harness::calls::CallId;
use crate::harness::violation::{Checked, Invariant};
use crate::queues::meant::Asked;

impl Partition {
    /// What a consumer gets at once; `None` if it waits.
    pub(super) fn consume(
        &mut self,
        call: CallId,
        name: &QueueName,
        asked: &Asked,
        evidence: &mut Evidence,
    ) -> Checked<Option<Vec<ShownLease>>> {
        let leased = self.lease(call, name, asked, evidence)?;
        if leased.is_empty() && asked.until > self.now {
            self.queue(name).line.push_back((call, asked.clone()));
            return Ok(None);
        }
        Ok(Some(leased))
    }

    fn lease(
        &mut self,
        call: CallId,
        name: &QueueName,
        asked: &Asked,
        evidence: &mut Evidence,
    ) -> Checked<Vec<ShownLease>> {
        let mut leased = Vec::new();
        while leased.len() < asked.max {
            let Some(place) = self.next_for(name, asked, evidence)? else { break };
            let job = self.queue(name).jobs[place].clone();
            if !evidence.takes_lease(job.id) {
                let detail = format!(
                    "call {call} of {name} should have got {:?} of {:?}, and did not: {:?}",
                    job.id, job.payload, job
                );
                let (moment, queue) = ((self.now, self.wall), self.queue(name));
                // What was leased in its place may say more.
                let instead = evidence.open_leases().find_map(|id| queue.place_of(id));
                let broken = instead.map(|place| queue.why_not(&queue.jobs[place], moment));
                return Err(broken.unwrap_or_else(|| why_not(&job)).broken(detail));
            }
            leased.push(self.reserve(call, name, place, asked));
        }
        Ok(leased)
    }

    /// The job that whoever asks so gets.
    fn next_for(
        &mut self,
        name: &QueueName,
        asked: &Asked,
        evidence: &mut Evidence,
    ) -> Checked<Option<usize>> {
        if !self.is_parking {
            return Ok(self.next_to_lease(name));
        }
        self.advance_to_next_lease(name, evidence)?;
        Ok(self.next_that_was_read(name, asked, evidence))
    }

    /// Where jobs are parked, the first may have to be read yet, and nobody is leased another
    /// meanwhile. Only where the newest goes first it may be any that is ready: those whose time
    /// has come count once they are read. A consumer that waits may be leased it later in the step
    /// in which it asks: until then others see the job ready.
    fn next_that_was_read(&mut self, name: &QueueName, asked: &Asked, evidence: &Evidence) -> Option<usize> {
        let now = self.now;
        let queue = self.queue(name);
        let first = queue.sure_first(now);
        let may_go = |place: &usize| match queue.settings.order {
            QueueOrder::Fifo => first == Some(*place) || queue.may_go_before(*place, first, now),
            QueueOrder::Lifo => {
                queue.ready().any(|ready| ready == *place) || queue.may_go_before(*place, None, now)
            }
        };
        let found = evidence
            .open_leases_until(now.after(asked.ttr))
            .find_map(|leased| queue.place_of(leased).filter(may_go));
        found.filter(|_| queue.allows(now))
    }

    /// The job that may be leased now. What has expired is passed over.
    fn next_to_lease(&mut self, name: &QueueName) -> Option<usize> {
        let now = self.now;
        let queue = self.queue(name);
        while let Some(place) = queue.first() {
            if !queue.jobs[place].has_expired(now) {
                return queue.allows(now).then_some(place);
            }
            queue.jobs[place].stands = Stands::PassedOver;
        }
        None
    }

    fn reserve(&mut self, call: CallId, name: &QueueName, place: usize, asked: &Asked) -> ShownLease {
        if self.are_to_take_no_more(name) {
            self.counts.leased_nevertheless += 1;
        }
        let now = self.now;
        let queue = self.queue(name);
        queue.take_token(now);
        let job = &mut queue.jobs[place];
        let stood_at = Some(job.visible_at);
        job.stands = Stands::Reserved(Lease { consumer: call, process: asked.process, stood_at });
        job.attempt += 1;
        job.visible_at = now.after(asked.ttr);
        ShownLease {
            id: job.id,
            payload: job.payload.clone(),
            attempt: job.attempt,
            tries: job.tries,
            published_at: job.published_at,
            run_at: job.run_at,
            expires_at: job.expires_at,
            until: job.visible_at,
            alias: job.alias.clone(),
        }
    }

    /// Those that wait get what there is, the first comes first.
    pub(super) fn serve(
        &mut self,
        step: &Step<'_>,
        evidence: &mut Evidence,
        answers: &mut Answers,
    ) -> Checked {
        let names: Vec<QueueName> = self.queues.keys().cloned().collect();
        for name in names {
            let mut line = std::mem::take(&mut self.queue(&name).line);
            let left = self.serve_line(&name, &mut line, step, evidence, answers);
            self.queue(&name).line = line;
            left?;
        }
        Ok(())
    }

    fn serve_line(
        &mut self,
        name: &QueueName,
        line: &mut VecDeque<(CallId, Asked)>,
        step: &Step<'_>,
        evidence: &mut Evidence,
        answers: &mut Answers,
    ) -> Checked {
        while let Some((call, asked)) = line.pop_front() {
            if step.gone.contains(&call) {
                continue;
            }
            let next = self.next_for(name, &asked, evidence)?;
            let id = next.map(|place| self.queue(name).jobs[place].id);
            // Somebody who waits for several queues may have been told, and decides first.
            let waits_for_others =
                self.queue(name).is_watched && !id.is_some_and(|id| evidence.leases_of(id));
            if next.is_none() || waits_for_others {
                line.push_front((call, asked));
                return Ok(());
            }
            let leased = self.lease(call, name, &asked, evidence)?;
            if leased.is_empty() {
                // What is first may have to be read yet.
                line.push_front((call, asked));
                return Ok(());
            }
            self.counts.served_later += 1;
            answers.push((call, Expected::Leased(leased)));
        }
        Ok(())
    }

    /// Whoever has waited enough gets nothing, and at the end everybody.
    pub(super) fn send_home(&mut self, step: &Step<'_>, answers: &mut Answers) {
        let now = self.now;
        for queue in self.queues.values_mut() {
            let (home, line): (VecDeque<_>, VecDeque<_>) =
                queue.line.drain(..).partition(|(_, asked)| step.closing || asked.until <= now);
            queue.line = line;
            answers.extend(home.into_iter().map(|(call, _)| (call, Expected::Leased(Vec::new()))));
        }
    }

    /// Consumers that wait although there is something that they may have.
    pub(crate) fn overdue(&mut self) -> Vec<CallId> {
        let names: Vec<QueueName> = self.queues.keys().cloned().collect();
        let mut overdue = Vec::new();
        for name in names {
            if self.next_to_lease(&name).is_some() {
                overdue.extend(self.queue(&name).line.iter().map(|(call, _)| *call));
            }
        }
        overdue
    }
}

/// The promise that is broken when a job is not leased that is next.
fn why_not(job: &Job) -> Invariant {
    if job.group.is_some() { Invariant::GROUP_ORDER } else { Invariant::NEVER_EARLY_HARDLY_LATE }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use base::{PartitionId, Timestamp};
    use engine::queues::{JobPayload, JobRef, JobState};
    use records::{Batch, JobHead, JobId, JobTerms, LeaseHolder, Op, QueueKey};

    use super::*;
    use crate::queues::meant::Meant;
    use crate::queues::model::Moment;

    const NOW: Timestamp = Timestamp(1_000);
    const TTR: Duration = Duration::from_secs(60);
    const JOB: JobId = JobId([1; 16]);

    fn ready() -> Job {
        Job {
            id: JOB,
            payload: JobPayload::Json("1".into()),
            number: 0,
            published_at: NOW,
            run_at: NOW,
            by_wall: false,
            visible_at: NOW,
            attempt: 0,
            tries: 1,
            alias: None,
            group: None,
            ttl: None,
            expires_at: None,
            again: None,
            stands: Stands::Due,
            next: None,
        }
    }

    /// The batch of a step in which the job is leased.
    fn leasing() -> Batch {
        let mut batch = Batch::new(PartitionId::of_queues(0));
        batch.ops.push(Op::PutJob(Box::new(JobHead {
            id: JOB,
            queue: QueueKey(7),
            number: 0,
            run_at: NOW,
            visible_at: NOW.after(TTR),
            attempt: 1,
            tries: 1,
            state: records::HeadState::Reserved { lease: 1, holder: LeaseHolder::Outside },
            alias: None,
            terms: JobTerms::default(),
            successor: None,
        })));
        batch
    }

    fn step(partition: &mut Partition, inputs: &[Meant], evidence: &mut Evidence) -> Answers {
        let moment = Moment { now: NOW, wall: NOW };
        let gone = BTreeSet::new();
        let step = Step { moment, inputs, gone: &gone, more: false, closing: false };
        partition.step(&step, evidence).expect("the step is as it should be")
    }

    #[test]
    fn a_parked_job_is_reserved_from_the_part_of_the_step_on_in_which_it_was_leased() {
        // (the consumer waits since the step before, leases before the inputs and behind them, what
        // is seen of the job)
        let rows = [
            (false, (0, 0), JobState::Reserved),
            (false, (0, 1), JobState::Ready),
            (true, (1, 0), JobState::Reserved),
            (true, (0, 1), JobState::Ready),
        ];
        for (waits, waiters_leased, expected) in rows {
            let name = QueueName::new("shop", "orders").expect("letters");
            let asked = Asked { max: 1, ttr: TTR, until: NOW.after(Duration::from_secs(9)), process: None };
            let consume = Meant::Consume { call: 1, queue: name.clone(), asked };
            let look = Meant::Look { call: 2, queue: name.clone(), job: Some(JobRef::Id(JOB)) };
            let (before, inputs) =
                if waits { (vec![consume], vec![look]) } else { (Vec::new(), vec![consume, look]) };
            let mut partition = Partition::new(true);
            assert!(step(&mut partition, &before, &mut Evidence::default()).is_empty());
            partition.queue(&name).jobs.push(ready());
            let mut evidence = Evidence::of(Some(leasing()), waiters_leased);
            let (mut leased, mut seen) = (0, None);
            for (_, answer) in step(&mut partition, &inputs, &mut evidence) {
                match answer {
                    Expected::Leased(leases) => leased += leases.len(),
                    Expected::Seen(Ok(job)) => seen = Some(job.state),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!((leased, seen), (1, Some(expected)), "{waits} {waiters_leased:?}");
        }
    }
}
