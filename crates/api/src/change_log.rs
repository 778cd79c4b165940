//! Log lines for changes made through the API, and for refused callers.
//!
//! A line names the caller and its address; paths and names are escaped. Work is not logged, as
//! metrics count it: jobs, messages of streams, coordination, reports, and sending and answering
//! commands. A flood of refused callers must not fill the log, so their lines have a limit.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use axum::http::{Method, StatusCode};
use axum::response::Response;
use base::{CallerName, LogLimit, address};
use compact_str::CompactString;
use net::problem::Code;
use tracing::info;

use crate::metrics;

/// What a request asked, from where.
#[derive(Debug)]
pub(crate) struct LoggedRequest {
    pub method: Method,
    pub path: CompactString,
    pub peer: Option<SocketAddr>,
}

/// The log of changes and refusals.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    refusals: LogLimit<(Option<IpAddr>, &'static str)>,
}

impl ChangeLog {
    /// A request to `route` was answered.
    pub(crate) fn answered(&self, asked: &LoggedRequest, route: &str, response: &Response) {
        let status = response.status();
        let name = response.extensions().get::<CallerName>();
        if status.is_success() && is_change(&asked.method, route) {
            let LoggedRequest { method, path, peer } = asked;
            let (caller, peer) = (name_of(name), peer.map(tracing::field::display));
            let (method, path, status) = (metrics::name(method), cut(path), status.as_u16());
            info!(caller, peer, %method, path, status, "changed through the API");
        } else if let Some(code) = refusal_of_a_caller(response) {
            self.refused(asked, code, name);
        }
    }

    fn refused(&self, asked: &LoggedRequest, code: &'static str, name: Option<&CallerName>) {
        let LoggedRequest { method, path, peer } = asked;
        let Some(left_out) = self.refusals.take((sender(*peer), code), Instant::now()) else {
            return;
        };
        let (login, peer) = (name_of(name), peer.map(tracing::field::display));
        let (method, path) = (metrics::name(method), cut(path));
        info!(way = "http", login, code, peer, %method, path, left_out, "refused a caller");
    }
}

/// Whose lines are limited together.
fn sender(peer: Option<SocketAddr>) -> Option<IpAddr> {
    peer.map(|peer| address::sender(peer.ip()))
}

/// A path may be as long as a head.
fn cut(path: &str) -> &str {
    const BYTES_MAX: usize = 256;
    &path[..path.floor_char_boundary(BYTES_MAX)]
}

fn name_of(name: Option<&CallerName>) -> Option<&str> {
    name.map(|name| &*name.0)
}

/// Refusals of who calls, not of what is asked.
fn refusal_of_a_caller(response: &Response) -> Option<&'static str> {
    let of_a_caller = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS]
        .contains(&response.status());
    response.extensions().get::<Code>().filter(|_| of_a_caller).map(|code| code.0)
}

/// Whether a call changes what there is. One that is not known to be work does.
fn is_change(method: &Method, route: &str) -> bool {
    !method.is_safe() && !WORK.iter().any(|(of, work)| *work == route && *of == method.as_str())
}

