//! The relay inside the server.

use serde_json::json;

use super::rig::{RelayRig, outbox_row};

#[tokio::test]
async fn a_server_moves_rows_by_itself_and_shows_how_it_goes() {
    let rig = RelayRig::start_inside(&[("FIELDPOST_RELAY__ON_REFUSED", "hold")]).await;
    rig.sql(&outbox_row("queue:shop/mail", Some("k"), &json!(1), Some(r#"{"tries":0}"#)));
    rig.sql(&outbox_row("queue:shop/mail", Some("k"), &json!(2), None));
    rig.sql(&outbox_row("stream:shop/orders", None, &json!(3), None));
    rig.until_messages("shop/orders", 1).await;
    let relays = rig.until_relays(|relays| relays.iter().any(|relay| relay["waiting"] == 2)).await;
    let relay = &relays[0];
    assert_eq!((&relay["name"], &relay["state"]), (&json!("server"), &json!("working")));
    assert_eq!((&relay["held"], &relay["refused"], &relay["moved"]), (&json!(1), &json!(0), &json!(1)));
    assert_eq!(relay["table"], "public.fieldpost_outbox");
    assert!(relay["bytes"].as_u64() > Some(0) && relay["oldest_at"].is_string(), "{relay}");
    let metrics = rig.server.json("GET", "/metrics", "").await.body;
    for line in [
        "fieldpost_relay_working{relay=\"server\"} 1",
        "fieldpost_relay_waiting{relay=\"server\"} 2",
        "fieldpost_relay_held{relay=\"server\"} 1",
        "fieldpost_relay_moved_total{relay=\"server\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}:\n{metrics}");
    }
    let status = rig.about(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!((&status["waiting"], &status["working"]), (&json!(2), &json!(true)));
    assert!(rig.server.stop().await.success());
}
