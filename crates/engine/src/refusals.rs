//! Refusals that more than one part of the engine gives, so that they read the same everywhere.

use base::{ClientId, DeviceId, Problem};

pub(crate) fn unknown_client(id: &ClientId) -> Problem {
    Problem::unknown(
        "unknown_client",
        format!("client {id} is not registered; POST /v1/clients registers it"),
    )
}

pub(crate) fn unknown_device(id: &DeviceId) -> Problem {
    Problem::unknown(
        "unknown_device",
        format!("device {id} is not registered; POST /v1/devices registers it"),
    )
}
