//! Notices: what they look like, and how their feed is read and followed.

use engine::notices::{Condition, Detail, Signal, SignalTopic};
use engine::records::NoticeKind;

use crate::rig::Server;

fn signal(server: &Server, subject: &str, kind: NoticeKind) {
    let detail = Detail::default().text("client_id", subject).number("failed", 20);
    let (topic, subject) = (SignalTopic::of(kind), format!("client {subject}").into());
    server.engine().signal(Signal { topic, subject, condition: Condition::Firing(kind), detail });
}

#[tokio::test]
async fn a_feed_of_notices_is_filtered_paged_and_followed() {
    let server = Server::start().await;
    server.check("GET /v1/notices", "", 200, r#"{"items":[],"next_cursor":null}"#).await;
    server.check("GET /v1/notices?type=none", "", 422, "invalid_parameter").await;
    server.add_client("a").await;
    signal(&server, "a", NoticeKind::ClientFailing);
    let first = server.get("/v1/notices?order=asc&wait=30s").await;
    let expect = r#"{"items":[{"id":"*","at":"*","type":"client.failing","subject":"client a",
                               "detail":{"client_id":"a","failed":20}}]}"#;
    server.check("GET /v1/notices", "", 200, expect).await;
    let tail = first["tail_cursor"].as_str().expect("a tail").to_owned();
    signal(&server, "b", NoticeKind::StorageLow);
    let next = server.get(&format!("/v1/notices?order=asc&wait=30s&cursor={tail}")).await;
    assert_eq!(next["items"][0]["type"], "storage.low", "{next}");
    assert_eq!(next["items"].as_array().map(Vec::len), Some(1), "nothing twice: {next}");
    let of_type = server.get("/v1/notices?type=storage.low").await;
    assert_eq!(of_type["items"].as_array().map(Vec::len), Some(1), "{of_type}");
}

#[tokio::test]
async fn a_client_says_whether_it_wants_notices() {
    let server = Server::start().await;
    let asked = r#"{"id":"w","name":"w","url":"https://w.example/","notices":true}"#;
    server.check("POST /v1/clients", asked, 201, r#"{"notices":true}"#).await;
    server.check("PATCH /v1/clients/w", r#"{"notices":false}"#, 200, r#"{"notices":false}"#).await;
    server.check("PATCH /v1/clients/w", r#"{"notices":null}"#, 422, "cannot_clear").await;
    server.add_client("c").await;
    server.check("GET /v1/clients/c", "", 200, r#"{"notices":false}"#).await;
}
