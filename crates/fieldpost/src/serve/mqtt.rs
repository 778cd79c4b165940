//! The MQTT listener as the settings want it.

use std::sync::Arc;

use base::locks::locked;
use gateway::mqtt::{MqttLimits, MqttListener};
use tokio::task::JoinSet;

use super::edge::EdgeContext;
use super::host::ServerProcess;
use super::ready_file::Addresses;
use super::{ServeFailure, access, because, no_listener};

/// Opens it, if it is on.
pub(super) async fn open(
    edge: &EdgeContext<'_>,
    host: &mut ServerProcess,
    addresses: &mut Addresses,
    tasks: &mut JoinSet<()>,
) -> Result<(), ServeFailure> {
    let EdgeContext { settings, shares, .. } = edge;
    let Some(listen) = settings.mqtt.listen else { return Ok(()) };
    let limits = MqttLimits {
        connections_max: shares.mqtt,
        connections_per_login_max: settings.mqtt.connections_per_login_max,
        handshakes_max: shares.mqtt_handshakes,
        mirror: settings.mqtt.mirror,
        ..MqttLimits::default()
    };
    let bound = MqttListener::bind(listen, edge.engine.clone(), limits).await;
    let listener = bound.map_err(|error| no_listener("mqtt.listen", listen, &error))?;
    let mut listener = listener.with_open_files(shares.files.clone()).with_kinds(Arc::clone(&settings.kinds));
    if let Some(logins) = access::logins(settings).map_err(because("auth.mqtt"))? {
        listener = listener.with_logins(logins);
    }
    if let Some(source) = edge.tls {
        listener = listener.with_tls(source.clone());
    }
    listener.register_metrics(&mut locked(edge.metrics));
    host.serves_mqtt(listener.connections(), shares);
    addresses.mqtt = Some(listener.local_addr().map_err(because("mqtt.listen"))?);
    tasks.spawn(listener.run(edge.stop.subscribe()));
    Ok(())
}
