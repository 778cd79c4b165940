//! Links: which client is told of which device, set from one side and listed from both.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, put};
use base::{ClientId, DeviceId};

use super::devices::shown;
use crate::ApiState;
use crate::answer::Answer;
use crate::page::PageOf;
use crate::params::Params;
use crate::path::{ClientInPath, DeviceInPath, LinkInPath};
use crate::problem::Refused;
use crate::shape::ClientShape;

pub(super) fn routes() -> Router<ApiState> {
    Router::new()
        .route("/v1/devices/{id}/clients/{client_id}", put(link).delete(unlink))
        .route("/v1/devices/{id}/clients", get(clients))
        .route("/v1/clients/{id}/devices", get(devices))
}

async fn link(
    State(api): State<ApiState>,
    LinkInPath(device, client): LinkInPath,
) -> Result<Answer, Refused> {
    api.engine().link(device, client).await?;
    Ok(Answer::nothing())
}

async fn unlink(
    State(api): State<ApiState>,
    LinkInPath(device, client): LinkInPath,
) -> Result<Answer, Refused> {
    api.engine().unlink(device, client).await?;
    Ok(Answer::nothing())
}

/// A device has few clients, so all of them are read and the page is cut out.
async fn clients(
    State(api): State<ApiState>,
    DeviceInPath(id): DeviceInPath,
    params: Params,
) -> Result<Answer, Refused> {
    let page: PageOf<ClientId> = params.page()?;
    let queries = api.queries();
    let mut clients = api.shared.lookups.run(move || queries.clients_of(&id)).await?;
    clients.retain(|client| page.after.as_ref().is_none_or(|after| client.id > *after));
    let shapes = clients.iter().map(|client| (&client.id, ClientShape::from(&**client))).collect();
    Ok(page.show(shapes, |(id, _)| (*id).clone(), |(_, shape)| shape))
}

async fn devices(
    State(api): State<ApiState>,
    ClientInPath(id): ClientInPath,
    params: Params,
) -> Result<Answer, Refused> {
    let page: PageOf<DeviceId> = params.page()?;
    let (queries, after, to_read) = (api.queries(), page.after.clone(), page.to_read());
    let devices = api.shared.lists.run(move || queries.devices_of(&id, after.as_ref(), to_read)).await?;
    Ok(shown(&page, &devices))
}
