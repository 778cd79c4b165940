//! Single calls: what is sent, what is asked again, and what an error says.

use std::time::Duration;

use fieldpost_client::{Alias, Client, Error, JobChange, JobId, JobReservation, NewJob, Retry, Want};
use serde_json::{Value, json};

use crate::stage::{Reply, Stage, all_acked, jobs, nobody, ok, refused};

const PUBLISHED: &str = r#"{"jobs":[{"id":"01J","run_at":"2026-11-21T01:02:03.456Z"}]}"#;

fn one() -> NewJob {
    NewJob::json(&1).expect("a number")
}

fn reservation() -> JobReservation {
    JobReservation { queue: "mail".to_owned(), id: JobId::new("01J"), token: "R".to_owned() }
}

#[tokio::test]
async fn a_publish_whose_answer_is_lost_is_asked_again_under_its_key() {
    let stage = Stage::new(|asked| match asked.before {
        0 => Reply::Break,
        1 => refused(503, "store_failed"),
        _ => Reply::Answer(201, PUBLISHED.to_owned()),
    })
    .await;
    let queue = stage.client().queue("shop", "mail");
    let published = queue.publish(one()).await.expect("published at last");
    assert_eq!(published.id.as_str(), "01J");
    queue.publish(one()).await.expect("published");
    let asked = stage.asked();
    let keys: Vec<_> = asked.iter().map(|asked| asked.header("idempotency-key").expect("a key")).collect();
    assert_eq!((keys[0], keys[1]), (keys[1], keys[2]));
    assert_ne!(keys[2], keys[3], "another publish is another job");
    for asked in &asked {
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/queues/shop/mail/jobs"));
        assert_eq!(asked.json(), json!({ "payload": 1 }));
    }
}

#[tokio::test]
async fn what_nobody_knows_is_not_asked_again_where_twice_is_too_often() {
    let stage = Stage::new(|_| Reply::Break).await;
    let queue = stage.client().queue("shop", "mail");
    let consumed = queue.consume(Want::one()).await.expect_err("it broke");
    let changed =
        queue.change(Alias("a"), &JobChange::new().delay(Duration::ZERO)).await.expect_err("it broke");
    let respawned = queue.respawn_oldest(5).await.expect_err("it broke");
    for error in [consumed, changed, respawned] {
        assert!(matches!(error, Error::Broken { .. }) && !error.is_undone(), "{error:?}");
    }
    assert_eq!(stage.asked().len(), 3);
}

#[tokio::test]
async fn what_was_not_done_is_asked_again_always() {
    let stage = Stage::new(|asked| match asked.before {
        0 | 1 => Reply::With("retry-after: 0\r\n", 429, String::new()),
        _ => Reply::Answer(200, jobs(&[("a", Value::Null)])),
    })
    .await;
    let jobs = stage.client().queue("shop", "mail").consume(Want::one()).await.expect("jobs at last");
    assert_eq!((jobs.len(), stage.asked().len()), (1, 3));
}

#[tokio::test]
async fn a_client_that_is_not_to_try_again_does_not() {
    let stage = Stage::new(|_| refused(503, "store_failed")).await;
    let client = Client::builder(stage.url()).retry_for(Duration::ZERO).build().expect("a client");
    let error = client.queue("shop", "mail").overview().await.expect_err("it is refused");
    assert_eq!((error.status(), error.code()), (Some(503), Some("store_failed")));
    assert_eq!(stage.asked().len(), 1);
}

