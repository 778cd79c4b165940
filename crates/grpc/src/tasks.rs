//! The service `Tasks`: a task is begun, and what comes of it is told as it comes.

use std::pin::Pin;
use std::sync::Arc;

use access::{Admitted, RequestedAction};
use base::Problem;
use engine::Engine;
use futures_util::Stream;
use net::metrics::Counted;
use net::shares::{SenderKey, SharedPool};
use tonic::{Request, Response, Status};

use crate::callers::caller_sender_and_message;
use crate::changes::into_change;
use crate::commands::{check_receiver, secret_of};
use crate::metrics::GrpcMetrics;
use crate::proto::{self, tasks_server};
use crate::stopping::StopSignal;
use crate::store_reads::StoreReads;

mod new_task;
mod run;
mod shape;

use run::TaskRun;

/// Tasks of all callers that are told of, and of one.
const RUNS_MAX: usize = 256;
const RUNS_OF_SENDER_MAX: usize = 64;

/// The calls about tasks.
pub(crate) struct TasksService {
    engine: Engine,
    reads: StoreReads,
    stop: StopSignal,
    runs: Arc<SharedPool>,
    metrics: GrpcMetrics,
}

impl TasksService {
    pub(crate) fn new(engine: &Engine, reads: StoreReads, stop: StopSignal, metrics: &GrpcMetrics) -> Self {
        let runs = Arc::new(SharedPool::new(RUNS_MAX, RUNS_OF_SENDER_MAX));
        Self { engine: engine.clone(), reads, stop, runs, metrics: metrics.clone() }
    }

    async fn run(
        &self,
        caller: &Admitted,
        sender: &SenderKey,
        request: proto::RunTaskRequest,
    ) -> Result<TaskRun, Problem> {
        caller.may(RequestedAction::Pick)?;
        // Before anything is done: who is refused asks again.
        let full = || {
            let detail = format!(
                "{RUNS_OF_SENDER_MAX} tasks of this caller, or {RUNS_MAX} of all, are told of; POST /v1/tasks waits for none"
            );
            Problem::new(503, "too_many_waiting", detail)
        };
        let place = self.runs.try_take(sender, 1).ok_or_else(full)?;
        let counted = Counted::new(&self.metrics.task_runs);
        let idempotency = new_task::once(&request, caller.name())?;
        let missing = || Problem::not_allowed("missing_field", "task has to be there");
        let mut new = new_task::read(request.task.ok_or_else(missing)?, &self.engine)?;
        check_receiver(caller, new.terms.receiver.as_ref())?;
        caller.may_pick(new.terms.class.as_str(), new.terms.count)?;
        new.terms.token = Some(caller.name()).filter(|name| !name.is_empty()).map(Box::from);
        let follower = TaskRun::follower(&self.engine)?;
        let begun = self.engine.tasks().create(new, idempotency).await;
        let begun = begun.map_err(|problem| new_task::reused(problem, idempotency.is_some()))?;
        let secret = secret_of(begun.receiver.as_ref());
        let run = TaskRun::new((begun, follower), secret, sender, &self.engine, &self.reads, &self.stop);
        Ok(run.holding((place, counted)))
    }
}

#[tonic::async_trait]
impl tasks_server::Tasks for TasksService {
    type RunStream = Pin<Box<dyn Stream<Item = Result<proto::RunTaskResponse, Status>> + Send>>;

    async fn run(
        &self,
        request: Request<proto::RunTaskRequest>,
    ) -> Result<Response<Self::RunStream>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let run = TasksService::run(self, &caller, &sender, request).await;
        let task = run.as_ref().map_or_else(|_| String::new(), TaskRun::task_id);
        into_change(run.map(|run| Box::pin(run.into_stream()) as Self::RunStream), task)
    }
}
