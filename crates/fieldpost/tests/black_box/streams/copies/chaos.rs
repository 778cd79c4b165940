//! Three nodes in a ring, each with a producer, while nodes are killed and stopped and lines are
//! cut or fall silent. In the end every node has every message once, those of a producer in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::random::Random;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use tokio::sync::watch;

use super::super::{S, numbers, read_all, until};
use super::nodes::{TestNode, start};
use crate::contract::rig::PATIENCE;

const SEED: u64 = 20_261_124;
/// Faults, one after the other.
const FAULTS: usize = 14;
/// Appends that are answered while a fault lasts: so many at most.
const APPENDS_PER_FAULT: u64 = 60;
/// A fault ends after this time all the same: where all three are affected nothing is answered.
const FAULT_MAX: Duration = Duration::from_millis(700);
/// Messages of an append.
const MESSAGES: u64 = 5;

#[derive(Clone, Copy, Debug)]
enum NodeFault {
    Killed,
    Stopped,
    Cut,
    Silent,
}

/// Appends until it is told to stop; how many messages were acknowledged, which is all of them.
async fn produce(
    (api, source): (ApiClient, &'static str),
    is_over: watch::Receiver<bool>,
    answered: Arc<watch::Sender<u64>>,
) -> (&'static str, u64) {
    let mut next = 0;
    while !*is_over.borrow() {
        let message = |id: u64| json!({"payload": id, "source": source, "external_id": id});
        let messages: Vec<Value> = (next..next + MESSAGES).map(message).collect();
        let body = json!({ "messages": messages });
        // It is given again until it is answered: what was taken before is a duplicate then.
        loop {
            let answer = api.any(Method::POST, &format!("{S}/messages"), Some(&body)).await;
            if answer.is_ok_and(|answer| answer.status == StatusCode::CREATED) {
                break;
            }
        }
        next += MESSAGES;
        answered.send_modify(|count| *count += 1);
    }
    (source, next)
}

async fn put_right(nodes: &mut [TestNode; 3], at: usize, fault: NodeFault) {
    match fault {
        NodeFault::Killed => {
            nodes[at].rig.start_again().await;
            nodes[at].line.lead_to(nodes[at].rig.site.http.address().await);
        }
        NodeFault::Stopped => nodes[at].signal("CONT").await,
        NodeFault::Cut | NodeFault::Silent => nodes[at].line.mend(),
    }
}

/// One fault, from which the others go on for a while.
async fn one_fault(nodes: &mut [TestNode; 3], random: &mut Random, answered: &watch::Sender<u64>) {
    let at = random.below(3) as usize;
    let kinds = [NodeFault::Killed, NodeFault::Stopped, NodeFault::Cut, NodeFault::Silent];
    let fault = kinds[random.below(4) as usize];
    let appends = 1 + random.below(APPENDS_PER_FAULT);
    eprintln!("{}: {fault:?} for {appends} appends", nodes[at].name);
    match fault {
        NodeFault::Killed => nodes[at].rig.kill().await,
        NodeFault::Stopped => nodes[at].signal("STOP").await,
        NodeFault::Cut => nodes[at].line.cut(),
        NodeFault::Silent => nodes[at].line.fall_silent(),
    }
    let mut counted = answered.subscribe();
    let enough = *counted.borrow() + appends;
    // Nothing of the counter is held on to: producers count on.
    let waited = tokio::time::timeout(FAULT_MAX, counted.wait_for(|count| *count >= enough)).await.is_ok();
    eprintln!("{}: it ends, after as many appends: {waited}", nodes[at].name);
    put_right(nodes, at, fault).await;
}

/// Checks what a node has against how many messages each source was acknowledged.
async fn check(node: &TestNode, acknowledged: &BTreeMap<&str, u64>) {
    let there = read_all(&node.rig).await;
    for (source, count) in acknowledged {
        let of_source: Vec<Value> = there.iter().filter(|item| item["source"] == *source).cloned().collect();
        let ids = numbers(&of_source, "external_id");
        let expect: Vec<u64> = (0..*count).collect();
        assert_eq!(ids, expect, "seed {SEED}: {} has those of {source} once and in order", node.name);
    }
    let ids = numbers(&there, "id");
    assert!(ids.is_sorted_by(|a, b| a < b), "seed {SEED}: {}: ids rise", node.name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_every_node_has_every_message_once_and_in_order() {
    let mut nodes = start(["one", "two", "three"]).await;
    for at in 0..3 {
        let (from, to) = (&nodes[at], &nodes[(at + 1) % 3]);
        from.knows(to).await;
        from.copies(&format!("{S}/copies/ring"), &json!({"direction": "to", "node": to.name})).await;
    }
    let (over, is_over) = watch::channel(false);
    let answered = Arc::new(watch::channel(0_u64).0);
    let producers: Vec<_> = nodes
        .iter()
        .map(|node| {
            let api = ApiClient::new(node.rig.site.http.clone(), PATIENCE);
            tokio::spawn(produce((api, node.name), is_over.clone(), Arc::clone(&answered)))
        })
        .collect();
    let mut random = Random::new(SEED);
    for _ in 0..FAULTS {
        one_fault(&mut nodes, &mut random, &answered).await;
    }
    over.send_replace(true);
    let mut acknowledged = BTreeMap::new();
    for producer in producers {
        let (source, count) = producer.await.expect("it does not panic");
        acknowledged.insert(source, count);
    }
    let total: u64 = acknowledged.values().sum();
    for node in &nodes {
        until(&node.rig, |stream| stream["messages"] == total).await;
    }
    eprintln!("{acknowledged:?}");
    for node in &nodes {
        check(node, &acknowledged).await;
    }
}
