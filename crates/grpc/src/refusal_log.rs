//! The log lines about what is refused: calls for want of a right token, and reports. The metrics
//! miss none of either.

use std::net::SocketAddr;
use std::sync::Arc;

use base::Problem;
use base::log_quota::LogQuota;
use engine::Rejection;
use tracing::{info, warn};

/// Writes them, as many as their quotas allow. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RefusalLog {
    calls: Arc<LogQuota>,
    reports: Arc<LogQuota>,
}

impl Default for RefusalLog {
    fn default() -> Self {
        let quota = || Arc::new(LogQuota::of_refusals());
        Self { calls: quota(), reports: quota() }
    }
}

impl RefusalLog {
    /// A call that its caller may not make; `login` is the name of the token, if it is known.
    pub(crate) fn of_call(&self, method: &'static str, code: &str, login: &str, peer: SocketAddr) {
        if let Some(left_out) = self.calls.take() {
            warn!(way = "grpc", method, code, login, %peer, left_out, "refused a gRPC call");
        }
    }

    /// A report.
    pub(crate) fn of_report(&self, rejection: &Rejection, login: &str, peer: SocketAddr) {
        let Some(left_out) = self.reports.take() else { return };
        let Problem { code, detail, .. } = &rejection.problem;
        let device = rejection.device.as_ref().map(|device| device.as_str());
        info!(way = "grpc", device, login, code, detail, %peer, left_out, "refused a report");
    }
}
