//! What every edge beside the HTTP API takes from the rest of the server to open its listeners.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use access::Access;
use axum::Router;
use engine::Engine;
use net::http::{HttpListener, LargeAnswers, WebAccess};
use net::memory_budget::MemoryBudget;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::open_files::OpenFileShares;
use super::tls::TlsSource;
use super::{ServeFailure, because, bind};
use crate::config::ServerSettings;

/// What a listener takes from the rest of the server.
pub(super) struct EdgeContext<'a> {
    pub(super) settings: &'a ServerSettings,
    pub(super) engine: &'a Engine,
    pub(super) access: &'a Arc<Access>,
    pub(super) tls: Option<&'a TlsSource>,
    pub(super) shares: &'a OpenFileShares,
    pub(super) web: WebAccess,
    pub(super) answers: LargeAnswers,
    pub(super) memory: MemoryBudget,
    pub(super) metrics: &'a Arc<Mutex<Registry>>,
    pub(super) stop: &'a watch::Sender<bool>,
}

impl EdgeContext<'_> {
    /// Serves `app` over HTTP at an address of the settings. `busy` answers whoever is one too
    /// many.
    pub(super) async fn serve(
        &self,
        (key, listen): (&str, SocketAddr),
        (app, busy): (Router, Router),
        web: WebAccess,
        tasks: &mut JoinSet<()>,
    ) -> Result<SocketAddr, ServeFailure> {
        let bound = bind(key, listen)?;
        let address = bound.local_addr().map_err(because::<io::Error>(key))?;
        let mut listener = HttpListener::new(bound, app, busy, self.shares.http, web);
        listener = listener.with_open_files(self.shares.files.clone()).with_answers(self.answers.clone());
        if let Some(source) = self.tls {
            listener = listener.with_tls(Arc::clone(source));
        }
        tasks.spawn(listener.run(self.stop.subscribe()));
        Ok(address)
    }
}
