//! Conversations over a stream that is no socket. Whoever has a device's bytes from elsewhere, as
//! fuzzing and tests do, has them served exactly as the listener would.
//!
//! Everything from the CONNECT on is the listener's own code. What only a socket has - TLS, places,
//! the order to stop - is not here.

use std::sync::Arc;

use engine::Engine;
use net::listen::Capacity;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::MqttShared;
use super::handshake::answer_connect;
use super::limits::MqttLimits;

/// Serves conversations of one engine, each of which is handed in; they share sessions like
/// connections of one listener.
#[derive(Clone, Debug)]
pub struct Dialogues {
    shared: Arc<MqttShared>,
}

impl Dialogues {
    /// Open to everybody.
    #[must_use]
    pub fn new(engine: Engine, limits: MqttLimits) -> Self {
        Self { shared: Arc::new(MqttShared::new(engine, limits)) }
    }

    /// Puts `fieldpost_mqtt_*` into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.shared.metrics.register(registry);
    }

    /// Serves one connection until it is closed and all that it handed in is settled.
    pub async fn converse<S: AsyncRead + AsyncWrite + Unpin>(&self, mut stream: S) {
        let places = Arc::new(Capacity::new(1));
        let handshake = Box::pin(answer_connect(&mut stream, &self.shared, None, || places.take()));
        let done = timeout(self.shared.limits.connect_timeout, handshake).await;
        match done.unwrap_or(Err("timeout")) {
            Ok(done) => {
                self.shared.metrics.connects.count("accepted");
                done.into_session(stream, &self.shared).run().await;
            }
            Err(result) => self.shared.metrics.connects.count(result),
        }
    }
}
