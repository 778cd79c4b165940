//! Commands to devices, from the caller to the device and back, against the built program. Devices
//! are rumqttc clients of MQTT 3.1.1 and of MQTT 5, or poll over HTTP.

mod answers;
mod desired;
mod device;
mod ordering;
mod outcomes;
pub(crate) mod over_grpc;
mod page;
mod polling;
mod presence;
mod restarts;
mod rollouts;
mod rollouts_over_grpc;
mod selections;

use serde_json::{Value, json};

use crate::contract::rig::{PATIENCE, Rig};

/// A server with two locks, which may take long to answer.
async fn with_locks() -> Rig {
    let rig = Rig::start(&[("FIELDPOST_COMMANDS__ACK_TIMEOUT", "1m")]).await;
    for id in ["0xA", "0xB"] {
        rig.device(&json!({"id": id, "kind": "lock"})).await;
    }
    rig
}

/// Sends a command: its id.
pub(crate) async fn send(rig: &Rig, device: &str, command: &Value) -> String {
    let path = format!("/v1/devices/{device}/commands");
    let sent: Value = rig.api.post(&path, command).await.expect("sent");
    assert_eq!(sent["status"], "scheduled", "{sent}");
    sent["id"].as_str().expect("an id").to_owned()
}

/// A command as it is now.
async fn shown(rig: &Rig, id: &str) -> Value {
    rig.get(&format!("/v1/commands/{id}")).await
}

/// Whether a command stands there now.
async fn stands(rig: &Rig, id: &str, status: &str) {
    let shown = shown(rig, id).await;
    assert_eq!(shown["status"], status, "{shown}");
}

/// A command once it stands there.
async fn until(rig: &Rig, id: &str, status: &str) -> Value {
    let there = |command: &Value| command["status"] == status;
    rig.api.until(&format!("/v1/commands/{id}"), PATIENCE, there).await.expect("it comes to that")
}
