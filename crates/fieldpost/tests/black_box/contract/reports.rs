//! Reports over HTTP: what is taken, what is refused and how it is said.

use std::io::Write;

use serde_json::{Value, json};

use crate::contract::history::FOR_YEARS;
use crate::contract::rig::{Rig, each};
use crate::wire;

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

async fn rig() -> Rig {
    let rig = Rig::start(&[]).await;
    rig.device(&json!({"id": "0xA"})).await;
    rig.device(&json!({"id": "m1", "kind": "meter"})).await;
    rig
}

/// Content type, body; status, code.
fn single_rows() -> Vec<(&'static str, String, u16, &'static str)> {
    let row = |body: Value, status, code| (JSON, body.to_string(), status, code);
    vec![
        row(json!({"device_id": "0xA", "data": 0}), 200, ""),
        row(json!({"sensor_id": "0xA", "data": 1, "colour": {"unknown": 1}}), 200, ""),
        (JSON, r#"{"device_id":"0xA","data":1.0e0}"#.to_owned(), 200, ""),
        row(json!({"device_id": "0xA", "data": 2}), 422, "value_not_allowed"),
        row(json!({"device_id": "0xA", "data": true}), 422, "value_not_allowed"),
        row(json!({"device_id": "0xA", "data": "1"}), 422, "value_not_allowed"),
        row(json!({"device_id": "0xA", "data": null}), 422, "value_not_allowed"),
        row(json!({"device_id": "0xA"}), 422, "missing_field"),
        row(json!({"data": 1}), 422, "missing_field"),
        row(json!({"device_id": "0xB", "data": 1}), 404, "unknown_device"),
        row(json!({"device_id": "0xA", "data": 1, "ts": "yesterday"}), 422, "invalid_ts"),
        row(json!({"device_id": "0xA", "data": 1, "ts": "2999-01-01T00:00:00Z"}), 422, "ts_ahead"),
        row(json!({"device_id": "0xA", "data": 1, "id": "x".repeat(64)}), 200, ""),
        row(json!({"device_id": "0xA", "data": 1, "id": "x".repeat(65)}), 422, "invalid_report_id"),
        row(json!([{"device_id": "0xA", "data": 1}]), 422, "not_an_object"),
        row(json!({"device_id": "m1", "data": "x".repeat(4094)}), 200, ""),
        row(json!({"device_id": "m1", "data": "x".repeat(4095)}), 422, "value_too_large"),
        (JSON, r#"{"device_id":"m1","data":{"a":1,"a":2}}"#.to_owned(), 400, "unreadable"),
        (JSON, r#"{"device_id":"0xA","data":1"#.to_owned(), 400, "unreadable"),
        (JSON, String::new(), 400, "unreadable"),
        (
            JSON,
            "{\"device_id\":\"0xA\",\"data\":1}\n{\"device_id\":\"0xA\",\"data\":0}\n".to_owned(),
            400,
            "unreadable",
        ),
    ]
}

#[tokio::test]
async fn a_single_report_is_taken_or_refused_with_a_code() {
    let rig = rig().await;
    for (content_type, body, status, code) in single_rows() {
        let answer = rig.ask("POST", "/v1/reports", content_type, &body).await;
        assert_eq!((answer.status, answer.text("code").as_str()), (status, code), "{body}: {answer:?}");
        if status == 200 {
            assert_eq!(answer.json(), json!({"accepted": 1, "rejected_count": 0, "rejected": []}), "{body}");
        }
    }
}

#[tokio::test]
async fn whoever_sends_several_reports_as_one_is_told_how_to_send_them() {
    let rig = rig().await;
    let two = "{\"device_id\":\"0xA\",\"data\":1}\n{\"device_id\":\"0xA\",\"data\":0}\n";
    let answer = rig.ask("POST", "/v1/reports", JSON, two).await;
    let expect = "not readable JSON at byte 30: trailing characters; several reports are NDJSON: send \
                  Content-Type: application/x-ndjson";
    assert_eq!(answer.text("detail"), expect, "{answer:?}");
}

#[tokio::test]
async fn lines_are_taken_one_by_one_and_the_bad_ones_named() {
    let rig = rig().await;
    let long = format!("{{\"device_id\":\"m1\",\"data\":1,\"pad\":\"{}\"}}", "x".repeat(64 * 1024));
    let lines = [
        r#"{"device_id":"0xA","data":1}"#,
        "",
        r#"{"device_id":"0xA","data":7}"#,
        "nonsense\r",
        "   ",
        &long,
        r#"{"device_id":"0xB","data":1}"#,
        "{\"device_id\":\"0xA\",\"data\":0}\r",
    ];
    let content_type = "Application/X-NDJSON; charset=utf-8";
    let answer = rig.ask("POST", "/v1/reports", content_type, &lines.join("\n")).await.json();
    assert_eq!((&answer["accepted"], &answer["rejected_count"]), (&json!(2), &json!(4)), "{answer}");
    let rejected = answer["rejected"].as_array().expect("a list");
    assert_eq!(each(rejected, "line"), [3, 4, 6, 7]);
    let codes = ["value_not_allowed", "unreadable", "line_too_long", "unknown_device"];
    assert_eq!(each(rejected, "code"), codes);
    let readings = rig.items("/v1/devices/0xA/readings?order=asc").await;
    assert_eq!(each(&readings, "data"), [1, 0]);
}

#[tokio::test]
async fn only_the_first_thousand_bad_lines_are_named() {
    let rig = rig().await;
    let answer = rig.ask("POST", "/v1/reports", NDJSON, &"x\n".repeat(1_001)).await.json();
    assert_eq!((&answer["accepted"], &answer["rejected_count"]), (&json!(0), &json!(1_001)));
    let lines = each(answer["rejected"].as_array().expect("a list"), "line");
    assert_eq!(lines, (1..=1_000).collect::<Vec<u64>>(), "in order, from the first");
}

#[tokio::test]
async fn values_come_back_canonical_and_equal_ones_change_nothing() {
    let rig = rig().await;
    for data in [r#"{"b":1.50,"a":[1.0,1e21]}"#, r#"{"a":[1,1E+21],"b":1.5}"#, "9007199254740993", "null"] {
        let body = format!("{{\"device_id\":\"m1\",\"data\":{data}}}");
        assert_eq!(rig.json("POST", "/v1/reports", &body).await.status, 200, "{data}");
    }
    let readings = rig.json("GET", "/v1/devices/m1/readings?order=asc", "").await.body;
    for part in
        [r#""data":{"a":[1,1e+21],"b":1.5},"changed":true"#, r#""data":9007199254740992,"changed":true"#]
    {
        assert!(readings.contains(part), "{part} is not in {readings}");
    }
    let readings = rig.items("/v1/devices/m1/readings?order=asc").await;
    assert_eq!(each(&readings, "changed"), [true, false, true, true]);
}

#[tokio::test]
async fn a_report_older_than_the_newest_ts_is_history_only() {
    let rig = Rig::start(&[FOR_YEARS]).await;
    rig.device(&json!({"id": "0xA"})).await;
    let newest = "2026-01-02T05:04:05.678+02:00";
    for (ts, data, value) in [
        (Some(newest), 1, 1),
        (Some("2026-01-02T03:04:05.677Z"), 0, 1),
        (None, 0, 0),
        (Some("2026-01-02T03:04:05.677Z"), 1, 0),
        (Some("2026-01-02T03:04:05.678Z"), 1, 1),
    ] {
        let report = json!({"device_id": "0xA", "data": data, "ts": ts});
        assert_eq!(rig.json("POST", "/v1/reports", &report.to_string()).await.status, 200);
        let state = rig.get("/v1/devices/0xA").await["state"].clone();
        assert_eq!(state["value"], value, "{report}");
    }
    let state = rig.get("/v1/devices/0xA").await["state"].clone();
    assert_eq!(state["changed_at"], "2026-01-02T03:04:05.678Z", "milliseconds, and UTC");
    assert_eq!(rig.items("/v1/devices/0xA/readings").await.len(), 5);
}

#[tokio::test]
async fn an_unknown_device_is_registered_where_the_settings_say_so() {
    let rig = Rig::start(&[("FIELDPOST_DEVICES__UNKNOWN", "register")]).await;
    rig.report("new1", 1).await;
    let refused = rig.json("POST", "/v1/reports", r#"{"device_id":"new2","data":7}"#).await;
    assert_eq!((refused.status, refused.text("code").as_str()), (422, "value_not_allowed"));
    for (fields, status, code) in [
        (r#""data":1,"kind":"A/B""#, 422, "wrong_kind"),
        (r#""data":{"a":1,"a":2}"#, 400, "unreadable"),
        (r#""data":1,"ts":"yesterday""#, 422, "invalid_ts"),
    ] {
        let body = format!(r#"{{"device_id":"new2",{fields}}}"#);
        let refused = rig.json("POST", "/v1/reports", &body).await;
        assert_eq!((refused.status, refused.text("code").as_str()), (status, code), "{body}: {refused:?}");
    }
    let devices = rig.items("/v1/devices").await;
    assert_eq!((each(&devices, "id"), each(&devices, "kind")), (vec![json!("new1")], vec![json!("lock")]));
}

/// Of a body that ends too soon, what came before its end is taken.
#[tokio::test]
async fn lines_may_come_as_gzip() {
    let rig = rig().await;
    let lines: String =
        (0..5_000).map(|n| format!("{{\"device_id\":\"0xA\",\"data\":{}}}\n", n % 2)).collect();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(lines.as_bytes()).expect("a Vec takes every write");
    let body = encoder.finish().expect("a Vec takes every write");
    let headers = |coding| [("Content-Type", NDJSON), ("Content-Encoding", coding)];
    let address = rig.site.http.address().await;
    let answer = wire::ask(address, "POST", "/v1/reports", &headers("gzip"), &body).await.json();
    assert_eq!((&answer["accepted"], &answer["rejected_count"]), (&json!(5_000), &json!(0)), "{answer}");
    let cut = wire::ask(address, "POST", "/v1/reports", &headers("gzip"), &body[..body.len() - 4]).await;
    assert_eq!((cut.status, cut.text("code").as_str()), (400, "unreadable"), "{cut:?}");
    let other = wire::ask(address, "POST", "/v1/reports", &headers("br"), &body).await;
    assert_eq!((other.status, other.text("code").as_str()), (415, "unsupported_encoding"), "{other:?}");
    assert_eq!(rig.items("/v1/quarantine").await.len(), 0);
}
