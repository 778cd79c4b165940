//! Bodies: what they are said to be does not matter, how large they are does.

use axum::body::Body;
use axum::http::Request;
use base::limits::JSON_BODY_BYTES_MAX;
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
