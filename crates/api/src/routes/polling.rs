//! `/v1/devices/{id}/poll`: the next command, for a device that has no MQTT session. Its answer
//! comes in as a report does, which is another crate's route.

use axum::extract::State;
use axum::http::{HeaderMap, Method};
use base::Problem;
use base::limits::POLL_WAIT_MAX;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::openapi::refusals::UNKNOWN_DEVICE;
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::{DeviceInPath, unknown_device};
use crate::shape::PolledShape;

pub(super) fn routes() -> Routes {
    let polled =
        Call::new("The command that the device has to answer next; it is reachable while this waits")
            .query("wait", words::duration())
            .gives::<PolledShape<'_>>(200, "the command, again until it is answered")
            .gives_nothing(204, "there was none in time")
            .refuses(&[UNKNOWN_DEVICE, (503, "too_many_waiting")]);
    Routes::default().get("/v1/devices/{id}/poll", poll, polled)
}

async fn poll(
    State(api): State<ApiState>,
    DeviceInPath(device): DeviceInPath,
    method: Method,
    headers: HeaderMap,
    params: Params,
) -> Result<ApiAnswer, Refused> {
    refuse_foreign_pages(&headers)?;
    let whose = params.whose();
    let wait = params.wait_alone(POLL_WAIT_MAX)?;
    if method == Method::HEAD {
        // There is no body for a command: none is taken.
        let queries = api.queries();
        let known = move || queries.place(&device)?.ok_or_else(|| unknown_device(device.as_str()));
        api.shared.lookups.run(known).await?;
        return Ok(ApiAnswer::nothing());
    }
    let _share = (!wait.is_zero()).then(|| api.shared.polls.try_take(&whose)).transpose()?;
    let commands = api.engine().commands();
    let command = tokio::select! {
        command = commands.poll(device, wait) => command?,
        () = api.stopped() => None,
    };
    Ok(command.map_or_else(ApiAnswer::nothing, |command| ApiAnswer::ok(&PolledShape::from(&command))))
}

/// A GET that acts: an image of a foreign page would make it, without an `Origin`. Browsers say so
/// otherwise.
fn refuse_foreign_pages(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get("sec-fetch-site").map(|site| site.as_bytes()) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(Problem::new(403, "foreign_origin", "a page of another origin may not poll")),
    }
}