/// What applications and devices do all the time, by method and by route as the router writes it.
const WORK: [(&str, &str); 30] = [
    ("PUT", "/v1/cache/{ns}/get"),
    ("POST", "/v1/cache/{ns}/get"),
    ("DELETE", "/v1/cache/{ns}/get"),
    ("PUT", "/v1/cache/{ns}/delete"),
    ("POST", "/v1/cache/{ns}/delete"),
    ("DELETE", "/v1/cache/{ns}/delete"),
    ("PUT", "/v1/cache/{ns}/{key}"),
    ("DELETE", "/v1/cache/{ns}/{key}"),
    ("POST", "/v1/channels/{ns}/{name}"),
    ("POST", "/v1/devices/{id}/ack"),
    ("POST", "/v1/devices/{id}/commands"),
    ("POST", "/v1/limits/{ns}/{name}"),
    ("POST", "/v1/locks/{ns}/{name}"),
    ("POST", "/v1/locks/{ns}/{name}/extend"),
    ("POST", "/v1/locks/{ns}/{name}/release"),
    ("POST", "/v1/queues/{ns}/{queue}/ack"),
    ("PATCH", "/v1/queues/{ns}/{queue}/aliases/{alias}"),
    ("DELETE", "/v1/queues/{ns}/{queue}/aliases/{alias}"),
    ("POST", "/v1/queues/{ns}/{queue}/consume"),
    ("POST", "/v1/queues/{ns}/{queue}/jobs"),
    ("PATCH", "/v1/queues/{ns}/{queue}/jobs/{id}"),
    ("DELETE", "/v1/queues/{ns}/{queue}/jobs/{id}"),
    ("POST", "/v1/queues/{ns}/{queue}/jobs/{id}/ack"),
    ("POST", "/v1/queues/{ns}/{queue}/jobs/{id}/extend"),
    ("POST", "/v1/queues/{ns}/{queue}/jobs/{id}/release"),
    ("PUT", "/v1/relays/{name}"),
    ("POST", "/v1/reports"),
    ("POST", "/v1/streams/{ns}/{stream}/messages"),
    ("POST", "/v1/streams/{ns}/{stream}/subscriptions/{name}/commit"),
    ("POST", "/v1/streams/{ns}/{stream}/subscriptions/{name}/read"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::openapi::Documented;
    use crate::routes::documented;

    /// What leaves a line. A new call that is no safe one goes here or to [`WORK`].
    const CHANGES: [&str; 59] = [
        "POST /v1/campaigns",
        "DELETE /v1/campaigns/{id}",
        "PATCH /v1/campaigns/{id}",
        "PUT /v1/campaigns/{id}",
        "POST /v1/campaigns/{id}/pause",
        "POST /v1/campaigns/{id}/resume",
        "POST /v1/clients",
        "DELETE /v1/clients/{id}",
        "PATCH /v1/clients/{id}",
        "POST /v1/clients/{id}/portal",
        "DELETE /v1/clients/{id}/portal/{portal_id}",
        "POST /v1/clients/{id}/resend",
        "POST /v1/clients/{id}/rotate-secret",
        "POST /v1/clients/{id}/test",
        "DELETE /v1/commands/{id}",
        "POST /v1/commands/{id}/retry",
        "POST /v1/deliveries/{id}/retry",
        "POST /v1/desired",
        "DELETE /v1/desired/{id}",
        "POST /v1/devices",
        "POST /v1/devices/import",
        "DELETE /v1/devices/import",
        "PATCH /v1/devices/import",
        "DELETE /v1/devices/{id}",
        "PATCH /v1/devices/{id}",
        "DELETE /v1/devices/{id}/clients/{client_id}",
        "PUT /v1/devices/{id}/clients/{client_id}",
        "DELETE /v1/devices/{id}/desired/{key}",
        "PUT /v1/devices/{id}/desired/{key}",
        "DELETE /v1/nodes/{name}",
        "PUT /v1/nodes/{name}",
        "POST /v1/operations",
        "DELETE /v1/operations/{id}",
        "DELETE /v1/quarantine/{id}",
        "POST /v1/quarantine/{id}/replay",
        "DELETE /v1/queues/{ns}/{queue}",
        "DELETE /v1/queues/{ns}/{queue}/control",
        "PUT /v1/queues/{ns}/{queue}/control",
        "DELETE /v1/queues/{ns}/{queue}/dead",
        "POST /v1/queues/{ns}/{queue}/dead/respawn",
        "POST /v1/queues/{ns}/{queue}/pause",
        "POST /v1/queues/{ns}/{queue}/resume",
        "PUT /v1/queues/{ns}/{queue}/settings",
        "POST /v1/rollouts",
        "DELETE /v1/rollouts/{id}",
        "PUT /v1/rollouts/{id}",
        "POST /v1/rollouts/{id}/approve",
        "POST /v1/rollouts/{id}/pause",
        "POST /v1/rollouts/{id}/resume",
        "DELETE /v1/streams/{ns}/{stream}",
        "DELETE /v1/streams/{ns}/{stream}/copies/{name}",
        "PUT /v1/streams/{ns}/{stream}/copies/{name}",
        "POST /v1/streams/{ns}/{stream}/copies/{name}/pause",
        "POST /v1/streams/{ns}/{stream}/copies/{name}/resume",
        "PUT /v1/streams/{ns}/{stream}/settings",
        "DELETE /v1/streams/{ns}/{stream}/subscriptions/{name}",
        "PUT /v1/streams/{ns}/{stream}/subscriptions/{name}",
        "POST /v1/tasks",
        "DELETE /v1/tasks/{id}",
    ];

    #[test]
    fn every_call_is_a_change_or_work() {
        let calls: Vec<(Method, &str)> =
            documented().into_iter().map(|Documented { method, path, .. }| (method, path)).collect();
        let named = |(method, path): &(Method, &str)| format!("{method} {path}");
        let found: BTreeSet<_> =
            calls.iter().filter(|(method, path)| is_change(method, path)).map(named).collect();
        let listed: BTreeSet<_> = CHANGES.map(str::to_owned).into();
        let unsorted: Vec<_> = found.difference(&listed).collect();
        let gone: Vec<_> = listed.difference(&found).collect();
        assert!(unsorted.is_empty() && gone.is_empty(), "new ones: {unsorted:?}, and gone: {gone:?}");
        for (method, route) in WORK {
            let is_there = calls.iter().any(|(of, path)| of == method && *path == route);
            assert!(is_there, "there is no {method} {route}");
        }
    }

    #[test]
    fn what_only_looks_is_no_change_and_what_is_not_known_is_one() {
        for (method, route, expect) in [
            (Method::GET, "/v1/clients", false),
            (Method::HEAD, "/v1/clients", false),
            (Method::OPTIONS, "/v1/clients", false),
            (Method::PUT, "/v1/reports", true),
            (Method::POST, "/v1/to_come", true),
        ] {
            assert_eq!(is_change(&method, route), expect, "{method} {route}");
        }
    }
}
