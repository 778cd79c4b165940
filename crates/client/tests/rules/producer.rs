//! A producer: as many nodes as are wanted have it, and others take the place of those that fail.
//! What is appended again is the same message.

use std::time::Duration;

use fieldpost_client::{NodeAppend, OutgoingMessage, ProducerError, StreamProducer};
use serde_json::{Value, json};

use crate::stage::{Reply, Stage, refused};

fn message(payload: u32) -> OutgoingMessage {
    OutgoingMessage::json(&payload).expect("a number")
}

/// It takes whatever comes.
async fn taking() -> Stage {
    Stage::new(|asked| {
        let count = asked.json()["messages"].as_array().map_or(0, Vec::len);
        let messages = vec![json!({"id": "1", "duplicate": false}); count];
        Reply::Answer(201, json!({ "messages": messages }).to_string())
    })
    .await
}

fn producer(stages: &[&Stage], wanted: usize) -> StreamProducer {
    let streams = stages.iter().map(|stage| stage.client().stream("shop", "orders"));
    StreamProducer::new(streams, wanted).expect("a producer")
}

fn nodes(appended: &[NodeAppend]) -> Vec<usize> {
    let mut nodes: Vec<_> = appended.iter().map(|appended| appended.node).collect();
    nodes.sort_unstable();
    nodes
}

/// Every message that a node was given: its source, its external id, and what it carries.
fn given(stage: &Stage) -> Vec<(Value, Value, Value)> {
    let all = stage.asked().into_iter().flat_map(|asked| {
        let messages = asked.json()["messages"].as_array().cloned().expect("messages");
        messages.into_iter().map(|message| {
            let [source, id, payload] =
                ["source", "external_id", "payload"].map(|name| message[name].clone());
            (source, id, payload)
        })
    });
    all.collect()
}

#[tokio::test]
async fn the_first_that_are_wanted_get_the_same_messages_in_order() {
    let stages = [taking().await, taking().await, taking().await];
    let producer = producer(&stages.each_ref(), 2);
    for payload in 1..=3 {
        let appended = producer.append(&message(payload)).await.expect("appended");
        assert_eq!(nodes(&appended), [0, 1]);
        assert_eq!(appended[0].messages.len(), 1);
    }
    let first = given(&stages[0]);
    assert_eq!(first, given(&stages[1]));
    assert!(given(&stages[2]).is_empty());
    let expect: Vec<_> = (1..=3).map(|number| (json!(number.to_string()), json!(number))).collect();
    assert_eq!(
        first.iter().map(|(_, id, payload)| (id.clone(), payload.clone())).collect::<Vec<_>>(),
        expect
    );
    assert!(
        first[0].0.as_str().is_some_and(|source| source.len() <= 64 && source == first[2].0),
        "{first:?}"
    );
}

#[tokio::test]
async fn another_takes_the_place_of_one_that_fails_and_is_preferred_for_a_while() {
    let failing = Stage::new(|_| refused(503, "stream_full")).await;
    let broken = Stage::new(|_| Reply::Break).await;
    let (well, spare) = (taking().await, taking().await);
    let producer = producer(&[&failing, &well, &broken, &spare], 2);
    for payload in [1, 2] {
        let appended = producer.append(&message(payload)).await.expect("appended");
        assert_eq!(nodes(&appended), [1, 3]);
    }
    assert_eq!((failing.asked().len(), broken.asked().len()), (1, 1), "each was asked once");
    assert_eq!(given(&well), given(&spare));
}

#[tokio::test]
async fn one_that_does_not_answer_is_waited_for_no_longer_than_is_said() {
    let mute = Stage::new(|_| Reply::Wait).await;
    let well = taking().await;
    let producer = producer(&[&mute, &well], 1).slow_after(Duration::from_millis(20));
    assert_eq!(nodes(&producer.append(&message(1)).await.expect("appended")), [1]);
    // The other one is slow on a busy machine.
    let producer = producer.slow_after(Duration::from_secs(60));
    assert_eq!(nodes(&producer.append(&message(2)).await.expect("appended")), [1]);
    assert_eq!(mute.asked().len(), 1, "it is chosen last now");
}

#[tokio::test]
async fn what_too_few_took_can_be_appended_again_as_the_same() {
    let failing = Stage::new(|_| refused(500, "internal")).await;
    let well = taking().await;
    let producer = producer(&[&failing, &well], 2);
    let own = message(7).once("till-4", 12);
    let ProducerError { wanted, appended, errors, messages, .. } =
        producer.append_many(&[message(1), own]).await.expect_err("one is missing");
    assert_eq!((wanted, nodes(&appended), errors[0].0), (2, vec![1], 0));
    assert_eq!(messages.len(), 2);
    producer.append_many(&messages).await.expect_err("still");
    let all = given(&well);
    assert_eq!(all[..2], all[2..]);
    assert_eq!((&all[1].0, &all[1].1), (&json!("till-4"), &json!("12")));
}

#[tokio::test]
async fn what_every_node_would_refuse_is_told_at_once() {
    let strict = Stage::new(|_| refused(422, "payload_too_large")).await;
    let spare = taking().await;
    let producer = producer(&[&strict, &spare], 1);
    let error = producer.append(&message(1)).await.expect_err("refused");
    assert_eq!(error.errors[0].1.status(), Some(422));
    assert!(error.to_string().starts_with("0 of 1 nodes have it; node 0: "), "{error}");
    assert!(spare.asked().is_empty());
    let streams = [strict.client().stream("shop", "orders")];
    let many = StreamProducer::new(streams, 2).expect_err("there is one");
    assert_eq!(many.to_string(), "2 of 1 nodes cannot be appended to: it must be 1 to 1");
}
