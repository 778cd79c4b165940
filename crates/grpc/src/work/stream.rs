//! One stream: what it may have under way, what is to be said next, and when it is over.

use std::collections::VecDeque;
use std::time::Duration;

use access::Admitted;
use base::Problem;
use base::limits::JOBS_PER_CALL_MAX;
use engine::queues::{ConsumeTerms, Consumed, FollowedControl, HandOver, JobPayload, QueueCalls};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use net::memory_budget::MemoryReservation;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tracing::debug;

use super::WorkAnswer;
use super::job_memory::JobMemory;
use super::opened::OpenedWork;
use super::settlements::{SettlementResult, Settlements};
use crate::answer_memory::SMALL_ANSWER_BYTES;
use crate::coordination::control_shown;
use crate::metrics::GrpcMetrics;
use crate::proto::work_response::Refusal;
use crate::proto::{Job, QueueControl, WorkRequest, WorkResponse};
use crate::receiving::CallMessages;
use crate::shape;
use crate::status::status;
use crate::stopping::StopSignal;

/// Questions for jobs that are under way: one more than is needed while the other's answer is being
/// made durable.
const LEASES_MAX: usize = 2;
/// Questions about jobs that a worker had that are under way; more is gathered meanwhile.
const SETTLING_MAX: usize = 4;
/// Answers with jobs that are made and not yet handed on.
const READY_MAX: usize = 2;
/// Refusals that wait to be told; beyond it the worker is not read on.
const REFUSED_MAX: usize = JOBS_PER_CALL_MAX;
/// An answer with more payload is cut in two, so that clients with usual limits can take it, in
/// bytes.
const ANSWER_BYTES_MAX: usize = 1_024 * 1_024;
/// How long one question for jobs waits; then it is asked again.
const WAIT: Duration = Duration::from_secs(3_600);
/// How long a question takes at least that was answered with nothing.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a worker may go on speaking once the server stops.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The most that one question has leased, what came of it, and the room that was waited for.
type Leased = (usize, Result<(Vec<Consumed>, HandOver), Problem>, Option<MemoryReservation>);

/// Drives a stream to its end.
pub(super) async fn drive(
    queues: QueueCalls,
    caller: &Admitted,
    memory: JobMemory,
    mut requests: CallMessages<WorkRequest>,
    answers: mpsc::Sender<Result<WorkAnswer, Status>>,
    mut stop: StopSignal,
    metrics: GrpcMetrics,
) {
    let first = tokio::select! {
        first = requests.message() => first,
        () = answers.closed() => return,
        () = stop.stopping() => return,
    };
    let ended = match first {
        Ok(Some(first)) => match open(queues, caller, memory, first, metrics) {
            Ok(mut work) => {
                let ended = work.go_on(&mut requests, &answers, &mut stop).await;
                work.settle_the_rest().await;
                ended
            }
            Err(problem) => Err(status(&problem)),
        },
        Ok(None) => Ok(()),
        Err(status) => Err(status),
    };
    if let Err(status) = ended {
        // Who has gone is not told.
        let _gone = answers.send(Err(status)).await;
    }
}

fn open(
    queues: QueueCalls,
    caller: &Admitted,
    memory: JobMemory,
    mut first: WorkRequest,
    metrics: GrpcMetrics,
) -> Result<Work, Problem> {
    let open = first.open.take();
    let open =
        open.ok_or_else(|| Problem::not_allowed("missing_field", "the first message has to have open"))?;
    let opened = OpenedWork::read(&open, caller)?;
    let control = opened.queues.first().map(|first| queues.follow_control(first));
    let current = control.as_ref().and_then(FollowedControl::current);
    let updates = WorkUpdates {
        control: current.map(|current| control_shown(Some(current))),
        ..WorkUpdates::default()
    };
    let mut work = Work {
        opened,
        control,
        queues,
        metrics,
        credits: 0,
        asked: 0,
        jobs_max: JOBS_PER_CALL_MAX,
        memory,
        leasing: FuturesUnordered::new(),
        ready: VecDeque::new(),
        settlements: Settlements::default(),
        settling: FuturesUnordered::new(),
        updates,
        reading: true,
        ending: None,
    };
    work.take(first)?;
    Ok(work)
}

