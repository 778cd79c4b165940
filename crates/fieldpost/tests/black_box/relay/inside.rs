//! The relay inside the server.

use serde_json::{Value, json};

use super::rig::{RelayRig, outbox_row};

#[tokio::test]
async fn a_server_moves_rows_by_itself_and_shows_how_it_goes() {
    let rig = RelayRig::start_inside(&[("FIELDPOST_RELAY__ON_REFUSED", "hold")]).await;
    rig.sql(&outbox_row("queue:shop/mail", Some("k"), &json!(1), Some(r#"{"tries":0}"#)));
    rig.sql(&outbox_row("queue:shop/mail", Some("k"), &json!(2), None));
    rig.sql(&outbox_row("stream:shop/orders", None, &json!(3), None));
    rig.until_messages("shop/orders", 1).await;
    let is_level = |relay: &Value| relay["waiting"] == 2 && relay["held"] == 1 && relay["moved"] == 1;
    let relays = rig.until_relays(|relays| relays.iter().any(is_level)).await;
    let relay = &relays[0];
    assert_eq!((&relay["name"], &relay["state"]), (&json!("server"), &json!("working")));
    assert_eq!(relay["refused"], 0);
    assert_eq!(relay["table"], "public.fieldpost_outbox");
    assert!(relay["bytes"].as_u64() > Some(0) && relay["oldest_at"].is_string(), "{relay}");
    let metrics = rig.server.json("GET", "/metrics", "").await.body;
    let text = |member: &str| relay[member].as_str().expect("a text");
    let outbox = format!("{}/{}", text("database"), text("table"));
    for (name, figure) in [("working", 1), ("waiting", 2), ("held", 1), ("moved_total", 1)] {
        let line = format!("fieldpost_relay_{name}{{outbox=\"{outbox}\"}} {figure}");
        assert!(metrics.contains(&line), "{line}:\n{metrics}");
    }
    let status = rig.about(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!((&status["waiting"], &status["working"]), (&json!(2), &json!(true)));
    assert!(status["oldest_age_ms"].as_u64() > Some(0) && status["oldest_at"].is_string(), "{status}");
    // The rate is told every two seconds, where it has changed.
    let rate = "SELECT count(*) FROM pg_stat_activity \
                WHERE application_name LIKE 'fieldpost relay: %' AND application_name LIKE '% rows/s' \
                AND datname = current_database()";
    rig.until_sql(rate, "1").await;
    let status: serde_json::Value = serde_json::from_str(&rig.about(&["status", "--json"])).expect("JSON");
    assert!(status["rate"].is_u64() && status["worker"]["rate"] == status["rate"], "{status}");
    let shown = rig.about(&["status"]);
    for line in ["waiting  2 rows", "lag      ", "rate     ", "refused  0", "worker   {"] {
        assert!(shown.contains(line), "{line}:\n{shown}");
    }
    assert!(rig.server.stop().await.success());
}
