//! `/v1/devices/{id}/desired`: what is wished of a device, and what it has confirmed.

use axum::extract::State;
use engine::commands::check_name;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::openapi::Call;
use crate::openapi::refusals::{OF_A_READ, UNKNOWN_DEVICE};
use crate::params::Params;
use crate::path::{DesiredInPath, DeviceInPath};
use crate::shape::{self, WishShape, WishesShape};

const OF_DEVICE: &str = "/v1/devices/{id}/desired";
const BY_KEY: &str = "/v1/devices/{id}/desired/{key}";

pub(super) fn routes() -> Routes {
    let listed = Call::new("The desired entries of a device, in order of key")
        .gives::<WishesShape<'_>>(200, "all of them")
        .refuses(&[UNKNOWN_DEVICE, (422, "unknown_parameter")])
        .refuses(OF_A_READ);
    let put = Call::new("Sets the desired value of a key")
        .takes(shape::desired_value_schema())
        .gives::<WishShape<'_>>(200, "the entry; null as value wishes that there were none")
        .refuses(&[
            UNKNOWN_DEVICE,
            (409, "too_many_entries"),
            (422, "invalid_key"),
            (422, "invalid_name"),
            (422, "missing_field"),
            (422, "value_not_allowed"),
            (422, "value_too_deep"),
            (422, "value_too_large"),
        ]);
    let deleted = Call::new("Deletes the desired value of a key")
        .gives_nothing(204, "it is wished")
        .refuses(&[UNKNOWN_DEVICE, (409, "too_many_entries"), (422, "invalid_key"), (422, "invalid_name")]);
    Routes::default().get(OF_DEVICE, list, listed).put(BY_KEY, put_one, put).delete(BY_KEY, delete, deleted)
}

async fn list(
    State(api): State<ApiState>,
    DeviceInPath(device): DeviceInPath,
    params: Params,
) -> Result<ApiAnswer, Refused> {
    params.end()?;
    let queries = api.queries();
    let desired_states = api.shared.lookups.run(move || queries.desired_states(&device)).await?;
    Ok(ApiAnswer::ok(&WishesShape::from(&*desired_states)))
}

async fn put_one(
    State(api): State<ApiState>,
    DesiredInPath(device, key): DesiredInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    check_name("key", &key)?;
    let value = shape::desired_value(&body)?;
    let _held = body.into_memory();
    let desired_state = api.engine().commands().set_desired(device, key, value).await?;
    Ok(ApiAnswer::ok(&WishShape::from(&desired_state)))
}

async fn delete(
    State(api): State<ApiState>,
    DesiredInPath(device, key): DesiredInPath,
) -> Result<ApiAnswer, Refused> {
    check_name("key", &key)?;
    api.engine().commands().set_desired(device, key, None).await?;
    Ok(ApiAnswer::nothing())
}
