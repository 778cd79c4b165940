//! Where it listens, and for how many: a listener that asks nobody who they are stays on loopback.

use std::net::SocketAddr;

use super::reader::{ReadValue, SettingsReader};
use super::shape::{AddressOrOff, AddressShape, Whole};

pub(super) fn http_listen(from: &mut SettingsReader) -> SocketAddr {
    let found = from.read("http.listen", &AddressShape);
    let address = found.value;
    stays_on_loopback(from, "http.listen", "auth.tokens", &found, Some(address));
    address
}

pub(super) fn grpc_listen(from: &mut SettingsReader) -> Option<SocketAddr> {
    let found = from.read("grpc.listen", &AddressOrOff);
    let address = found.value;
    stays_on_loopback(from, "grpc.listen", "auth.tokens", &found, address);
    address
}

pub(super) fn mqtt_listen(from: &mut SettingsReader) -> Option<SocketAddr> {
    let found = from.read("mqtt.listen", &AddressOrOff);
    let address = found.value;
    stays_on_loopback(from, "mqtt.listen", "auth.mqtt", &found, address);
    address
}

/// A namespace's tokens guard only what is asked about it, so the list is that of the HTTP API.
pub(super) fn lmstfy_listen(from: &mut SettingsReader, key: &'static str) -> Option<SocketAddr> {
    let found = from.read(key, &AddressOrOff);
    let address = found.value;
    stays_on_loopback(from, key, "auth.tokens", &found, address);
    address
}

pub(super) fn connections_max(from: &mut SettingsReader, key: &'static str) -> usize {
    from.read(key, &Whole { least: 1, most: 1_000_000 }).value as usize
}

/// Whoever reaches a listener without a list of who may do what may do anything, so only this
/// machine may reach it.
fn stays_on_loopback<T>(
    from: &mut SettingsReader,
    key: &'static str,
    list: &'static str,
    found: &ReadValue<T>,
    address: Option<SocketAddr>,
) {
    let Some(address) = address.filter(|address| !address.ip().to_canonical().is_loopback()) else { return };
    if from.has_entries(list) {
        return;
    }
    from.refuse_at(
        found.origin.clone(),
        key,
        format!("{address} can be reached from other machines, and no [[{list}]] says who may do what"),
        format!("list them, or write a loopback address, such as 127.0.0.1:{}", address.port()),
    );
}
