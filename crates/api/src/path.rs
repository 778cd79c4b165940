//! Ids in paths. An id that cannot be one is as unknown as one that is not registered.

mod coordination;
mod queue;
mod stream;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use base::id::{DELIVERY_ID_PREFIX, QUARANTINE_ID_PREFIX};
use base::{ClientId, DeviceId, EntityId, Incarnation, Problem};
use engine::campaigns::TASK_ID_PREFIX;
use engine::commands::COMMAND_ID_PREFIX;
use engine::operations::OPERATION_ID_PREFIX;
use net::path::PathParameters;
use net::problem::{Refused, quoted};

pub(crate) use coordination::{CachedInPath, ChannelsInPath, NameInPath, NamespaceInPath};
pub(crate) use queue::{AliasInPath, JobInPath, QueueInPath, QueuesInPath};
pub(crate) use stream::{
    CopyInPath, MessageInPath, NodeInPath, StreamInPath, SubscriptionInPath, message_id,
};

/// What the id of a portal begins with; its number follows.
pub(crate) const PORTAL_ID_PREFIX: &str = "portal_";

/// `/v1/clients/{id}`
#[derive(Debug)]
pub(crate) struct ClientInPath(pub ClientId);

/// `/v1/clients/{id}/portal/{portal_id}`
#[derive(Debug)]
pub(crate) struct PortalInPath(pub ClientId, pub Incarnation);

/// Where devices are imported, and where the device is whose id is that word.
pub(crate) const IMPORT_PATH: &str = "/v1/devices/import";

/// `/v1/devices/{id}`
#[derive(Debug)]
pub(crate) struct DeviceInPath(pub DeviceId);

/// `/v1/devices/{id}/clients/{client_id}`
#[derive(Debug)]
pub(crate) struct LinkInPath(pub DeviceId, pub ClientId);

/// `/v1/campaigns/{id}` and others whose id is looked up as it was written
#[derive(Debug)]
pub(crate) struct IdInPath(pub String);

/// `/v1/relays/{name}`
#[derive(Debug)]
pub(crate) struct RelayInPath(pub String);

/// `/v1/deliveries/{id}`
#[derive(Debug)]
pub(crate) struct DeliveryInPath(pub EntityId);

/// `/v1/commands/{id}`
#[derive(Debug)]
pub(crate) struct CommandInPath(pub EntityId);

/// `/v1/tasks/{id}`
#[derive(Debug)]
pub(crate) struct TaskInPath(pub EntityId);

/// `/v1/devices/{id}/desired/{key}`
#[derive(Debug)]
pub(crate) struct DesiredInPath(pub DeviceId, pub String);

/// `/v1/operations/{id}`
#[derive(Debug)]
pub(crate) struct OperationInPath(pub EntityId);

/// `/v1/quarantine/{id}`
#[derive(Debug)]
pub(crate) struct QuarantinedInPath(pub EntityId);

/// What stands in paths, each made of the texts of its parameters.
macro_rules! from_path {
    ($($kind:ident: $make:expr;)+) => {$(
        impl<S: Send + Sync> axum::extract::FromRequestParts<S> for $kind {
            type Rejection = net::problem::Refused;

            async fn from_request_parts(
                parts: &mut axum::http::request::Parts,
                state: &S,
            ) -> Result<Self, net::problem::Refused> {
                let make: fn(_) -> Result<Self, base::Problem> = $make;
                Ok(make($crate::path::in_path(parts, state).await?)?)
            }
        }
    )+};
}
use from_path;

