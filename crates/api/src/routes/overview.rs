//! `/v1/overview`: how everything stands, for people who look.

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::openapi::Call;
use crate::overview;
use crate::shape::OverviewShape;

pub(super) fn routes() -> Routes {
    let shown = Call::new("The state of the whole server: rates, counts, and what fails now")
        .gives::<OverviewShape<'_>>(200, "the overview, at most a second old");
    Routes::default().get("/v1/overview", show, shown)
}

async fn show(State(api): State<ApiState>, caller: Option<Extension<Caller>>) -> Result<ApiAnswer, Refused> {
    let overview = overview::latest(&api).await?;
    Ok(ApiAnswer { status: StatusCode::OK, body: overview.to(caller.as_deref()) })
}
