//! What requests say beside what they ask for: versions that they know, methods that only ask, and
//! what they accept.

use std::collections::BTreeSet;
use std::io::Read;

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use net::transfer::TRANSFER_TYPE;
use serde_json::{Value as Json, json};

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
    let put = "PUT /v1/campaigns/hourly";
    let refused = with(&server, put, ("if-match", &known), campaign).await;
    assert_eq!(refused.status, 412, "{}", refused.text);
    let pause = with(&server, "POST /v1/campaigns/hourly/pause", ("if-match", &known), "").await;
    assert_eq!(pause.status, 412, "{}", pause.text);
    assert_eq!(tag(&server, path).await, new, "nothing was changed");
    let replaced = with(&server, put, ("if-match", &new), campaign).await;
    assert_eq!(replaced.status, 200, "{}", replaced.text);
    assert_eq!(replaced.header("etag"), Some(&*tag(&server, path).await));
    let refused = with(&server, patch, ("if-match", &new), r#"{"count":7}"#).await;
    assert_eq!(refused.status, 412, "it was replaced: {}", refused.text);
    let last = tag(&server, path).await;
    let removed = with(&server, "DELETE /v1/campaigns/hourly", ("if-match", &last), "").await;
    assert_eq!(removed.status, 204);
    let gone = with(&server, patch, ("if-match", &last), r#"{"count":7}"#).await;
    assert_eq!(gone.status, 404, "{}", gone.text);
    for asked in [&*last, "*"] {
        let refused = with(&server, put, ("if-match", asked), campaign).await;
        assert_eq!(refused.status, 412, "{asked}: {}", refused.text);
    }
    assert_eq!(server.call("GET /v1/campaigns/hourly", "").await.status, 404, "it was not made");
}

#[tokio::test]
async fn a_campaign_that_is_made_has_the_tag_that_a_look_at_it_gives() {
    let server = Server::start().await;
    for (call, path, body) in [
        ("POST /v1/campaigns", "/v1/campaigns/one", r#"{"id":"one","payload":1,"count":3,"every":"1h"}"#),
        ("PUT /v1/campaigns/two", "/v1/campaigns/two", r#"{"payload":1,"count":3,"every":"1h"}"#),
    ] {
        let made = server.call(call, body).await;
        assert_eq!(made.status, 201, "{call}: {}", made.text);
        assert_eq!(made.header("etag"), Some(&*tag(&server, path).await), "{call}");
        assert_eq!(made.header("cache-control"), Some("no-store"), "{call}: it may show a secret");
    }
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

#[tokio::test]
async fn pages_of_messages_come_as_gzip_for_whom_takes_it() {
    const STREAM: &str = "/v1/streams/shop/orders";
    let server = Server::start().await;
    let subscription = format!("{STREAM}/subscriptions/billing");
    server.check(&format!("PUT {subscription}"), "{}", 201, "{}").await;
    let messages: Vec<_> = (0..300).map(|n| json!({"payload": {"order": n, "from": "till"}})).collect();
    let body = json!({ "messages": messages }).to_string();
    server.check(&format!("POST {STREAM}/messages"), &body, 201, "{}").await;
    let asked = [
        ("GET", format!("{STREAM}/messages?limit=300"), ""),
        ("GET", format!("{STREAM}/messages?limit=300&origin=true"), ""),
        ("GET", format!("{STREAM}/messages?limit=300&wait=1s"), ""),
        ("POST", format!("{subscription}/read"), r#"{"reader":"r","limit":300}"#),
    ];
    for (method, path, body) in &asked {
        let request = |coding: &str| {
            let request = Request::builder().method(*method).uri(path);
            let request = request.header("content-type", "application/json");
            request.header("accept-encoding", coding).body(Body::from(*body)).expect("a request")
        };
        let expect = server.send(request("identity")).await;
        assert_eq!(
            (expect.status, expect.header("content-encoding")),
            (200, None),
            "{path}: {}",
            expect.text
        );
        assert_eq!(expect.json()["items"].as_array().map(Vec::len), Some(300), "{path}");
        assert_eq!(expect.header("vary"), Some("accept-encoding"), "{path}");
        let smaller = server.answer(request("gzip")).await;
        let size = axum::body::HttpBody::size_hint(smaller.body()).exact();
        assert!(size.is_some_and(|bytes| bytes < expect.text.len() as u64 / 3), "{path}: {size:?}");
        assert!(plain(smaller).await == expect.text, "{path}");
    }
    let request = |accept: &str, limit: usize| {
        let request = Request::get(format!("{STREAM}/messages?limit={limit}")).header("accept", accept);
        request.header("accept-encoding", "gzip").body(Body::empty()).expect("a request")
    };
    for (accept, limit) in [("application/json", 1), (TRANSFER_TYPE, 300)] {
        let whole = server.answer(request(accept, limit)).await;
        assert_eq!(
            (whole.status().as_u16(), whole.headers().get("content-encoding")),
            (200, None),
            "{accept}"
        );
    }
}

#[tokio::test]
async fn any_answer_of_a_kilobyte_comes_as_gzip_for_whom_takes_it() {
    let server = Server::start().await;
    for n in 0..60 {
        let body = format!(r#"{{"id":"d{n}","labels":{{"site":"site-{n}"}}}}"#);
        server.check("POST /v1/devices", &body, 201, "{}").await;
    }
    let with_coding = |method: &str, path: &str, coding: &str, body: &str| {
        let request = Request::builder().method(method).uri(path).header("accept-encoding", coding);
        request.body(Body::from(body.to_owned())).expect("a request")
    };
    let path = "/v1/fleet/count?by=site";
    let expect = server.send(with_coding("GET", path, "identity", "")).await;
    assert_eq!((expect.header("content-encoding"), expect.header("vary")), (None, Some("accept-encoding")));
    assert!(expect.text.len() > 1_024, "{}", expect.text);
    let smaller = server.answer(with_coding("GET", path, "gzip", "")).await;
    let size = axum::body::HttpBody::size_hint(smaller.body()).exact();
    assert!(size.is_some_and(|bytes| bytes < expect.text.len() as u64 / 3), "{size:?}");
    assert_eq!(plain(smaller).await, expect.text);
    let head = server.send(with_coding("HEAD", path, "gzip", "")).await;
    assert_eq!((head.status, &*head.text, head.header("content-encoding")), (200, "", None));
    // An answer that is small, one that hands jobs over, and one with a tag are as they are.
    let payload = "x".repeat(2_000);
    let job = format!(r#"{{"jobs":[{{"payload":"{payload}"}}]}}"#);
    server.check("POST /v1/queues/shop/mail/jobs", &job, 201, "{}").await;
    let campaign = format!(r#"{{"payload":"{payload}","count":3,"every":"1h"}}"#);
    server.check("PUT /v1/campaigns/one", &campaign, 201, "{}").await;
    for (method, path, body) in [
        ("GET", "/v1/fleet/count", ""),
        ("POST", "/v1/queues/shop/mail/consume", "{}"),
        ("GET", "/v1/campaigns/one", ""),
    ] {
        let whole = server.send(with_coding(method, path, "gzip", body)).await;
        assert_eq!((whole.status, whole.header("content-encoding")), (200, None), "{path}");
        assert_eq!(path == "/v1/fleet/count", !whole.text.contains(&payload), "{path}");
    }
}

fn page(name: &str) -> String {
    std::fs::read_to_string(format!("../../docs/{name}.md")).expect("the page")
}

/// An example has the members that its schema asks for.
fn check_example(example: &Json, schema: &Json) {
    let shown: BTreeSet<&str> = example.as_object().expect("members").keys().map(String::as_str).collect();
    let asked = schema["required"].as_array().expect("names").iter();
    let asked: BTreeSet<&str> = asked.map(|name| name.as_str().expect("a name")).collect();
    assert_eq!(shown, asked, "{example}");
}

/// The document tells receivers what they get, as the pages show it.
#[tokio::test]
async fn webhooks_are_described() {
    let server = Server::start().await;
    let webhooks = &server.get("/openapi.json").await["webhooks"];
    let schema =
        |name: &str| webhooks[name]["post"]["requestBody"]["content"]["application/json"]["schema"].clone();
    for (place, kind, name) in [
        ("api", "device.changed", "device"),
        ("commands", "command.finished", "command.finished"),
        ("streams", "stream.messages", "stream.messages"),
        ("tasks", "campaign.result", "campaign.result"),
    ] {
        let (page, begin) = (page(place), format!("{{\"type\": \"{kind}\""));
        let (_, example) = page.split_once(&begin).expect("an example");
        let (example, _) = example.split_once("```").expect("its end");
        let example: Json = serde_json::from_str(&format!("{begin}{example}")).expect("JSON");
        check_example(&example, &schema(name));
        if example["data"].is_object() {
            check_example(&example["data"], &schema(name)["properties"]["data"]);
        }
    }
    let pages = ["api", "commands", "streams", "tasks"].map(page).concat();
    let compact = pages.replace("\": \"", "\":\"");
    let shown = compact.split("{\"type\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let shown = shown.filter(|kind| *kind != "about:blank");
    let shown: BTreeSet<String> = shown.map(str::to_owned).collect();
    let mut described = BTreeSet::new();
    for name in webhooks.as_object().expect("webhooks").keys() {
        let kinds = schema(name)["properties"]["type"]["enum"].clone();
        let kinds = kinds.as_array().expect("words").iter();
        described.extend(kinds.map(|kind| kind.as_str().expect("a word").to_owned()));
    }
    let unknown: Vec<_> = shown.difference(&described).collect();
    assert!(unknown.is_empty(), "the pages show posts that the document does not describe: {unknown:?}");
    for kind in &described {
        let is_told = shown.contains(kind) || pages.contains(&format!("`{kind}`"));
        assert!(is_told, "no page tells of {kind}");
    }
    for (name, webhook) in webhooks.as_object().expect("webhooks") {
        let parameters = webhook["post"]["parameters"].as_array().expect("headers");
        for header in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let is_told =
                parameters.iter().any(|parameter| parameter["name"] == header && parameter["in"] == "header");
            assert!(is_told, "{name}: {header}");
        }
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
