//! An engine over an empty store, and a sender that posts to this machine too.

use std::sync::Arc;
use std::time::Duration;

use base::{Lineage, SystemClock, Timestamp};
use engine::Engine;
use engine::settings::RetrySettings;
use rustls::RootCertStore;
use store::MemoryStore;

use crate::connector::Connector;
use crate::guard::AddressGuard;
use crate::metrics::WebhookMetrics;
use crate::roots;
use crate::sender::Sender;

/// It tries so often, and soon again.
pub(crate) async fn engine(attempts_max: u32) -> Engine {
    let settings = engine::EngineSettings {
        retry: RetrySettings { base: Duration::from_millis(5), max: Duration::from_millis(20), attempts_max },
        ..engine::EngineSettings::for_tests()
    };
    let store = Arc::new(MemoryStore::new(Lineage(1), 4));
    let clock = Arc::new(SystemClock::start(Timestamp(0)));
    Engine::start(settings, store, clock).await.expect("an empty store loads")
}

pub(crate) fn sender() -> Sender {
    let connector = Connector::new(AddressGuard { allow_private: true }, roots::tls(RootCertStore::empty()));
    let clock = Arc::new(SystemClock::start(Timestamp(0)));
    Sender::new(clock, Duration::from_secs(30), connector, crate::IN_FLIGHT_MAX, WebhookMetrics::new())
}
