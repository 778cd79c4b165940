//! What became of the reports of one way in: counted by result, and the refused ones logged.
//!
//! A flood of bad reports must not become a flood of log lines. For each address and code a few a
//! minute are written, and each says how many were left out. The counters miss none. What senders
//! chose - ids, topics, names - is recorded as text, which the log escapes.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use base::{DeviceId, LogLimit, Problem, WayIn, address};
use net::metrics::LabelCounter;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// What became of the reports of one way in.
#[derive(Debug)]
pub(crate) struct ReportMetrics {
    way: WayIn,
    results: LabelCounter,
    accepted: Counter,
    log: LogLimit<(Option<IpAddr>, &'static str)>,
}

impl ReportMetrics {
    pub(crate) fn new(way: WayIn) -> Self {
        let results = LabelCounter::new("result");
        let accepted = results.counter("accepted");
        Self { way, results, accepted, log: LogLimit::default() }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let name = format!("fieldpost_{}_reports", self.way.as_str());
        self.results.register(registry, &name, "Reports by result: accepted, or the code of the refusal");
    }

    pub(crate) fn accepted(&self, reports: u64) {
        self.accepted.inc_by(reports);
    }

    /// Counts a refused report that is logged by its way in.
    pub(crate) fn count_refused(&self, problem: &Problem) {
        self.results.count(problem.code);
    }

    /// Counts a refused report; of its sender the log says what is known.
    pub(crate) fn refused_from(&self, problem: &Problem, sender: ReportSender<'_>) {
        self.results.count(problem.code);
        let limited_with = (sender.peer.map(|peer| address::sender(peer.ip())), problem.code);
        if let Some(left_out) = self.log.take(limited_with, Instant::now()) {
            let ReportSender { device, topic, login, client, peer } = sender;
            tracing::info!(
                way = self.way.as_str(),
                device = device.map(DeviceId::as_str),
                topic,
                login,
                client,
                peer = peer.map(tracing::field::display),
                code = problem.code,
                detail = problem.detail,
                left_out,
                "refused a report"
            );
        }
    }
}

/// Who sent a report, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportSender<'a> {
    pub(crate) device: Option<&'a DeviceId>,
    /// Where it was published: a topic, if no device can be named, or a queue.
    pub(crate) topic: Option<&'a str>,
    /// The username; empty where none is asked for, or known.
    pub(crate) login: &'a str,
    pub(crate) client: &'a str,
    /// Who is connected, a broker too; `None` for bytes that came over no socket.
    pub(crate) peer: Option<SocketAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_counted() {
        let metrics = ReportMetrics::new(WayIn::Mqtt);
        for _ in 0..3 {
            let sender = ReportSender { device: None, topic: Some("out"), login: "", client: "", peer: None };
            metrics.refused_from(&Problem::unreadable("x"), sender);
        }
        metrics.accepted(2);
        let count = |word| metrics.results.counter(word).get();
        assert_eq!((count("unreadable"), count("accepted")), (3, 2));
    }
}
