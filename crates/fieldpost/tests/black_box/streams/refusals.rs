//! Bad input: each refusal has its status and its code, and says what would be right.

use serde_json::json;

use super::{S, append, refused, stream};
use crate::contract::rig::Rig;

const REFUSALS: &[(&str, &str, &str, u16, &str)] = &[
    ("POST", "/messages", "", 400, "unreadable"),
    ("POST", "/messages", "{}", 422, "missing_field"),
    ("POST", "/messages", "[]", 422, "not_an_object"),
    ("POST", "/messages", r#"{"payload":1"#, 400, "unreadable"),
    ("POST", "/messages", r#"{"payload":1,"payload":2}"#, 400, "unreadable"),
    ("POST", "/messages", r#"{"payload":1,"hue":2}"#, 422, "unknown_field"),
    ("POST", "/messages", r#"{"payload":1,"id":"4"}"#, 422, "unknown_field"),
    ("POST", "/messages", r#"{"payload":1,"payload_base64":"AA=="}"#, 422, "conflicting_fields"),
    ("POST", "/messages", r#"{"payload_base64":"%"}"#, 422, "invalid_base64"),
    ("POST", "/messages", r#"{"payload":1,"source":"a"}"#, 422, "missing_field"),
    ("POST", "/messages", r#"{"payload":1,"external_id":"a"}"#, 422, "missing_field"),
    ("POST", "/messages", r#"{"payload":1,"source":"a b","external_id":1}"#, 422, "invalid_name"),
    ("POST", "/messages", r#"{"payload":1,"source":7,"external_id":1}"#, 422, "wrong_type"),
    ("POST", "/messages", r#"{"payload":1,"source":"a","external_id":""}"#, 422, "invalid_external_id"),
    ("POST", "/messages", r#"{"payload":1,"source":"a","external_id":-1}"#, 422, "invalid_external_id"),
    ("POST", "/messages", r#"{"payload":1,"source":"a","external_id":1.5}"#, 422, "invalid_external_id"),
    (
        "POST",
        "/messages",
        r#"{"payload":1,"source":"a","external_id":9223372036854775808}"#,
        422,
        "invalid_external_id",
    ),
    ("POST", "/messages", r#"{"payload":1,"source":"a","external_id":[]}"#, 422, "wrong_type"),
    ("POST", "/messages", r#"{"payload":1,"segment":""}"#, 422, "invalid_name"),
    ("POST", "/messages", r#"{"payload":1,"segment":"a/b"}"#, 422, "invalid_name"),
    ("POST", "/messages", r#"{"payload":1,"ts":"soon"}"#, 422, "invalid_time"),
    ("POST", "/messages", r#"{"payload":1,"headers":{"a":1}}"#, 422, "wrong_type"),
    ("POST", "/messages", r#"{"payload":1,"headers":[]}"#, 422, "wrong_type"),
    ("POST", "/messages", r#"{"payload":1,"expect_last_id":"x"}"#, 422, "wrong_type"),
    ("POST", "/messages", r#"{"payload":1,"expect_last_id":"99"}"#, 409, "tail_moved"),
    ("POST", "/messages", r#"{"messages":[]}"#, 422, "missing_field"),
    ("POST", "/messages", r#"{"messages":{}}"#, 422, "wrong_type"),
    ("POST", "/messages", r#"{"messages":[{"payload":1}],"payload":1}"#, 422, "unknown_field"),
    ("POST", "/messages", r#"{"messages":[{"payload":1,"expect_last_id":"1"}]}"#, 422, "unknown_field"),
    ("GET", "/messages?after=x", "", 422, "invalid_parameter"),
    ("GET", "/messages?after=-1", "", 422, "invalid_parameter"),
    ("GET", "/messages?after=18446744073709551616", "", 422, "invalid_parameter"),
    ("GET", "/messages?limit=0", "", 422, "invalid_parameter"),
    ("GET", "/messages?limit=1001", "", 422, "invalid_parameter"),
    ("GET", "/messages?segment=", "", 422, "invalid_parameter"),
    ("GET", "/messages?segment=a,,b", "", 422, "invalid_parameter"),
    ("GET", "/messages?from=soon", "", 422, "invalid_parameter"),
    ("GET", "/messages?wait=61s", "", 422, "invalid_parameter"),
    ("GET", "/messages?wait=1", "", 422, "invalid_parameter"),
    ("GET", "/messages?cursor=x", "", 422, "unknown_parameter"),
    ("GET", "/messages?after=1&after=2", "", 422, "invalid_parameter"),
    ("GET", "/messages/0", "", 404, "unknown_message"),
    ("GET", "/messages/2", "", 404, "unknown_message"),
    ("GET", "/messages/01", "", 404, "unknown_message"),
    ("GET", "/messages/x", "", 404, "unknown_message"),
    ("GET", "/blocks?cursor=abc", "", 400, "invalid_cursor"),
    ("PUT", "/settings", "7", 422, "not_an_object"),
    ("PUT", "/settings", r#"{"save":"never"}"#, 422, "unknown_word"),
    ("PUT", "/settings", r#"{"save_interval":"soon"}"#, 422, "invalid_duration"),
    ("PUT", "/settings", r#"{"block":{"bytes":"1 MB"}}"#, 422, "invalid_size"),
    ("PUT", "/settings", r#"{"block":{"messages":0}}"#, 422, "invalid_number"),
    ("PUT", "/settings", r#"{"block":{"size":1}}"#, 422, "unknown_field"),
    ("PUT", "/settings", r#"{"keep":{"age":7}}"#, 422, "wrong_type"),
    ("PUT", "/settings", r#"{"when_full":"wait"}"#, 422, "unknown_word"),
    ("PUT", "/settings", r#"{"save_interval":"1ms"}"#, 422, "invalid_settings"),
    ("PUT", "/settings", r#"{"block":{"bytes":"1B"}}"#, 422, "invalid_settings"),
    ("PUT", "/settings", r#"{"keep":{"bytes":"1B"}}"#, 422, "invalid_settings"),
    ("PUT", "/settings", r#"{"unload_after":"2d"}"#, 422, "invalid_settings"),
    ("PUT", "/settings", r#"{"move":[{"after":"1d","to":"cold"}]}"#, 422, "unknown_storage"),
    ("PUT", "/settings", r#"{"pace":1}"#, 422, "unknown_field"),
    ("PUT", "/messages", "{}", 405, "method_not_allowed"),
    ("DELETE", "/messages", "", 405, "method_not_allowed"),
];

#[tokio::test]
async fn what_may_not_be_is_refused_with_its_reason() {
    let rig = Rig::start(&[]).await;
    append(&rig, &json!({"payload": 1})).await;
    let before = stream(&rig).await;
    for (method, path, body, status, code) in REFUSALS {
        let answer = rig.json(method, &format!("{S}{path}"), body).await;
        let row = format!("{method} {path} {body}: {answer:?}");
        assert_eq!(refused(&answer), (*status, (*code).to_owned()), "{row}");
        assert!(!answer.text("detail").is_empty(), "{row}");
    }
    assert_eq!(stream(&rig).await, before, "nothing of it was done");
}

#[tokio::test]
async fn names_follow_the_rule_of_queues() {
    let rig = Rig::start(&[]).await;
    for (path, code) in [
        ("/v1/streams/shop/_own/messages", "reserved_name"),
        ("/v1/streams/_shop/orders/messages", "reserved_name"),
        ("/v1/streams/a.b/orders/messages", "invalid_name"),
        (&*format!("/v1/streams/shop/{}/messages", "s".repeat(256)), "invalid_name"),
    ] {
        let answer = rig.json("POST", path, r#"{"payload":1}"#).await;
        assert_eq!(refused(&answer), (422, code.to_owned()), "{path}");
    }
    for path in ["", "/messages", "/messages/1", "/blocks", "/handlers"] {
        let answer = rig.json("GET", &format!("{S}{path}"), "").await;
        assert_eq!(refused(&answer), (404, "unknown_stream".to_owned()), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn what_is_too_large_is_told_so() {
    let rig = Rig::start(&[]).await;
    let of = |payload: usize| format!(r#"{{"payload":"{}"}}"#, "x".repeat(payload));
    let path = format!("{S}/messages");
    // A text has its quotes.
    assert_eq!(rig.json("POST", &path, &of(1_048_574)).await.status, 201);
    let answer = rig.json("POST", &path, &of(1_048_575)).await;
    assert_eq!(refused(&answer), (422, "payload_too_large".to_owned()));
    let answer = rig.json("POST", &path, &of(16 * 1_024 * 1_024)).await;
    assert_eq!(refused(&answer), (413, "body_too_large".to_owned()));
    let many = vec![r#"{"payload":1}"#; 1_001].join(",");
    let answer = rig.json("POST", &path, &format!(r#"{{"messages":[{many}]}}"#)).await;
    assert_eq!(refused(&answer), (422, "too_many_messages".to_owned()));
    let text = |count: usize| "é".repeat(count);
    for (external_id, status) in [(text(64), 201), (text(65), 422)] {
        let body = json!({"payload": 1, "source": "a", "external_id": external_id});
        assert_eq!(rig.json("POST", &path, &body.to_string()).await.status, status);
    }
    for (name, count, bytes, status) in [("h", 16, 1_000, 201), ("h", 17, 1, 422), ("h", 1, 1_024, 422)] {
        let headers: serde_json::Map<_, _> =
            (0..count).map(|number| (format!("{name}{number}"), json!("v".repeat(bytes)))).collect();
        let answer = rig.json("POST", &path, &json!({"payload": 1, "headers": headers}).to_string()).await;
        assert_eq!(answer.status, status, "{count} of {bytes}: {answer:?}");
        assert!(status == 201 || answer.text("code") == "invalid_headers", "{answer:?}");
    }
    let read = rig.get(&format!("{path}?limit=1")).await;
    assert_eq!(read["items"][0]["payload"].as_str().map(str::len), Some(1_048_574));
}
