//! The service `Rollouts`: each call is read, judged, asked of the engine, and answered.

use std::pin::Pin;
use std::sync::Arc;

use access::{Admitted, RequestedAction};
use base::Problem;
use engine::records::RolloutWork;
use engine::rollouts::check_rollout_id;
use engine::{Engine, Queries, TrackedRollout};
use futures_util::Stream;
use net::metrics::Counted;
use net::problem::quoted;
use net::shares::{SenderKey, SharedPool};
use tonic::{Request, Response, Status};

use crate::callers::{caller, caller_and_message, caller_sender_and_message, peer};
use crate::changes::into_change;
use crate::commands::{check_receiver, secret_of};
use crate::metrics::GrpcMetrics;
use crate::proto::{self, rollouts_server};
use crate::status::{into_response, status};
use crate::stopping::StopSignal;
use crate::store_reads::StoreReads;

mod list;
mod new_rollout;
mod shape;
mod watch;

/// Watches of all callers, and of one.
const WATCHES_MAX: usize = 256;
const WATCHES_OF_SENDER_MAX: usize = 64;

/// The calls about rollouts.
pub(crate) struct RolloutsService {
    engine: Engine,
    reads: StoreReads,
    stop: StopSignal,
    watches: Arc<SharedPool>,
    metrics: GrpcMetrics,
}

impl RolloutsService {
    pub(crate) fn new(engine: &Engine, reads: StoreReads, stop: StopSignal, metrics: &GrpcMetrics) -> Self {
        let watches = Arc::new(SharedPool::new(WATCHES_MAX, WATCHES_OF_SENDER_MAX));
        Self { engine: engine.clone(), reads, stop, watches, metrics: metrics.clone() }
    }

    async fn create(
        &self,
        caller: &Admitted,
        request: proto::CreateRolloutRequest,
    ) -> Result<proto::CreateRolloutResponse, Problem> {
        caller.may(RequestedAction::Command)?;
        let idempotency = new_rollout::once(&request, caller.name())?;
        let proto::CreateRolloutRequest { rollout, id, .. } = request;
        let mut new = new_rollout::read(rollout.unwrap_or_default(), &self.engine)?;
        check_receiver(caller, new.receiver())?;
        new.token = Some(caller.name()).filter(|name| !name.is_empty()).map(Box::from);
        let rollouts = self.engine.rollouts();
        let (begun, shows_secret) = if id.is_empty() {
            let begun = rollouts.create(new, idempotency).await;
            (begun.map_err(|problem| new_rollout::reused(problem, idempotency.is_some()))?, true)
        } else {
            check_rollout_id(&id)?;
            rollouts.put(&id, new).await?
        };
        let receiver = begun.receiver().filter(|_| shows_secret);
        Ok(proto::CreateRolloutResponse {
            notify_secret: secret_of(receiver),
            rollout: Some(shape::rollout(&begun)),
        })
    }

    async fn call(
        &self,
        caller: &Admitted,
        sender: &SenderKey,
        request: proto::CallRolloutRequest,
    ) -> Result<proto::CallRolloutResponse, Problem> {
        caller.may(RequestedAction::Command)?;
        let call = shape::read_call(request.call)?;
        let id = self.present(sender, request.id).await?.rollout.id.clone();
        self.engine.rollouts().call(&id, call).await?;
        Ok(proto::CallRolloutResponse {})
    }

    async fn present(&self, sender: &SenderKey, id: String) -> Result<TrackedRollout, Problem> {
        let queries = self.engine.queries();
        self.reads.run(sender, move || known(&queries, &id)).await
    }

    fn watch(
        &self,
        caller: &Admitted,
        sender: &SenderKey,
        id: String,
    ) -> Result<watch::RolloutWatch, Problem> {
        caller.may(RequestedAction::LookAtCommands)?;
        let full = || {
            let detail = format!(
                "{WATCHES_OF_SENDER_MAX} watches of this caller, or {WATCHES_MAX} of all, are under way; use Get"
            );
            Problem::new(503, "too_many_waiting", detail)
        };
        let place = self.watches.try_take(sender, 1).ok_or_else(full)?;
        let counted = Counted::new(&self.metrics.rollout_watches);
        let watch = watch::RolloutWatch::new(id, sender, &self.engine, &self.reads, &self.stop);
        Ok(watch.holding((place, counted)))
    }
}

/// A rollout of commands.
fn known(queries: &Queries, id: &str) -> Result<TrackedRollout, Problem> {
    let of_commands = |found: &TrackedRollout| matches!(found.rollout.work, RolloutWork::Command(_));
    let found = queries.rollout(id)?.filter(of_commands);
    found.ok_or_else(|| Problem::unknown("unknown_rollout", format!("there is no rollout {}", quoted(id))))
}

#[tonic::async_trait]
impl rollouts_server::Rollouts for RolloutsService {
    async fn create(
        &self,
        request: Request<proto::CreateRolloutRequest>,
    ) -> Result<Response<proto::CreateRolloutResponse>, Status> {
        let (caller, request) = caller_and_message(request)?;
        let created = RolloutsService::create(self, &caller, request).await;
        let rollout = created.as_ref().ok().and_then(|created| created.rollout.as_ref());
        let object = rollout.map_or_else(String::new, |rollout| rollout.id.clone());
        into_change(created, object)
    }

    async fn get(
        &self,
        request: Request<proto::GetRolloutRequest>,
    ) -> Result<Response<proto::GetRolloutResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let shown = async {
            caller.may(RequestedAction::LookAtCommands)?;
            let rollout = self.present(&sender, request.id).await?;
            Ok(proto::GetRolloutResponse { rollout: Some(shape::rollout(&rollout)) })
        };
        into_response(shown.await)
    }

    async fn list(
        &self,
        request: Request<proto::ListRolloutsRequest>,
    ) -> Result<Response<proto::ListRolloutsResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let listed = async {
            caller.may(RequestedAction::LookAtCommands)?;
            let (list, queries) = (list::RolloutPageRequest::read(&request)?, self.engine.queries());
            self.reads.page(&sender, list.bytes_max(), move || list.page(&queries)).await
        };
        listed.await.map_err(|problem| status(&problem))
    }

    async fn call(
        &self,
        request: Request<proto::CallRolloutRequest>,
    ) -> Result<Response<proto::CallRolloutResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let object = format!("{} {}", request.id, shape::call_in_log(request.call()));
        into_change(RolloutsService::call(self, &caller, &sender, request).await, object)
    }

    async fn devices(
        &self,
        request: Request<proto::RolloutDevicesRequest>,
    ) -> Result<Response<proto::RolloutDevicesResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let listed = async {
            caller.may(RequestedAction::LookAtCommands)?;
            let (list, queries) = (list::RolloutDevicePageRequest::read(request)?, self.engine.queries());
            self.reads.page(&sender, list.bytes_max(), move || list.page(&queries)).await
        };
        listed.await.map_err(|problem| status(&problem))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<proto::WatchRolloutResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<proto::WatchRolloutRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (caller, address) = (caller(&request)?, peer(&request).ip());
        let sender = SenderKey::of_caller(caller.name(), address);
        let watch = RolloutsService::watch(self, &caller, &sender, request.into_inner().id);
        let watch = watch.map_err(|problem| status(&problem))?;
        Ok(Response::new(Box::pin(watch.into_stream())))
    }
}