#[tokio::test]
async fn a_cancellation_that_got_through_unseen_is_one() {
    let stage = Stage::new(|asked| match asked.before {
        0 if asked.path.ends_with("/seen") => refused(404, "unknown_job"),
        0 => Reply::Break,
        _ => refused(404, "unknown_job"),
    })
    .await;
    let queue = stage.client().queue("shop", "mail");
    queue.cancel(Alias("unseen")).await.expect("the first try did it");
    let error = queue.cancel(Alias("seen")).await.expect_err("there is none");
    assert_eq!(error.code(), Some("unknown_job"));
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_not_waited_for_forever() {
    let stage = Stage::new(|_| Reply::Wait).await;
    let limit = Duration::from_millis(50);
    let client =
        Client::builder(stage.url()).timeout(limit).retry_for(Duration::ZERO).build().expect("a client");
    let queue = client.queue("shop", "mail");
    for error in [
        queue.overview().await.expect_err("no answer"),
        queue.consume(Want::one().wait(limit)).await.expect_err("no answer"),
    ] {
        assert!(matches!(error, Error::TimedOut { .. }) && error.may_pass(), "{error:?}");
    }
}

#[tokio::test]
async fn nobody_at_the_other_end_means_that_nothing_was_done() {
    let (_port, url) = nobody();
    let client = Client::builder(url).retry_for(Duration::from_millis(100)).build().expect("a client");
    let error = client.queue("shop", "mail").publish(one()).await.expect_err("nobody listens");
    assert!(matches!(error, Error::Unreachable { .. }) && error.is_undone(), "{error:?}");
}

#[tokio::test]
async fn somebody_else_who_answers_is_told_from_a_server() {
    for (reply, says) in [
        (("", 200, "<html>"), "not what was asked for"),
        (("", 200, "{}"), "not what was asked for"),
        (("location: https://elsewhere.example/\r\n", 301, ""), "https://elsewhere.example/"),
    ] {
        let (header, status, body) = reply;
        let stage = Stage::new(move |_| Reply::With(header, status, body.to_owned())).await;
        let error = stage.client().queue("shop", "mail").overview().await.expect_err("no figures");
        assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(stage.asked().len(), 1);
    }
}

#[tokio::test]
async fn reservations_are_shown_in_the_queue_that_they_are_of() {
    let stage = Stage::new(|asked| match asked.verb() {
        "ack" if asked.path.contains("/jobs/") => refused(409, "stale_reservation"),
        "ack" if asked.path.contains("/urgent/") => ok(&json!({ "acked": 0, "stale": ["U"] })),
        "ack" => all_acked(asked),
        _ => Reply::Answer(204, String::new()),
    })
    .await;
    let consumer = stage.client().consumer("shop", ["urgent", "mail"]);
    let urgent = JobReservation { queue: "urgent".to_owned(), token: "U".to_owned(), ..reservation() };
    let acked = consumer.ack_many([&reservation(), &urgent]).await.expect("an answer");
    assert_eq!((acked.acked, acked.stale), (1, vec![urgent]));
    consumer.extend(&reservation(), Duration::from_secs(5)).await.expect("extended");
    consumer
        .release(&reservation(), &Retry::after(Duration::from_secs(1)).because("no paper"))
        .await
        .expect("released");
    assert!(consumer.ack(&reservation()).await.expect_err("stale").is_stale());
    let asked: Vec<_> = stage.asked().into_iter().map(|asked| (asked.path.clone(), asked.json())).collect();
    let at = |path: &str| format!("/v1/queues/shop/{path}");
    assert_eq!(
        asked,
        [
            (at("mail/ack"), json!({ "reservations": ["R"] })),
            (at("urgent/ack"), json!({ "reservations": ["U"] })),
            (at("mail/jobs/01J/extend"), json!({ "reservation": "R", "ttr": "5000ms" })),
            (
                at("mail/jobs/01J/release"),
                json!({ "reservation": "R", "delay": "1000ms", "error": "no paper" })
            ),
            (at("mail/jobs/01J/ack"), json!({ "reservation": "R" })),
        ]
    );
}

#[tokio::test]
async fn the_token_and_the_path_of_the_server_go_with_every_call() {
    let stage = Stage::new(|_| Reply::Answer(200, jobs(&[]))).await;
    let url = format!("{}/behind/a/proxy/", stage.url());
    let client = Client::builder(url).token("s3cret").build().expect("a client");
    let want = Want::one().max(7).ttr(Duration::from_secs(1)).wait(Duration::from_secs(2));
    let jobs = client.consumer("shop", ["urgent", "mail"]).consume(want).await.expect("an answer");
    assert!(jobs.is_empty());
    let asked = stage.asked().pop().expect("one request");
    assert_eq!(asked.path, "/behind/a/proxy/v1/queues/shop/urgent,mail/consume");
    assert_eq!(asked.header("authorization"), Some("Bearer s3cret"));
    assert_eq!(asked.json(), json!({ "max": 7, "ttr": "1000ms", "wait": "2000ms" }));
}
