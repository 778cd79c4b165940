//! The routes, a file for each thing they are about.

mod clients;
mod deliveries;
mod devices;
mod health;
mod history;
mod links;

use axum::Router;
use axum::middleware::from_fn_with_state;

use crate::ApiState;
use crate::habits::only_with_a_store;

/// Every route of this crate.
pub(crate) fn all(api: &ApiState) -> Router {
    let of_the_store = clients::routes()
        .merge(devices::routes())
        .merge(links::routes())
        .merge(history::routes())
        .merge(deliveries::routes())
        .route_layer(from_fn_with_state(api.clone(), only_with_a_store));
    of_the_store.merge(health::routes()).with_state(api.clone())
}
