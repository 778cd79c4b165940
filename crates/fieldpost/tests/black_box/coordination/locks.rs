//! Locks: one holder, fences that rise, and callers in order; also across `kill -9`.

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{done, refused};
use crate::contract::rig::{PATIENCE, Rig};

const LOCK: &str = "/v1/locks/shop/report:7";

async fn acquire(rig: &Rig, owner: &str, ttl: &str) -> Value {
    done(rig, LOCK, &json!({"owner": owner, "ttl": ttl}).to_string()).await
}

fn fence(held: &Value) -> u64 {
    held["fence"].as_str().and_then(|fence| fence.parse().ok()).expect("a decimal")
}

#[tokio::test]
async fn one_owner_holds_a_lock_until_it_lets_go() {
    let rig = Rig::start(&[]).await;
    assert_eq!(rig.get(LOCK).await, json!({"held": false, "fence": "0", "waiting": 0}));
    let first = acquire(&rig, "a", "1h").await;
    assert_eq!(acquire(&rig, "a", "2h").await["fence"], first["fence"], "its owner again");
    let held = rig.json("POST", LOCK, r#"{"owner":"b"}"#).await;
    assert_eq!(refused(&held), (409, "lock_held".to_owned()));
    let shown = rig.get(LOCK).await;
    assert_eq!((&shown["held"], &shown["owner"]), (&json!(true), &json!("a")), "{shown}");
    assert!(shown["expires_at"].is_string(), "{shown}");
    for (call, body) in [("extend", json!({"owner": "b", "ttl": "1h"})), ("release", json!({"owner": "b"}))] {
        let answer = rig.json("POST", &format!("{LOCK}/{call}"), &body.to_string()).await;
        assert_eq!(refused(&answer), (409, "not_owner".to_owned()), "{call}");
    }
    let extended = done(&rig, &format!("{LOCK}/extend"), r#"{"owner":"a","ttl":"3h"}"#).await;
    assert_eq!((&extended["owner"], &extended["fence"]), (&json!("a"), &first["fence"]));
    let released = rig.json("POST", &format!("{LOCK}/release"), r#"{"owner":"a"}"#).await;
    assert_eq!(released.status, 204, "{released:?}");
    let free = rig.get(LOCK).await;
    assert_eq!(free, json!({"held": false, "fence": first["fence"], "waiting": 0}));
    let made = done(&rig, LOCK, "").await;
    assert!(made["owner"].as_str().is_some_and(|owner| owner.len() >= 16), "{made}");
    assert!(fence(&made) > fence(&first));
}

#[tokio::test]
async fn a_lock_and_its_fence_survive_kills() {
    let mut rig = Rig::start(&[]).await;
    let first = acquire(&rig, "a", "1h").await;
    rig.restart().await;
    let held = rig.json("POST", LOCK, r#"{"owner":"b"}"#).await;
    assert_eq!(refused(&held), (409, "lock_held".to_owned()));
    assert_eq!(rig.get(LOCK).await["fence"], first["fence"]);
    assert_eq!(rig.json("POST", &format!("{LOCK}/release"), r#"{"owner":"a"}"#).await.status, 204);
    rig.restart().await;
    assert!(fence(&acquire(&rig, "a", "1ms").await) > fence(&first), "a new holder has a new fence");
    let mut latest = fence(&rig.get(LOCK).await);
    for _ in 0..3 {
        rig.restart().await;
        rig.api
            .until(LOCK, PATIENCE, |shown: &Value| shown["held"] == json!(false))
            .await
            .expect("it is over");
        let next = fence(&acquire(&rig, "a", "1ms").await);
        assert!(next > latest, "{next} behind {latest}");
        latest = next;
    }
}

#[tokio::test]
async fn callers_that_wait_come_first_come_first_served() {
    let rig = Rig::start(&[]).await;
    acquire(&rig, "a", "1h").await;
    let ask = |owner: &'static str| {
        let rig = &rig;
        async move { done(rig, LOCK, &json!({"owner": owner, "ttl": "1h", "wait": "1m"}).to_string()).await }
    };
    let waiting = async |count: u64| {
        let is_so = |shown: &Value| shown["waiting"] == json!(count);
        rig.api.until::<Value>(LOCK, PATIENCE, is_so).await.expect("they wait");
    };
    let release = async |owner: &str| {
        let body = json!({"owner": owner}).to_string();
        assert_eq!(rig.json("POST", &format!("{LOCK}/release"), &body).await.status, 204);
    };
    let (mut second, mut third) = (Box::pin(ask("b")), Box::pin(ask("c")));
    tokio::select! {
        held = &mut second => panic!("it is held: {held}"),
        () = waiting(1) => {}
    }
    tokio::select! {
        held = &mut third => panic!("it is held: {held}"),
        held = &mut second => panic!("it is held: {held}"),
        () = waiting(2) => {}
    }
    let (second, ()) =
        tokio::join!(async { timeout(PATIENCE, second).await.expect("its turn") }, release("a"));
    assert_eq!(second["owner"], "b");
    drop(third);
    waiting(0).await;
    release("b").await;
    assert_eq!(rig.get(LOCK).await["held"], false, "who has gone does not hold it");
}

#[tokio::test]
async fn who_waits_is_answered_when_its_wait_is_over_and_when_the_server_stops() {
    let mut rig = Rig::start(&[]).await;
    acquire(&rig, "a", "1h").await;
    let late = rig.json("POST", LOCK, r#"{"owner":"b","wait":"50ms"}"#).await;
    assert_eq!(refused(&late), (409, "lock_held".to_owned()));
    let address = rig.site.http.address().await;
    let body = br#"{"owner":"b","wait":"1m"}"#;
    let waits = tokio::spawn(async move { crate::wire::ask(address, "POST", LOCK, &[], body).await });
    let is_there = |shown: &Value| shown["waiting"] == json!(1);
    rig.api.until::<Value>(LOCK, PATIENCE, is_there).await.expect("it waits");
    rig.stop_and_start_again().await;
    assert_eq!(waits.await.expect("an answer").status, 503);
    assert_eq!(rig.get(LOCK).await["held"], true);
}
