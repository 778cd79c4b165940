//! `kill -9` while producers append: what every save mode promises, and that no id is given twice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{MODES, S, append_numbers, numbers, read_all, set};
use crate::contract::rig::Rig;
use crate::wire;

/// Producers of one round.
const PRODUCERS: u64 = 8;
/// Answered messages after which the server is killed.
const ANSWERED: usize = 400;

/// What a producer was answered: the id of each of its messages, by number.
type Answered = Vec<(u64, u64)>;

/// Appends numbers until the server is gone: those of producer `number` are its own modulo the
/// count of producers.
async fn produce(
    address: std::net::SocketAddr,
    producer: u64,
    round: u64,
    gone: Arc<AtomicBool>,
    progress: mpsc::Sender<()>,
) -> Answered {
    let mut answered = Vec::new();
    for step in 0.. {
        if gone.load(Ordering::SeqCst) {
            break;
        }
        let number = (round * 1_000_000 + step) * PRODUCERS + producer;
        let body = json!({"payload": number, "source": format!("p{producer}"), "external_id": number});
        let path = format!("{S}/messages");
        let Some(answer) =
            wire::ask_while_there(address, "POST", &path, &[], body.to_string().as_bytes()).await
        else {
            break;
        };
        if answer.status != 201 {
            break;
        }
        let message = answer.json()["messages"][0].clone();
        assert_eq!(message["duplicate"], false, "{message}");
        answered.push((number, message["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")));
        progress.send(()).await.ok();
    }
    answered
}

/// What was answered before a kill that came while all of them appended.
async fn killed_under_way(rig: &mut Rig, round: u64) -> Answered {
    let address = rig.site.http.address().await;
    let gone = Arc::new(AtomicBool::new(false));
    let (progress, mut made) = mpsc::channel(ANSWERED);
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| tokio::spawn(produce(address, producer, round, Arc::clone(&gone), progress.clone())))
        .collect();
    drop(progress);
    for _ in 0..ANSWERED {
        made.recv().await.expect("they append");
    }
    // Whoever tells of progress now is not heard, and does not wait.
    drop(made);
    rig.kill().await;
    gone.store(true, Ordering::SeqCst);
    let mut answered = Vec::new();
    for producer in producers {
        answered.extend(producer.await.expect("it ends"));
    }
    rig.start_again().await;
    answered
}

/// Messages of a stream by their ids; no number is there twice.
fn kept(all: &[Value]) -> Vec<(u64, u64)> {
    let (ids, payloads) = (numbers(all, "id"), numbers(all, "payload"));
    assert!(ids.is_sorted_by(|one, next| one < next), "ids rise: {ids:?}");
    let distinct: BTreeSet<_> = payloads.iter().collect();
    assert_eq!(distinct.len(), payloads.len(), "each is there once");
    payloads.into_iter().zip(ids).collect()
}

#[tokio::test]
async fn every_mode_keeps_its_promise_when_the_server_is_killed() {
    for mode in MODES {
        let mut rig = Rig::start(&[]).await;
        let settings = json!({"save": mode, "save_interval": "100ms", "block": {"messages": 300}});
        set(&rig, &settings).await;
        let (mut given, mut before) = (BTreeSet::new(), Vec::new());
        for round in 0..3 {
            let answered = killed_under_way(&mut rig, round).await;
            let all = kept(&read_all(&rig).await);
            assert_eq!(all[..before.len().min(all.len())], before, "{mode}: what was kept once stays");
            for (number, id) in &answered {
                assert!(given.insert(*id), "{mode}: id {id} was given twice, now to {number}");
            }
            let of_answered: BTreeSet<_> = answered.iter().copied().collect();
            let found: BTreeSet<_> = all[before.len()..].iter().copied().collect();
            if ["sync", "wait"].contains(&mode) {
                let lost: Vec<_> = of_answered.difference(&found).collect();
                assert!(lost.is_empty(), "{mode}: what was answered is there, but for {lost:?}");
            } else {
                // Of what was answered a prefix is there, and nothing behind a gap.
                let newest = found.iter().map(|(_, id)| *id).max().unwrap_or_default();
                let gap = of_answered.iter().find(|of| of.1 < newest && !found.contains(*of));
                assert_eq!(gap, None, "{mode}: what is left is a prefix");
            }
            given.extend(found.iter().map(|(_, id)| *id));
            before = all;
        }
        let newest = append_numbers(&rig, u64::from(u32::MAX), 1).await;
        assert!(given.insert(numbers(&newest, "id")[0]), "{mode}: an id that was given before");
    }
}

#[tokio::test]
async fn a_clean_stop_saves_everything_in_every_mode() {
    for mode in MODES {
        let mut rig = Rig::start(&[]).await;
        let interval = if mode == "wait" { "20ms" } else { "1m" };
        set(&rig, &json!({"save": mode, "save_interval": interval})).await;
        append_numbers(&rig, 0, 500).await;
        rig.stop_and_start_again().await;
        let all = read_all(&rig).await;
        assert_eq!(numbers(&all, "payload"), (0..500).collect::<Vec<_>>(), "{mode}");
        assert_eq!(append_numbers(&rig, 500, 1).await.len(), 1, "{mode}");
    }
}

#[tokio::test]
async fn a_stream_that_was_deleted_stays_so_after_a_kill() {
    let mut rig = Rig::start(&[]).await;
    set(&rig, &json!({"block": {"messages": 100}})).await;
    for call in 0..20 {
        append_numbers(&rig, call * 100, 100).await;
    }
    assert_eq!(rig.json("DELETE", S, "").await.status, 204);
    rig.restart().await;
    assert_eq!(rig.json("GET", S, "").await.status, 404);
    assert_eq!(append_numbers(&rig, 0, 1).await[0]["id"], "1");
    rig.restart().await;
    assert_eq!(numbers(&read_all(&rig).await, "payload"), [0]);
}
