//! Locks, limits, the cache, channels and what is said to workers, against the built program.

mod control;
mod locks;
mod memory;

use serde_json::Value;

use crate::contract::rig::Rig;
use crate::wire::Answer;

/// The status and the code of a refusal.
fn refused(answer: &Answer) -> (u16, String) {
    (answer.status, answer.text("code"))
}

/// A call that has to be answered 200.
async fn done(rig: &Rig, path: &str, body: &str) -> Value {
    let answer = rig.json("POST", path, body).await;
    assert_eq!(answer.status, 200, "{path} {body}: {answer:?}");
    answer.json()
}

#[tokio::test]
async fn a_limit_is_refused_with_its_range() {
    let rig = Rig::start(&[]).await;
    let path = "/v1/limits/shop/a";
    let most = "9007199254740992";
    let largest = done(&rig, path, &format!(r#"{{"limit":{most},"per":"1m"}}"#)).await;
    assert_eq!(largest["remaining"], 9_007_199_254_740_991_u64);
    for wrong in ["0", "-1", "1.5", "9007199254740993", "18446744073709551616"] {
        for body in [
            format!(r#"{{"limit":{wrong},"per":"1m"}}"#),
            format!(r#"{{"limit":5,"cost":{wrong},"per":"1m"}}"#),
        ] {
            let answer = rig.json("POST", path, &body).await;
            assert_eq!(refused(&answer), (422, "invalid_number".to_owned()), "{body}: {answer:?}");
            let name = if body.contains("cost") { "cost" } else { "limit" };
            let detail = format!("{name} is {wrong}; it must be a whole number, 1 to {most}");
            assert_eq!(answer.text("detail"), detail);
        }
    }
}

#[tokio::test]
async fn bad_names_and_unknown_fields_are_refused() {
    let rig = Rig::start(&[]).await;
    for (method, path, body, code) in [
        ("POST", "/v1/locks/_own/a", "{}", "reserved_name"),
        ("POST", "/v1/locks/shop/a%20b", "{}", "invalid_name"),
        ("POST", "/v1/locks/shop/a", r#"{"owners":"x"}"#, "unknown_field"),
        ("POST", "/v1/locks/shop/a", r#"{"ttl":"0s"}"#, "invalid_ttl"),
        ("POST", "/v1/locks/shop/a", r#"{"wait":"1h"}"#, "invalid_duration"),
        ("POST", "/v1/locks/shop/a", r#"{"owner":""}"#, "invalid_owner"),
        ("POST", "/v1/locks/shop/a/extend", r#"{"owner":"x"}"#, "missing_field"),
        ("POST", "/v1/locks/shop/a/release", r#"{}"#, "missing_field"),
        ("POST", "/v1/limits/shop/a", r#"{"limit":5}"#, "missing_field"),
        ("POST", "/v1/limits/shop/a", r#"{"limit":5,"per":"1m","cost":6}"#, "invalid_number"),
        ("POST", "/v1/limits/shop/a", r#"{"limit":9007199254740993,"per":"1m"}"#, "invalid_number"),
        ("POST", "/v1/limits/shop/a", r#"{"limit":5,"per":"1m","kind":"token"}"#, "unknown_word"),
        ("PUT", "/v1/cache/shop/a*", "x", "invalid_name"),
        ("PUT", "/v1/cache/shop/a?ttl=soon", "x", "invalid_parameter"),
        ("POST", "/v1/cache/shop/get", r#"{"key":[]}"#, "unknown_field"),
        ("POST", "/v1/channels/shop/a*", "1", "invalid_name"),
        ("GET", "/v1/channels/shop/a*b", "", "invalid_name"),
        ("PUT", "/v1/queues/shop/q/control", r#"{"state":"rest"}"#, "unknown_word"),
        ("PUT", "/v1/queues/shop/q/control", r#"{"state":"run","max_in_flight":0}"#, "invalid_number"),
    ] {
        let answer = rig.json(method, path, body).await;
        assert_eq!(refused(&answer), (422, code.to_owned()), "{method} {path} {body}: {answer:?}");
    }
}
