//! One report as a device writes it: the payload of a publish, a JSON body, an AMQP message.
//!
//! The input is `topic NUL id NUL payload`; with fewer parts the payload is the last one. What
//! decoding says is held against a second reading of the same JSON as a tree. An accepted value
//! must be the tree in canonical form. A refused one must have a reason that the tree shows. What
//! is accepted must come back from the report that is written from it.

use base::limits::{
    COMMAND_PROGRESS_BYTES_MAX, COMMAND_RESULT_BYTES_MAX, REPORT_TS_AHEAD_MS_MAX, VALUE_BYTES_MAX,
};
use base::{DeviceId, EntityId, Problem, Timestamp};
use engine::commands::COMMAND_ID_PREFIX;
use engine::{Report, ReportContent};
use gateway::decode::canonical::{self, VALUE_DEPTH_MAX};
use gateway::decode::{self, DecodeRules};
use serde_json::Value as Json;

use crate::server::{BEGIN, check_detail};

const RULES: DecodeRules = DecodeRules { device_ids: base::DeviceIdForm::DEFAULT, wall: BEGIN };

/// Topics that every payload comes on.
const TOPICS: [&str; 5] = [
    "dev/lock/0xA/state",
    "dev/meter/m1/heartbeat",
    "dev/lock/0xA/ack",
    "dev/lock/0xA/confirmed",
    decode::SENSORS,
];

