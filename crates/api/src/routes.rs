//! The routes, a file for each thing they are about. A route is added together with what the
//! OpenAPI document says of it.

mod backup;
mod bulk_desired;
mod cache;
mod caller;
mod campaigns;
mod channels;
mod clients;
pub(crate) mod commands;
mod consuming;
mod copies;
pub(crate) mod dead;
pub(crate) mod deliveries;
mod desired;
pub(crate) mod devices;
mod fleet;
mod health;
mod history;
mod import;
pub(crate) mod jobs;
mod limits;
mod links;
pub(crate) mod live;
mod locks;
pub(crate) mod messages;
mod nodes;
mod notices;
mod openapi;
mod operations;
mod overview;
mod polling;
mod portals;
pub(crate) mod quarantine;
mod query_check;
mod queue_control;
mod queues;
mod relays;
mod rollouts;
pub(crate) mod stats;
mod streams;
mod subscriptions;
mod summary;
mod system;
mod tasks;
mod timeline;
mod weights;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, on};

use self::query_check::QueryCheck;
use crate::ApiState;
use crate::middleware::only_with_a_store;
use crate::openapi::refusals::OF_A_QUERY;
use crate::openapi::{Call, Documented, calls_of_reports};

/// Routes with their description.
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<ApiState>,
    calls: Vec<Documented>,
}

/// How a route is added for one method.
macro_rules! methods {
    ($($name:ident $method:ident),*) => {$(
        pub(crate) fn $name<H, T>(mut self, path: &'static str, handler: H, call: Call) -> Self
        where
            H: Handler<T, ApiState>,
            T: 'static,
        {
            let handler = QueryCheck::of(handler, path, &call);
            let call = if handler.takes_query() { call } else { call.refuses(OF_A_QUERY) };
            let route = on::<QueryCheck<H>, T, ApiState>(MethodFilter::$method, handler);
            self.router = self.router.route(path, route);
            self.calls.push(Documented { method: Method::$method, path, call });
            self
        }
    )*};
}

impl Routes {
    methods! { get GET, post POST, put PUT, patch PATCH, delete DELETE }

    fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.calls.extend(other.calls);
        self
    }
}

/// Every route of this crate, and the document that tells of them.
pub(crate) fn all(api: &ApiState) -> Router {
    let router = of_the_store().router.route_layer(only_with_a_store(api.clone()));
    router.merge(of_the_server().router).merge(openapi::routes()).with_state(api.clone())
}

/// What every route does, of this crate and of reports.
pub(crate) fn documented() -> Vec<Documented> {
    let own = of_the_store().merge(of_the_server()).calls;
    own.into_iter().chain(calls_of_reports()).collect()
}

fn of_the_store() -> Routes {
    clients::routes()
        .merge(devices::routes())
        .merge(fleet::routes())
        .merge(portals::routes())
        .merge(notices::routes())
        .merge(links::routes())
        .merge(history::routes())
        .merge(import::routes())
        .merge(deliveries::routes())
        .merge(quarantine::routes())
        .merge(stats::routes())
        .merge(backup::routes())
        .merge(queues::routes())
        .merge(jobs::routes())
        .merge(consuming::routes())
        .merge(queue_control::routes())
        .merge(locks::routes())
        .merge(limits::routes())
        .merge(cache::routes())
        .merge(channels::routes())
        .merge(dead::routes())
        .merge(commands::routes())
        .merge(desired::routes())
        .merge(polling::routes())
        .merge(timeline::routes())
        .merge(rollouts::routes())
        .merge(bulk_desired::routes())
        .merge(tasks::routes())
        .merge(campaigns::routes())
        .merge(weights::routes())
        .merge(streams::routes())
        .merge(messages::routes())
        .merge(subscriptions::routes())
        .merge(copies::routes())
        .merge(nodes::routes())
        .merge(operations::routes())
        .merge(live::routes())
        .merge(summary::routes())
}

fn of_the_server() -> Routes {
    health::routes()
        .merge(caller::routes())
        .merge(overview::routes())
        .merge(relays::routes())
        .merge(system::routes())
}
