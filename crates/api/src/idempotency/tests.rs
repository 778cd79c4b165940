//! What is remembered, for how long, and what a repeat of each call is answered.

use axum::body::Bytes;
use axum::http::StatusCode;

use super::*;

const BODY: Digest = [0; 32];

fn digest(n: usize) -> Digest {
    Sha256::digest(n.to_be_bytes()).into()
}

async fn answered(remembered: &Arc<IdempotencyKeys>, n: usize, bytes: usize) -> ApiAnswer {
    let kept = remembered.keep(digest(n), BODY, Timestamp(0)).expect("the same body");
    let body = Bytes::from(vec![b' '; bytes]);
    let make = async { Ok(ApiAnswer { status: StatusCode::CREATED, body }) };
    answer_of(Arc::clone(remembered), digest(n), kept, make).await
}

#[test]
fn the_oldest_keys_make_room_for_new_ones() {
    let remembered = IdempotencyKeys::default();
    for n in 0..KEYS_MAX + 10 {
        remembered.keep(digest(n), BODY, Timestamp(0)).expect("new");
    }
    assert_eq!(remembered.size(), IdempotencySize { keys: KEYS_MAX, bytes: 0, forgotten_early: 10 });
    assert!(remembered.keep(digest(9), [1; 32], Timestamp(0)).is_ok(), "forgotten, so new again");
    assert!(remembered.keep(digest(KEYS_MAX), [1; 32], Timestamp(0)).is_err(), "still there");
}

#[tokio::test]
async fn the_oldest_answers_make_room_for_new_ones() {
    let remembered = Arc::new(IdempotencyKeys::default());
    for n in 0..3 {
        answered(&remembered, n, ANSWERS_BYTES_MAX / 2).await;
    }
    let expect = IdempotencySize { keys: 2, bytes: ANSWERS_BYTES_MAX, forgotten_early: 1 };
    assert_eq!(remembered.size(), expect);
    assert_eq!(answered(&remembered, 2, 5).await.body.len(), ANSWERS_BYTES_MAX / 2, "remembered");
    assert_eq!(answered(&remembered, 0, 5).await.body.len(), 5, "made again");
}

#[tokio::test]
async fn an_answer_whose_key_was_forgotten_meanwhile_is_not_counted() {
    let remembered = Arc::new(IdempotencyKeys::default());
    let kept = remembered.keep(digest(0), BODY, Timestamp(0)).expect("new");
    let later = Timestamp(0).after(REMEMBERED_FOR);
    remembered.keep(digest(1), BODY, later).expect("new");
    let make = async { Ok(ApiAnswer::nothing()) };
    answer_of(Arc::clone(&remembered), digest(0), kept, make).await;
    assert_eq!(remembered.size(), IdempotencySize { keys: 1, bytes: 0, forgotten_early: 0 });
}

#[tokio::test]
async fn a_panic_is_the_callers_and_the_next_one_tries_again() {
    let remembered = Arc::new(IdempotencyKeys::default());
    let kept = remembered.keep(digest(0), BODY, Timestamp(0)).expect("new");
    let make = async { panic!("on purpose") };
    let ended = tokio::spawn(answer_of(Arc::clone(&remembered), digest(0), kept, make)).await;
    assert!(ended.is_err_and(|error| error.is_panic()));
    assert_eq!(answered(&remembered, 0, 5).await.status, StatusCode::CREATED);
}

/// What a router answers to a POST with a key, or to a DELETE of a device.
async fn called(router: &axum::Router, call: &str, body: &str) -> (u16, serde_json::Value) {
    let (method, path) = call.split_once(' ').expect("a method and a path");
    let request = Request::builder().method(method).uri(path).header(HEADER, "k1");
    let request = request.body(axum::body::Body::from(body.to_owned())).expect("a request");
    let response = tower_service::Service::call(&mut router.clone(), request).await.expect("no failure");
    let status = response.status().as_u16();
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.expect("whole").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// A server without tokens, with what it shares.
async fn served() -> (ApiState, axum::Router) {
    let store = Arc::new(store::MemoryStore::new(base::Lineage(1), 2));
    let clock = Arc::new(base::SystemClock::start(Timestamp(0)));
    let settings = engine::EngineSettings::for_tests();
    let engine = engine::Engine::start(settings, store, clock).await.expect("an empty store loads");
    let budget = net::memory_budget::MemoryBudget::default();
    let api = ApiState::new(engine, access::Access::Open, &budget, Arc::default());
    let router = crate::router_with(&api, axum::Router::new());
    (api, router)
}

#[tokio::test]
async fn of_a_campaign_that_was_begun_the_id_alone_is_kept() {
    let (api, router) = served().await;
    let begin = "POST /v1/campaigns";
    let body = format!(r#"{{"id":"c","count":1,"every":"1h","payload":"{}"}}"#, "x".repeat(100_000));
    let first = called(&router, begin, &body).await;
    assert_eq!(first.0, 201, "{}", first.1);
    let kept = api.shared.remembered.size().bytes;
    assert!((1..200).contains(&kept), "{kept} bytes are remembered");
    assert_eq!(called(&router, begin, &body).await, first);
    let (status, other) = called(&router, begin, r#"{"payload":1,"count":1,"every":"1h"}"#).await;
    assert_eq!((status, other["code"].as_str()), (422, Some(REUSED)));
    let (status, changed) = called(&router, "PATCH /v1/campaigns/c", r#"{"count":3}"#).await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(called(&router, begin, &body).await, (201, changed));
    assert_eq!(called(&router, "DELETE /v1/campaigns/c", "").await.0, 204);
    let (status, gone) = called(&router, begin, &body).await;
    assert_eq!((status, gone["code"].as_str()), (404, Some("unknown_campaign")));
    let other = r#"{"payload":1,"count":2,"every":"1h"}"#;
    assert_eq!(called(&router, "PUT /v1/campaigns/c", other).await.0, 201);
    assert_eq!(called(&router, begin, &body).await.0, 404, "another one has its id");
}

#[tokio::test]
async fn a_repeat_of_a_sent_command_is_answered_from_the_command() {
    let (api, router) = served().await;
    let send = "POST /v1/devices/0xA/commands";
    assert_eq!(called(&router, "POST /v1/devices", r#"{"id":"0xA"}"#).await.0, 201);
    let before = api.shared.remembered.size().bytes;
    let body = format!(r#"{{"payload":"{}"}}"#, "x".repeat(100_000));
    let first = called(&router, send, &body).await;
    assert_eq!(first.0, 201, "{}", first.1);
    assert_eq!(called(&router, send, &body).await, first);
    let (status, other) = called(&router, send, r#"{"payload":2}"#).await;
    assert_eq!((status, other["code"].as_str()), (422, Some(REUSED)));
    assert_eq!(called(&router, send, "7").await.0, 422);
    assert_eq!(called(&router, send, &body).await, first, "a wrong body takes no key away");
    assert_eq!(api.shared.remembered.size().bytes, before, "nothing of it is kept besides");
    assert_eq!(called(&router, "DELETE /v1/devices/0xA", "").await.0, 204);
    let (status, gone) = called(&router, send, &body).await;
    assert_eq!((status, gone["code"].as_str()), (404, Some("unknown_command")));
}
