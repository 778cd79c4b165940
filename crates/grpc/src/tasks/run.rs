//! A task that is told of: as it was begun, each result as it comes, and the task as it ended.
//!
//! Nothing is made ahead but a few results: more are read once the connection has taken those.
//! Whoever hangs up is told no more, and the task goes on.

use std::collections::VecDeque;
use std::time::Duration;

use base::Problem;
use bytes::Bytes;
use engine::campaigns::{TASK_ID_PREFIX, TrackedTask};
use engine::followers::{Followed, FollowedFeed, Follower};
use engine::records::Pick;
use engine::{Engine, Queries};
use futures_util::{Stream, stream};
use net::metrics::Counted;
use net::shares::{SenderKey, Taken};
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use super::shape;
use crate::proto::{self, run_task_response::Told};
use crate::status::status;
use crate::stopping::StopSignal;
use crate::store_reads::StoreReads;

/// Least time from one look at a task to the next: many devices may answer in that time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Results that are read at a time; each may have 64 KiB.
const RESULTS_PER_READ: usize = 16;

/// A task that is told of.
pub(super) struct TaskRun {
    task: TrackedTask,
    sender: SenderKey,
    engine: Engine,
    follower: Follower,
    reads: StoreReads,
    stop: StopSignal,
    /// What the caller has not taken yet.
    untold: VecDeque<Told>,
    /// The number of the last result that was read.
    after: Option<u32>,
    /// Whether there may be more results now.
    more: bool,
    looked_at: Option<Instant>,
    /// Held as long as it lasts.
    place: Option<(Taken, Counted)>,
}

impl TaskRun {
    /// A place for a task that is to begin: who gets none begins none.
    ///
    /// # Errors
    /// 503 `too_many_waiting`.
    pub(super) fn follower(engine: &Engine) -> Result<Follower, Problem> {
        engine.follow(Followed::NOTHING)
    }

    /// A task that was just begun, with its place.
    pub(super) fn new(
        (task, mut follower): (TrackedTask, Follower),
        notify_secret: Bytes,
        sender: &SenderKey,
        engine: &Engine,
        reads: &StoreReads,
        stop: &StopSignal,
    ) -> Self {
        let feed = FollowedFeed::TaskResults(task.task.incarnation);
        follower.follow_instead(Followed { feed, device: None });
        let begun = proto::BegunTask { task: Some(shape::task(&task)), notify_secret };
        Self {
            task,
            sender: sender.clone(),
            engine: engine.clone(),
            follower,
            reads: reads.clone(),
            stop: stop.clone(),
            untold: VecDeque::from([Told::Begun(begun)]),
            after: None,
            more: true,
            looked_at: None,
            place: None,
        }
    }

    pub(super) fn holding(mut self, place: (Taken, Counted)) -> Self {
        self.place = Some(place);
        self
    }

    /// The id of the task, as it is shown.
    pub(super) fn task_id(&self) -> String {
        self.task.task.id.to_text(TASK_ID_PREFIX)
    }

    /// What the caller is told, until the task has ended or a refusal.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<proto::RunTaskResponse, Status>> {
        stream::unfold(Some(self), |run| async move {
            let mut run = run?;
            Some(match run.next().await {
                Ok(told) => {
                    let is_last = matches!(told, Told::Ended(_));
                    (Ok(proto::RunTaskResponse { told: Some(told) }), (!is_last).then_some(run))
                }
                Err(problem) => (Err(status(&problem)), None),
            })
        })
    }

    async fn next(&mut self) -> Result<Told, Problem> {
        loop {
            if let Some(told) = self.untold.pop_front() {
                return Ok(told);
            }
            // Of a stopped task picks may be under way.
            if !self.more && self.task.state.ended_at.is_some() {
                return Ok(Told::Ended(shape::task(&self.task)));
            }
            let mut stop = self.stop.clone();
            tokio::select! {
                looked = self.look() => looked?,
                () = stop.stopping() => return Err(Problem::unavailable("the server is stopping")),
            }
        }
    }

    /// Reads the next results, once there may be some. It has its place already, so it waits for
    /// its turn however many read.
    async fn look(&mut self) -> Result<(), Problem> {
        if !self.more {
            self.follower.changed().await;
            if let Some(looked_at) = self.looked_at {
                sleep_until(looked_at + LOOK_AGAIN_AFTER).await;
            }
        }
        let (queries, task, after) = (self.engine.queries(), self.task.clone(), self.after);
        let read = move || read(&queries, task, after);
        let (task, picks) = self.reads.run_when_free(&self.sender, read).await?;
        self.looked_at = Some(Instant::now());
        self.task = task;
        self.more = picks.len() == RESULTS_PER_READ;
        self.after = picks.last().and_then(|pick| pick.end.as_ref()).map(|end| end.number).or(self.after);
        self.untold.extend(picks.iter().filter_map(shape::result).map(Told::Result));
        Ok(())
    }
}

/// The task, and results behind those that were read. The task is read first: so all results of one
/// that has ended are found behind it.
fn read(
    queries: &Queries,
    known: TrackedTask,
    after: Option<u32>,
) -> Result<(TrackedTask, Vec<Pick>), Problem> {
    let incarnation = known.task.incarnation;
    let task = queries.task(&known.task.id)?.unwrap_or(known);
    Ok((task, queries.task_results(incarnation, after, false, RESULTS_PER_READ)?))
}
