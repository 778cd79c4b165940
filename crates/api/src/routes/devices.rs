//! `/v1/devices`: what is registered, and what it is like now.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use base::{DeviceId, Kind};
use engine::queries::{Device, DeviceFilter};
use engine::records::Connection;

use crate::ApiState;
use crate::answer::Answer;
use crate::body::Text;
use crate::idempotency::Creation;
use crate::page::PageOf;
use crate::params::Params;
use crate::path::{DeviceInPath, unknown_device};
use crate::problem::Refused;
use crate::shape::{self, DeviceShape};

pub(super) fn routes() -> Router<ApiState> {
    Router::new()
        .route("/v1/devices", get(list).post(create))
        .route("/v1/devices/{id}", get(show).patch(change).delete(remove))
}

async fn create(State(api): State<ApiState>, creation: Creation) -> Result<Answer, Refused> {
    let create = async |api: ApiState, body: String| {
        let device = api.engine().create_device(shape::new_device(&body)?).await?;
        Ok(Answer::created(&DeviceShape::from(&device)))
    };
    creation.once(&api, create).await
}

async fn list(State(api): State<ApiState>, mut params: Params) -> Result<Answer, Refused> {
    let connections = [Connection::Online, Connection::Lost, Connection::NeverSeen];
    let filter = DeviceFilter {
        kind: params.take(
            "kind",
            "a kind: a lower-case letter, then those, digits, '_' and '-'",
            Kind::new,
        )?,
        labels: params.prefixed("label.", "label.KEY"),
        connection: params.word("connection", &connections, Connection::as_str)?,
    };
    let page: PageOf<DeviceId> = params.page()?;
    let (queries, after, to_read) = (api.queries(), page.after.clone(), page.to_read());
    let devices = api.shared.lists.run(move || queries.devices(&filter, after.as_ref(), to_read)).await?;
    Ok(shown(&page, &devices))
}

/// The answer that shows a page of devices.
pub(super) fn shown(page: &PageOf<DeviceId>, devices: &[Device]) -> Answer {
    page.show(devices.iter().collect(), |device| device.profile.id.clone(), DeviceShape::from)
}

async fn show(State(api): State<ApiState>, DeviceInPath(id): DeviceInPath) -> Result<Answer, Refused> {
    let queries = api.queries();
    let read = move || queries.device(&id)?.ok_or_else(|| unknown_device(id.as_str()));
    let device = api.shared.lookups.run(read).await?;
    Ok(Answer::ok(&DeviceShape::from(&device)))
}

async fn change(
    State(api): State<ApiState>,
    DeviceInPath(id): DeviceInPath,
    Text(body): Text,
) -> Result<Answer, Refused> {
    let device = api.engine().patch_device(id, shape::change_of_device(&body)?).await?;
    Ok(Answer::ok(&DeviceShape::from(&device)))
}

async fn remove(State(api): State<ApiState>, DeviceInPath(id): DeviceInPath) -> Result<Answer, Refused> {
    api.engine().delete_device(id).await?;
    Ok(Answer::nothing())
}
