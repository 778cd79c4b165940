//! Every refusal: its status, its code, and that it says which field is wrong and what would be
//! right.

use axum::Router;
use axum::routing::get;
use engine::Engine;

use crate::rig::{Server, request};

/// What a request with that body is refused with, and a part of the sentence.
async fn check_refusals(server: &Server, call: &str, rows: &[(&str, u16, &str, &str)]) {
    for (body, status, code, part) in rows {
        let problem = server.check(call, body, *status, code).await;
        let detail = problem["detail"].as_str().expect("a sentence");
        assert!(detail.contains(part), "{call} {body}: {detail}");
    }
}

#[tokio::test]
async fn a_client_that_may_not_be_is_refused() {
    let server = Server::start().await;
    server.add_client("taken").await;
    let long = format!(r#"{{"name":"{}","url":"https://a.example"}}"#, "x".repeat(257));
    check_refusals(
        &server,
        "POST /v1/clients",
        &[
            ("", 400, "unreadable", "JSON"),
            ("{", 400, "unreadable", "JSON"),
            ("{} {}", 400, "unreadable", "JSON"),
            (
                r#"{"name":"A","name":"B","url":"https://a.example"}"#,
                400,
                "unreadable",
                "\"name\" is there twice",
            ),
            (r#"{"name":"A","n\u0061me":"B"}"#, 400, "unreadable", "\"name\" is there twice"),
            (r#"{"name":"\ud800","url":"https://a.example"}"#, 400, "unreadable", "name"),
            ("[]", 422, "not_an_object", "an array"),
            ("null", 422, "not_an_object", "null"),
            (" 7", 422, "not_an_object", "a number"),
            ("{}", 422, "missing_field", "name"),
            (r#"{"name":"A"}"#, 422, "missing_field", "url"),
            (r#"{"name":null,"url":"https://a.example"}"#, 422, "missing_field", "name"),
            (
                r#"{"name":5,"url":"https://a.example"}"#,
                422,
                "wrong_type",
                "name is a number; it must be a string",
            ),
            (r#"{"name":"A","url":["x"]}"#, 422, "wrong_type", "url is an array; it must be a string"),
            (r#"{"name":"A","url":"https://a.example","hue":"red"}"#, 422, "unknown_field", "\"hue\""),
            (r#"{"name":"A","url":"https://a.example","enabled":true}"#, 422, "unknown_field", "secret"),
            (r#"{"id":"a b","name":"A","url":"https://a.example"}"#, 422, "invalid_id", "a b"),
            (r#"{"id":"taken","name":"A","url":"https://a.example"}"#, 409, "exists", "taken"),
            (r#"{"name":"A","url":"ftp://a.example"}"#, 422, "invalid_url", "http"),
            (r#"{"name":"A","url":"http://127.1/"}"#, 422, "private_address", "127.0.0.1"),
            (&long, 422, "too_long", "256"),
            (r#"{"name":"A","url":"https://a.example","secret":"abc"}"#, 422, "invalid_secret", "whsec_"),
            (r#"{"name":"A","url":"https://a.example","secret":"whsec_!"}"#, 422, "invalid_secret", "base64"),
            (r#"{"name":"A","url":"https://a.example","secret":"whsec_YWJj"}"#, 422, "invalid_secret", "24"),
            (r#"{"name":"A","url":"https://a.example","secret":1}"#, 422, "wrong_type", "secret"),
        ],
    )
    .await;
    let rows: &[(&str, u16, &str, &str)] = &[
        (r#"{"name":null}"#, 422, "cannot_clear", "name"),
        (r#"{"url":null}"#, 422, "cannot_clear", "url"),
        (r#"{"enabled":null}"#, 422, "cannot_clear", "enabled"),
        (r#"{"enabled":"yes"}"#, 422, "wrong_type", "enabled is a string; it must be true or false"),
        (r#"{"id":"other"}"#, 422, "cannot_change", "id"),
        (r#"{"secret":"whsec_x"}"#, 422, "unknown_field", "secret"),
        (r#"{"url":"http://[::1]/"}"#, 422, "private_address", "::1"),
        ("[]", 422, "not_an_object", "an array"),
        ("{,}", 400, "unreadable", "JSON"),
    ];
    check_refusals(&server, "PATCH /v1/clients/taken", rows).await;
}

#[tokio::test]
async fn a_device_that_may_not_be_is_refused() {
    let server = Server::start().await;
    server.add_device("taken").await;
    let label = |n: usize| format!(r#""k{n}":"v""#);
    let labels = |count: usize| (0..count).map(label).collect::<Vec<_>>().join(",");
    let many = format!(r#"{{"id":"a","labels":{{{}}}}}"#, labels(17));
    let far_too_many = format!(r#"{{"id":"a","labels":{{{}}}}}"#, labels(1_001));
    check_refusals(
        &server,
        "POST /v1/devices",
        &[
            ("{}", 422, "missing_field", "id"),
            (r#"{"id":7}"#, 422, "wrong_type", "id is a number; it must be a string"),
            (r#"{"id":"a-b"}"#, 422, "invalid_id", "letters and digits"),
            (r#"{"id":""}"#, 422, "invalid_id", "letters and digits"),
            (r#"{"id":"12345678901234567"}"#, 422, "invalid_id", "16"),
            (r#"{"id":"a","kind":"Lock"}"#, 422, "invalid_kind", "lower-case"),
            (r#"{"id":"a","state":{}}"#, 422, "unknown_field", "\"state\""),
            (r#"{"id":"a","address":{}}"#, 422, "wrong_type", "address is an object"),
            (r#"{"id":"a","labels":[]}"#, 422, "wrong_type", "labels is an array"),
            (r#"{"id":"a","labels":{"site":12}}"#, 422, "wrong_type", "labels.site is a number"),
            (r#"{"id":"a","labels":{"site":null}}"#, 422, "wrong_type", "labels.site is null"),
            (r#"{"id":"a","labels":{"site":"1","site":"2"}}"#, 400, "unreadable", "\"site\" is there twice"),
            (r#"{"id":"a","labels":{"Site":"1"}}"#, 422, "invalid_label", "Site"),
            (&many, 422, "too_many_labels", "17"),
            (&far_too_many, 422, "too_many_labels", "labels"),
            (r#"{"id":"a","report_interval":60}"#, 422, "wrong_type", "report_interval is a number"),
            (r#"{"id":"a","report_interval":"1 h"}"#, 422, "invalid_interval", "\"1 h\""),
            (r#"{"id":"a","report_interval":"999ms"}"#, 422, "invalid_interval", "1s"),
            (r#"{"id":"a","commands":1}"#, 422, "wrong_type", "commands is a number"),
            (r#"{"id":"a","commands":{"rate":1}}"#, 422, "unknown_field", "\"rate\""),
            (r#"{"id":"a","commands":{"window":"1"}}"#, 422, "wrong_type", "window is a string"),
            (r#"{"id":"a","commands":{"window":-1}}"#, 422, "invalid_pace", "window is -1"),
            (r#"{"id":"a","commands":{"window":0}}"#, 422, "invalid_pace", "1 to 1000"),
            (r#"{"id":"a","commands":{"gap":"soon"}}"#, 422, "invalid_duration", "soon"),
            (r#"{"id":"a","commands":{"gap":"61m"}}"#, 422, "invalid_pace", "1h"),
            (r#"{"id":"taken"}"#, 409, "exists", "taken"),
        ],
    )
    .await;
    let rows: &[(&str, u16, &str, &str)] = &[
        (r#"{"kind":"face"}"#, 422, "cannot_change", "kind"),
        (r#"{"id":"other"}"#, 422, "cannot_change", "id"),
        (r#"{"kind":null}"#, 422, "cannot_change", "kind"),
        (r#"{"registered_at":"x"}"#, 422, "unknown_field", "registered_at"),
        (r#"{"labels":{"site":true}}"#, 422, "wrong_type", "labels.site is a boolean"),
        (r#"{"report_interval":"11y"}"#, 422, "invalid_interval", "11y"),
        (r#"{"commands":{"window":1001}}"#, 422, "invalid_pace", "1001"),
    ];
    check_refusals(&server, "PATCH /v1/devices/taken", rows).await;
}

#[tokio::test]
async fn a_parameter_that_is_not_right_is_refused() {
    let server = Server::start().await;
    server.add_device("a").await;
    for (path, status, code, part) in [
        ("/v1/clients?limit=0", 422, "invalid_parameter", "1 to 1000"),
        ("/v1/clients?limit=1001", 422, "invalid_parameter", "1 to 1000"),
        ("/v1/clients?limit=ten", 422, "invalid_parameter", "limit is \"ten\""),
        ("/v1/clients?limit=-1", 422, "invalid_parameter", "limit"),
        ("/v1/clients?limit=", 422, "invalid_parameter", "limit"),
        ("/v1/clients?limit=1&limit=2", 422, "invalid_parameter", "limit is there twice"),
        ("/v1/clients?cursor=garbage", 400, "invalid_cursor", "next_cursor"),
        ("/v1/clients?cursor=", 400, "invalid_cursor", "next_cursor"),
        ("/v1/clients?order=asc", 422, "unknown_parameter", "limit, cursor"),
        ("/v1/devices?Kind=lock", 422, "unknown_parameter", "kind, label.KEY, connection"),
        ("/v1/devices?label.=x", 422, "unknown_parameter", "label.KEY"),
        ("/v1/devices?label=x", 422, "unknown_parameter", "label.KEY"),
        ("/v1/devices?kind=Lock", 422, "invalid_parameter", "kind is \"Lock\""),
        ("/v1/devices?connection=offline", 422, "invalid_parameter", "online, lost, never_seen"),
        ("/v1/devices/a/clients?kind=lock", 422, "unknown_parameter", "kind"),
        ("/v1/devices/a/readings?order=up", 422, "invalid_parameter", "asc, desc"),
        ("/v1/devices/a/readings?from=yesterday", 422, "invalid_parameter", "RFC 3339"),
        ("/v1/devices/a/readings?to=2026-11-21", 422, "invalid_parameter", "to is"),
        ("/v1/devices/b/readings", 404, "unknown_device", "b"),
        ("/v1/events?type=changed", 422, "invalid_parameter", "device.changed, device.lost, device.restored"),
        ("/v1/events?device=a/b", 422, "invalid_parameter", "device is \"a/b\""),
        ("/v1/events?device=b", 404, "unknown_device", "b"),
        (
            "/v1/events?status=failed",
            422,
            "unknown_parameter",
            "device, client, label.KEY, type, from, to, order, wait, limit, cursor",
        ),
        ("/v1/deliveries?status=done", 422, "invalid_parameter", "superseded"),
        ("/v1/deliveries?client=a%20b", 422, "invalid_parameter", "client is \"a b\""),
        ("/v1/deliveries?client=c", 404, "unknown_client", "c"),
        ("/v1/deliveries?device=b", 404, "unknown_device", "b"),
    ] {
        let problem = server.check(&format!("GET {path}"), "", status, code).await;
        let detail = problem["detail"].as_str().expect("a sentence");
        assert!(detail.contains(part), "{path}: {detail}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_unknown() {
    let server = Server::start().await;
    let (made_up, malformed) = ("msg_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "msg_1");
    for (call, code) in [
        ("GET /", "unknown_route"),
        ("GET /v1", "unknown_route"),
        ("GET /v1/device", "unknown_route"),
        ("POST /v1/clients/", "unknown_route"),
        ("GET /v1/devices/a/b/c/d", "unknown_route"),
        ("GET /v1/clients/none", "unknown_client"),
        ("GET /v1/clients/n%20ne", "unknown_client"),
        ("GET /v1/clients/none/devices", "unknown_client"),
        ("GET /v1/devices/none", "unknown_device"),
        ("GET /v1/devices/n-ne", "unknown_device"),
        ("GET /v1/devices/a%2Fb", "unknown_device"),
        (&format!("GET /v1/deliveries/{made_up}"), "unknown_delivery"),
        (&format!("GET /v1/deliveries/{malformed}"), "unknown_delivery"),
        (&format!("POST /v1/deliveries/{made_up}/retry"), "unknown_delivery"),
        (&format!("POST /v1/deliveries/{malformed}/retry"), "unknown_delivery"),
    ] {
        server.check(call, "", 404, code).await;
    }
    server.check("GET /v1/devices/%ff", "", 400, "unreadable").await;
}

#[tokio::test]
async fn a_method_that_a_route_does_not_have_is_refused_with_those_it_has() {
    let server = Server::start().await;
    for (call, allow) in [
        ("DELETE /v1/clients", "GET,HEAD,POST"),
        ("PUT /v1/clients/a", "GET,HEAD,PATCH,DELETE"),
        ("PATCH /v1/devices", "GET,HEAD,POST"),
        ("POST /v1/devices/a/clients/b", "PUT,DELETE"),
        ("GET /v1/deliveries/a/retry", "POST"),
        ("POST /metrics", "GET,HEAD"),
        ("BREW /healthz", "GET,HEAD"),
    ] {
        server.check(call, "", 405, "method_not_allowed").await;
        assert_eq!(server.call(call, "").await.header("allow"), Some(allow), "{call}");
    }
}

#[tokio::test]
async fn routes_that_are_merged_in_refuse_in_the_same_form() {
    let panics = get(async || -> &'static str { panic!("what a router never should") });
    let more = Router::new().route("/panics", panics);
    let server = Server::start_with(1, more).await;
    server.check("GET /panics", "", 500, "internal_error").await;
    server.check("POST /panics", "", 405, "method_not_allowed").await;
    server.check("GET /v1/clients", "", 200, r#"{"items":[]}"#).await;
}

#[tokio::test]
async fn a_full_registry_refuses() {
    let server = Server::start_with(1, Router::new()).await;
    for n in 0..1_000 {
        let body = format!(r#"{{"id":"d{n}","kind":"kind{n}"}}"#);
        server.check("POST /v1/devices", &body, 201, "{}").await;
    }
    server.check("POST /v1/devices", r#"{"id":"a","kind":"another"}"#, 422, "too_many_kinds").await;
    for n in 0..100 {
        server.add_client(&format!("c{n}")).await;
        server.link("d0", &format!("c{n}")).await;
    }
    server.add_client("another").await;
    server.check("PUT /v1/devices/d0/clients/another", "", 409, "too_many_links").await;
}

#[tokio::test]
async fn a_stopped_engine_is_not_available() {
    let server = Server::start().await;
    Engine::stop(&server.engine).await;
    server.check("POST /v1/devices", r#"{"id":"a"}"#, 503, "unavailable").await;
    let repeated = request("POST /v1/devices", "x").header("idempotency-key", "k");
    let answer = server.send(repeated.body(r#"{"id":"a"}"#.into()).expect("a request")).await;
    assert_eq!(answer.status, 503);
}
