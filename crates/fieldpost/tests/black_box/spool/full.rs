//! When there is no room: `--max-bytes` and `--when-full`, and what is too old.

use serde_json::{Value, json};

use super::rig::SpoolRig;

const ORDERS: &str = "/v1/streams/shop/orders/messages";

fn message(number: u64) -> Value {
    json!({"payload": [number, "x".repeat(900)]})
}

fn numbers(payloads: &[Value]) -> Vec<u64> {
    payloads.iter().map(|payload| payload[0].as_u64().expect("a number")).collect()
}

#[tokio::test]
async fn a_full_spool_answers_503_and_what_it_accepted_arrives() {
    let mut rig = SpoolRig::start(&["--max-bytes", "100KB"]).await;
    rig.server.kill().await;
    let mut accepted = 0;
    let refused = loop {
        let answer = rig.json("POST", ORDERS, &message(accepted).to_string()).await;
        if answer.status != 202 {
            break answer;
        }
        accepted += 1;
    };
    assert_eq!((refused.status, refused.text("code").as_str()), (503, "spool_full"), "{refused:?}");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    assert!((60..110).contains(&accepted), "{accepted}");
    assert_eq!(rig.state().await["waiting"], accepted);
    rig.server.start_again().await;
    rig.until(|state| state["waiting"] == 0).await;
    rig.spooled(ORDERS, &message(accepted)).await;
    rig.until(|state| state["forwarded"] == accepted + 1).await;
    assert_eq!(numbers(&rig.server.payloads("shop/orders").await), (0..=accepted).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_oldest_may_go_and_is_counted() {
    let mut rig = SpoolRig::start(&["--max-bytes", "100KB", "--when-full", "drop-oldest"]).await;
    rig.server.kill().await;
    for number in 0..300 {
        assert_eq!(rig.spooled(ORDERS, &message(number)).await, 1);
    }
    rig.server.start_again().await;
    let state = rig.until(|state| state["waiting"] == 0).await;
    let dropped = state["dropped"].as_u64().expect("a number");
    assert!((190..260).contains(&dropped), "{state}");
    assert_eq!(state["forwarded"], 300 - dropped);
    assert_eq!(numbers(&rig.server.payloads("shop/orders").await), (dropped..300).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_too_old_is_dropped_and_counted() {
    let mut rig = SpoolRig::start(&["--max-age", "1ms"]).await;
    rig.server.kill().await;
    for number in 0..5 {
        rig.spooled(ORDERS, &message(number)).await;
    }
    let state = rig.until(|state| state["waiting"] == 0).await;
    assert_eq!(state["dropped"], 5, "{state}");
}
