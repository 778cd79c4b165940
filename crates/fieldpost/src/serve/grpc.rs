//! The gRPC listener: its callers are those of the HTTP API, its reports are read like lines of NDJSON.

use std::sync::{Arc, PoisonError};

use api::ApiState;
use api::access::{self, Admitted};
use base::Problem;
use engine::Engine;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gateway::decode::{self, Rules};
use grpc::{Access, Asked, Caller, Grpc, NotAdmitted};
use net::listen::{Arrivals, Guest, Speak};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::lmstfy::Ground;
use super::ready_file::Addresses;
use super::{Ended, because, bind};

/// The protocol that callers over TLS agree on.
const HTTP_2: &[u8] = b"h2";

/// Opens the listener, if it is on.
pub(super) async fn open(
    ground: &Ground<'_>,
    engine: &Engine,
    api: &ApiState,
    addresses: &mut Addresses,
    doors: &mut JoinSet<()>,
) -> Result<(), Ended> {
    let Some(listen) = ground.settings.grpc.listen else { return Ok(()) };
    let bound = bind("grpc.listen", listen)?;
    addresses.grpc = Some(bound.local_addr().map_err(because("grpc.listen"))?);
    let mut arrivals = Arrivals::new(bound, "grpc", ground.shares.grpc);
    arrivals = arrivals.with_open_files(ground.shares.files.clone());
    if let Some(source) = ground.tls {
        arrivals = arrivals.with_tls(Arc::clone(source), Some(HTTP_2));
    }
    let of_reports = engine.clone();
    let read_report = Arc::new(move |line: &[u8]| decode::object(line, None, Rules::of(&of_reports)));
    let grpc = Grpc::new(engine, Tokens(api.clone()), read_report, ground.stop.subscribe());
    {
        let mut metrics = ground.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.register_metrics(&mut metrics);
        grpc.register_metrics(&mut metrics);
    }
    doors.spawn(arrivals.run(Speaker(grpc), ground.stop.subscribe()));
    Ok(())
}

struct Speaker(Grpc);

impl Speak for Speaker {
    async fn speak<S>(&self, stream: S, guest: Arc<Guest>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        // Once a call of it was let in, a connection counts as one long request: it stays as long as it
        // moves, or while there is room.
        guest.awaits_admission();
        let peer = guest.peer();
        self.0.speak(stream, peer, Arc::new(move || guest.is_admitted())).await;
    }
}

/// The tokens of the HTTP API.
struct Tokens(ApiState);

impl Access for Tokens {
    fn admit<'a>(
        &'a self,
        metadata: &'a axum::http::HeaderMap,
    ) -> BoxFuture<'a, Result<Arc<dyn Caller>, NotAdmitted>> {
        async move {
            let admitted = self.0.admit(metadata).await;
            let admitted = admitted.map_err(|(problem, login)| NotAdmitted { problem, login })?;
            Ok(Arc::new(OfApi(admitted)) as Arc<dyn Caller>)
        }
        .boxed()
    }
}

struct OfApi(Admitted);

impl Caller for OfApi {
    fn may(&self, asked: Asked<'_>) -> Result<(), Problem> {
        self.0.may(match asked {
            Asked::Reports => access::Asked::Reports,
            Asked::Look { namespace } => access::Asked::Look { namespace },
            Asked::Work { namespace } => access::Asked::Work { namespace },
        })
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}
