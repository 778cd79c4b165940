//! The health service that gRPC clients and balancers ask: serving, unless the store has failed or
//! the server stops.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use base::Problem;
use engine::Engine;
use futures_util::{Stream, stream};
use tokio::time::timeout;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_server};

use crate::calls;
use crate::status::status;
use crate::stopping::StopSignal;
use crate::watches::Replaced;

/// How often whoever watches is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Knows whether the server serves.
#[derive(Clone)]
pub(crate) struct HealthService {
    engine: Engine,
    stop: StopSignal,
}

impl HealthService {
    pub(crate) fn new(engine: &Engine, stop: StopSignal) -> Self {
        Self { engine: engine.clone(), stop }
    }

    fn now(&self) -> ServingStatus {
        let serves = self.engine.failure().is_none() && !self.stop.is_stopping();
        if serves { ServingStatus::Serving } else { ServingStatus::NotServing }
    }

    /// What is told behind `told`, if anything; `first` at first.
    async fn next(&mut self, told: Option<ServingStatus>, first: ServingStatus) -> Option<ServingStatus> {
        match told {
            None => Some(first),
            // What is not there now will not come, and the last that a server says is that it
            // stops.
            Some(ServingStatus::ServiceUnknown) => {
                self.stop.stopping().await;
                None
            }
            Some(ServingStatus::NotServing) if self.stop.is_stopping() => None,
            Some(told) => Some(self.changed(told).await),
        }
    }

    /// Resolves when the status is another than `told`.
    async fn changed(&mut self, told: ServingStatus) -> ServingStatus {
        loop {
            let now = self.now();
            if now != told {
                return now;
            }
            // The end of the server is told at once, a failed store at the next look.
            let _looked = timeout(LOOK_EVERY, self.stop.stopping()).await;
        }
    }
}

/// Whether there is a service of this name; the server as a whole has none.
fn is_known(service: &str) -> bool {
    service.is_empty() || calls::is_served(service)
}

async fn is_replaced(replaced: &mut Option<Replaced>) {
    match replaced {
        Some(replaced) => replaced.wait().await,
        None => pending().await,
    }
}

fn watches_too_often() -> Problem {
    let detail = "too many watches are under way: a newer one has the place of this one";
    Problem::new(429, "too_many_requests", detail)
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl health_server::Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if is_known(&request.get_ref().service) {
            Ok(Response::new(answer(self.now())))
        } else {
            Err(Status::not_found("there is no such service here"))
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let first =
            if is_known(&request.get_ref().service) { self.now() } else { ServingStatus::ServiceUnknown };
        let begun = (self.clone(), None, request.extensions().get::<Replaced>().cloned());
        let watching = stream::unfold(Some(begun), move |watch| async move {
            let (mut health, told, mut replaced) = watch?;
            tokio::select! {
                next = health.next(told, first) => {
                    let next = next?;
                    Some((Ok(answer(next)), Some((health, Some(next), replaced))))
                }
                () = is_replaced(&mut replaced) => Some((Err(status(&watches_too_often())), None)),
            }
        });
        Ok(Response::new(Box::pin(watching)))
    }
}
