//! `kill -9` of the agent in a loop while senders send: nothing that was acknowledged is lost, and
//! nothing takes effect twice.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use simulator::endpoint::Endpoint;
use tokio::task::JoinSet;

use super::rig::{SpoolRig, each_in};
use crate::wire;

const ROUNDS: usize = 6;
/// Requests that are answered before the agent is killed.
const ANSWERED_PER_ROUND: u64 = 60;
const SENDERS: u64 = 4;

/// What a sender was answered.
struct Sent {
    sender: u64,
    number: u64,
    is_acknowledged: bool,
}

async fn post(address: SocketAddr, path: &str, body: &Value) -> bool {
    let headers = [("Content-Type", "application/json")];
    let answer = wire::ask_while_there(address, "POST", path, &headers, body.to_string().as_bytes()).await;
    answer.is_some_and(|answer| answer.status == 202)
}

/// Sends a report, a job and a message under each number until the agent is gone.
async fn send(http: Endpoint, sender: u64, first: u64, answered: Arc<AtomicU64>) -> Vec<Sent> {
    let address = http.address().await;
    let mut all = Vec::new();
    for number in first.. {
        let payload = json!([sender, number]);
        let report = json!({"device_id": format!("a{sender}"), "data": number});
        let is_acknowledged = post(address, "/v1/reports", &report).await
            && post(address, "/v1/queues/shop/mail/jobs", &json!({"payload": payload})).await
            && post(address, "/v1/streams/shop/orders/messages", &json!({"payload": payload})).await;
        all.push(Sent { sender, number, is_acknowledged });
        if !is_acknowledged {
            break;
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
    all
}

/// Numbers by sender, in the order in which they arrived.
fn by_sender(payloads: &[Value]) -> BTreeMap<u64, Vec<u64>> {
    let mut by_sender = BTreeMap::<u64, Vec<u64>>::new();
    for payload in payloads {
        let number = |at: usize| payload[at].as_u64().expect("a number");
        by_sender.entry(number(0)).or_default().push(number(1));
    }
    by_sender
}

fn check(what: &str, arrived: &BTreeMap<u64, Vec<u64>>, sent: &[Sent]) {
    for (sender, numbers) in arrived {
        assert!(numbers.is_sorted_by(|a, b| a < b), "{what} of {sender}, in order and once: {numbers:?}");
    }
    let is_lost = |sent: &&Sent| {
        sent.is_acknowledged && arrived.get(&sent.sender).is_none_or(|there| !there.contains(&sent.number))
    };
    let lost: Vec<_> = sent.iter().filter(is_lost).map(|sent| (sent.sender, sent.number)).collect();
    assert!(lost.is_empty(), "{what}: {lost:?} are lost");
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_and_nothing_takes_effect_twice() {
    let mut rig = SpoolRig::start(&[]).await;
    for sender in 0..SENDERS {
        rig.server.device(&json!({"id": format!("a{sender}"), "kind": "meter"})).await;
    }
    let mut sent = Vec::new();
    for round in 0..ROUNDS {
        let answered = Arc::new(AtomicU64::new(0));
        let mut senders: JoinSet<_> = (0..SENDERS)
            .map(|sender| send(rig.site.http.clone(), sender, round as u64 * 10_000, Arc::clone(&answered)))
            .collect();
        while answered.load(Ordering::Relaxed) < ANSWERED_PER_ROUND {
            tokio::task::yield_now().await;
        }
        // In some rounds the server is away, so that much waits.
        if round % 3 == 1 {
            rig.server.kill().await;
        }
        rig.kill().await;
        while let Some(of_sender) = senders.join_next().await {
            sent.extend(of_sender.expect("no panic"));
        }
        if round % 3 == 1 {
            rig.server.start_again().await;
        }
        rig.start_again().await;
    }
    rig.until(|state| state["waiting"] == 0).await;
    check("messages", &by_sender(&rig.server.payloads("shop/orders").await), &sent);
    check("jobs", &by_sender(&rig.server.consumed("shop/mail").await), &sent);
    let mut readings = BTreeMap::new();
    for sender in 0..SENDERS {
        let path = format!("/v1/devices/a{sender}/readings?order=asc&limit=1000");
        let values = each_in(&rig.server.get(&path).await["items"], "data");
        readings.insert(sender, values.iter().map(|value| value.as_u64().expect("a number")).collect());
    }
    check("readings", &readings, &sent);
    assert_eq!(rig.state().await["refused"], 0, "{}", rig.site.log());
}
