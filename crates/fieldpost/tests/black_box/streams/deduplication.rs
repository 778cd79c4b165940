//! Once only: what has a source and an external id is there once, however often it is given.

use serde_json::{Value, json};

use super::{S, append, read_all, refused, set, stream, until};
use crate::contract::rig::{Rig, each};

/// A message of a source.
fn of(source: &str, external_id: impl Into<Value>, payload: impl Into<Value>) -> Value {
    json!({"payload": payload.into(), "source": source, "external_id": external_id.into()})
}

fn appended(id: &str) -> Value {
    json!({"id": id, "duplicate": false})
}

fn duplicate(id: &str) -> Value {
    json!({"id": id, "duplicate": true})
}

fn conflict(id: &str) -> Value {
    json!({"id": id, "duplicate": true, "conflict": true})
}

#[tokio::test]
async fn a_number_and_its_decimal_are_the_same_id() {
    let mut rig = Rig::start(&[]).await;
    let largest = i64::MAX;
    for (message, expect) in [
        (of("a", 1, "x"), appended("1")),
        (of("a", "1", "x"), duplicate("1")),
        (of("a", "01", "x"), appended("2")),
        (of("a", 0, "x"), appended("3")),
        (of("b", 1, "x"), appended("4")),
        (of("a", largest, "x"), appended("5")),
        (of("a", largest.to_string(), "x"), duplicate("5")),
        (of("a", 1, "y"), conflict("1")),
        (of("a", "order-1", Value::Null), appended("6")),
        (of("a", "order-1", Value::Null), duplicate("6")),
        (of("a", "order-1", 0), conflict("6")),
        (of("b", "order-1", 0), appended("7")),
        (of("a", "Order-1", 0), appended("8")),
    ] {
        assert_eq!(append(&rig, &message).await, [expect], "{message}");
    }
    rig.restart().await;
    for (message, expect) in [
        (of("a", 1, "x"), duplicate("1")),
        (of("a", "01", "x"), duplicate("2")),
        (of("b", 1, "z"), conflict("4")),
        (of("a", "order-1", Value::Null), duplicate("6")),
        (of("a", 2, "x"), appended("9")),
    ] {
        assert_eq!(append(&rig, &message).await, [expect], "{message} after a kill");
    }
    let all = read_all(&rig).await;
    assert_eq!(each(&all[..2], "external_id"), ["1", "01"], "numbers are shown as texts");
}

#[tokio::test]
async fn what_is_twice_in_one_call_is_there_once() {
    let rig = Rig::start(&[]).await;
    let messages =
        [of("a", 5, 1), of("a", 3, 2), of("a", 5, 1), of("a", "t", 3), of("a", "t", 4), of("a", 4, 5)];
    let answer = append(&rig, &json!({"messages": messages})).await;
    let expect = [appended("1"), appended("2"), duplicate("1"), appended("3"), conflict("3"), appended("4")];
    assert_eq!(answer, expect);
    let none_new = append(&rig, &json!({"messages": messages})).await;
    let ids = ["1", "2", "1", "3", "3", "4"];
    assert_eq!(each(&none_new, "id"), ids);
    assert!(none_new.iter().all(|message| message["duplicate"] == true), "{none_new:?}");
    assert_eq!(stream(&rig).await["last_id"], "4");
}

#[tokio::test]
async fn ids_that_come_in_any_order_are_known_after_a_kill() {
    let mut rig = Rig::start(&[]).await;
    // Every number below 1,000 once, in an order that leaves gaps until the end.
    let shuffled = |number: u64| number * 387 % 1_000;
    for hundred in 0..10 {
        let messages: Vec<_> = (0..100).map(|n| of("a", shuffled(hundred * 100 + n), n)).collect();
        let answer = append(&rig, &json!({"messages": messages})).await;
        assert!(answer.iter().all(|message| message["duplicate"] == false), "{answer:?}");
        if hundred % 3 == 0 {
            rig.restart().await;
        }
    }
    let messages: Vec<_> = (0..1_000).map(|number| of("a", number, "again")).collect();
    let answer = append(&rig, &json!({"messages": messages})).await;
    assert!(answer.iter().all(|message| message["duplicate"] == true), "{answer:?}");
    assert_eq!(append(&rig, &of("a", 1_000, 1)).await, [appended("1001")]);
}

#[tokio::test]
async fn a_number_is_known_for_ever_and_a_text_while_its_message_is_kept() {
    let mut rig = Rig::start(&[]).await;
    set(&rig, &json!({"block": {"messages": 10}, "keep": {"bytes": "4KB"}})).await;
    append(&rig, &json!({"messages": [of("a", 1, 1), of("a", "one", 1)]})).await;
    let fill: Vec<_> = (0..100).map(|_| json!({"payload": "x".repeat(200)})).collect();
    append(&rig, &json!({"messages": fill})).await;
    until(&rig, |stream| stream["first_id"].as_str().is_some_and(|id| id.parse::<u64>().unwrap_or(0) > 2))
        .await;
    for round in ["at once", "after a kill"] {
        let gone = append(&rig, &of("a", 1, 1)).await;
        assert_eq!(gone, [json!({"id": null, "duplicate": true})], "{round}");
        rig.restart().await;
    }
    let text = append(&rig, &of("a", "one", 1)).await;
    assert_eq!((text.len(), &text[0]["duplicate"]), (1, &json!(false)), "{text:?}");
}

#[tokio::test]
async fn what_a_crash_lost_is_no_duplicate() {
    let mut rig = Rig::start(&[]).await;
    set(&rig, &json!({"save": "memory"})).await;
    let messages: Vec<_> = (1..=50).map(|number| of("a", number, number)).collect();
    let first = append(&rig, &json!({"messages": messages})).await;
    rig.restart().await;
    let kept = read_all(&rig).await.len();
    let again = append(&rig, &json!({"messages": messages})).await;
    let new = again.iter().filter(|message| message["duplicate"] == false);
    assert_eq!(new.clone().count(), 50 - kept, "what is left is a prefix: {again:?}");
    for message in new {
        assert!(!first.iter().any(|before| before["id"] == message["id"]), "an id is given once: {message}");
    }
    assert_eq!(each(&read_all(&rig).await, "payload"), (1..=50).map(Value::from).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_refused_call_makes_nothing_known() {
    let rig = Rig::start(&[]).await;
    let body = json!({"messages": [of("a", 1, 1)], "expect_last_id": "9"});
    let answer = rig.json("POST", &format!("{S}/messages"), &body.to_string()).await;
    assert_eq!(refused(&answer), (409, "tail_moved".to_owned()));
    assert_eq!(append(&rig, &of("a", 1, 1)).await, [appended("1")]);
}
