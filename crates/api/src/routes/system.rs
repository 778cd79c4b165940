//! `/v1/system`: the server itself, for whoever keeps it running. It answers when the store has
//! failed.

use axum::extract::State;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::openapi::Call;
use crate::openapi::refusals::OF_A_READ;
use crate::shape::SystemShape;

pub(super) fn routes() -> Routes {
    let shown = Call::new("The server itself: health, store, memory, limits and settings in force")
        .gives::<SystemShape<'_>>(200, "the server; secrets among its settings are \"(hidden)\"")
        .refuses(OF_A_READ);
    Routes::default().get("/v1/system", show, shown)
}

/// Sizes of files are asked for, which the disk may keep waiting.
async fn show(State(api): State<ApiState>) -> Result<ApiAnswer, Refused> {
    let asked = api.clone();
    let read = move || Ok(ApiAnswer::ok(&SystemShape::of(&asked)));
    Ok(api.shared.lookups.run(read).await?)
}
