//! Rows that are refused for good: skipped or held, tried again, dropped.

use serde_json::{Value, json};

use super::rig::{RelayRig, each_in, outbox_row};
use crate::contract::rig::each;

const BAD: &str = r#"{"tries":0}"#;

fn rows(rig: &RelayRig) {
    let mail = "queue:shop/mail";
    for (key, payload, attributes) in [
        (Some("a"), "a1", None),
        (Some("a"), "a2", Some(BAD)),
        (Some("a"), "a3", None),
        (Some("b"), "b1", None),
        (None, "none", None),
    ] {
        rig.sql(&outbox_row(mail, key, &json!(payload), attributes));
    }
    rig.sql(&outbox_row("nowhere", None, &json!("lost"), None));
}

fn sorted(mut payloads: Vec<Value>) -> Vec<String> {
    payloads.sort_by_key(ToString::to_string);
    payloads.iter().map(|payload| payload.as_str().expect("a text").to_owned()).collect()
}

#[tokio::test]
async fn a_refused_row_moves_aside_and_the_rest_goes_on() {
    let mut rig = RelayRig::start().await;
    rows(&rig);
    rig.relay(&[]).await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    assert_eq!(sorted(rig.server.consumed("shop/mail").await), ["a1", "a3", "b1", "none"]);
    let reasons = rig.sql("SELECT reason FROM fieldpost_outbox_refused ORDER BY id");
    let reasons: Vec<&str> = reasons.lines().collect();
    assert!(
        reasons.len() == 2 && reasons[0].starts_with("422 ") && reasons[1].contains("invalid_destination")
    );
    let listed = rig.about(&["refused", "ls", "--json"]);
    let listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&listed[0]["payload"], &listed[0]["state"]), (&json!("a2"), &json!("refused")));
    assert!(listed[0]["refused_at"].is_string());
    // Mended, and tried again.
    rig.sql("UPDATE fieldpost_outbox_refused SET attributes = NULL WHERE payload = '\"a2\"'");
    let id = listed[0]["id"].to_string();
    assert_eq!(rig.about(&["refused", "retry", "--id", &id, "--json"]).trim(), r#"{"retried":1}"#);
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    assert_eq!(sorted(rig.server.consumed("shop/mail").await), ["a2"]);
    for what in ["retry", "drop"] {
        let none = rig.run(&["refused", what, "--id", "999", "--database", &rig.url()]);
        let said = String::from_utf8_lossy(&none.stderr).into_owned();
        assert_eq!((none.status.code(), none.stdout.as_slice()), (Some(1), &b""[..]), "{said}");
        assert!(said.contains("no refused row has the id 999"), "{said}");
    }
    assert_eq!(rig.about(&["refused", "drop", "--all"]).trim(), "dropped: 1");
    assert_eq!(rig.sql("SELECT count(*) FROM fieldpost_outbox_refused"), "0");
}

#[tokio::test]
async fn a_held_row_lets_its_key_wait_until_it_is_mended_or_dropped() {
    let mut rig = RelayRig::start().await;
    rows(&rig);
    rig.relay(&["--on-refused", "hold"]).await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "3").await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox WHERE reason IS NOT NULL", "2").await;
    assert_eq!(sorted(rig.server.consumed("shop/mail").await), ["a1", "b1", "none"]);
    // Also what comes later, and when another relay takes over.
    rig.kill_relay().await;
    rig.relay(&["--on-refused", "hold"]).await;
    rig.sql(&outbox_row("queue:shop/mail", Some("a"), &json!("a4"), None));
    rig.sql(&outbox_row("queue:shop/mail", Some("b"), &json!("b2"), None));
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "4").await;
    rig.until_relays(|relays| relays.iter().any(|relay| relay["held"] == 2 && relay["waiting"] == 4)).await;
    assert_eq!(sorted(rig.server.consumed("shop/mail").await), ["b2"]);
    rig.sql("UPDATE fieldpost_outbox SET attributes = NULL WHERE payload = '\"a2\"'");
    assert_eq!(rig.about(&["refused", "retry"]).trim(), "retried: 2", "all, where nothing is said");
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "1").await;
    let in_order = rig.server.consumed("shop/mail").await;
    assert_eq!(in_order, [json!("a2"), json!("a3"), json!("a4")]);
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox WHERE reason IS NOT NULL", "1").await;
    assert_eq!(rig.about(&["refused", "drop", "--all"]).trim(), "dropped: 1");
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
}

