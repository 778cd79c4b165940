//! lmstfy's listeners: its API, its admin API, and between them the tokens that the one makes and
//! the other asks for.

mod token_file;

use std::sync::Arc;

use lmstfy::{Lmstfy, Tokens};
use tokio::task::JoinSet;

use super::edge::EdgeContext;
use super::ready_file::Addresses;
use super::{ServeFailure, because};

/// Opens those that are on.
pub(super) async fn open(
    edge: &EdgeContext<'_>,
    addresses: &mut Addresses,
    tasks: &mut JoinSet<()>,
) -> Result<(), ServeFailure> {
    let EdgeContext { settings, stop, .. } = edge;
    let (listen, admin_listen) = (settings.lmstfy.listen, settings.lmstfy.admin_listen);
    if listen.is_none() && admin_listen.is_none() {
        return Ok(());
    }
    let file = token_file::in_dir(&settings.data_dir);
    let told = file.display().to_string();
    let kept = token_file::read(&file).map_err(because(&told))?;
    let tokens = Tokens::new(kept, move |kept| token_file::write(&file, kept)).map_err(because(&told))?;
    let lmstfy = Lmstfy::new(
        edge.engine.clone(),
        Arc::clone(edge.access),
        &edge.memory,
        tokens,
        Arc::clone(edge.metrics),
        stop.subscribe(),
    );
    if let Some(listen) = listen {
        let web = edge.web.clone();
        let (place, app) = (("lmstfy.listen", listen), (lmstfy.api(), Lmstfy::busy()));
        addresses.lmstfy = Some(edge.serve(place, app, web, tasks).await?);
    }
    if let Some(listen) = admin_listen {
        let (place, app) = (("lmstfy.admin_listen", listen), (lmstfy.admin(), Lmstfy::busy()));
        // It takes a password, which a browser sends again by itself.
        let web = edge.web.clone().remembered_by_browsers();
        addresses.lmstfy_admin = Some(edge.serve(place, app, web, tasks).await?);
    }
    Ok(())
}
