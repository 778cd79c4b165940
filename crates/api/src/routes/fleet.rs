//! `/v1/fleet/count`: how many devices a selection means, and how they are spread.

use axum::extract::State;
use engine::fleet::selection::SelectionKey;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::openapi::refusals::OF_A_READ;
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::shape::FleetCountShape;

/// Values that an answer counts at most.
const VALUES_MAX: usize = 1_000;

pub(super) fn routes() -> Routes {
    let counted = Call::new("How many devices a selection means, also for each value of a key")
        .selection()
        .query("by", words::selection_key())
        .gives::<FleetCountShape<'_>>(200, "the counts")
        .refuses(OF_A_READ);
    Routes::default().get("/v1/fleet/count", count, counted)
}

async fn count(State(api): State<ApiState>, mut params: Params) -> Result<ApiAnswer, Refused> {
    let selection = params.selection(api.engine())?.unwrap_or_default();
    let right = "a label's key, or kind, connection, connected, answering or client";
    let by = params.take("by", right, SelectionKey::read)?;
    params.end()?;
    let engine = api.engine().clone();
    let counts = move || {
        Ok(match by {
            Some(by) => (engine.fleet().count_by(&selection, &by, VALUES_MAX), true),
            None => (engine.fleet().count(&selection).into(), false),
        })
    };
    let place = api.shared.lists.enter_as(&params.whose())?;
    let (counts, is_by) = place.run(counts).await?;
    Ok(ApiAnswer::ok(&FleetCountShape::new(&counts, is_by, api.engine().place_labels())))
}
