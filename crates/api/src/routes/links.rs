//! Links: which client is told of which device, set from one side and listed from both.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use base::{ClientId, DeviceId};
use engine::Queries;
use engine::queries::{BoundedPage, DeviceDetails};
use engine::records::Client;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::list::{self, List, PageOfList};
use crate::openapi::Call;
use crate::openapi::refusals::{UNKNOWN_CLIENT, UNKNOWN_DEVICE};
use crate::params::Params;
use crate::path::{ClientInPath, DeviceInPath, LinkInPath};
use crate::shape::{ClientShape, DeviceShape};

pub(super) fn routes() -> Routes {
    let linked = Call::new("The client is told of the device; repeating it changes nothing")
        .gives_nothing(204, "they are linked")
        .refuses(&[UNKNOWN_DEVICE, UNKNOWN_CLIENT, (409, "too_many_links")]);
    let unlinked = Call::new("The client is no longer told of the device")
        .gives_nothing(204, "they are not linked")
        .refuses(&[UNKNOWN_DEVICE, UNKNOWN_CLIENT]);
    let clients_listed =
        Call::new("The clients of a device").lists::<ClientShape<'_>>().refuses(&[UNKNOWN_DEVICE]);
    let devices_listed =
        Call::new("The devices of a client").lists::<DeviceShape<'_>>().refuses(&[UNKNOWN_CLIENT]);
    Routes::default()
        .put("/v1/devices/{id}/clients/{client_id}", link, linked)
        .delete("/v1/devices/{id}/clients/{client_id}", unlink, unlinked)
        .get("/v1/devices/{id}/clients", clients, clients_listed)
        .get("/v1/clients/{id}/devices", devices, devices_listed)
}

async fn link(
    State(api): State<ApiState>,
    LinkInPath(device, client): LinkInPath,
) -> Result<ApiAnswer, Refused> {
    api.engine().link(device, client).await?;
    Ok(ApiAnswer::nothing())
}

async fn unlink(
    State(api): State<ApiState>,
    LinkInPath(device, client): LinkInPath,
) -> Result<ApiAnswer, Refused> {
    api.engine().unlink(device, client).await?;
    Ok(ApiAnswer::nothing())
}

/// A device has few clients, so all of them are read and the page is cut out.
struct ClientsOf {
    queries: Queries,
    device: DeviceId,
}

impl List for ClientsOf {
    type Key = ClientId;
    type Found = Arc<Client>;
    type Shown<'a> = ClientShape<'a>;

    fn look(&self, after: Option<&ClientId>, limit: usize, _: usize) -> PageOfList<Self> {
        let mut clients = self.queries.clients_of(&self.device)?;
        clients.retain(|client| after.is_none_or(|after| client.id > *after));
        clients.truncate(limit);
        Ok(BoundedPage::indexed(clients))
    }

    fn key(client: &Arc<Client>) -> ClientId {
        client.id.clone()
    }

    fn show(client: &Arc<Client>) -> ClientShape<'_> {
        ClientShape::from(&**client)
    }
}

async fn clients(
    State(api): State<ApiState>,
    DeviceInPath(device): DeviceInPath,
    params: Params,
) -> Result<Response, Refused> {
    list::answer(&api, params.page()?, ClientsOf { queries: api.queries(), device }).await
}

struct DevicesOf {
    queries: Queries,
    client: ClientId,
}

impl List for DevicesOf {
    type Key = DeviceId;
    type Found = DeviceDetails;
    type Shown<'a> = DeviceShape<'a>;

    fn look(&self, after: Option<&DeviceId>, limit: usize, _: usize) -> PageOfList<Self> {
        self.queries.devices_of(&self.client, after, limit).map(BoundedPage::indexed)
    }

    fn key(device: &DeviceDetails) -> DeviceId {
        device.profile.id.clone()
    }

    fn show(device: &DeviceDetails) -> DeviceShape<'_> {
        device.into()
    }
}

async fn devices(
    State(api): State<ApiState>,
    ClientInPath(client): ClientInPath,
    params: Params,
) -> Result<Response, Refused> {
    list::answer(&api, params.page()?, DevicesOf { queries: api.queries(), client }).await
}