#[tokio::test]
async fn held_rows_move_aside_once_a_relay_skips_what_is_refused() {
    let mut rig = RelayRig::start().await;
    rows(&rig);
    rig.relay(&["--on-refused", "hold"]).await;
    rig.until_sql("SELECT count(*), count(reason) FROM fieldpost_outbox", "3|2").await;
    // One of them would be taken by now.
    rig.sql("UPDATE fieldpost_outbox SET destination = 'queue:shop/mail' WHERE destination = 'nowhere'");
    rig.restart_relay().await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    assert_eq!(sorted(rig.server.consumed("shop/mail").await), ["a1", "a3", "b1", "lost", "none"]);
    assert_eq!(rig.sql("SELECT payload FROM fieldpost_outbox_refused"), "\"a2\"");
}

#[tokio::test]
async fn a_key_that_is_empty_is_none_and_one_that_no_group_may_be_is_refused() {
    let mut rig = RelayRig::start().await;
    rig.sql(&outbox_row("queue:shop/mail", Some(""), &json!(1), None));
    rig.sql(&outbox_row("queue:shop/mail", Some(&"k".repeat(256)), &json!(2), None));
    rig.relay(&[]).await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    let jobs = &rig.server.get("/v1/queues/shop/mail/jobs").await["items"];
    assert_eq!((each_in(jobs, "payload"), each_in(jobs, "group")), (vec![json!(1)], vec![Value::Null]));
    let refused = rig.sql("SELECT payload, left(reason, 16) FROM fieldpost_outbox_refused");
    assert_eq!(refused, "2|422 invalid_name");
}

#[tokio::test]
async fn a_stream_that_is_nearly_full_takes_the_rows_that_have_room() {
    let mut rig = RelayRig::start().await;
    let keep = async |rig: &RelayRig, bytes: &str| {
        let settings = json!({"keep": {"bytes": bytes}, "when_full": "reject"}).to_string();
        let answer = rig.server.json("PUT", "/v1/streams/shop/orders/settings", &settings).await;
        assert!(answer.status < 300, "{answer:?}");
    };
    keep(&rig, "10KB").await;
    rig.sql(
        "INSERT INTO fieldpost_outbox (destination, payload) \
         SELECT 'stream:shop/orders', jsonb_build_object('n', n, 'x', repeat('x', 2000)) \
         FROM generate_series(1, 8) n ORDER BY n",
    );
    rig.relay(&[]).await;
    rig.until_sql("SELECT count(*) BETWEEN 1 AND 7 FROM fieldpost_outbox", "t").await;
    assert_eq!(rig.sql("SELECT count(*) FROM fieldpost_outbox_refused"), "0");
    keep(&rig, "1MB").await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    let numbers = each(&rig.server.payloads("shop/orders").await, "n");
    assert_eq!(numbers, (1..=8).map(Value::from).collect::<Vec<_>>());
}

#[tokio::test]
async fn all_refused_rows_are_listed_however_many_there_are() {
    let rig = RelayRig::start().await;
    assert_eq!(rig.about(&["refused", "ls"]).trim(), "no refused rows");
    rig.sql(
        "INSERT INTO fieldpost_outbox_refused (id, uid, destination, payload, created_at, reason) \
         SELECT n, gen_random_uuid(), 'queue:shop/mail', to_jsonb(n), now(), '422 x: y' \
         FROM generate_series(1, 2100) n; \
         INSERT INTO fieldpost_outbox (id, destination, payload, reason) \
         VALUES (1500, 'queue:shop/mail', '\"held\"', '422 x: y')",
    );
    let listed = rig.about(&["refused", "ls", "--json"]);
    let ids: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].clone()).collect();
    assert_eq!((ids.len(), &ids[0], &ids[2_100]), (2_101, &json!(1), &json!(2_100)));
    assert!(listed.contains("\"held\""), "the held one, too");
}

#[tokio::test]
async fn rows_of_one_transaction_act_as_if_each_were_published_alone() {
    let mut rig = RelayRig::start().await;
    let replace = r#"{"alias":"x","on_conflict":"replace","delay":"1h"}"#;
    let reject = r#"{"alias":"y","delay":"1h"}"#;
    let mut all = "BEGIN;\n".to_owned();
    for (payload, attributes) in [("x1", replace), ("x2", replace), ("y1", reject), ("y2", reject)] {
        all.push_str(&outbox_row("queue:shop/mail", None, &json!(payload), Some(attributes)));
    }
    rig.sql(&format!("{all}COMMIT;"));
    rig.relay(&[]).await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    for (alias, payload) in [("x", "x2"), ("y", "y1")] {
        let job = rig.server.get(&format!("/v1/queues/shop/mail/aliases/{alias}")).await;
        assert_eq!(job["payload"], payload);
    }
    let refused = rig.sql("SELECT payload, left(reason, 3) FROM fieldpost_outbox_refused");
    assert_eq!(refused, "\"y2\"|409");
}
