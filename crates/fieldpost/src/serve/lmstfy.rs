//! lmstfy's listeners: its API, its admin API, and between them the tokens that the one makes and the other asks for.

mod token_file;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use api::ApiState;
use api::lmstfy::{Lmstfy, Tokens};
use axum::Router;
use net::http::{Answers, HttpListener, WebAccess};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::open_files::Shares;
use super::ready_file::Addresses;
use super::tls::TlsSource;
use super::{Ended, because, bind};
use crate::config::Settings;

/// What a listener takes from the rest of the server.
pub(super) struct Ground<'a> {
    pub(super) settings: &'a Settings,
    pub(super) tls: Option<&'a TlsSource>,
    pub(super) shares: &'a Shares,
    pub(super) web: WebAccess,
    pub(super) answers: Answers,
    pub(super) metrics: &'a Arc<Mutex<Registry>>,
    pub(super) stop: &'a watch::Sender<bool>,
}

/// Opens those that are on.
pub(super) async fn open(
    ground: &Ground<'_>,
    api: &ApiState,
    addresses: &mut Addresses,
    tasks: &mut JoinSet<()>,
) -> Result<(), Ended> {
    let Ground { settings, stop, .. } = ground;
    let (listen, admin_listen) = (settings.lmstfy.listen, settings.lmstfy.admin_listen);
    if listen.is_none() && admin_listen.is_none() {
        return Ok(());
    }
    let file = token_file::in_dir(&settings.data_dir);
    let told = file.display().to_string();
    let kept = token_file::read(&file).map_err(because(&told))?;
    let tokens = Tokens::new(kept, move |kept| token_file::write(&file, kept)).map_err(because(&told))?;
    let lmstfy = Lmstfy::new(api.clone(), tokens, stop.subscribe());
    if let Some(listen) = listen {
        let web = ground.web.clone();
        addresses.lmstfy = Some(ground.serve("lmstfy.listen", listen, lmstfy.api(), web, tasks).await?);
    }
    if let Some(listen) = admin_listen {
        let key = "lmstfy.admin_listen";
        // It takes a password, which a browser sends again by itself.
        let web = ground.web.clone().remembered_by_browsers();
        addresses.lmstfy_admin = Some(ground.serve(key, listen, lmstfy.admin(), web, tasks).await?);
    }
    Ok(())
}

impl Ground<'_> {
    async fn serve(
        &self,
        key: &str,
        listen: SocketAddr,
        app: Router,
        web: WebAccess,
        tasks: &mut JoinSet<()>,
    ) -> Result<SocketAddr, Ended> {
        let bound = bind(key, listen)?;
        let address = bound.local_addr().map_err(because::<io::Error>(key))?;
        let mut listener = HttpListener::new(bound, app, Lmstfy::busy(), self.shares.http, web);
        listener = listener.with_open_files(self.shares.files.clone()).with_answers(self.answers.clone());
        if let Some(source) = self.tls {
            listener = listener.with_tls(Arc::clone(source));
        }
        tasks.spawn(listener.run(self.stop.subscribe()));
        Ok(address)
    }
}