/// Decodes the input in every way in which it may have come.
pub fn run(data: &[u8]) {
    let parts: Vec<_> = data.splitn(3, |byte| *byte == 0).collect();
    let (topic, id, payload) = match parts[..] {
        [topic, id, payload] => (text(topic), text(id), payload),
        [id, payload] => (None, text(id), payload),
        _ => (None, None, data),
    };
    check_value(payload);
    check_object(payload, id);
    check_object(payload, None);
    for topic in topic.into_iter().chain(TOPICS) {
        check_publish(topic, payload, id);
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

fn tree_of(payload: &[u8]) -> Option<Json> {
    serde_json::from_slice(payload).ok()
}

/// What is JSON by its grammar, and yet no tree: in a field that is ignored, or refused by itself.
const BEYOND_A_TREE: [&str; 4] = [
    "number out of range",
    "lone leading surrogate",
    "unexpected end of hex escape",
    "recursion limit exceeded",
];

fn check_beyond_a_tree(payload: &[u8]) {
    let error = serde_json::from_slice::<Json>(payload).expect_err("there is no tree").to_string();
    let known = BEYOND_A_TREE.iter().any(|beyond| error.starts_with(beyond));
    assert!(known, "b\"{}\" is accepted: {error}", payload.escape_ascii());
}

fn check_problem(problem: &Problem) {
    assert!([400, 422].contains(&problem.status), "a report is unreadable or not allowed: {problem:?}");
    assert!(!problem.code.is_empty(), "{problem:?}");
    check_detail(&problem.detail);
}

fn check_value(payload: &[u8]) {
    let Some(text) = std::str::from_utf8(payload).ok() else { return };
    let tree = tree_of(payload);
    match (canonical::value(text), &tree) {
        (Ok(value), Some(tree)) => {
            let written = value.to_json();
            assert_eq!(Some(&written), canonical_of(tree).as_ref(), "of {text:?}");
            assert!(written.len() <= VALUE_BYTES_MAX && depth(tree) <= VALUE_DEPTH_MAX, "of {text:?}");
            assert_eq!(canonical::value(&written).as_ref(), Ok(&value), "canonical text stays as it is");
        }
        (Ok(value), None) => panic!("{text:?} is no JSON, and was read as {value:?}"),
        (Err(problem), tree) => check_refusal(&problem, tree.as_ref(), text),
    }
}

/// A refused value is beyond a limit that the tree shows, or no tree can show it: no JSON, or a key
/// twice.
fn check_refusal(problem: &Problem, tree: Option<&Json>, text: &str) {
    check_problem(problem);
    let Some(tree) = tree else { return };
    match problem.code {
        "unreadable" => assert!(problem.detail.contains("twice"), "{text:?}: {problem:?}"),
        "value_too_deep" => {
            assert!(depth(tree) > VALUE_DEPTH_MAX || text.contains(':'), "{text:?}: {problem:?}");
        }
        "value_too_large" => assert!(text.len() > VALUE_BYTES_MAX / 4, "{text:?}: {problem:?}"),
        code => panic!("{text:?} is refused as {code}, and serde reads it"),
    }
}

fn check_object(payload: &[u8], id: Option<&str>) {
    match decode::object(payload, id, RULES) {
        Ok(report) => {
            let Some(tree) = tree_of(payload) else { return check_beyond_a_tree(payload) };
            if let Some(kind) = &report.kind {
                assert_eq!(tree.get("kind").and_then(Json::as_str), Some(kind.as_str()), "as it says");
            }
            let name = tree.get("device_id").or_else(|| tree.get("sensor_id")).and_then(Json::as_str);
            assert_eq!(name, Some(report.device.as_str()), "it is from whom it says");
            check_said(&report, tree.get("data"), tree.get("ts"));
            check_round_trip(&report);
        }
        Err(problem) => check_problem(&problem),
    }
}

fn check_publish(topic: &str, payload: &[u8], id: Option<&str>) {
    let decoded = decode::publish(topic, payload, id, RULES);
    if topic == decode::SENSORS {
        let object = decode::object(payload, id, RULES);
        assert_eq!(format!("{decoded:?}"), format!("{object:?}"), "sensors is the same as a body");
        return;
    }
    let parts: Vec<_> = topic.split('/').collect();
    match (decoded, &parts[..]) {
        (Ok(report), ["dev", kind, device, last @ ("state" | "heartbeat" | "ack" | "Ack" | "confirmed")]) => {
            assert_eq!(report.device.as_str(), *device);
            assert!(report.kind.as_ref().is_none_or(|known| known.as_str() == *kind));
            assert!(
                report.kind.is_some()
                    || matches!(&report.content, ReportContent::Refused(p) if p.code == "wrong_kind")
            );
            check_publish_said(&report, last, payload);
        }
        (Ok(report), _) => panic!("{topic:?} is no topic of ours, and gave {report:?}"),
        (Err(problem), ["dev", _, device, "state" | "heartbeat" | "ack" | "Ack" | "confirmed"]) => {
            check_problem(&problem);
            let good = DeviceId::new(device).is_some();
            assert!(!good, "{topic:?}: {problem:?}");
        }
        (Err(problem), _) => {
            check_problem(&problem);
            assert_eq!(problem.code, decode::UNKNOWN_TOPIC, "{topic:?}");
        }
    }
}

fn check_publish_said(report: &Report, last: &str, payload: &[u8]) {
    match (&report.content, last) {
        (ReportContent::Alive, "heartbeat") => assert!(report.id.is_none()),
        (ReportContent::Alive, _) => panic!("a state says more than alive: {report:?}"),
        (ReportContent::Refused(problem), _) => check_problem(problem),
        (ReportContent::Answer { .. } | ReportContent::Progress { .. }, "ack" | "Ack") => {
            check_of_command(&report.content, payload);
        }
        (ReportContent::Confirmed { .. }, "confirmed") => check_of_command(&report.content, payload),
        (
            ReportContent::Answer { .. } | ReportContent::Progress { .. } | ReportContent::Confirmed { .. },
            _,
        )
        | (ReportContent::Value { .. }, "ack" | "Ack" | "confirmed") => {
            panic!("that is not said on {last}: {report:?}")
        }
        (ReportContent::Value { .. }, "heartbeat") => panic!("a heartbeat has no value: {report:?}"),
        (ReportContent::Value { .. }, _) => {
            let Some(tree) = tree_of(payload) else { return check_beyond_a_tree(payload) };
            let envelope = tree.get("data").is_some();
            let (data, ts) = if envelope { (tree.get("data"), tree.get("ts")) } else { (Some(&tree), None) };
            check_said(report, data, ts);
        }
    }
}

fn check_said(report: &Report, data: Option<&Json>, ts: Option<&Json>) {
    match &report.content {
        ReportContent::Value { value, ts: known } => {
            assert_eq!(data.and_then(canonical_of), Some(value.to_json()), "{report:?}");
            let written = ts.filter(|ts| !ts.is_null()).map(|ts| ts.as_str().map(Timestamp::parse_of_device));
            assert_eq!(known.map(|ts| Some(Ok(ts))), written, "{report:?}");
            assert!(known.is_none_or(|ts| ts.since(BEGIN).as_millis() <= REPORT_TS_AHEAD_MS_MAX as u128));
        }
        ReportContent::Refused(problem) => check_problem(problem),
        content => panic!("an object is a value, not {content:?}"),
    }
}

/// What is said of commands is what the tree says.
fn check_of_command(content: &ReportContent, payload: &[u8]) {
    let Some(tree) = tree_of(payload) else { return check_beyond_a_tree(payload) };
    let kept = |text: &str| serde_json::from_str::<Json>(text).expect("what is kept can be read");
    let command = |id: EntityId| Some(Json::from(id.to_text(COMMAND_ID_PREFIX)));
    match content {
        ReportContent::Answer { command: id, ok, result } => {
            assert_eq!(tree.get("message_id").cloned(), command(*id));
            assert_eq!(tree.get("ok"), Some(&Json::from(*ok)));
            let told = tree.get("result").filter(|result| !result.is_null());
            assert_eq!(told.cloned(), result.as_deref().map(kept));
            assert!(result.as_ref().is_none_or(|result| result.len() <= COMMAND_RESULT_BYTES_MAX));
        }
        ReportContent::Progress { command: id, progress } => {
            assert_eq!(tree.get("message_id").cloned(), command(*id));
            assert_eq!(tree.get("progress").cloned(), Some(kept(progress)));
            assert!(progress.len() <= COMMAND_PROGRESS_BYTES_MAX);
        }
        ReportContent::Confirmed { key, value } => {
            assert_eq!(tree.get("key").and_then(Json::as_str), Some(&**key));
            let told = tree.get("value").filter(|value| !value.is_null());
            assert_eq!(told.and_then(canonical_of).as_deref(), value.as_deref());
        }
        content => panic!("{content:?} is said of no command"),
    }
}

/// What is written from a report is read as the same report.
fn check_round_trip(report: &Report) {
    let ReportContent::Value { value, ts } = &report.content else { return };
    let ts = ts.map(|ts| format!(r#","ts":"{ts}""#)).unwrap_or_default();
    let written = format!(r#"{{"data":{},"device_id":"{}"{ts}}}"#, value.to_json(), report.device);
    let again = decode::object(written.as_bytes(), None, RULES);
    let again = again.unwrap_or_else(|problem| panic!("{written}: {problem:?}"));
    assert_eq!(again.device, report.device, "{written}");
    assert_eq!(format!("{:?}", again.content), format!("{:?}", report.content), "{written}");
}

/// RFC 8785 from a tree; `None` where a number is beyond a double.
fn canonical_of(tree: &Json) -> Option<String> {
    Some(match tree {
        Json::Null | Json::Bool(_) => tree.to_string(),
        Json::Number(number) => base::Value::number(number.as_f64()?)?.to_json(),
        Json::String(text) => quoted(text),
        Json::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(canonical_of).collect();
            format!("[{}]", items?.join(","))
        }
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            let written =
                |(key, value): (&String, &Json)| Some(format!("{}:{}", quoted(key), canonical_of(value)?));
            let members: Option<Vec<_>> = members.into_iter().map(written).collect();
            format!("{{{}}}", members?.join(","))
        }
    })
}

fn quoted(text: &str) -> String {
    Json::String(text.to_owned()).to_string()
}

fn depth(tree: &Json) -> usize {
    match tree {
        Json::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Json::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
