//! Imports: a line for each device, and what became of each.

use axum::body::Body;
use axum::http::Request;
use futures_util::stream;
use serde_json::{Value as Json, json};

use crate::rig::{Server, check_form};

async fn import(server: &Server, body: impl Into<Body>) -> Json {
    let request = Request::post("/v1/devices/import").header("content-type", "application/x-ndjson");
    let answer = server.send(request.body(body.into()).expect("a request")).await;
    check_form("POST /v1/devices/import", &answer);
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

#[tokio::test]
async fn every_line_is_registered_changed_or_refused() {
    let server = Server::start().await;
    server.add_device("old").await;
    let long = format!(r#"{{"id":"e","address":"{}"}}"#, "x".repeat(64 * 1_024));
    let lines = [
        r#"{"id":"a","kind":"meter","address":"here","labels":{"site":"12"},"report_interval":"1m","commands":{"gap":"1s"}}"#,
        r#"{"id":"old","address":"there"}"#,
        "",
        "nonsense",
        r#"{"id":"b","colour":1}"#,
        r#"{"id":"a/b"}"#,
        &long,
        r#"{"id":"c","clients":["none"]}"#,
        r#"{"id":"c","clients":"none"}"#,
        r#"{"id":"c","expect_from":"soon"}"#,
        r#"{"id":"old","kind":"meter"}"#,
        "[]",
        r#"{"id":"d"}"#,
        r#"{"id":"d","commands":{"window":0}}"#,
    ];
    let told = import(&server, lines.join("\n")).await;
    assert_eq!((&told["created"], &told["updated"]), (&json!(2), &json!(1)), "{told}");
    let refused = told["rejected"].as_array().expect("a list").iter();
    let refused: Vec<_> =
        refused.map(|line| (line["line"].as_u64(), line["code"].as_str().expect("a code"))).collect();
    let expect = [
        (4, "unreadable"),
        (5, "unknown_field"),
        (6, "invalid_id"),
        (7, "line_too_long"),
        (8, "unknown_client"),
        (9, "wrong_type"),
        (10, "invalid_time"),
        (11, "cannot_change"),
        (12, "not_an_object"),
        (14, "invalid_pace"),
    ];
    assert_eq!(refused, expect.map(|(line, code)| (Some(line), code)));
    assert_eq!(told["rejected_count"], 10);
    let expect = r#"{"kind":"meter","address":"here","labels":{"site":"12"},"report_interval":"1m",
        "commands":{"window":null,"gap":"1s"}}"#;
    server.check("GET /v1/devices/a", "", 200, expect).await;
    server.check("GET /v1/devices/old", "", 200, r#"{"kind":"lock","address":"there"}"#).await;
}

async fn clients_of(server: &Server, device: &str) -> Vec<String> {
    let list = server.get(&format!("/v1/devices/{device}/clients")).await;
    let id = |client: &Json| client["id"].as_str().expect("an id").to_owned();
    list["items"].as_array().expect("a list").iter().map(id).collect()
}

#[tokio::test]
async fn a_line_sets_exactly_the_clients_that_it_names() {
    let server = Server::start().await;
    for client in ["x", "y", "z"] {
        server.add_client(client).await;
    }
    for (line, expect) in [
        (r#"{"id":"a","clients":["x","y"]}"#, &["x", "y"][..]),
        (r#"{"id":"a"}"#, &["x", "y"]),
        (r#"{"id":"a","clients":["z","y","y"]}"#, &["y", "z"]),
        (r#"{"id":"a","clients":["z","none"]}"#, &["y", "z"]),
        (r#"{"id":"a","clients":[]}"#, &[]),
    ] {
        import(&server, line).await;
        assert_eq!(clients_of(&server, "a").await, expect, "{line}");
    }
}

#[tokio::test]
async fn a_line_sets_exactly_the_labels_that_it_names() {
    let server = Server::start().await;
    for (line, expect) in [
        (r#"{"id":"a","labels":{"site":"12","floor":"1"}}"#, json!({"site": "12", "floor": "1"})),
        (r#"{"id":"a"}"#, json!({"site": "12", "floor": "1"})),
        (r#"{"id":"a","labels":null}"#, json!({"site": "12", "floor": "1"})),
        (r#"{"id":"a","labels":{"site":"13"}}"#, json!({"site": "13"})),
        (r#"{"id":"a","labels":{}}"#, json!({})),
    ] {
        import(&server, line).await;
        assert_eq!(server.get("/v1/devices/a").await["labels"], expect, "{line}");
    }
}

/// Many times the slices that may be under way, cut anywhere.
#[tokio::test]
async fn lines_take_effect_in_their_order_wherever_the_body_is_cut() {
    let server = Server::start().await;
    let line = |n: usize| format!("{{\"id\":\"d{}\",\"address\":\"{n}\"}}\n", n % 300);
    let body: String = (0..12_000).map(line).collect();
    let pieces: Vec<_> =
        body.as_bytes().chunks(999).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
    let told = import(&server, Body::from_stream(stream::iter(pieces))).await;
    assert_eq!((&told["created"], &told["updated"]), (&json!(300), &json!(11_700)), "{told}");
    for n in [0, 7, 299] {
        let device = server.get(&format!("/v1/devices/d{n}")).await;
        assert_eq!(device["address"], (11_700 + n).to_string(), "the last line holds");
    }
}

#[tokio::test]
async fn the_first_thousand_refusals_are_listed() {
    let server = Server::start().await;
    let told = import(&server, "x\n".repeat(1_500)).await;
    assert_eq!(told["rejected_count"], 1_500);
    let listed = told["rejected"].as_array().expect("a list");
    assert_eq!((listed.len(), &listed[999]["line"]), (1_000, &json!(1_000)));
}

#[tokio::test]
async fn a_device_may_be_called_as_the_route_is() {
    let server = Server::start().await;
    let one = "/v1/devices/import";
    server.check(&format!("GET {one}"), "", 404, "unknown_device").await;
    assert_eq!(import(&server, r#"{"id":"import","address":"here"}"#).await["created"], 1);
    server.check(&format!("GET {one}"), "", 200, r#"{"id":"import","address":"here"}"#).await;
    server.check(&format!("PATCH {one}"), r#"{"address":"there"}"#, 200, r#"{"address":"there"}"#).await;
    assert_eq!(server.call(&format!("DELETE {one}"), "").await.status, 204);
    assert_eq!(import(&server, r#"{"id":"other"}"#).await["created"], 1);
}