/// A stream that was opened.
struct Work {
    opened: OpenedWork,
    /// What the workers of the first queue are to do.
    control: Option<FollowedControl>,
    queues: QueueCalls,
    metrics: GrpcMetrics,
    /// Jobs that may be sent yet.
    credits: u32,
    /// How many of them questions under way may use up.
    asked: u32,
    /// How many jobs of the size of the last ones are an answer.
    jobs_max: usize,
    memory: JobMemory,
    leasing: FuturesUnordered<BoxFuture<'static, Leased>>,
    ready: VecDeque<WorkAnswer>,
    settlements: Settlements,
    settling: FuturesUnordered<BoxFuture<'static, Result<SettlementResult, Problem>>>,
    updates: WorkUpdates,
    /// The worker's side is open.
    reading: bool,
    /// Until when the worker may speak, once the server stops.
    ending: Option<Instant>,
}

/// What is to be told beside jobs.
#[derive(Debug, Default)]
struct WorkUpdates {
    acked: u64,
    acked_told: u64,
    refused: Vec<Refusal>,
    stopping: bool,
    control: Option<QueueControl>,
}

impl WorkUpdates {
    fn is_there(&self) -> bool {
        self.acked != self.acked_told || !self.refused.is_empty() || self.stopping || self.control.is_some()
    }

    /// Told with these jobs.
    fn tell(&mut self, jobs: Vec<Job>) -> WorkResponse {
        self.acked_told = self.acked;
        let (refused, stopping) = (std::mem::take(&mut self.refused), std::mem::take(&mut self.stopping));
        WorkResponse { jobs, acked: self.acked, refused, stopping, control: self.control.take() }
    }
}

impl Work {
    async fn go_on(
        &mut self,
        requests: &mut CallMessages<WorkRequest>,
        answers: &mpsc::Sender<Result<WorkAnswer, Status>>,
        stop: &mut StopSignal,
    ) -> Result<(), Status> {
        loop {
            self.ask();
            if self.is_over() {
                return Ok(());
            }
            let reads =
                self.reading && self.settlements.has_room() && self.updates.refused.len() < REFUSED_MAX;
            let says = !self.ready.is_empty() || self.updates.is_there();
            tokio::select! {
                room = answers.reserve(), if says => match room {
                    Ok(room) => room.send(Ok(self.next_answer())),
                    Err(_) => return Ok(()),
                },
                message = requests.message(), if reads => self.hear(message, requests)?,
                Some(leased) = self.leasing.next() => self.leased(leased).map_err(|problem| status(&problem))?,
                Some(settled) = self.settling.next() => {
                    let SettlementResult { acked, refused } = settled.map_err(|problem| status(&problem))?;
                    self.metrics.work_acks.inc_by(acked);
                    self.updates.acked += acked;
                    self.updates.refused.extend(refused);
                }
                () = self.memory.wait(), if self.memory.is_waited_for() => {}
                control = next_control(&mut self.control) => self.updates.control = Some(control),
                () = stop.stopping(), if self.ending.is_none() => self.stops(),
                () = last_words(self.ending), if self.ending.is_some() => return Ok(()),
                () = answers.closed() => return Ok(()),
            }
        }
    }

    /// Asks the engine for jobs while there are credits, and tells it what was gathered.
    fn ask(&mut self) {
        while self.reading
            && self.ending.is_none()
            && self.credits > self.asked
            && self.leasing.len() < LEASES_MAX
            && self.ready.len() < READY_MAX
            && !self.memory.is_waited_for()
        {
            let max = ((self.credits - self.asked) as usize).min(self.jobs_max);
            self.asked += max as u32;
            let (queues, opened, room) = (self.queues.clone(), self.opened.clone(), self.memory.found());
            // Who has what others wait for does not wait.
            let wait = if room.is_some() { Duration::ZERO } else { WAIT };
            let want = ConsumeTerms { max, ttr: opened.ttr, wait, process: None };
            self.leasing.push(lease(queues, opened, want, room).boxed());
        }
        if !self.settlements.is_empty() && self.settling.len() < SETTLING_MAX {
            let settlements = std::mem::take(&mut self.settlements);
            self.settling.push(settlements.settle(self.queues.clone(), self.opened.clone()).boxed());
        }
    }

    /// What was said is done, also where nobody can be told any more.
    async fn settle_the_rest(&mut self) {
        let settlements = std::mem::take(&mut self.settlements);
        if !settlements.is_empty() {
            self.settling.push(settlements.settle(self.queues.clone(), self.opened.clone()).boxed());
        }
        while let Some(settled) = self.settling.next().await {
            match settled {
                Ok(settled) => {
                    self.metrics.work_acks.inc_by(settled.acked);
                }
                Err(problem) => debug!(%problem, "a worker's last words had no effect"),
            }
        }
    }

    /// Whether there is nothing more to hear or to say.
    fn is_over(&self) -> bool {
        !self.reading && self.settlements.is_empty() && self.settling.is_empty() && !self.updates.is_there()
    }

