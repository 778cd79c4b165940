//! The outbox relay against the built server and a real PostgreSQL. What was committed arrives, in
//! order and once in effect, whatever happens to any of the three.

mod backfill;
mod command_line;
mod inside;
mod kills;
mod refusals;
mod rig;
mod under_writers;
mod watching;
mod writer;
mod writers;

use serde_json::{Value, json};

use rig::{RelayRig, outbox_row};

#[tokio::test]
async fn rows_become_jobs_and_messages_in_the_order_of_their_keys() {
    let mut rig = RelayRig::start().await;
    for number in 0..30 {
        rig.sql(&outbox_row("queue:shop/mail", Some("k"), &json!(number), None));
        rig.sql(&outbox_row("stream:shop/orders", None, &json!(number), Some(r#"{"segment":"s"}"#)));
    }
    rig.relay(&[]).await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    let numbers: Vec<Value> = (0..30).map(Value::from).collect();
    assert_eq!(rig.server.payloads("shop/orders").await, numbers);
    let job = &rig.server.get("/v1/queues/shop/mail/jobs").await["items"][0];
    assert_eq!((&job["group"], &job["payload"]), (&json!("k"), &json!(0)));
    assert_eq!(rig.server.consumed("shop/mail").await, numbers);
    let message = &rig.server.get("/v1/streams/shop/orders/messages?limit=1").await["items"][0];
    assert_eq!(message["segment"], "s");
    assert_eq!(message["external_id"].as_str().map(str::len), Some(36), "a uid: {message}");
    // Woken by the commit.
    rig.sql(&outbox_row("queue:shop/mail", None, &json!("woken"), Some(r#"{"tries":3}"#)));
    let taken = rig.server.json("POST", "/v1/queues/shop/mail/consume", r#"{"wait":"30s"}"#).await.json();
    assert_eq!((&taken["jobs"][0]["payload"], &taken["jobs"][0]["tries"]), (&json!("woken"), &json!(3)));
    assert!(rig.stop().await.success());
    // It has said goodbye.
    rig.until_relays(<[Value]>::is_empty).await;
}

#[tokio::test]
async fn rows_behind_an_open_transaction_do_not_wait_and_it_is_not_passed_over() {
    let mut rig = RelayRig::start().await;
    rig.relay(&[]).await;
    let late = rig.open_transaction(&outbox_row("stream:shop/orders", Some("late"), &json!("late"), None));
    let early = rig.open_transaction(&outbox_row("stream:shop/orders", None, &json!("never"), None));
    let ids = |what: &str| rig.sql(what);
    for number in 0..5 {
        ids(&outbox_row("stream:shop/orders", None, &json!(number), None));
    }
    rig.until_messages("shop/orders", 5).await;
    assert_eq!(rig.server.payloads("shop/orders").await, (0..5).map(Value::from).collect::<Vec<_>>());
    early.roll_back();
    late.commit();
    rig.sql(&outbox_row("stream:shop/orders", Some("late"), &json!("behind"), None));
    rig.until_messages("shop/orders", 7).await;
    assert_eq!(rig.server.payloads("shop/orders").await[5..], [json!("late"), json!("behind")]);
}

#[tokio::test]
async fn of_two_relays_one_works_and_the_other_takes_over() {
    let mut rig = RelayRig::start().await;
    rig.relay(&[]).await;
    rig.until_relays(|relays| relays.iter().filter(|relay| relay["state"] == "working").count() == 1).await;
    let second = rig.another_relay(&[]);
    let states =
        |relays: &[Value], state: &str| relays.iter().filter(|relay| relay["state"] == state).count();
    rig.until_relays(|relays| states(relays, "working") == 1 && states(relays, "waiting") == 1).await;
    rig.sql(&outbox_row("stream:shop/orders", None, &json!(1), None));
    rig.until_messages("shop/orders", 1).await;
    rig.kill_relay().await;
    rig.sql(&outbox_row("stream:shop/orders", None, &json!(2), None));
    rig.until_messages("shop/orders", 2).await;
    // At no time two are said to work, however lately the first was heard.
    let relays = rig.until_relays(|relays| states(relays, "working") == 1).await;
    assert_eq!(states(&relays, "working"), 1);
    rig.until_relays(|relays| relays.len() == 1).await;
    drop(second);
}
