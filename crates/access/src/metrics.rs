//! What is told of access in `/metrics`. The names of tokens come from the settings, so there are
//! few.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Default)]
pub(crate) struct TokenMetrics {
    requests: Family<RequestLabels, Counter>,
    unauthorized: Family<Unauthorized, Counter>,
    in_flight: Family<TokenLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    token: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Unauthorized {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    token: String,
}

impl TokenMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Requests with a token, by token and result: admitted, forbidden, limited";
        registry.register("fieldpost_access_requests", help, self.requests.clone());
        let help = "Requests that were refused for want of a valid token, by reason: missing, malformed, unknown, too_many";
        registry.register("fieldpost_access_unauthorized", help, self.unauthorized.clone());
        let help = "Requests that are under way, by token";
        registry.register("fieldpost_access_requests_in_flight", help, self.in_flight.clone());
    }

    pub(crate) fn count_request(&self, token: &str, result: &'static str) {
        self.requests.get_or_create(&RequestLabels { token: token.to_owned(), result }).inc();
    }

    pub(crate) fn unauthorized(&self, reason: &'static str) {
        self.unauthorized.get_or_create(&Unauthorized { reason }).inc();
    }

    pub(crate) fn in_flight(&self, token: &str) -> Gauge {
        self.in_flight.get_or_create(&TokenLabels { token: token.to_owned() }).clone()
    }
}