    /// Takes a message, and others that are there already.
    fn hear(
        &mut self,
        mut message: Result<Option<WorkRequest>, Status>,
        requests: &mut CallMessages<WorkRequest>,
    ) -> Result<(), Status> {
        loop {
            match message? {
                Some(message) => self.take(message).map_err(|problem| status(&problem))?,
                None => {
                    self.closes();
                    return Ok(());
                }
            }
            if !self.settlements.has_room() {
                return Ok(());
            }
            match requests.message().now_or_never() {
                Some(next) => message = next,
                None => return Ok(()),
            }
        }
    }

    fn take(&mut self, message: WorkRequest) -> Result<(), Problem> {
        if message.open.is_some() {
            return Err(Problem::not_allowed("already_open", "open is for the first message alone"));
        }
        self.credits = self.credits.saturating_add(message.credits);
        self.settlements.gather(message, &self.opened)
    }

    /// The worker says nothing more: it gets no more jobs, and those that were not sent go back.
    fn closes(&mut self) {
        self.reading = false;
        self.gives_back();
    }

    /// The server stops: no more jobs are sent, and the worker may say what it has left to say.
    fn stops(&mut self) {
        self.ending = Some(Instant::now() + LAST_WORDS);
        self.updates.stopping = true;
        self.gives_back();
    }

    fn gives_back(&mut self) {
        self.leasing.clear();
        self.ready.clear();
        self.memory.give_back();
    }

    /// Makes answers of jobs. Those for which there is no room go back, and come again when there
    /// is some.
    fn leased(&mut self, (max, leased, mut room): Leased) -> Result<(), Problem> {
        let (jobs, mut hand_over) = leased?;
        self.asked -= max as u32;
        if !jobs.is_empty() {
            let bytes: usize = jobs.iter().map(size).sum();
            self.jobs_max = (ANSWER_BYTES_MAX * jobs.len() / bytes.max(1)).clamp(1, JOBS_PER_CALL_MAX);
        }
        let mut jobs = jobs.into_iter().peekable();
        while jobs.peek().is_some() {
            let (mut piece, mut bytes) = (Vec::new(), 0);
            while let Some(job) = jobs.next_if(|job| bytes == 0 || bytes + size(job) <= ANSWER_BYTES_MAX) {
                bytes += size(&job).max(1);
                let queue = self.opened.queues[job.queue].queue();
                piece.push(shape::consumed(job, queue));
            }
            // Each piece with its own leases: what was sent is the worker's, whatever becomes of
            // the others.
            let (count, response) = (piece.len(), WorkResponse { jobs: piece, ..WorkResponse::default() });
            let bytes = response.encoded_len();
            let mut held = None;
            if bytes > SMALL_ANSWER_BYTES {
                held = room.take().or_else(|| self.memory.try_take(bytes));
                let Some(held) = &mut held else { return Ok(()) };
                held.shrink(bytes);
            }
            self.credits -= count as u32;
            let hand_over = Some(hand_over.split_first(count));
            self.ready.push_back(WorkAnswer { response, hand_over, held });
        }
        Ok(())
    }

    fn next_answer(&mut self) -> WorkAnswer {
        let (jobs, hand_over, held) = match self.ready.pop_front() {
            Some(WorkAnswer { response, hand_over, held }) => (response.jobs, hand_over, held),
            None => (Vec::new(), None, None),
        };
        WorkAnswer { response: self.updates.tell(jobs), hand_over, held }
    }
}

/// Leases jobs, and waits for some.
async fn lease(
    queues: QueueCalls,
    opened: OpenedWork,
    want: ConsumeTerms,
    mut room: Option<MemoryReservation>,
) -> Leased {
    let began = Instant::now();
    let leased = queues.consume(&opened.queues, want).await;
    let is_empty = leased.as_ref().is_ok_and(|(jobs, _)| jobs.is_empty());
    if is_empty && room.take().is_none() && began.elapsed() < PAUSE {
        // As many wait as may wait, or the server stops: asking again at once would only add to
        // that.
        sleep_until(began + PAUSE).await;
    }
    (want.max, leased, room)
}

fn size(job: &Consumed) -> usize {
    match &job.payload {
        JobPayload::Json(text) => text.len(),
        JobPayload::Bytes(data) => data.len(),
    }
}

/// What the workers are told next.
async fn next_control(control: &mut Option<FollowedControl>) -> QueueControl {
    match control {
        Some(control) => {
            control.changed().await;
            control_shown(control.current())
        }
        None => std::future::pending().await,
    }
}

/// Resolves when the worker has had its time to speak.
async fn last_words(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
