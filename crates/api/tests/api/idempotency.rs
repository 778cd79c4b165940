//! `Idempotency-Key`: the same request gets the same answer, and another one is told.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use base::{ClientId, PartitionId, Timestamp};
use store::{Planned, Store};

use crate::rig::{Answer, Server, check_form, request};

const CLIENT: &str = r#"{"name":"A","url":"https://a.example"}"#;

fn keyed(call: &str, key: &str, body: &str) -> Request<Body> {
    let request = request(call, body).header("idempotency-key", key);
    request.body(Body::from(body.to_owned())).expect("a request")
}

async fn send(server: &Server, call: &str, key: &str, body: &str) -> Answer {
    let answer = server.send(keyed(call, key, body)).await;
    check_form(call, &answer);
    answer
}

async fn clients(server: &Server) -> usize {
    server.get("/v1/clients").await["items"].as_array().expect("a list").len()
}

#[tokio::test]
async fn a_repeat_after_a_restart_gets_the_same_answer() {
    let server = Server::start().await;
    let first = send(&server, "POST /v1/clients", "k", CLIENT).await;
    let server = server.restart().await;
    let again = send(&server, "POST /v1/clients", "k", CLIENT).await;
    assert_eq!((first.status, again.status, &first.text), (201, 201, &again.text));
    assert_eq!(clients(&server).await, 1);
}

#[tokio::test]
async fn another_query_under_the_same_key_is_another_request() {
    let server = Server::start().await;
    let [first, again, other] = ["site=1", "site=1", "site=2"].map(|selector| {
        let call = format!("POST /v1/desired?selector={selector}");
        let line = r#"{"key":"door","value":1}"#;
        let request = request(&call, line).header("idempotency-key", "k");
        server.send(
            request.header("content-type", "application/x-ndjson").body(line.into()).expect("a request"),
        )
    });
    let (first, again, other) = (first.await, again.await, other.await);
    assert_eq!((first.status, again.status, &first.text), (202, 202, &again.text), "{}", first.text);
    assert_eq!((other.status, &other.json()["code"]), (422, &"idempotency_key_reused".into()));
}