from_path! {
    ClientInPath: |id: String| client(&id).map(Self);
    PortalInPath: |(id, portal_id): (String, String)| Ok(Self(client(&id)?, portal(&portal_id)?));
    LinkInPath: |(id, client_id): (String, String)| Ok(Self(device(&id)?, client(&client_id)?));
    IdInPath: |id: String| Ok(Self(id));
    RelayInPath: |name: String| Ok(Self(name));
    DeliveryInPath: |id: String| {
        EntityId::from_text(DELIVERY_ID_PREFIX, &id).map(Self).ok_or_else(|| unknown_delivery(&id))
    };
    OperationInPath: |id: String| {
        EntityId::from_text(OPERATION_ID_PREFIX, &id).map(Self).ok_or_else(|| unknown_operation(&id))
    };
    CommandInPath: |id: String| {
        EntityId::from_text(COMMAND_ID_PREFIX, &id).map(Self).ok_or_else(|| unknown_command(&id))
    };
    TaskInPath: |id: String| task_id(&id).map(Self);
    DesiredInPath: |(id, key): (String, String)| Ok(Self(device(&id)?, key));
    QuarantinedInPath: |id: String| {
        EntityId::from_text(QUARANTINE_ID_PREFIX, &id).map(Self).ok_or_else(|| unknown_quarantined(&id))
    };
}

impl<S: Send + Sync> FromRequestParts<S> for DeviceInPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let id = match id_of_import(parts.uri.path()) {
            Some(id) => id.to_owned(),
            None => in_path(parts, state).await?,
        };
        Ok(Self(device(&id)?))
    }
}

/// The id of a device that no parameter of the path names: that of [`IMPORT_PATH`].
pub(crate) fn id_of_import(path: &str) -> Option<&'static str> {
    (path == IMPORT_PATH).then_some("import")
}

/// A refused report that is not there.
pub(crate) fn unknown_quarantined(id: &str) -> Problem {
    Problem::unknown("unknown_quarantined", format!("there is no refused report {}", quoted(id)))
}

/// A delivery that is not there.
pub(crate) fn unknown_delivery(id: &str) -> Problem {
    Problem::unknown("unknown_delivery", format!("there is no delivery {}", quoted(id)))
}

/// A command that is not there.
pub(crate) fn unknown_command(id: &str) -> Problem {
    Problem::unknown("unknown_command", format!("there is no command {}", quoted(id)))
}

/// The id of a task.
///
/// # Errors
/// `unknown_task` for what is none.
pub(crate) fn task_id(id: &str) -> Result<EntityId, Problem> {
    EntityId::from_text(TASK_ID_PREFIX, id).ok_or_else(|| unknown_task(id))
}

/// A task that is not there.
pub(crate) fn unknown_task(id: &str) -> Problem {
    Problem::unknown("unknown_task", format!("there is no task {}", quoted(id)))
}

/// A campaign that is not there.
pub(crate) fn unknown_campaign(id: &str) -> Problem {
    Problem::unknown("unknown_campaign", format!("there is no campaign {}", quoted(id)))
}

/// An operation that is not there.
pub(crate) fn unknown_operation(id: &str) -> Problem {
    Problem::unknown("unknown_operation", format!("there is no operation {}", quoted(id)))
}

/// A device that is not there.
pub(crate) fn unknown_device(id: &str) -> Problem {
    let detail = format!("device {} is not registered; POST /v1/devices registers one", quoted(id));
    Problem::unknown("unknown_device", detail)
}

/// A client that is not there.
pub(crate) fn unknown_client(id: &str) -> Problem {
    let detail = format!("client {} is not registered; POST /v1/clients registers one", quoted(id));
    Problem::unknown("unknown_client", detail)
}

fn device(id: &str) -> Result<DeviceId, Problem> {
    DeviceId::new(id).ok_or_else(|| unknown_device(id))
}

fn client(id: &str) -> Result<ClientId, Problem> {
    ClientId::new(id).ok_or_else(|| unknown_client(id))
}

fn portal(id: &str) -> Result<Incarnation, Problem> {
    let number = id.strip_prefix(PORTAL_ID_PREFIX).and_then(|number| number.parse().ok());
    let unknown = || Problem::unknown("unknown_portal", format!("there is no open portal {}", quoted(id)));
    number.map(Incarnation).ok_or_else(unknown)
}

async fn in_path<T, S>(parts: &mut Parts, state: &S) -> Result<T, Refused>
where
    T: serde::de::DeserializeOwned + Send,
    S: Send + Sync,
{
    PathParameters::<T>::from_request_parts(parts, state).await.map(|PathParameters(ids)| ids)
}
