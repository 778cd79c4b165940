//! Log lines for reports refused over HTTP: a few a minute for each sender and code. Text that a
//! sender chose is quoted and escaped.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use axum::extract::{ConnectInfo, Request};
use base::{CallerName, DeviceId, LogLimit, Problem, address};
use net::shares::SenderKey;

/// Who sent reports: the address, and the name of the token that they came with.
#[derive(Clone, Debug, Default)]
pub(super) struct HttpSender {
    peer: Option<SocketAddr>,
    login: Option<CallerName>,
    /// Whose share its bodies take.
    pub(super) key: SenderKey,
}

impl HttpSender {
    /// Of a request.
    pub(super) fn of(request: &Request) -> Self {
        let extensions = request.extensions();
        let peer = extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
        let login = extensions.get::<CallerName>().cloned();
        Self { peer, login, key: SenderKey::of(extensions) }
    }
}

/// The log.
#[derive(Debug, Default)]
pub(super) struct Refusals(LogLimit<(Option<IpAddr>, &'static str)>);

impl Refusals {
    /// A report was refused; `from` says where among what was sent it is.
    pub(super) fn log(
        &self,
        sender: &HttpSender,
        device: Option<&DeviceId>,
        problem: &Problem,
        from: impl Display,
    ) {
        let source = sender.peer.map(|peer| address::sender(peer.ip()));
        let Some(left_out) = self.0.take((source, problem.code), Instant::now()) else { return };
        tracing::info!(
            way = "http",
            device = device.map(DeviceId::as_str),
            login = sender.login.as_ref().map(|login| &*login.0),
            code = problem.code,
            detail = problem.detail,
            peer = sender.peer.map(tracing::field::display),
            %from,
            left_out,
            "refused a report"
        );
    }
}
