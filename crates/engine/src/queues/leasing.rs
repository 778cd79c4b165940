//! Consuming from outside the partitions: of one queue, which may wait for a job itself, or of
//! several, one after the other.

use base::{Problem, Timestamp};

use super::calls::QueueCalls;
use super::checks::check_want;
use super::consuming::{HandOver, LeasedJob, Leases, ReturnPath, WaitGuard};
use super::input::ConsumeCall;
use super::ready_wait::ReadyWait;
use super::{ConsumeTerms, Consumed, QueueInput, QueueName, ReservationToken, body, id};
use crate::kernel::step_context::CARRIED_BYTES_MAX;

impl QueueCalls {
    /// Leases up to `max` jobs of the queues, of earlier ones first, and waits for the first job
    /// where there is none.
    ///
    /// The hand-over gives back, uncounted, what does not reach the consumer: say
    /// [`HandOver::done`] when it has.
    ///
    /// # Errors
    /// 422 for a number or a time out of range.
    pub async fn consume(
        &self,
        queues: &[QueueName],
        want: ConsumeTerms,
    ) -> Result<(Vec<Consumed>, HandOver), Problem> {
        check_want(queues, &want)?;
        let until = self.engine().clock().now().after(want.wait);
        if let [queue] = queues {
            let leases = self.lease(queue, &want, until).await?;
            return consumed(leases, 0);
        }
        // Kept until the queues were asked again: what is left then is for the others that wait.
        let mut _wait;
        loop {
            // In a box, because who waits afterwards has no use for what this takes.
            let (jobs, hand_over) = Box::pin(self.lease_in_order(queues, want)).await?;
            if !jobs.is_empty() {
                return Ok((jobs, hand_over));
            }
            match self.something_is_ready(queues, until).await? {
                Some(wait) => _wait = wait,
                None => return Ok((Vec::new(), HandOver::nothing())),
            }
        }
    }

    /// Leases what the queues have now: the next one fills up what those before it have left of
    /// `max`.
    async fn lease_in_order(
        &self,
        queues: &[QueueName],
        want: ConsumeTerms,
    ) -> Result<(Vec<Consumed>, HandOver), Problem> {
        let (mut jobs, mut hand_over, mut carried) = (Vec::new(), HandOver::nothing(), 0);
        for (place, queue) in queues.iter().enumerate() {
            let rest = ConsumeTerms { max: want.max - jobs.len(), ..want };
            let leases = match self.lease(queue, &rest, Timestamp(i64::MIN)).await {
                Ok(leases) => leases,
                // The server stops between two queues: what it has leased by then is still
                // answered.
                Err(_stopping) if !jobs.is_empty() => break,
                Err(stopping) => return Err(stopping),
            };
            carried += leases.bytes();
            let (more, on_the_way) = consumed(leases, place)?;
            jobs.extend(more);
            hand_over.append(on_the_way);
            // Each queue has the same bound, so an answer holds at most twice as much and one job.
            if jobs.len() >= want.max || carried >= CARRIED_BYTES_MAX {
                break;
            }
        }
        Ok((jobs, hand_over))
    }

    async fn lease(
        &self,
        queue: &QueueName,
        want: &ConsumeTerms,
        until: Timestamp,
    ) -> Result<Leases, Problem> {
        let partition = self.partition(queue);
        let back = ReturnPath::to(&partition.inbox);
        let (max, ttr, process) = (want.max, want.ttr, want.process);
        let waits = until > self.engine().clock().now();
        let waiting = if waits { WaitGuard::until(until, queue, &back) } else { WaitGuard::not_at_all() };
        let queue = queue.clone();
        let call = |reply| QueueInput::Consume(ConsumeCall { queue, max, ttr, until, process, reply, back });
        let leases = partition.ask(call).await?;
        waiting.answered();
        Ok(leases)
    }

    /// Waits until any of the queues has something to lease; `None` when it is too late.
    async fn something_is_ready(
        &self,
        queues: &[QueueName],
        until: Timestamp,
    ) -> Result<Option<ReadyWait>, Problem> {
        if self.engine().clock().now() >= until {
            return Ok(None);
        }
        let mut wait = ReadyWait::default();
        for queue in queues {
            let partition = self.partition(queue);
            let watch = wait.watch(queue, until, ReturnPath::to(&partition.inbox));
            partition.send(watch).await?;
        }
        Ok(wait.ready().await.then_some(wait))
    }
}

pub(super) fn consumed(leases: Leases, queue: usize) -> Result<(Vec<Consumed>, HandOver), Problem> {
    let reservations: Vec<_> = leases.jobs.iter().map(|job| leases.token(job)).collect();
    let (jobs, hand_over) = leases.take();
    // A collected `Result` would not know how many there are, and grow step by step.
    let mut consumed = Vec::with_capacity(jobs.len());
    for (job, reservation) in jobs.iter().zip(reservations) {
        consumed.push(consumed_job(job, reservation, queue)?);
    }
    Ok((consumed, hand_over))
}

fn consumed_job(job: &LeasedJob, reservation: ReservationToken, queue: usize) -> Result<Consumed, Problem> {
    let body = body::read(&job.body)?;
    Ok(Consumed {
        queue,
        id: job.id(),
        reservation,
        payload: body.payload,
        attempt: job.attempt,
        tries: job.tries,
        published_at: id::published_at(job.id()),
        run_at: job.run_at,
        expires_at: job.expires_at,
        until: job.until,
        alias: body.alias,
        attributes: body.attributes,
    })
}
