//! How a worker ends, and what it does when the server is not there.

use std::sync::Arc;
use std::time::Duration;

use fieldpost_client::Client;
use serde_json::json;
use tokio::sync::Notify;

use crate::stage::{Reply, Stage, all_acked, jobs, refused};
use crate::worker::{Running, worker};

/// Longer than any test: nothing here waits for it.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_server_that_goes_away_is_asked_again_until_it_is_back() {
    let stage = Stage::new(|asked| match (asked.verb(), asked.before) {
        ("consume", 0) => Reply::Break,
        ("consume", 1) => refused(503, "not_ready"),
        ("consume", 2) => Reply::Answer(200, jobs(&[("a", json!(1))])),
        ("consume", _) => Reply::Wait,
        _ => all_acked(asked),
    })
    .await;
    let running = Running::start(worker(&stage), |_, _| async { Ok(()) });
    running.events.until("done a").await;
    let events = running.events.all();
    assert_eq!(events, ["away", "away", "begun a", "done a"]);
    running.stop().await;
}

#[tokio::test]
async fn a_worker_that_is_to_empty_a_queue_gives_a_server_up_that_stays_away() {
    let stage = Stage::new(|asked| match (asked.verb(), asked.before) {
        ("consume", 0) => Reply::Answer(200, jobs(&[("a", json!(1))])),
        ("consume", _) => Reply::Break,
        _ => all_acked(asked),
    })
    .await;
    let client =
        Client::builder(stage.url()).retry_for(Duration::from_millis(100)).build().expect("a client");
    let worker = client.queue("shop", "mail").worker().until_empty();
    let error = Running::start(worker, |_, _| async { Ok(()) }).ended().await.expect_err("it is away");
    assert!(error.may_pass(), "{error}");
    assert_eq!(stage.asked_to("ack").len(), 1, "what was begun is done");
}

#[tokio::test]
async fn a_refusal_that_does_not_pass_ends_the_worker() {
    let stage = Stage::new(|_| refused(403, "forbidden")).await;
    let error =
        Running::start(worker(&stage), |_, _| async { Ok(()) }).ended().await.expect_err("it may not");
    assert_eq!(error.code(), Some("forbidden"));
}

#[tokio::test]
async fn a_worker_that_waits_for_jobs_stops_at_once() {
    let stage = Stage::new(|_| Reply::Wait).await;
    let running = Running::start(worker(&stage), |_, _| async { Ok(()) });
    stage.until("consume", 1).await;
    let events = running.events.clone();
    running.stop().await;
    assert_eq!(events.all(), ["stopping with 0"]);
}

#[tokio::test]
async fn jobs_that_are_on_their_way_when_it_stops_are_done() {
    let stage = Stage::new(|asked| match asked.verb() {
        "consume" => Reply::WaitThen(200, jobs(&[("a", json!(1))])),
        _ => all_acked(asked),
    })
    .await;
    let running = Running::start(worker(&stage), |_, _| async { Ok(()) });
    stage.until("consume", 1).await;
    let events = running.events.clone();
    running.stop().await;
    assert_eq!(events.all(), ["stopping with 1", "begun a", "done a"]);
    assert_eq!((stage.asked_to("consume").len(), stage.asked_to("ack").len()), (1, 1));
}

#[tokio::test]
async fn handlers_that_run_are_waited_for() {
    let stage = Stage::new(|asked| match (asked.verb(), asked.before) {
        ("consume", 0) => Reply::Answer(200, jobs(&[("a", json!(1))])),
        ("consume", _) => Reply::Wait,
        ("ack", _) => all_acked(asked),
        _ => Reply::Answer(204, String::new()),
    })
    .await;
    let finish = Arc::new(Notify::new());
    let signal = Arc::clone(&finish);
    let running = Running::start(worker(&stage).ttr(LONG).stop_limit(LONG), move |_, _| {
        let signal = Arc::clone(&signal);
        async move {
            signal.notified().await;
            Ok(())
        }
    });
    running.events.until("begun a").await;
    running.say_stop();
    running.events.until("stopping with 1").await;
    finish.notify_one();
    running.events.until("done a").await;
    running.ended().await.expect("a good end");
    assert_eq!((stage.asked_to("ack").len(), stage.asked_to("release").len()), (1, 0));
}

#[tokio::test]
async fn handlers_that_take_too_long_are_dropped_and_their_jobs_given_back() {
    let stage = Stage::new(|asked| match (asked.verb(), asked.before) {
        ("consume", 0) => Reply::Answer(200, jobs(&[("a", json!(1)), ("b", json!(2))])),
        ("consume", _) => Reply::Wait,
        _ => Reply::Answer(204, String::new()),
    })
    .await;
    let limited = worker(&stage).ttr(LONG).stop_limit(Duration::ZERO);
    let running = Running::start(limited, |_, _| std::future::pending());
    running.events.until("begun b").await;
    running.stop().await;
    let released = stage.asked_to("release");
    let errors: Vec<_> = released.iter().map(|asked| asked.json()["error"].clone()).collect();
    assert_eq!(
        errors,
        [
            json!("the worker stopped before the job was done"),
            json!("the worker stopped before the job was done")
        ]
    );
}
