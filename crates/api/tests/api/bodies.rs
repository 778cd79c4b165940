//! Bodies: what they are said to be does not matter, how large they are does, and how they are
//! encoded.

use std::io::Write;

use axum::body::Body;
use axum::http::Request;
use base::limits::JSON_BODY_BYTES_MAX;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt, Full};

use crate::rig::{Server, check_form};

/// A device in a body of that size.
fn padded(bytes: usize) -> String {
    let device = r#"{"id":"a"}"#;
    format!("{device}{}", " ".repeat(bytes - device.len()))
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
