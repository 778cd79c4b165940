//! `/v1/devices/import`: a fleet at once, a line for each device.

use axum::extract::{Request, State};
use net::body::BodyPieces;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::import::take;
use crate::openapi::Call;
use crate::path::IMPORT_PATH;
use crate::shape::{self, ImportedShape};

pub(super) fn routes() -> Routes {
    let call = Call::new("Registers devices, or changes those that are there to what their lines say")
        .takes_lines(&shape::import_device_schema())
        .gives::<ImportedShape>(200, "what became of the lines; all that was taken is durable")
        .refuses(&[(400, "unreadable"), (408, "body_too_slow")]);
    Routes::default().post(IMPORT_PATH, import, call)
}

/// What the body is said to be does not matter: it is read as NDJSON.
async fn import(State(api): State<ApiState>, request: Request) -> Result<ApiAnswer, Refused> {
    Ok(ApiAnswer::ok(&take(api.engine(), BodyPieces::of(request.into_body())).await?))
}
