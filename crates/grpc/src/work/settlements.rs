//! What a worker said of its jobs: gathered, asked of the engine, and what came of it.

use std::time::Duration;

use base::Problem;
use base::limits::JOBS_PER_CALL_MAX;
use engine::queues::{JobRelease, QueueCalls, ReservationToken};
use futures_util::{StreamExt, stream};

use super::opened::OpenedWork;
use crate::proto::WorkRequest;
use crate::proto::work_request::{Acks, Extension, Release};
use crate::proto::work_response::Refusal;
use crate::time::read_span;
use crate::{asked, jobs};

/// What a message may say of jobs.
pub(crate) const SETTLEMENTS_PER_MESSAGE_MAX: usize = 10 * JOBS_PER_CALL_MAX;
/// Of a text that is no reservation, so much is sent back, in bytes.
const ECHO_BYTES_MAX: usize = 256;
/// Releases and extensions of one stream that are asked at a time: each is a question of its own.
const SINGLES_AT_A_TIME: usize = 64;

/// Acknowledgements, releases and extensions that wait to be asked together.
#[derive(Debug, Default)]
pub(super) struct Settlements {
    /// By the place of the queue.
    acks: Vec<Vec<ReservationToken>>,
    singles: Vec<Single>,
    count: usize,
    /// What was refused already when it was read.
    refused: Vec<Refusal>,
}

/// A job that is kept or given back.
#[derive(Debug)]
struct Single {
    queue: usize,
    token: ReservationToken,
    what: What,
}

#[derive(Debug)]
enum What {
    Extend(Duration),
    Release(JobRelease),
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct SettlementResult {
    pub(super) acked: u64,
    pub(super) refused: Vec<Refusal>,
}

impl Settlements {
    /// Gathers what a message says of jobs.
    ///
    /// # Errors
    /// When it names a queue that is none of the stream's, or says too much.
    pub(super) fn gather(&mut self, message: WorkRequest, opened: &OpenedWork) -> Result<(), Problem> {
        let WorkRequest { acks, releases, extensions, .. } = message;
        let acked: usize = acks.iter().map(|acks| acks.reservations.len()).sum();
        let count = acked + releases.len() + extensions.len();
        if count > SETTLEMENTS_PER_MESSAGE_MAX {
            let detail =
                format!("a message says at most {SETTLEMENTS_PER_MESSAGE_MAX} things of jobs, not {count}");
            return Err(Problem::not_allowed("too_many_jobs", detail));
        }
        for acks in acks {
            self.gather_acks(acks, opened)?;
        }
        for Release { queue, reservation, delay, error } in releases {
            let release = jobs::job_release(delay.as_ref(), &error).map(What::Release);
            self.gather_single(opened.place(&queue)?, reservation, release);
        }
        for Extension { queue, reservation, ttr } in extensions {
            let ttr = ttr.map_or(Ok(opened.ttr), |ttr| read_span("ttr", &ttr)).map(What::Extend);
            self.gather_single(opened.place(&queue)?, reservation, ttr);
        }
        Ok(())
    }

    fn gather_acks(&mut self, acks: Acks, opened: &OpenedWork) -> Result<(), Problem> {
        let place = opened.place(&acks.queue)?;
        self.acks.resize_with(opened.queues.len(), Vec::new);
        self.count += acks.reservations.len();
        for reservation in acks.reservations {
            match asked::reservation_token(&reservation) {
                Ok(token) => self.acks[place].push(token),
                Err(problem) => self.refused.push(refusal(reservation, problem)),
            }
        }
        Ok(())
    }

    fn gather_single(&mut self, queue: usize, reservation: String, what: Result<What, Problem>) {
        self.count += 1;
        match asked::reservation_token(&reservation)
            .and_then(|token| Ok(Single { queue, token, what: what? }))
        {
            Ok(single) => self.singles.push(single),
            Err(problem) => self.refused.push(refusal(reservation, problem)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether more can be gathered: as much as one question takes.
    pub(super) fn has_room(&self) -> bool {
        self.count < JOBS_PER_CALL_MAX
    }

    /// Asks it all; what has no effect is answered one by one.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub(super) async fn settle(
        self,
        queues: QueueCalls,
        opened: OpenedWork,
    ) -> Result<SettlementResult, Problem> {
        let mut settled = SettlementResult { acked: 0, refused: self.refused };
        for (place, acks) in self.acks.into_iter().enumerate() {
            settled.ack(&queues, &opened, place, acks).await?;
        }
        let singles = stream::iter(self.singles).map(|single| single.ask(&queues, &opened));
        let mut singles = singles.buffer_unordered(SINGLES_AT_A_TIME);
        while let Some((token, asked)) = singles.next().await {
            settled.note(token, asked)?;
        }
        Ok(settled)
    }
}

impl SettlementResult {
    async fn ack(
        &mut self,
        queues: &QueueCalls,
        opened: &OpenedWork,
        place: usize,
        mut tokens: Vec<ReservationToken>,
    ) -> Result<(), Problem> {
        while !tokens.is_empty() {
            let rest = tokens.split_off(tokens.len().min(JOBS_PER_CALL_MAX));
            let asked = std::mem::replace(&mut tokens, rest);
            let acked = queues.ack(&opened.queues[place], asked.clone()).await?;
            self.acked += acked.acked as u64;
            let stale = acked.stale.iter().map(|stale| refusal(asked[*stale].text(), asked::stale()));
            self.refused.extend(stale);
        }
        Ok(())
    }

    fn note(&mut self, token: ReservationToken, asked: Result<(), Problem>) -> Result<(), Problem> {
        match asked {
            Ok(()) => Ok(()),
            Err(problem) if problem.status < 500 => {
                self.refused.push(refusal(token.text(), problem));
                Ok(())
            }
            Err(problem) => Err(problem),
        }
    }
}

impl Single {
    async fn ask(self, queues: &QueueCalls, opened: &OpenedWork) -> (ReservationToken, Result<(), Problem>) {
        let Self { queue, token, what } = self;
        let queue = &opened.queues[queue];
        let asked = match what {
            What::Extend(ttr) => queues.extend(queue, token, ttr).await.map(drop),
            What::Release(release) => queues.release(queue, token, release).await,
        };
        (token, asked)
    }
}

fn refusal(mut reservation: String, problem: Problem) -> Refusal {
    reservation.truncate(reservation.floor_char_boundary(ECHO_BYTES_MAX));
    Refusal { reservation, code: problem.code.to_owned(), detail: problem.detail }
}
