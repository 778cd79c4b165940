//! Streams: what is appended again after a lost answer, and what is not.

use std::time::Duration;

use fieldpost_client::{MessageId, OutgoingMessage, StreamReading};
use serde_json::json;

use crate::stage::{Reply, Stage, ok, refused};

fn seven() -> OutgoingMessage {
    OutgoingMessage::json(&7).expect("a number")
}

#[tokio::test]
async fn only_what_has_an_external_id_is_appended_again() {
    for (message, is_repeated) in [(seven(), false), (seven().once("till-4", 1), true)] {
        let stage = Stage::new(|asked| match asked.before {
            0 => Reply::Break,
            _ => Reply::Answer(201, json!({"messages": [{"id": "1", "duplicate": true}]}).to_string()),
        })
        .await;
        let appended = stage.client().stream("shop", "orders").append(&message).await;
        assert_eq!(appended.is_ok_and(|appended| appended.duplicate), is_repeated);
        let asked = stage.asked();
        assert_eq!(asked.len(), if is_repeated { 2 } else { 1 });
        assert_eq!(
            (asked[0].method.as_str(), asked[0].path.as_str()),
            ("POST", "/v1/streams/shop/orders/messages")
        );
    }
}

#[tokio::test]
async fn an_expected_end_is_asked_for_once() {
    let stage = Stage::new(|_| Reply::Break).await;
    let stream = stage.client().stream("shop", "orders");
    let appended = stream.append_after(&MessageId::start(), &[seven().once("till-4", 1)]).await;
    assert!(appended.is_err());
    let asked = stage.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].json()["expect_last_id"], "0");
}

#[tokio::test]
async fn a_stream_is_read_from_place_to_place() {
    let page = json!({"items": [], "next_after": "9", "skipped": 2});
    let stage = Stage::new(move |_| ok(&page)).await;
    let stream = stage.client().stream("shop", "orders");
    let first = stream.read(&StreamReading::default().limit(5)).await.expect("a page");
    stream.read(&StreamReading::after(&first.next_after)).await.expect("a page");
    let asked: Vec<_> = stage.asked().into_iter().map(|asked| asked.path).collect();
    let path = "/v1/streams/shop/orders/messages";
    assert_eq!(asked, [format!("{path}?limit=5"), format!("{path}?after=9")]);
}

#[tokio::test]
async fn a_receipt_is_asked_for_by_either_name() {
    let receipt = json!({"durable_on": ["one", "dc1"], "enough": true});
    let stage = Stage::new(move |_| ok(&receipt)).await;
    let stream = stage.client().stream("shop", "orders");
    let by_id = stream.receipt(&MessageId::start(), 2, Duration::from_secs(5)).await.expect("a receipt");
    assert_eq!((by_id.durable_on.len(), by_id.enough), (2, true));
    stream.receipt_of("till 4", 17, 1, Duration::ZERO).await.expect("a receipt");
    let asked: Vec<_> = stage.asked().into_iter().map(|asked| asked.path).collect();
    let path = "/v1/streams/shop/orders/receipts";
    let of_source = format!("{path}?source=till%204&external_id=17&nodes=1&wait=0ms");
    assert_eq!(asked, [format!("{path}?id=0&nodes=2&wait=5000ms"), of_source]);
}

#[tokio::test]
async fn what_a_subscription_gave_is_committed_before_more_is_read() {
    let item = |id: &str| {
        json!({"id": id, "ts": "2026-11-21T01:02:03.456Z", "source": null, "external_id": null,
            "segment": null, "payload": 7})
    };
    let page = json!({"items": [item("1"), item("2")], "next_after": "2", "skipped": 0});
    let stage = Stage::new(move |asked| match asked.path.ends_with("/commit") {
        true => Reply::Answer(204, String::new()),
        false => ok(&page),
    })
    .await;
    let subscription = stage.client().stream("shop", "orders").subscription("bill", "a");
    let mut reader = subscription.limit(2).follow();
    for expect in ["1", "2", "1"] {
        assert_eq!(reader.next().await.expect("a message").id.as_str(), expect);
    }
    let asked = stage.asked();
    let calls: Vec<_> = asked.iter().filter_map(|asked| asked.path.rsplit('/').next()).collect();
    assert_eq!(calls, ["read", "commit", "read"]);
    assert_eq!(asked[1].json(), json!({"reader": "a", "id": "2"}));
}

#[tokio::test]
async fn a_deletion_that_got_through_unseen_is_one() {
    for (breaks, is_done) in [(true, true), (false, false)] {
        let stage = Stage::new(move |asked| match asked.before {
            0 if breaks => Reply::Break,
            _ => refused(404, "unknown_stream"),
        })
        .await;
        let deleted = stage.client().stream("shop", "orders").delete().await;
        assert_eq!(deleted.is_ok(), is_done, "{deleted:?}");
    }
}
