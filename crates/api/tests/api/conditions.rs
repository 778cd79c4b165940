//! What requests say beside what they ask for: versions that they know, methods that only ask, and
//! what they accept.

use std::io::Read;

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use serde_json::Value as Json;

use crate::rig::{Answer, Server, check_form};

async fn with(server: &Server, call: &str, header: (&str, &str), body: &str) -> Answer {
    let (method, path) = call.split_once(' ').expect("a method and a path");
    let request = Request::builder().method(method).uri(path).header(header.0, header.1);
    let answer = server.send(request.body(Body::from(body.to_owned())).expect("a request")).await;
    check_form(call, &answer);
    answer
}

async fn tag(server: &Server, path: &str) -> String {
    server.call(&format!("GET {path}"), "").await.header("etag").expect("a tag").to_owned()
}

#[tokio::test]
async fn an_object_is_changed_only_as_its_caller_knows_it() {
    let server = Server::start().await;
    server.add_device("a").await;
    server.add_client("c").await;
    for (path, first, second) in [
        ("/v1/devices/a", r#"{"address":"here"}"#, r#"{"address":"there"}"#),
        ("/v1/clients/c", r#"{"name":"one"}"#, r#"{"name":"two"}"#),
    ] {
        let (patch, delete) = (format!("PATCH {path}"), format!("DELETE {path}"));
        let known = tag(&server, path).await;
        let changed = with(&server, &patch, ("if-match", &known), first).await;
        assert_eq!(changed.status, 200, "{path}");
        let new = changed.header("etag").expect("a tag").to_owned();
        assert!(new != known && new == tag(&server, path).await, "{path}");
        for stale in [&*known, "\"nonsense\"", "W/\"0000000000000000\"", ""] {
            for (call, body) in [(&patch, second), (&delete, "")] {
                let refused = with(&server, call, ("if-match", stale), body).await;
                let told = (refused.status, refused.json()["code"].clone());
                assert_eq!(told, (412, "precondition_failed".into()), "{call} {stale}");
            }
        }
        assert_eq!(tag(&server, path).await, new, "{path}: nothing was changed");
        let either = format!("{known}, {new}");
        assert_eq!(with(&server, &patch, ("if-match", &either), second).await.status, 200, "{path}");
        assert_eq!(with(&server, &patch, ("if-match", "*"), first).await.status, 200, "{path}");
        let last = tag(&server, path).await;
        assert_eq!(last, new, "{path}: the same again has the same tag");
        assert_eq!(with(&server, &delete, ("if-match", &last), "").await.status, 204, "{path}");
        assert_eq!(with(&server, &delete, ("if-match", "*"), "").await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_campaign_is_changed_and_removed_only_as_its_caller_knows_it() {
    let server = Server::start().await;
    let campaign = r#"{"payload":1,"count":3,"every":"1h"}"#;
    server.check("PUT /v1/campaigns/hourly", campaign, 201, "{}").await;
    let (path, patch) = ("/v1/campaigns/hourly", "PATCH /v1/campaigns/hourly");
    let known = tag(&server, path).await;
    let changed = with(&server, patch, ("if-match", &known), r#"{"count":5}"#).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let new = changed.header("etag").expect("a tag").to_owned();
    assert!(new != known && new == tag(&server, path).await);
    for stale in [&*known, "\"nonsense\"", ""] {
        for (call, body) in [(patch, r#"{"count":7}"#), ("DELETE /v1/campaigns/hourly", "")] {
            let refused = with(&server, call, ("if-match", stale), body).await;
            let told = (refused.status, refused.json()["code"].clone());
            assert_eq!(told, (412, "precondition_failed".into()), "{call} {stale}");
        }
    }
    server.check("POST /v1/campaigns/hourly/pause", "", 204, "").await;
    assert_ne!(tag(&server, path).await, new, "a pause is a change");
    server.check("POST /v1/campaigns/hourly/resume", "", 204, "").await;
    assert_eq!(tag(&server, path).await, new);
    let put = server.call("PUT /v1/campaigns/hourly", campaign).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let refused = with(&server, patch, ("if-match", &new), r#"{"count":7}"#).await;
    assert_eq!(refused.status, 412, "it was replaced: {}", refused.text);
    let last = tag(&server, path).await;
    let removed = with(&server, "DELETE /v1/campaigns/hourly", ("if-match", &last), "").await;
    assert_eq!(removed.status, 204);
    let gone = with(&server, patch, ("if-match", &last), r#"{"count":7}"#).await;
    assert_eq!(gone.status, 404, "{}", gone.text);
}

#[tokio::test]
async fn a_report_does_not_move_the_tag_of_its_device() {
    let server = Server::start().await;
    server.add_device("a").await;
    let before = tag(&server, "/v1/devices/a").await;
    server.report("a", 1).await;
    assert_eq!(tag(&server, "/v1/devices/a").await, before);
}

#[tokio::test]
async fn every_path_says_what_it_takes_and_has_head_beside_get() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await;
    for (path, calls) in document["paths"].as_object().expect("paths") {
        if path.starts_with("/v1/reports") || path == "/v1/devices/{id}/ack" || path.ends_with("/replay") {
            continue;
        }
        let filled = path.replace(['{', '}'], "");
        let told = server.call(&format!("OPTIONS {filled}"), "").await;
        let allow = told.header("allow").unwrap_or_default().to_owned();
        assert_eq!((told.status, &*told.text), (204, ""), "{path}");
        for method in calls.as_object().expect("calls").keys() {
            assert!(allow.split(',').any(|allowed| allowed == method.to_uppercase()), "{path}: {allow}");
        }
        // A backup is large, and what channels say has no end.
        let has_end = !path.contains("backup") && !path.starts_with("/v1/channels");
        if calls["get"].is_object() && has_end {
            let [get, head] = ["GET", "HEAD"].map(|method| format!("{method} {filled}"));
            let (get, head) = (server.call(&get, "").await, server.call(&head, "").await);
            assert_eq!((head.status, &*head.text), (get.status, ""), "HEAD {path}");
            assert_eq!(head.header("content-type"), get.header("content-type"), "HEAD {path}");
        }
    }
}

async fn plain(response: Response) -> String {
    let is_gzip = response.headers().get("content-encoding").is_some_and(|coding| coding == "gzip");
    assert!(is_gzip && response.headers().get_all("vary").iter().any(|name| name == "accept-encoding"));
    let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
    let mut text = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("gzip of text");
    text
}

#[tokio::test]
async fn lists_and_exports_come_as_gzip_for_whom_takes_it() {
    let server = Server::start().await;
    for n in 0..1_500 {
        server.add_device(&format!("d{n:04}")).await;
    }
    for (accept, path) in [
        ("application/json", "/v1/devices?limit=1000"),
        ("application/x-ndjson", "/v1/devices"),
        ("text/csv", "/v1/devices"),
    ] {
        let request = |coding: &str| {
            let request = Request::get(path).header("accept", accept).header("accept-encoding", coding);
            request.body(Body::empty()).expect("a request")
        };
        let expect = server.send(request("gzip;q=0")).await;
        assert_eq!(expect.header("content-encoding"), None);
        let smaller = server.answer(request("br, gzip")).await;
        let size = axum::body::HttpBody::size_hint(smaller.body()).exact();
        assert!(size.is_none_or(|bytes| bytes < expect.text.len() as u64 / 5), "{accept}: {size:?}");
        assert!(plain(smaller).await == expect.text, "{accept}");
    }
    let request = Request::get("/v1/devices?limit=1").header("accept-encoding", "gzip").body(Body::empty());
    let small = server.send(request.expect("a request")).await;
    assert_eq!((small.header("content-encoding"), small.header("vary")), (None, Some("accept-encoding")));
}

/// The document tells receivers what they get, as `docs/api.md` shows it.
#[tokio::test]
async fn webhooks_are_described() {
    let server = Server::start().await;
    let webhooks = &server.get("/openapi.json").await["webhooks"];
    let body = |name: &str| {
        webhooks[name]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"].clone()
    };
    let page = std::fs::read_to_string("../../docs/api.md").expect("the page");
    let (_, example) = page.split_once("{\"type\": \"device.changed\"").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let example: Json =
        serde_json::from_str(&format!("{{\"type\": \"device.changed\"{example}")).expect("JSON");
    for (shown, described) in
        [(&example, body("device")), (&example["data"], body("device")["data"]["properties"].clone())]
    {
        let names = |object: &Json| object.as_object().expect("members").keys().cloned().collect::<Vec<_>>();
        let (mut shown, mut described) = (names(shown), names(&described));
        shown.sort();
        described.sort();
        assert_eq!(shown, described);
    }
    assert_eq!(body("client.test")["type"]["enum"], serde_json::json!(["client.test"]));
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let parameters = webhooks["device"]["post"]["parameters"].as_array().expect("headers");
        assert!(
            parameters.iter().any(|parameter| parameter["name"] == name && parameter["in"] == "header"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn no_cache_keeps_an_answer_and_one_with_a_tag_is_asked_for_again() {
    let server = Server::start().await;
    server.add_device("d1").await;
    for (call, kept) in [
        ("GET /v1/devices", "no-store"),
        ("GET /v1/devices/none", "no-store"),
        ("GET /v1/nothing", "no-store"),
        ("DELETE /v1/clients", "no-store"),
        ("GET /v1/devices/d1", "private, no-cache"),
    ] {
        let answer = server.call(call, "").await;
        let found = (answer.header("cache-control"), answer.header("x-content-type-options"));
        assert_eq!(found, (Some(kept), Some("nosniff")), "{call}");
    }
    assert_eq!(server.call("GET /healthz", "").await.header("cache-control"), None);
}
