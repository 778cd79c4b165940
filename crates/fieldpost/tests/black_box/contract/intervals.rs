//! `durability.sync = "interval"`: an answer comes before the sync, survives the process, and
//! `/readyz` says what it rests on.

use serde_json::json;

use crate::contract::rig::Rig;

#[tokio::test]
async fn what_was_answered_before_its_sync_survives_a_kill() {
    let settings =
        [("FIELDPOST_DURABILITY__SYNC", "interval"), ("FIELDPOST_DURABILITY__SYNC_INTERVAL", "1m")];
    let mut rig = Rig::start(&settings).await;
    let ready = rig.ask("GET", "/readyz", "", "").await;
    assert_eq!(ready.status, 200);
    assert!(ready.body.contains("synced every 60s"), "{ready:?}");
    rig.device(&json!({"id": "a"})).await;
    for value in [1, 0, 1] {
        rig.report("a", value).await;
    }
    rig.restart().await;
    let readings = rig.items("/v1/devices/a/readings").await;
    assert_eq!(readings.len(), 3, "{readings:?}");
}
