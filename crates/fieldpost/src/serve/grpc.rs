//! The gRPC listener: its callers are those of the HTTP API, its reports are read like lines of
//! NDJSON.

use std::sync::Arc;

use base::locks::locked;
use gateway::decode::{self, DecodeRules};
use grpc::Grpc;
use net::listen::Listener;
use tokio::task::JoinSet;

use super::edge::EdgeContext;
use super::ready_file::Addresses;
use super::{ServeFailure, because, bind};

/// The protocol that callers over TLS agree on.
const HTTP_2: &[u8] = b"h2";

/// Opens the listener, if it is on.
pub(super) async fn open(
    edge: &EdgeContext<'_>,
    addresses: &mut Addresses,
    listeners: &mut JoinSet<()>,
) -> Result<(), ServeFailure> {
    let Some(listen) = edge.settings.grpc.listen else { return Ok(()) };
    let bound = bind("grpc.listen", listen)?;
    addresses.grpc = Some(bound.local_addr().map_err(because("grpc.listen"))?);
    let mut arrivals = Listener::new(bound, "grpc", edge.shares.grpc);
    arrivals = arrivals.with_open_files(edge.shares.files.clone());
    let mut web = edge.web.clone();
    if let Some(source) = edge.tls {
        arrivals = arrivals.with_tls(Arc::clone(source), Some(HTTP_2));
        web = web.over_tls();
    }
    let of_reports = edge.engine.clone();
    let read_report = Arc::new(move |line: &[u8]| decode::object(line, None, DecodeRules::of(&of_reports)));
    let stop = edge.stop.subscribe();
    let grpc = Grpc::new(edge.engine, Arc::clone(edge.access), web, &edge.memory, read_report, stop);
    {
        let mut metrics = locked(edge.metrics);
        arrivals.register_metrics(&mut metrics);
        grpc.register_metrics(&mut metrics);
    }
    listeners.spawn(arrivals.run(grpc, edge.stop.subscribe()));
    Ok(())
}
