//! Messages as lines: each is taken or refused by itself, in order.

use serde_json::{Value, json};

use super::{S, numbers, read_all, refused, stream};
use crate::contract::rig::{Rig, each};

async fn lines(rig: &Rig, body: &str) -> Value {
    let answer = rig.ask("POST", &format!("{S}/messages"), "application/x-ndjson", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn every_line_is_taken_or_refused_by_itself() {
    let rig = Rig::start(&[]).await;
    let long = "x".repeat(65_536);
    let body = [
        r#"{"payload":1}"#,
        "",
        r#"{"payload":2,"source":"a","external_id":7}"#,
        r#"{"payload":3,"source":"a","external_id":"7"}"#,
        "7",
        r#"{"payload":4"#,
        r#"{"payload":5,"hue":1}"#,
        r#"{"payload":6,"source":"a"}"#,
        r#"{"payload":7,"expect_last_id":"1"}"#,
        &format!(r#"{{"payload":"{long}"}}"#),
        r#"{"payload":8,"segment":"s"}"#,
    ]
    .join("\n");
    let answer = lines(&rig, &body).await;
    let counts =
        json!([answer["appended"], answer["duplicates"], answer["rejected_count"], answer["last_id"]]);
    assert_eq!(counts, json!([3, 1, 6, "3"]), "{answer}");
    let rejected = answer["rejected"].as_array().expect("a list");
    assert_eq!(numbers(rejected, "line"), [5, 6, 7, 8, 9, 10]);
    let codes =
        ["not_an_object", "unreadable", "unknown_field", "missing_field", "unknown_field", "line_too_long"];
    assert_eq!(each(rejected, "code"), codes);
    assert_eq!(each(&read_all(&rig).await, "payload"), [json!(1), json!(2), json!(8)]);
}

#[tokio::test]
async fn a_long_body_is_appended_in_order() {
    const LINES: u64 = 30_000;

    let mut rig = Rig::start(&[]).await;
    let body: String = (0..LINES).map(|number| format!("{{\"payload\":{number}}}\r\n")).collect();
    let answer = lines(&rig, &body).await;
    assert_eq!(json!([answer["appended"], answer["last_id"]]), json!([LINES, LINES.to_string()]));
    rig.restart().await;
    let all = read_all(&rig).await;
    assert_eq!(numbers(&all, "payload"), (0..LINES).collect::<Vec<_>>());
    assert_eq!(numbers(&all, "id"), (1..=LINES).collect::<Vec<_>>());
}

#[tokio::test]
async fn nothing_is_as_good_as_any_number_of_lines() {
    let rig = Rig::start(&[]).await;
    let answer = lines(&rig, "\n \n").await;
    let nothing =
        json!({"appended": 0, "duplicates": 0, "rejected_count": 0, "rejected": [], "last_id": null});
    assert_eq!(answer, nothing);
    assert_eq!(rig.json("GET", S, "").await.status, 404, "nothing was made");
    // Lines under another type are a JSON body that cannot be read.
    let two = "{\"payload\":1}\n{\"payload\":2}";
    let answer = rig.json("POST", &format!("{S}/messages"), two).await;
    assert_eq!(refused(&answer), (400, "unreadable".to_owned()));
    lines(&rig, two).await;
    assert_eq!(stream(&rig).await["messages"], 2);
}
