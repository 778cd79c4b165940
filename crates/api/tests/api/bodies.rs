//! Bodies: what they are said to be does not matter, how large they are does, and how they are
//! encoded. Large ones have memory until they are answered.

use std::convert::Infallible;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use base::limits::JSON_BODY_BYTES_MAX;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::{FutureExt, join_all, poll_immediate};
use futures_util::stream::{self, StreamExt};
use http_body_util::{BodyExt, Full};
use net::memory_budget::SENDER_BYTES;
use tokio::task::yield_now;
use tokio::time::{pause, timeout};

use crate::rig::{Server, check_form, request};

/// A device in a body of that size.
fn padded(bytes: usize) -> String {
    padded_json(r#"{"id":"a"}"#, bytes)
}

fn padded_json(json: &str, bytes: usize) -> String {
    format!("{json}{}", " ".repeat(bytes - json.len()))
}

async fn post(server: &Server, content_type: &str, body: Body) -> (u16, String) {
    let request = Request::post("/v1/devices").header("content-type", content_type).body(body);
    let answer = server.send(request.expect("a request")).await;
    check_form("POST /v1/devices", &answer);
    (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_body_may_have_16_mib() {
    let server = Server::start().await;
    let unsized_body = |bytes: usize| Body::new(Full::from(padded(bytes)).map_frame(|frame| frame));
    let too_large = (413, "body_too_large".to_owned());
    for body in [padded(JSON_BODY_BYTES_MAX + 1).into(), unsized_body(JSON_BODY_BYTES_MAX + 1)] {
        assert_eq!(post(&server, "application/json", body).await, too_large);
    }
    let fits = post(&server, "application/json", unsized_body(JSON_BODY_BYTES_MAX)).await;
    assert_eq!(fits, (201, String::new()));
    let again = post(&server, "application/json", padded(JSON_BODY_BYTES_MAX).into()).await;
    assert_eq!(again, (409, "exists".to_owned()));
}

#[tokio::test]
async fn a_content_type_does_not_matter() {
    let server = Server::start().await;
    for (id, content_type) in [("a", "text/plain"), ("b", "application/merge-patch+json"), ("c", "")] {
        let body = format!(r#"{{"id":"{id}"}}"#);
        assert_eq!(post(&server, content_type, body.into()).await.0, 201, "{content_type}");
    }
}

#[tokio::test]
async fn what_is_no_text_cannot_be_read() {
    let server = Server::start().await;
    for body in [&b"{\"id\":\"\xff\"}"[..], b"\xef\xbb\xbf{\"id\":\"a\"}", b"{\"id\":\"a\"", b"\0"] {
        let answer = post(&server, "application/json", body.to_vec().into()).await;
        assert_eq!(answer, (400, "unreadable".to_owned()), "{body:?}");
    }
}

#[tokio::test]
async fn a_deep_body_is_refused_like_any_other() {
    let server = Server::start().await;
    let deep = format!(r#"{{"id":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(post(&server, "application/json", deep.into()).await, (422, "wrong_type".to_owned()));
    let unknown = format!(r#"{{"id":"a","x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(post(&server, "application/json", unknown.into()).await, (422, "unknown_field".to_owned()));
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).expect("a Vec takes every write");
    encoder.finish().expect("a Vec takes every write")
}

async fn encoded(server: &Server, path: &str, coding: &str, body: Vec<u8>) -> crate::rig::Answer {
    let request = Request::post(path).header("content-encoding", coding).body(Body::from(body));
    let answer = server.send(request.expect("a request")).await;
    check_form(path, &answer);
    answer
}

#[tokio::test]
async fn a_body_of_gzip_is_read_as_what_is_in_it() {
    let server = Server::start().await;
    let made = encoded(&server, "/v1/devices", "gzip", gzip(br#"{"id":"a"}"#)).await;
    assert_eq!((made.status, &made.json()["id"]), (201, &"a".into()));
    let lines: String = (0..3_000).map(|n| format!("{{\"id\":\"d{n}\"}}\n")).collect();
    let told = encoded(&server, "/v1/devices/import", "gzip", gzip(lines.as_bytes())).await;
    assert_eq!((told.status, &told.json()["created"]), (200, &3_000.into()));
    let cut = gzip(lines.as_bytes());
    for (path, body) in [
        ("/v1/devices", cut[..cut.len() / 2].to_vec()),
        ("/v1/devices/import", cut[..cut.len() / 2].to_vec()),
        ("/v1/devices", br#"{"id":"b"}"#.to_vec()),
    ] {
        let answer = encoded(&server, path, "gzip", body).await;
        assert_eq!((answer.status, &answer.json()["code"]), (400, &"unreadable".into()), "{path}");
    }
}

#[tokio::test]
async fn the_limit_of_a_body_counts_what_is_in_it() {
    let server = Server::start().await;
    let fits = gzip(padded(JSON_BODY_BYTES_MAX).as_bytes());
    assert_eq!(encoded(&server, "/v1/devices", "gzip", fits).await.status, 201);
    let bomb = gzip(padded(JSON_BODY_BYTES_MAX + 1).as_bytes());
    assert!(bomb.len() < 100_000);
    let answer = encoded(&server, "/v1/devices", "gzip", bomb).await;
    assert_eq!((answer.status, &answer.json()["code"]), (413, &"body_too_large".into()));
}

#[tokio::test]
async fn a_body_in_another_coding_is_refused() {
    let server = Server::start().await;
    for (path, coding) in
        [("/v1/devices", "br"), ("/v1/devices/import", "deflate"), ("/v1/clients", "gzip, gzip")]
    {
        let answer = encoded(&server, path, coding, br#"{"id":"a"}"#.to_vec()).await;
        assert_eq!((answer.status, &answer.json()["code"]), (415, &"unsupported_encoding".into()), "{path}");
        assert_eq!(answer.header("accept-encoding"), Some("gzip"));
    }
    let plain = encoded(&server, "/v1/devices", "identity", br#"{"id":"a"}"#.to_vec()).await;
    assert_eq!(plain.status, 201);
}

#[tokio::test]
async fn large_bodies_have_their_memory_until_they_are_answered() {
    let server = Server::start_manual().await;
    pause();
    let (publish, largest) =
        ("POST /v1/queues/ns/q/jobs", padded_json(r#"{"payload":1}"#, JSON_BODY_BYTES_MAX));
    let all = (0..SENDER_BYTES / JSON_BODY_BYTES_MAX).map(|_| server.call(publish, &largest));
    let mut all = pin!(join_all(all));
    assert!(all.as_mut().now_or_never().is_none(), "no commit is answered");
    assert_eq!(server.memory.held_bytes(), SENDER_BYTES);
    server.check(publish, &largest, 503, "busy").await;
    assert_eq!(server.memory.held_bytes(), SENDER_BYTES, "the others have theirs");
    let answers = server.while_commits_pass(all).await;
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert_eq!(server.memory.held_bytes(), 0);
}

#[tokio::test]
async fn what_is_done_without_its_caller_has_its_memory_until_it_is_done() {
    let server = Server::start_manual().await;
    let keyed = request("POST /v1/devices", "{}").header("idempotency-key", "k");
    let keyed = keyed.body(Body::from(padded(JSON_BODY_BYTES_MAX))).expect("a request");
    let mut call = Box::pin(server.answer(keyed));
    assert!(call.as_mut().now_or_never().is_none(), "no commit is answered");
    drop(call);
    assert_eq!(server.memory.held_bytes(), JSON_BODY_BYTES_MAX);
    let given_back = async {
        while server.memory.held_bytes() > 0 {
            yield_now().await;
        }
    };
    server.while_commits_pass(given_back).await;
    assert_eq!(server.get("/v1/devices/a").await["id"], "a");
}

#[tokio::test]
async fn who_needs_no_body_has_no_memory_for_it() {
    let server = Server::start_manual().await;
    server.while_commits_pass(server.add_client("a")).await;
    let keyed = |_| {
        let rotate = request("POST /v1/clients/a/rotate-secret", "{}").header("idempotency-key", "k");
        Box::pin(server.answer(rotate.body(Body::from(padded_json("{}", 1_024 * 1_024))).expect("a request")))
    };
    let mut first_and_repeat = [0, 1].map(keyed);
    for call in &mut first_and_repeat {
        assert!(call.as_mut().now_or_never().is_none(), "no commit is answered");
        yield_now().await;
        assert_eq!(server.memory.held_bytes(), 0);
    }
    let answers = server.while_commits_pass(join_all(first_and_repeat)).await;
    assert!(answers.iter().all(|answer| answer.status() == 200), "{answers:?}");
}

/// A body of one piece, and whether it was read to its end.
fn telling_its_end(text: String) -> (Body, Arc<AtomicBool>) {
    let is_read = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&is_read);
    let end = stream::poll_fn(move |_| {
        tell.store(true, Ordering::Relaxed);
        Poll::Ready(None)
    });
    (Body::from_stream(stream::iter([Ok::<_, Infallible>(text)]).chain(end)), is_read)
}

#[tokio::test]
async fn who_waits_for_others_has_no_memory_for_its_body() {
    let server = Server::start().await;
    server.check("POST /v1/locks/ns/l", r#"{"owner":"a","ttl":"1h"}"#, 200, "{}").await;
    server.check("PUT /v1/streams/ns/s/subscriptions/x", "{}", 201, "{}").await;
    server.add_device("a").await;
    for (call, body) in [
        ("POST /v1/queues/ns/q/consume", r#"{"wait":"1m"}"#),
        ("POST /v1/locks/ns/l", r#"{"owner":"b","ttl":"1h","wait":"1m"}"#),
        ("POST /v1/streams/ns/s/subscriptions/x/read", r#"{"reader":"r","wait":"1m"}"#),
        ("POST /v1/devices/a/commands?wait=1m", r#"{"payload":1}"#),
    ] {
        let (large, is_read) = telling_its_end(padded_json(body, 1_024 * 1_024));
        let mut waiting = pin!(server.send(request(call, body).body(large).expect("a request")));
        let let_go = async {
            loop {
                assert!(poll_immediate(&mut waiting).await.is_none(), "{call}: it waits");
                if is_read.load(Ordering::Relaxed) && server.memory.held_bytes() == 0 {
                    return;
                }
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), let_go).await.unwrap_or_else(|_| panic!("{call}: it keeps memory"));
    }
}
