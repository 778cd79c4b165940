//! Streams over HTTP: every answer is held against the document.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value as Json, json};

use crate::rig::{Answer, Server, check_form, names};

const S: &str = "/v1/streams/shop/orders";

async fn payloads(server: &Server, parameters: &str) -> Vec<Json> {
    let page = server.get(&format!("{S}/messages{parameters}")).await;
    page["items"].as_array().expect("items").iter().map(|item| item["payload"].clone()).collect()
}

#[tokio::test]
async fn a_message_comes_back_as_it_was_appended() {
    let server = Server::start().await;
    let append = format!("POST {S}/messages");
    let full = r#"{"payload":{"b": 1.50},"source":"a","external_id":7,"segment":"s","ts":"2001-01-01T00:00:00Z",
        "headers":{"k":"v"}}"#;
    server.check(&append, full, 201, r#"{"messages":[{"id":"1","duplicate":false}]}"#).await;
    server.check(&append, full, 201, r#"{"messages":[{"id":"1","duplicate":true}]}"#).await;
    let other = r#"{"payload":2,"source":"a","external_id":"7"}"#;
    server.check(&append, other, 201, r#"{"messages":[{"id":"1","duplicate":true,"conflict":true}]}"#).await;
    let many = r#"{"messages":[{"payload":2},{"payload_base64":"AP8"}],"expect_last_id":"1"}"#;
    server.check(&append, many, 201, r#"{"messages":[{"id":"2"},{"id":"3"}]}"#).await;
    server.check(&append, many, 409, "tail_moved").await;
    let page = server.call(&format!("GET {S}/messages?limit=1"), "").await;
    assert!(page.text.contains(r#""payload":{"b":1.50},"headers":{"k":"v"}}"#), "{}", page.text);
    let expect = r#"{"id":"1","ts":"2001-01-01T00:00:00.000Z","source":"a","external_id":"7","segment":"s"}"#;
    server.check(&format!("GET {S}/messages/1"), "", 200, expect).await;
    let bytes = server.get(&format!("{S}/messages/3")).await;
    assert_eq!(names(&bytes), ["external_id", "id", "payload_base64", "segment", "source", "ts"]);
    assert_eq!(payloads(&server, "?after=1&limit=1").await, [json!(2)]);
}

#[tokio::test]
async fn a_stream_is_shown_set_listed_and_deleted() {
    let server = Server::start().await;
    server.check(&format!("PUT {S}/settings"), r#"{"save":"wait","save_interval":"10ms"}"#, 204, "").await;
    let stream = server.get(S).await;
    assert_eq!(json!([stream["first_id"], stream["last_id"], stream["messages"]]), json!(["1", "0", 0]));
    assert_eq!(stream["settings"]["save"], "wait");
    server.check(&format!("POST {S}/messages"), r#"{"payload":1}"#, 201, "{}").await;
    let expect = r#"{"items":[{"first_id":"1","last_id":"1","messages":1}],"next_cursor":null}"#;
    server.check(&format!("GET {S}/blocks"), "", 200, expect).await;
    server.check(&format!("GET {S}/handlers"), "", 200, r#"{"next_cursor":null}"#).await;
    server.check("POST /v1/streams/a/b/messages", r#"{"payload":1}"#, 201, "{}").await;
    let both = r#"{"items":[{"stream":"b"},{"stream":"orders"}],"next_cursor":null}"#;
    server.check("GET /v1/streams", "", 200, both).await;
    server.check("GET /v1/streams?limit=1", "", 200, r#"{"items":[{"stream":"b"}],"next_cursor":"*"}"#).await;
    server.check("GET /v1/streams?namespace=shop", "", 200, r#"{"items":[{"stream":"orders"}]}"#).await;
    server.check(&format!("DELETE {S}"), "", 204, "").await;
    server
        .check_all(&[
            (&format!("GET {S}"), "", 404, "unknown_stream"),
            (&format!("DELETE {S}"), "", 404, "unknown_stream"),
            (&format!("GET {S}/messages"), "", 404, "unknown_stream"),
            (&format!("GET {S}/blocks"), "", 404, "unknown_stream"),
            (&format!("GET {S}/handlers"), "", 404, "unknown_stream"),
            ("GET /v1/streams?namespace=_own", "", 422, "invalid_parameter"),
            ("GET /v1/streams/a/b/messages/2", "", 404, "unknown_message"),
        ])
        .await;
}

async fn append_lines(server: &Server, lines: String) -> Answer {
    let path = format!("{S}/messages");
    let request = Request::post(&path).header("content-type", "application/x-ndjson");
    let answer = server.send(request.body(Body::from(lines)).expect("a request")).await;
    check_form(&format!("POST {path}"), &answer);
    answer
}

#[tokio::test]
async fn lines_that_are_cut_by_a_full_stream_say_how_far_they_went() {
    let server = Server::start().await;
    // Lines go in by the thousand. Two thousand of these fit, three thousand do not.
    let full = r#"{"when_full":"reject","keep":{"bytes":"280KB"}}"#;
    server.check(&format!("PUT {S}/settings"), full, 204, "").await;
    let line = format!("{}\n", json!({"payload": "x".repeat(100)}));
    let lines = ["nonsense\n", &line.repeat(4_999)].concat();
    let cut = append_lines(&server, lines).await;
    let told = cut.json();
    assert_eq!((cut.status, &told["code"]), (503, &json!("stream_full")), "{told}");
    let counts = ["last_line", "appended", "duplicates", "rejected_count"].map(|name| told[name].as_u64());
    assert_eq!(counts, [2_000, 1_999, 0, 1].map(Some), "{told}");
    assert_eq!((&told["last_id"], &told["rejected"][0]["line"]), (&json!("1999"), &json!(1)), "{told}");
    assert_eq!(server.get(S).await["messages"], 1_999);

    let again = append_lines(&server, line.repeat(1_000)).await.json();
    assert_eq!(json!([again["last_line"], again["appended"], again["last_id"]]), json!([0, 0, null]));
    server.check(&format!("PUT {S}/settings"), "{}", 204, "").await;
    let rest = append_lines(&server, line.repeat(3_000)).await;
    assert_eq!((rest.status, &rest.json()["last_id"]), (200, &json!("4999")), "{}", rest.text);
    assert!(rest.json().get("last_line").is_none(), "{}", rest.text);
}

#[tokio::test]
async fn a_waiting_reader_is_told_that_its_subscription_is_gone() {
    let server = Server::start().await;
    let subscription = format!("{S}/subscriptions/r");
    server.check(&format!("PUT {subscription}"), "{}", 201, "{}").await;
    let (read, delete) = (format!("POST {subscription}/read"), format!("DELETE {subscription}"));
    let delete = async {
        while server.get(&subscription).await["reader"] != "a" {}
        server.call(&delete, "").await
    };
    let (answer, deleted) = tokio::join!(server.call(&read, r#"{"reader":"a","wait":"60s"}"#), delete);
    assert_eq!((answer.status, deleted.status), (404, 204), "{}", answer.text);
    assert_eq!(answer.json()["code"], "unknown_subscription");
}

#[tokio::test]
async fn what_only_the_stream_calls_its_own_messages_is_refused() {
    let server = Server::start().await;
    let append = format!("POST {S}/messages");
    server.check(&append, r#"{"payload":1}"#, 201, "{}").await;
    let page = server.get(&format!("{S}/messages?origin=true")).await;
    let called = |number: u64| {
        json!({"payload": 2, "source": page["items"][0]["source"], "external_id": number}).to_string()
    };
    server.check(&append, &called(2), 422, "reserved_source").await;
    server.check(&append, &called(3), 422, "reserved_source").await;
    let known = r#"{"messages":[{"id":"1","duplicate":true}]}"#;
    server.check(&append, &called(1), 201, known).await;
    server.check(&append, r#"{"messages":[]}"#, 422, "missing_field").await;
    assert_eq!(payloads(&server, "").await, [json!(1)]);
}