#[tokio::test]
async fn how_long_a_call_waits_is_no_part_of_its_key() {
    let server = Server::start().await;
    server.add_device("a").await;
    let [first, again] = ["?wait=1ms", ""].map(|wait| {
        let call = format!("POST /v1/devices/a/commands{wait}");
        server.send(keyed(&call, "k", r#"{"payload":1}"#))
    });
    let (first, again) = (first.await, again.await);
    assert_eq!((first.status, again.status), (201, 201), "{}", again.text);
    assert_eq!(first.json()["id"], again.json()["id"]);
}

#[tokio::test]
async fn a_portal_is_opened_once_and_its_token_stored_nowhere() {
    let server = Server::start().await;
    server.add_client("acme").await;
    let (open, body) = ("POST /v1/clients/acme/portal", r#"{"ttl":"1h","may":["read"]}"#);
    let first = send(&server, open, "k", body).await;
    let again = send(&server, open, "k", body).await;
    assert_eq!((first.status, again.status, &first.text), (201, 201, &again.text));
    let server = server.restart().await;
    let other = send(&server, open, "k", body).await;
    assert_eq!(other.status, 201);
    assert_ne!(other.json()["token"], first.json()["token"]);
}

#[tokio::test]
async fn a_repeat_after_a_restart_is_answered_from_the_campaign_with_its_secret() {
    let server = Server::start().await;
    let (begin, body) = (
        "POST /v1/campaigns",
        r#"{"payload":1,"count":1,"every":"1h","results":{"url":"https://a.example/r"}}"#,
    );
    let first = send(&server, begin, "k", body).await;
    let server = server.restart().await;
    let again = send(&server, begin, "k", body).await;
    assert_eq!((first.status, again.status, &first.text), (201, 201, &again.text));
    assert!(first.text.contains("whsec_"), "{}", first.text);
}

/// What is done is durable, and then the server dies before it answers.
async fn cut_off(server: Server, call: &str, body: &str) -> Server {
    server.store.plan(PartitionId::of_queues(0), Planned::UnknownLost);
    assert_eq!(send(&server, call, "k", body).await.status, 503, "{call}");
    server.restart().await
}

#[tokio::test]
async fn a_repeat_whose_first_answer_was_lost_with_the_server_does_nothing_again() {
    let server = cut_off(Server::start_with(1, Router::new()).await, "POST /v1/clients", CLIENT).await;
    assert_eq!(clients(&server).await, 1);
    let client = send(&server, "POST /v1/clients", "k", CLIENT).await;
    assert_eq!((client.status, clients(&server).await), (201, 1), "{}", client.text);

    let path = format!("/v1/clients/{}", client.json()["id"].as_str().expect("an id"));
    let rotation = format!("POST {path}/rotate-secret");
    let server = cut_off(server, &rotation, "").await;
    let secrets = |server: &Server| {
        let id = ClientId::new(client.json()["id"].as_str().expect("an id")).expect("an id");
        let client = server.engine.directory().by_id(&id).expect("registered");
        (client.secret.clone(), client.previous_secret.clone().map(|previous| previous.secret))
    };
    let rotated = secrets(&server);
    assert_eq!(send(&server, &rotation, "k", "").await.status, 200);
    assert_eq!(secrets(&server), rotated, "rotated once");

    let server = cut_off(server, "POST /v1/devices", r#"{"id":"a"}"#).await;
    let device = send(&server, "POST /v1/devices", "k", r#"{"id":"a"}"#).await;
    assert_eq!(device.status, 201, "it is not told that there is one already: {}", device.text);
}

#[tokio::test]
async fn a_wrong_body_that_comes_first_after_a_restart_does_not_take_the_key() {
    let server = Server::start().await;
    let first = send(&server, "POST /v1/clients", "k", CLIENT).await;
    let server = server.restart().await;
    let other = send(&server, "POST /v1/clients", "k", &CLIENT.replace("\"A\"", "\"B\"")).await;
    assert_eq!((other.status, other.json()["code"].as_str()), (422, Some("idempotency_key_reused")));
    let again = send(&server, "POST /v1/clients", "k", CLIENT).await;
    assert_eq!((again.status, again.text), (201, first.text));
}

#[tokio::test]
async fn a_key_belongs_to_path_and_token() {
    let server = Server::start().await;
    send(&server, "POST /v1/clients", "k", CLIENT).await;
    let device = send(&server, "POST /v1/devices", "k", r#"{"id":"a"}"#).await;
    assert_eq!(device.status, 201, "{}", device.text);
    let mut request = keyed("POST /v1/clients", "k", CLIENT);
    request.headers_mut().insert("authorization", "Bearer other".parse().expect("a header"));
    assert_eq!(server.send(request).await.status, 201);
    assert_eq!(clients(&server).await, 2);
}

#[tokio::test]
async fn a_refusal_is_repeated_too() {
    let server = Server::start().await;
    server.add_device("a").await;
    let first = send(&server, "POST /v1/devices", "k", r#"{"id":"a"}"#).await;
    assert_eq!(first.status, 409);
    server.check("DELETE /v1/devices/a", "", 204, "").await;
    let again = send(&server, "POST /v1/devices", "k", r#"{"id":"a"}"#).await;
    assert_eq!((again.status, again.text), (409, first.text));
}

#[tokio::test]
async fn a_key_is_forgotten_after_a_day() {
    let server = Server::start().await;
    send(&server, "POST /v1/clients", "k", CLIENT).await;
    server.clock.advance(Duration::from_secs(24 * 3_600 - 1));
    send(&server, "POST /v1/clients", "k", CLIENT).await;
    assert_eq!(clients(&server).await, 1);
    server.clock.advance(Duration::from_secs(1));
    send(&server, "POST /v1/clients", "k", CLIENT).await;
    assert_eq!(clients(&server).await, 2);
}

#[tokio::test]
async fn answers_that_are_too_old_leave_the_partitions_of_what_they_are_about() {
    let server = Server::start_with(1, Router::new()).await;
    let client = send(&server, "POST /v1/clients", "k", CLIENT).await.json();
    send(&server, "POST /v1/devices", "k", r#"{"id":"a"}"#).await;
    let kept = |partition| {
        let view = server.store.view(partition).expect("the store is there");
        view.answers_given(None, Timestamp::MAX, 9).expect("the store is there").len()
    };
    assert_eq!([PartitionId::REGISTRY, PartitionId(0)].map(kept), [1, 1]);
    server.clock.advance(Duration::from_secs(24 * 3_600));
    let client = format!("DELETE /v1/clients/{}", client["id"].as_str().expect("an id"));
    server.check(&client, "", 204, "").await;
    server.check("DELETE /v1/devices/a", "", 204, "").await;
    assert_eq!([PartitionId::REGISTRY, PartitionId(0)].map(kept), [0, 0]);
}

#[tokio::test]
async fn requests_at_the_same_time_create_one_thing() {
    let server = Server::start().await;
    let sends = (0..20).map(|_| send(&server, "POST /v1/clients", "k", CLIENT));
    let answers = futures_util::future::join_all(sends).await;
    assert_eq!(clients(&server).await, 1);
    for answer in &answers {
        assert_eq!((answer.status, &answer.text), (201, &answers[0].text));
    }
}

#[tokio::test]
async fn not_now_is_not_remembered() {
    let server = Server::start().await;
    server.store.plan(PartitionId::REGISTRY, Planned::UnknownLost);
    let refused = send(&server, "POST /v1/clients", "k", CLIENT).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("unavailable")));
    let again = send(&server, "POST /v1/clients", "k", CLIENT).await;
    assert_eq!(again.status, 201, "{}", again.text);
}

#[tokio::test]
async fn a_key_that_is_none_is_refused() {
    let server = Server::start().await;
    for key in ["", &"k".repeat(256), "k\tk"] {
        let answer = send(&server, "POST /v1/clients", key, CLIENT).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (422, Some("invalid_idempotency_key")));
    }
    let mut request = keyed("POST /v1/clients", "k", CLIENT);
    request.headers_mut().append("idempotency-key", "l".parse().expect("a header"));
    assert_eq!(server.send(request).await.status, 422);
    assert_eq!(send(&server, "POST /v1/clients", &"k".repeat(255), CLIENT).await.status, 201);
}

/// The caller goes away before the answer; the repeat gets it.
#[tokio::test]
async fn what_was_begun_for_a_caller_who_went_away_is_finished() {
    let server = Server::start().await;
    let answered = tokio::select! {
        biased;
        _ = send(&server, "POST /v1/clients", "k", CLIENT) => true,
        () = std::future::ready(()) => false,
    };
    assert!(!answered, "the caller went away too late");
    assert_eq!(send(&server, "POST /v1/clients", "k", CLIENT).await.status, 201);
    assert_eq!(clients(&server).await, 1);
}

#[tokio::test]
async fn the_newest_publishing_of_a_source_is_known_for_months() {
    let server = Server::start().await;
    let call = "POST /v1/queues/shop/mail/jobs";
    let publish = async |source: &str, key: &str| {
        let request = request(call, r#"{"payload":1}"#).header("idempotency-key", key);
        let request = request.header("idempotency-source", source);
        let answer = server.send(request.body(Body::from(r#"{"payload":1}"#)).expect("a request")).await;
        check_form(call, &answer);
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.text
    };
    let first = publish("spool-1", "k1").await;
    let newest = publish("spool-1", "k2").await;
    // The same text as a key is something else.
    let other = publish("k2", "spool-1").await;
    server.clock.advance(Duration::from_secs(80 * 24 * 3_600));
    assert_eq!(publish("spool-1", "k2").await, newest);
    assert_eq!(publish("k2", "spool-1").await, other);
    assert_ne!(publish("spool-2", "k2").await, newest);
    assert_ne!(publish("spool-1", "k1").await, first);
    let alone = request(call, r#"{"payload":1}"#).header("idempotency-source", "spool-1");
    let refused = server.send(alone.body(Body::from(r#"{"payload":1}"#)).expect("a request")).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (422, Some("invalid_idempotency_key")));
}
