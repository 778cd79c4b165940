//! Log lines for changes made through the API, and for refused callers.
//!
//! A line names the caller and its address; paths and names are escaped. Publishing jobs, working
//! on them, reporting, and sending and answering commands are not logged: metrics count them. A
//! flood of refused callers must not fill the log, so their lines have a limit.

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
pub(crate) struct Asked {
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
    pub(crate) fn answered(&self, asked: &Asked, route: &str, response: &Response) {
        let status = response.status();
        let name = response.extensions().get::<CallerName>();
        if status.is_success() && is_change(&asked.method, route) {
            let Asked { method, path, peer } = asked;
            let (caller, peer) = (name_of(name), peer.map(tracing::field::display));
            let (method, path, status) = (metrics::name(method), cut(path), status.as_u16());
            info!(caller, peer, %method, path, status, "changed through the API");
        } else if let Some(code) = refusal_of_a_caller(response) {
            self.refused(asked, code, name);
        }
    }

    fn refused(&self, asked: &Asked, code: &'static str, name: Option<&CallerName>) {
        let Asked { method, path, peer } = asked;
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

fn is_change(method: &Method, route: &str) -> bool {
    const WORK: [&str; 4] = ["/jobs", "/aliases/", "/consume", "/ack"];
    let is_work = route.starts_with("/v1/queues/") && WORK.iter().any(|part| route.contains(part));
    const SAID: [&str; 4] =
        ["/v1/reports", "/v1/devices/{id}/ack", "/v1/devices/{id}/commands", "/v1/relays/{name}"];
    !method.is_safe() && !is_work && !SAID.contains(&route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_with_jobs_and_reports_are_no_changes() {
        for (method, route, expect) in [
            (Method::POST, "/v1/clients", true),
            (Method::PATCH, "/v1/devices/{id}", true),
            (Method::PUT, "/v1/queues/{ns}/{queue}/settings", true),
            (Method::DELETE, "/v1/queues/{ns}/{queue}", true),
            (Method::POST, "/v1/queues/{ns}/{queue}/dead/respawn", true),
            (Method::POST, "/v1/quarantine/{id}/replay", true),
            (Method::GET, "/v1/clients", false),
            (Method::POST, "/v1/reports", false),
            (Method::POST, "/v1/queues/{ns}/{queue}/jobs", false),
            (Method::DELETE, "/v1/queues/{ns}/{queue}/aliases/{alias}", false),
            (Method::POST, "/v1/queues/{ns}/{queue}/jobs/{id}/release", false),
            (Method::POST, "/v1/queues/{ns}/{queue}/consume", false),
            (Method::POST, "/v1/queues/{ns}/{queue}/ack", false),
            (Method::PUT, "/v1/relays/{name}", false),
        ] {
            assert_eq!(is_change(&method, route), expect, "{method} {route}");
        }
    }
}
