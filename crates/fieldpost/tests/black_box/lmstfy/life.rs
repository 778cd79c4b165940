//! A job's way from one end to the other, through these doors.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::lmstfy::rig::{NAMESPACE, PATIENCE, Rig};
use crate::wire::{self, Answer};

/// A consumer that waits for a minute, and what it is answered.
async fn waiting_for(rig: &Rig, queues: &str) -> JoinHandle<Answer> {
    let (address, token) = (rig.api, &rig.token);
    let head =
        format!("GET /api/{NAMESPACE}/{queues}?timeout=60 HTTP/1.1\nHost: localhost\nX-Token: {token}");
    let waiting = tokio::spawn(async move { wire::send(address, &head, b"").await });
    rig.until_waiting(1).await;
    waiting
}

#[tokio::test]
async fn a_consumer_that_waits_gets_the_job_when_it_comes() {
    let rig = Rig::start().await;
    let waiting = waiting_for(&rig, "a,b").await;
    let id = rig.publish("b", b"x").await;
    let got = waiting.await.expect("no panic");
    assert_eq!((got.status, got.json()["job_id"].clone()), (200, json!(id)));
}

#[tokio::test]
async fn a_delayed_job_comes_when_it_is_due_and_not_before() {
    let rig = Rig::start().await;
    let began = Instant::now();
    rig.publish("q?delay=1", b"x").await;
    let at_once = rig.ask("GET", "q", b"").await;
    // On a slow machine it may be due by then.
    if at_once.status != 200 {
        assert_eq!(at_once.status, 404, "{at_once:?}");
        rig.consume("q?timeout=60").await;
    }
    assert!(began.elapsed().as_millis() >= 1_000, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_job_is_tried_until_its_tries_are_used_up() {
    let rig = Rig::start().await;
    let id = rig.publish("q?tries=2&ttl=100", b"dies").await;
    for left in [1, 0] {
        let job = rig.consume("q?ttr=0&timeout=60").await;
        assert_eq!((&job["job_id"], &job["remain_tries"]), (&json!(id), &json!(left)));
    }
    rig.until_size("q/deadletter/size", 1).await;
    let head = rig.ask("GET", "q/deadletter", b"").await.json();
    assert_eq!((&head["deadletter_size"], &head["deadletter_head"]), (&json!(1), &json!(id)));
    let dead = rig.consume(&format!("q/job/{id}")).await;
    assert_eq!((&dead["data"], &dead["ttl"]), (&json!("ZGllcw=="), &json!(0)));
}

#[tokio::test]
async fn a_job_that_is_acknowledged_does_not_come_again() {
    let rig = Rig::start().await;
    let id = rig.publish("q?tries=2", b"x").await;
    rig.consume("q?ttr=1").await;
    assert_eq!(rig.ask("DELETE", &format!("q/job/{id}"), b"").await.status, 204);
    assert_eq!(rig.ask("GET", "q?timeout=2", b"").await.status, 404);
    assert_eq!(rig.ask("GET", &format!("q/job/{id}"), b"").await.status, 404);
}

#[tokio::test]
async fn dead_jobs_are_tried_again_or_deleted_the_oldest_first() {
    let rig = Rig::start().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(rig.publish("q", b"x").await);
        rig.consume("q?ttr=0").await;
        rig.until_size("q/deadletter/size", ids.len() as u64).await;
    }
    let respawned = rig.ask("PUT", "q/deadletter?ttl=50", b"").await;
    assert_eq!((respawned.status, respawned.json()), (200, json!({"count": 1, "msg": "respawned"})));
    let job = rig.consume("q?ttr=60").await;
    assert_eq!(job["job_id"], json!(ids[0]));
    assert!((40..=50).contains(&job["ttl"].as_u64().expect("a number")), "{job}");
    assert_eq!(rig.ask("DELETE", "q/deadletter", b"").await.status, 204);
    assert_eq!(rig.ask("GET", "q/deadletter", b"").await.json()["deadletter_head"], json!(ids[2]));
    let respawned = rig.ask("PUT", "q/deadletter?limit=9223372036854775807&ttl=0", b"").await;
    assert_eq!(respawned.json()["count"], 1);
    assert_eq!(rig.consume("q?ttr=60").await["ttl"], 0);
}

#[tokio::test]
async fn a_late_acknowledgement_makes_a_dead_job_go_away() {
    let rig = Rig::start().await;
    let id = rig.publish("q", b"x").await;
    rig.consume("q?ttr=0").await;
    rig.until_size("q/deadletter/size", 1).await;
    assert_eq!(rig.ask("DELETE", &format!("q/job/{id}"), b"").await.status, 204);
    rig.until_size("q/deadletter/size", 0).await;
    assert_eq!(rig.ask("GET", &format!("q/job/{id}"), b"").await.status, 404);
}

#[tokio::test]
async fn a_job_that_is_published_again_takes_the_place_of_the_old_one() {
    let rig = Rig::start().await;
    let old = rig.publish("q", b"old").await;
    rig.consume("q?ttr=60").await;
    let new = rig.publish(&format!("q/job/{old}?ttl=100"), b"new").await;
    assert_ne!(old, new);
    assert_eq!(rig.ask("GET", &format!("q/job/{old}"), b"").await.status, 404);
    let job = rig.consume("q").await;
    assert_eq!((&job["job_id"], &job["data"]), (&json!(new), &json!("bmV3")));
    assert!((1..=100).contains(&job["ttl"].as_u64().expect("a number")), "{job}");
    let unknown = rig.publish("q/job/01ARZ3NDEKTSV4RRFFQ69G5FAV", b"x").await;
    assert_eq!(rig.consume("q").await["job_id"], json!(unknown));
}

#[tokio::test]
async fn a_queue_is_destroyed_with_what_is_ready_in_it() {
    let rig = Rig::start().await;
    let dead = rig.publish("q", b"dead").await;
    rig.consume("q?ttr=0").await;
    rig.until_size("q/deadletter/size", 1).await;
    let taken = rig.publish("q", b"taken").await;
    rig.consume("q?ttr=600").await;
    // Again with more time, should it be due before the rest is done.
    let mut delay_s = 1;
    let delayed = loop {
        let began = Instant::now();
        let delayed = rig.publish(&format!("q?delay={delay_s}"), b"delayed").await;
        for _ in 0..3 {
            rig.publish("q", b"ready").await;
        }
        assert_eq!(rig.ask("DELETE", "q", b"").await.status, 204);
        let size = rig.ask("GET", "q/size", b"").await.json()["size"].clone();
        if began.elapsed() < Duration::from_secs(delay_s) {
            assert_eq!(size, 0);
            break delayed;
        }
        assert_eq!(rig.ask("DELETE", &format!("q/job/{delayed}"), b"").await.status, 204);
        delay_s *= 5;
    };
    assert_eq!(rig.ask("GET", "q/deadletter", b"").await.json()["deadletter_head"], json!(dead));
    rig.consume(&format!("q/job/{taken}")).await;
    assert_eq!(rig.consume("q?timeout=60").await["job_id"], json!(delayed));
    assert_eq!(rig.ask("GET", "q", b"").await.status, 404);
}

#[tokio::test]
async fn a_job_may_be_worth_doing_only_until_it_is_due() {
    let rig = Rig::start().await;
    rig.publish("later?delay=86400", b"x").await;
    // From when it is due it lives for a second: its consumer has to be there before.
    let waiting = waiting_for(&rig, "q").await;
    let id = rig.publish("q?delay=1&ttl=1", b"x").await;
    let got = waiting.await.expect("no panic");
    assert_eq!((got.status, got.json()["job_id"].clone()), (200, json!(id)));
}

#[tokio::test]
async fn what_was_answered_survives_a_kill() {
    let mut rig = Rig::start().await;
    let [acked, taken, waits] =
        [rig.publish("q", b"1").await, rig.publish("q?tries=2", b"2").await, rig.publish("q", b"3").await];
    rig.consume("q?ttr=600").await;
    assert_eq!(rig.ask("DELETE", &format!("q/job/{acked}"), b"").await.status, 204);
    rig.consume("q?ttr=1").await;
    rig.restart().await;
    assert_eq!(
        rig.consume("q").await["job_id"],
        json!(waits),
        "the one that is taken is not given out again"
    );
    let again = rig.consume("q?timeout=60").await;
    assert_eq!((&again["job_id"], &again["remain_tries"]), (&json!(taken), &json!(0)));
    assert_eq!(rig.ask("GET", "q", b"").await.status, 404);
}

#[tokio::test]
async fn a_server_that_stops_tells_those_who_wait() {
    let mut rig = Rig::start().await;
    let token = &rig.token;
    let head = format!("GET /api/{NAMESPACE}/q?timeout=600 HTTP/1.1\nHost: localhost\nX-Token: {token}");
    let mut waiting = wire::begin(rig.api, &head, b"").await;
    rig.until_waiting(1).await;
    let (stopped, answer) = tokio::join!(rig.stop(), async {
        let mut answer = String::new();
        timeout(PATIENCE, waiting.read_to_string(&mut answer)).await.expect("in time").expect("text");
        answer
    });
    assert!(stopped);
    assert!(
        answer.starts_with("HTTP/1.1 404") && answer.ends_with(r#"{"msg":"no job available"}"#),
        "{answer}"
    );
}

#[tokio::test]
async fn a_consumer_that_hangs_up_takes_no_job_along() {
    let rig = Rig::start().await;
    let token = &rig.token;
    let head = format!("GET /api/{NAMESPACE}/q?timeout=600 HTTP/1.1\nHost: localhost\nX-Token: {token}");
    let waiting = wire::begin(rig.api, &head, b"").await;
    rig.until_waiting(1).await;
    drop(waiting);
    rig.until_waiting(0).await;
    rig.publish("q", b"x").await;
    let job: Value = rig.consume("q?timeout=60").await;
    assert_eq!(job["remain_tries"], 0);
}
