//! `/v1/caller`: who calls, and what its token may do.

use access::Caller;
use axum::Extension;
use axum::extract::State;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::openapi::Call;
use crate::shape::CallerShape;

pub(super) fn routes() -> Routes {
    let shown = Call::new("Who calls, and what the token may do").gives::<CallerShape>(200, "the caller");
    Routes::default().get("/v1/caller", show, shown)
}

async fn show(State(api): State<ApiState>, caller: Option<Extension<Caller>>) -> ApiAnswer {
    let caller = caller.map(|Extension(caller)| caller);
    ApiAnswer::ok(&CallerShape::of(api.shared.access.is_open(), caller.as_ref()))
}
