//! Receipts: on which nodes a message is durable, asked and waited for.

use serde_json::{Value, json};

use super::super::{S, append, refused};
use super::nodes::{copied_to, start};
use super::{COPY, TestNode};

async fn receipt(node: &TestNode, query: &str) -> Value {
    node.rig.get(&format!("{S}/receipts?{query}")).await
}

#[tokio::test]
async fn a_receipt_names_the_nodes_that_have_a_message() {
    let [one, two] = start(["one", "two"]).await;
    append(&one.rig, &json!({"payload": 1, "source": "till", "external_id": 7})).await;
    let here = receipt(&one, "source=till&external_id=7").await;
    assert_eq!(here, json!({"durable_on": ["one"], "enough": true}));
    let few = receipt(&one, "id=1&nodes=2&wait=50ms").await;
    assert_eq!(few, json!({"durable_on": ["one"], "enough": false}));
    copied_to(&one, &two, COPY).await;
    let both = receipt(&one, "id=1&nodes=2&wait=30s").await;
    assert_eq!(both, json!({"durable_on": ["one", "two"], "enough": true}));
    assert_eq!(receipt(&one, "source=till&external_id=7&nodes=2").await, both);
    two.line.cut();
    append(&one.rig, &json!({"payload": 2, "source": "till", "external_id": 8})).await;
    let waiting = receipt(&one, "source=till&external_id=8&nodes=2&wait=30s");
    let mended = async {
        assert_eq!(receipt(&one, "id=2&nodes=2").await["enough"], false);
        two.line.mend();
    };
    let (waited, ()) = tokio::join!(waiting, mended);
    assert_eq!(waited["durable_on"], json!(["one", "two"]));
    for (query, expect) in [
        ("id=99", (404, "unknown_message")),
        ("source=till&external_id=99", (404, "unknown_message")),
        ("source=till", (422, "missing_field")),
        ("id=1&nodes=0", (422, "invalid_parameter")),
    ] {
        let answer = one.rig.json("GET", &format!("{S}/receipts?{query}"), "").await;
        assert_eq!(refused(&answer), (expect.0, expect.1.to_owned()), "{query}");
    }
}

#[tokio::test]
async fn a_copy_that_gets_more_segments_claims_nothing_that_it_left_out() {
    let [one, two] = start(["one", "two"]).await;
    append(&one.rig, &json!({"messages": [{"payload": 1, "segment": "a"}, {"payload": 2, "segment": "b"}]}))
        .await;
    one.knows(&two).await;
    one.copies(COPY, &json!({"direction": "to", "node": "two", "segments": ["b"]})).await;
    assert_eq!(receipt(&one, "id=2&nodes=2&wait=30s").await["enough"], true);
    assert_eq!(receipt(&one, "id=1").await["durable_on"], json!(["one"]));
    two.line.cut();
    one.copies(COPY, &json!({"direction": "to", "node": "two", "segments": ["a", "b"]})).await;
    assert_eq!(receipt(&one, "id=1").await["durable_on"], json!(["one"]), "it has not gone yet");
    two.line.mend();
    assert_eq!(receipt(&one, "id=1&nodes=2&wait=30s").await["enough"], true);
    let there = super::super::read_all(&two.rig).await;
    let mut payloads = super::super::numbers(&there, "payload");
    payloads.sort_unstable();
    assert_eq!(payloads, [1, 2], "each once");
}

#[tokio::test]
async fn what_is_not_saved_counts_nowhere() {
    let [one] = start(["one"]).await;
    super::super::set(&one.rig, &json!({"save": "memory"})).await;
    append(&one.rig, &json!({"payload": 1})).await;
    assert_eq!(receipt(&one, "id=1").await, json!({"durable_on": [], "enough": false}));
    let durable = format!("{S}/messages?durable=true");
    let answer = one.rig.json("POST", &durable, r#"{"payload":2}"#).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(receipt(&one, "id=1").await["durable_on"], json!(["one"]));
}
