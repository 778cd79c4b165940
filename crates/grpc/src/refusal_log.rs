//! The log lines about what is refused: calls for want of a right token, and reports. The metrics
//! miss none of either.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use base::{LogLimit, Problem, address};
use engine::Rejection;
use tracing::{info, warn};

/// Logs refusals of calls and reports, a few a minute for each address and code. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrpcRefusalLog {
    /// By address and code.
    calls: Arc<LogLimit<(IpAddr, Box<str>)>>,
    /// By address and code.
    reports: Arc<LogLimit<(IpAddr, &'static str)>>,
}

impl GrpcRefusalLog {
    /// A call that its caller may not make; `login` is the name of the token, if it is known.
    pub(crate) fn of_call(&self, method: &'static str, code: &str, login: &str, peer: SocketAddr) {
        if let Some(left_out) = self.calls.take((address::sender(peer.ip()), code.into()), Instant::now()) {
            warn!(way = "grpc", method, code, login, %peer, left_out, "refused a gRPC call");
        }
    }

    /// A report.
    pub(crate) fn of_report(&self, rejection: &Rejection, login: &str, peer: SocketAddr) {
        let Problem { code, detail, .. } = &rejection.problem;
        let key = (address::sender(peer.ip()), *code);
        let Some(left_out) = self.reports.take(key, Instant::now()) else { return };
        let device = rejection.device.as_ref().map(|device| device.as_str());
        info!(way = "grpc", device, login, code, detail, %peer, left_out, "refused a report");
    }
}
