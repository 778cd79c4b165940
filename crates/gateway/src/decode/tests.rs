//! What is decoded to what, and what is refused with which code.

use base::{EntityId, Problem, Timestamp};
use engine::commands::COMMAND_ID_PREFIX;
use engine::intake::ReportId;
use engine::{Report, ReportContent};
use proptest::prelude::*;

use super::{DecodeRules, answer, canonical, object, publish};

const RULES: DecodeRules =
    DecodeRules { device_ids: base::DeviceIdForm::DEFAULT, wall: Timestamp(1_795_222_800_000) };

/// A value, or the code of its refusal.
fn canonical_of(text: &str) -> String {
    canonical::value(text).map_or_else(|problem| format!("!{}", problem.code), |value| value.to_json())
}

/// A decoded report in one line: `device kind value ts`, `device kind alive`, `device kind !code`,
/// or `!code` alone.
fn line_of(decoded: Result<Report, Problem>) -> String {
    let report = match decoded {
        Ok(report) => report,
        Err(problem) => return format!("!{}", problem.code),
    };
    let kind = report.kind.map_or_else(|| "-".into(), |kind| kind.to_string());
    let content = match report.content {
        ReportContent::Value { value, ts: None } => value.to_json(),
        ReportContent::Value { value, ts: Some(ts) } => format!("{} at {ts}", value.to_json()),
        ReportContent::Alive => "alive".into(),
        ReportContent::Answer { command, ok, result } => {
            let result = result.map(|result| format!(" {result}")).unwrap_or_default();
            format!("answer {} {ok}{result}", command.number)
        }
        ReportContent::Progress { command, progress } => format!("progress {} {progress}", command.number),
        ReportContent::Confirmed { key, value } => format!("{key}={}", value.as_deref().unwrap_or("gone")),
        ReportContent::Refused(problem) => format!("!{}", problem.code),
    };
    format!("{} {kind} {content}", report.device)
}

#[test]
fn equal_values_have_one_text() {
    for (text, expect) in [
        ("0", "0"),
        ("1", "1"),
        ("1.0", "1"),
        ("10e-1", "1"),
        ("-0", "0"),
        ("-0.0", "0"),
        (" 7 ", "7"),
        ("1e2", "100"),
        ("0.1", "0.1"),
        ("9007199254740993", "9007199254740992"),
        ("1e21", "1e+21"),
        ("5e-324", "5e-324"),
        ("2.2250738585072011e-308", "2.225073858507201e-308"),
        ("true", "true"),
        ("null", "null"),
        (r#""a""#, r#""a""#),
        (r#""\u0041\/\n\u000b\"\\""#, r#""A/\n\u000b\"\\""#),
        (r#""\ud83d\ude00 é""#, "\"\u{1f600} é\""),
        ("[ ]", "[]"),
        ("[1.0, 2 ,[3]]", "[1,2,[3]]"),
        ("{ }", "{}"),
        (r#"{"b":1,"a":2.0}"#, r#"{"a":2,"b":1}"#),
        (r#"{"b":{"d":1,"c":[{"y":1,"x":2}]},"a":"z"}"#, r#"{"a":"z","b":{"c":[{"x":2,"y":1}],"d":1}}"#),
        // RFC 8785 sorts by UTF-16 units: the surrogates of U+1F600 come before U+FB33.
        ("{\"\u{fb33}\":1,\"\u{1f600}\":2}", "{\"\u{1f600}\":2,\"\u{fb33}\":1}"),
    ] {
        assert_eq!(canonical_of(text), expect, "{text}");
    }
}

#[test]
fn what_has_no_canonical_form_is_refused() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    for (text, expect) in [
        ("", "!unreadable"),
        ("{", "!unreadable"),
        ("01", "!unreadable"),
        ("+1", "!unreadable"),
        ("NaN", "!unreadable"),
        ("1 2", "!unreadable"),
        ("[1,]", "!unreadable"),
        ("'a'", "!unreadable"),
        (r#""\ud800""#, "!unreadable"),
        ("\"\n\"", "!unreadable"),
        (r#"{"a":1,"a":1}"#, "!unreadable"),
        (r#"{"b":1,"a":1,"\u0062":2}"#, "!unreadable"),
        (r#"[{"x":{"a":1,"b":2,"a":3}}]"#, "!unreadable"),
        ("1e999", "!value_not_allowed"),
        ("[-1e999]", "!value_not_allowed"),
        (&deep(canonical::VALUE_DEPTH_MAX + 1), "!value_too_deep"),
        (&deep(100_000), "!value_too_deep"),
        (&long(4_097), "!value_too_large"),
        (&format!("[{}1]", "1,".repeat(2_048)), "!value_too_large"),
    ] {
        assert_eq!(canonical_of(text), expect, "{}", &text[..text.len().min(40)]);
    }
    assert_eq!(canonical_of(&deep(canonical::VALUE_DEPTH_MAX)), deep(canonical::VALUE_DEPTH_MAX));
    assert_eq!(canonical_of(&long(4_096)), long(4_096));
    let spaced = format!("[{}1 ]", " ".repeat(10_000));
    assert_eq!(canonical_of(&spaced), "[1]", "only the canonical text counts");
}

#[test]
fn an_object_says_who_and_what() {
    for (text, expect) in [
        (r#"{"device_id":"0xA","data":0}"#, "0xA - 0"),
        (r#"{"device_id":"0xA","kind":"meter","data":7}"#, "0xA meter 7"),
        (r#"{"device_id":"0xA","kind":null,"data":7}"#, "0xA - 7"),
        (r#"{"device_id":"0xA","kind":"Meter","data":7}"#, "0xA - !wrong_kind"),
        (r#"{"device_id":"0xA","kind":7,"data":7}"#, "0xA - !wrong_kind"),
        (r#"{"sensor_id":"0xA","data":1}"#, "0xA - 1"),
        (r#" {"data" : {"b":1,"a":2}, "sensor_id" : "0xA", "extra":[{}]} "#, r#"0xA - {"a":2,"b":1}"#),
        (r#"{"device_id":"\u0030xA","data":null}"#, "0xA - null"),
        (r#"{"d\u0061ta":3,"device_id":"0xA"}"#, "0xA - 3"),
        (r#"{"device_id":"0xA","sensor_id":"0xA","data":0}"#, "0xA - 0"),
        (r#"{"device_id":"0xA","sensor_id":"0xB","data":0}"#, "!invalid_id"),
        (r#"{"data":0}"#, "!missing_field"),
        (r#"{"device_id":7,"data":0}"#, "!invalid_id"),
        (r#"{"device_id":null,"data":0}"#, "!invalid_id"),
        (r#"{"device_id":"","data":0}"#, "!invalid_id"),
        (r#"{"device_id":"0x A","data":0}"#, "!invalid_id"),
        (r#"{"device_id":"0123456789abcdef","data":0}"#, "0123456789abcdef - 0"),
        (r#"{"device_id":"0123456789abcdef0","data":0}"#, "0123456789abcdef0 - 0"),
        (r#"{"device_id":"00:1B-44.1_","data":0}"#, "00:1B-44.1_ - 0"),
        (r#"{"device_id":"..","data":0}"#, "!invalid_id"),
        (r#"{"device_id":"0xA"}"#, "0xA - !missing_field"),
        (r#"{"device_id":"0xA","data":[1,2}"#, "!unreadable"),
        (r#"{"device_id":"0xA","data":0,"data":1}"#, "!unreadable"),
        (r#"{"device_id":"0xA","data":{"a":1,"a":2}}"#, "0xA - !unreadable"),
        ("", "!unreadable"),
        ("[", "!unreadable"),
        ("not json", "!unreadable"),
        (r#"["0xA",null,0,null,null]"#, "!not_an_object"),
        ("0", "!not_an_object"),
    ] {
        assert_eq!(line_of(object(text.as_bytes(), None, RULES)), expect, "{text}");
    }
    assert_eq!(line_of(object(b"{\"device_id\":\"0xA\",\"data\":\"\xff\"}", None, RULES)), "!unreadable");
}

#[test]
fn ts_and_id_are_checked() {
    let long_id = "é".repeat(64);
    for (fields, expect) in [
        (r#""ts":"2026-11-21T04:00:00.5+03:00""#, "0xA - 0 at 2026-11-21T01:00:00.500Z"),
        (r#""ts":"2026-11-21T01:05:00Z""#, "0xA - 0 at 2026-11-21T01:05:00.000Z"),
        (r#""ts":"2026-11-21T01:05:00.001Z""#, "0xA - !ts_ahead"),
        (r#""ts":"1970-01-01T00:00:00Z""#, "0xA - 0 at 1970-01-01T00:00:00.000Z"),
        (r#""ts":"yesterday""#, "0xA - !invalid_ts"),
        (r#""ts":1795222800"#, "0xA - !invalid_ts"),
        (r#""ts":null"#, "0xA - 0"),
        (r#""id":"a-1""#, "0xA - 0"),
        (r#""id":null"#, "0xA - 0"),
        (r#""id":"""#, "0xA - !invalid_report_id"),
        (r#""id":5"#, "0xA - !invalid_report_id"),
        (&format!(r#""id":"{long_id}""#), "0xA - 0"),
        (&format!(r#""id":"{long_id}x""#), "0xA - !invalid_report_id"),
    ] {
        let text = format!(r#"{{"device_id":"0xA","data":0,{fields}}}"#);
        assert_eq!(line_of(object(text.as_bytes(), None, RULES)), expect, "{text}");
    }
}

#[test]
fn a_publish_is_read_by_its_topic() {
    let state = "dev/lock/0xA/state";
    for (topic, payload, expect) in [
        (state, "0", "0xA lock 0"),
        (state, r#"{"data":1}"#, "0xA lock 1"),
        (state, r#"{"data":1,"ts":"2026-11-21T01:00:00Z","n":2}"#, "0xA lock 1 at 2026-11-21T01:00:00.000Z"),
        (state, r#"{"data":null}"#, "0xA lock null"),
        (state, r#"{"b":1,"a":0}"#, r#"0xA lock {"a":0,"b":1}"#),
        (state, r#"[{"data":1}]"#, r#"0xA lock [{"data":1}]"#),
        (state, r#"{"data":1,"ts":5}"#, "0xA lock !invalid_ts"),
        (state, r#"{"data":1"#, "0xA lock !unreadable"),
        (state, "", "0xA lock !unreadable"),
        ("dev/meter/0xA/state", "-1.50", "0xA meter -1.5"),
        ("dev/Lock/0xA/state", "0", "0xA - !wrong_kind"),
        ("dev/lock/0x-A/state", "0", "0x-A lock 0"),
        ("dev/lock/00:1B:44:11:3A:B7/state", "1", "00:1B:44:11:3A:B7 lock 1"),
        ("dev/lock/0x A/state", "0", "!invalid_id"),
        ("dev/lock//state", "0", "!invalid_id"),
        ("dev/lock/0xA/heartbeat", "\u{0} anything", "0xA lock alive"),
        ("dev/lock/0123456789abcdef0/heartbeat", "", "0123456789abcdef0 lock alive"),
        ("sensors", r#"{"sensor_id":"0xA","data":1}"#, "0xA - 1"),
        ("sensors", r#"{"data":1}"#, "!missing_field"),
        ("sensors", "1", "!not_an_object"),
        ("dev/lock/0xA", "0", "!unknown_topic"),
        ("other", "0", "!unknown_topic"),
    ] {
        assert_eq!(line_of(publish(topic, payload.as_bytes(), None, RULES)), expect, "{topic} {payload}");
    }
}

/// The text of a command's id with this number.
fn command_id(number: u32) -> String {
    EntityId { routing: 1, at: Timestamp(2), number, tag: 3 }.to_text(COMMAND_ID_PREFIX)
}

#[test]
fn what_devices_say_of_commands_is_read() {
    let id = command_id(7);
    let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for (fields, expect) in [
        (r#""ok":true"#, "answer 7 true"),
        (r#""ok":false,"result":null"#, "answer 7 false"),
        (r#""ok" : true , "n":[1], "result" : { "b" : [1.0 , 2] , "a b":" \\\" , " } "#, {
            r#"answer 7 true {"b":[1.0,2],"a b":" \\\" , "}"#
        }),
        (r#""ok":true,"result":[ 1 , [] ]"#, "answer 7 true [1,[]]"),
        (r#""ok":true,"result":12345678901234567890"#, "answer 7 true 12345678901234567890"),
        (r#""ok":true,"progress":5"#, "answer 7 true"),
        (r#""progress": {"done" : 5}"#, r#"progress 7 {"done":5}"#),
        (r#""progress":null"#, "progress 7 null"),
        (r#""ok":1,"progress":5"#, "progress 7 5"),
        ("\"n\":0", "!missing_field"),
        (r#""ok":null"#, "!invalid_ok"),
        (r#""ok":"true""#, "!invalid_ok"),
        (r#""ok":1"#, "!invalid_ok"),
        (r#""ok":true,"ok":true"#, "!unreadable"),
        (r#""ok":true,"result":[1e999]"#, "!value_not_allowed"),
        (r#""ok":true,"result":"\ud800""#, "!value_not_allowed"),
        (&format!(r#""ok":true,"result":1{}"#, "0".repeat(309)), "!value_not_allowed"),
        (&format!(r#""ok":true,"result":{}"#, deep(64)), &format!("answer 7 true {}", deep(64))),
        (&format!(r#""ok":true,"result":{}"#, deep(65)), "!value_too_deep"),
        (&format!(r#""ok":true,"result":{}"#, long(65_536)), &format!("answer 7 true {}", long(65_536))),
        (&format!(r#""ok":true,"result":{}"#, long(65_537)), "!value_too_large"),
        (&format!(r#""progress":{}"#, long(1_024)), &format!("progress 7 {}", long(1_024))),
        (&format!(r#""progress":{}"#, long(1_025)), "!value_too_large"),
    ] {
        let payload = format!(r#"{{"message_id":"{id}",{fields}}}"#);
        for topic in ["dev/lock/0xA/ack", "dev/lock/0xA/Ack"] {
            let line = line_of(publish(topic, payload.as_bytes(), Some("ignored"), RULES));
            assert_eq!(line, format!("0xA lock {expect}"), "{payload}");
        }
        let same = answer(payload.as_bytes()).map_err(|problem| format!("!{}", problem.code));
        assert_eq!(same.err().as_deref(), expect.starts_with('!').then_some(expect), "{payload}");
    }
}

#[test]
fn an_answer_names_a_command_of_ours_or_is_refused() {
    let (id, upper) = (command_id(7), command_id(7).to_uppercase());
    for (payload, expect) in [
        (&*format!(r#"{{"message_id":"{upper}","ok":true}}"#), "!unknown_command"),
        (&*format!(r#"{{"message_id":"{}","ok":true}}"#, &id[4..]), "!unknown_command"),
        (r#"{"message_id":"17","ok":true}"#, "!unknown_command"),
        (r#"{"message_id":17,"progress":1}"#, "!unknown_command"),
        (r#"{"message_id":null,"ok":true}"#, "!unknown_command"),
        (r#"{"ok":true}"#, "!missing_field"),
        ("[true]", "!not_an_object"),
        ("", "!unreadable"),
    ] {
        let line = line_of(publish("dev/lock/0xA/ack", payload.as_bytes(), None, RULES));
        assert_eq!(line, format!("0xA lock {expect}"), "{payload}");
    }
    let answer = format!(r#"{{"message_id":"{id}","ok":true}}"#);
    for (topic, expect) in [
        ("dev/Lock/0xA/ack", "0xA - !wrong_kind"),
        ("dev/lock/0x A/ack", "!invalid_id"),
        ("dev/lock/0xA/ack/x", "!unknown_topic"),
    ] {
        assert_eq!(line_of(publish(topic, answer.as_bytes(), None, RULES)), expect, "{topic}");
    }
}

#[test]
fn what_was_changed_at_the_device_is_read() {
    let name = "k".repeat(255);
    let long = "x".repeat(4_095);
    for (payload, expect) in [
        (r#"{"key":"card:17","value":{"b":1.0,"a":2}}"#, r#"card:17={"a":2,"b":1}"#),
        (r#"{"key":"a b","value":1.50,"more":1}"#, "a b=1.5"),
        (r#"{"key":"a\n","value":1}"#, "!invalid_key"),
        (r#"{"key":"a","value":null}"#, "a=gone"),
        (&*format!(r#"{{"key":"{name}","value":1}}"#), &*format!("{name}=1")),
        (&*format!(r#"{{"key":"{name}k","value":1}}"#), "!invalid_key"),
        (r#"{"key":"","value":1}"#, "!invalid_key"),
        (r#"{"key":5,"value":1}"#, "!invalid_key"),
        (r#"{"value":1}"#, "!missing_field"),
        (r#"{"key":"a"}"#, "!missing_field"),
        (&*format!(r#"{{"key":"a","value":"{long}"}}"#), "!value_too_large"),
        ("1", "!not_an_object"),
    ] {
        let line = line_of(publish("dev/lock/0xA/confirmed", payload.as_bytes(), None, RULES));
        assert_eq!(line, format!("0xA lock {expect}"), "{payload}");
    }
}

#[test]
fn an_id_comes_beside_the_payload_or_within_it() {
    let of = |id: &str| Some(ReportId::of(id));
    for (topic, payload, beside, expect) in [
        ("dev/lock/0xA/state", "0", None, None),
        ("dev/lock/0xA/state", "0", Some("a"), of("a")),
        ("dev/lock/0xA/state", r#"{"data":0,"id":"b"}"#, None, of("b")),
        ("dev/lock/0xA/state", r#"{"data":0,"id":"b"}"#, Some("a"), of("a")),
        ("sensors", r#"{"sensor_id":"0xA","data":0,"id":"b"}"#, Some("a"), of("a")),
        ("dev/meter/0xA/state", r#"{"id":"b"}"#, None, None),
        ("dev/lock/0xA/heartbeat", "", Some("a"), None),
        ("dev/lock/0xA/state", "{", Some("a"), None),
    ] {
        let report = publish(topic, payload.as_bytes(), beside, RULES).expect("a device");
        assert_eq!(report.id, expect, "{topic} {payload} {beside:?}");
    }
}

#[test]
fn the_user_property_id_is_checked_like_the_field() {
    for (topic, payload) in [("dev/lock/0xA/state", "0"), ("sensors", r#"{"sensor_id":"0xA","data":0}"#)] {
        let with = |id| line_of(publish(topic, payload.as_bytes(), Some(id), RULES));
        assert!(with("r-1").ends_with(" 0"));
        assert!(with("").ends_with("!invalid_report_id"));
        assert!(with(&"x".repeat(65)).ends_with("!invalid_report_id"));
    }
}

#[test]
fn a_detail_repeats_no_more_than_a_piece_of_what_was_sent() {
    let long = "é".repeat(10_000);
    let refused = publish(&long, b"0", None, RULES).expect_err("an unknown topic");
    assert!(refused.detail.len() < 300, "{}", refused.detail.len());
    let text = format!(r#"{{"device_id":"{long}","data":0}}"#);
    let refused = object(text.as_bytes(), None, RULES).expect_err("no id");
    assert!(refused.detail.starts_with("device_id must be 1 to 16"), "{}", refused.detail);
    assert!(refused.detail.len() < 300);
}

#[test]
fn a_detail_counts_bytes_from_the_beginning_of_the_message() {
    let half_a_character = "{\"device_id\":\"0xA\",\n \"data\":\n\"\\ud800\"}";
    let in_value = object(half_a_character.as_bytes(), None, RULES).expect("it names its device");
    let ReportContent::Refused(in_value) = in_value.content else { panic!("a value") };
    let no_value = "{\"device_id\":\"0xA\",\n\n \"data\":x}";
    let no_json = object(no_value.as_bytes(), None, RULES).expect_err("no JSON");
    let two = "{\"device_id\":\"0xA\",\"data\":1}\n {}";
    let followed = object(two.as_bytes(), None, RULES).expect_err("two");
    for (problem, text, byte) in
        [(&*in_value, half_a_character, '"'), (&no_json, no_value, 'x'), (&followed, two, '{')]
    {
        let at = text.rfind(byte).expect("it has one") + 1;
        let said = format!("not readable JSON at byte {at}: ");
        assert!(problem.detail.starts_with(&said), "{at}: {}", problem.detail);
    }
}

#[test]
fn an_object_with_something_behind_it_is_found() {
    for (body, expect) in [
        ("{} {}", true),
        ("\n{\"data\":1}\n{", true),
        ("{\"data\":1}x", true),
        ("{}\n", false),
        ("{", false),
        ("1 2", false),
        ("", false),
    ] {
        assert_eq!(super::is_followed(body.as_bytes()), expect, "{body:?}");
    }
}

#[test]
fn a_detail_quotes_what_was_sent_once() {
    for (id, expect) in [(r#""zzz""#, r#": "zzz""#), ("7", ": 7"), (r#""a\"b""#, r#": "a\"b""#)] {
        let message = format!(r#"{{"message_id":{id},"ok":true}}"#);
        let refused = answer(message.as_bytes()).expect_err("no command");
        assert!(refused.detail.ends_with(expect), "{}", refused.detail);
    }
}

/// Any JSON value, with keys and texts that need sorting and escaping.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let text = "[a-c\u{e9}\u{1f600}\u{fb33}\"\\\\\n\u{1}]{0,4}";
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<f64>().prop_filter_map("finite", |n| serde_json::Number::from_f64(n).map(Into::into)),
        any::<i64>().prop_map(Into::into),
        text.prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::vec((text, inner), 0..5)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The same value, written with other spaces, other number forms and its members in the opposite
/// order.
fn written_otherwise(value: &serde_json::Value) -> String {
    use serde_json::Value as Json;
    match value {
        Json::Number(number) => match number.as_f64() {
            Some(n) if n.fract() == 0.0 && n.abs() < 1e15 => format!("{n:.1}"),
            Some(n) => format!("{n:e}"),
            None => number.to_string(),
        },
        Json::String(text) => {
            let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
            format!("\"{escaped}\"")
        }
        Json::Array(items) => {
            format!("[ {} ]", items.iter().map(written_otherwise).collect::<Vec<_>>().join(" ,\t"))
        }
        Json::Object(members) => {
            let member = |(key, value): (&String, &Json)| {
                format!("{}\n: {}", written_otherwise(&Json::String(key.clone())), written_otherwise(value))
            };
            format!("{{{}}}", members.iter().rev().map(member).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The value with every number as a double, as the contract compares numbers.
fn as_doubles(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        // Zero has no sign here: -0 equals 0.
        Json::Number(number) => number.as_f64().map_or(Json::Null, |n| (n + 0.0).into()),
        Json::Array(items) => items.iter().map(as_doubles).collect(),
        Json::Object(members) => {
            Json::Object(members.iter().map(|(key, value)| (key.clone(), as_doubles(value))).collect())
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn canonical_text_is_its_own_canonical_text(value in json()) {
        if let Ok(once) = canonical::value(&value.to_string()) {
            prop_assert_eq!(canonical_of(&once.to_json()), once.to_json());
        }
    }

    #[test]
    fn canonical_text_still_says_the_same(value in json()) {
        if let Ok(canonical) = canonical::value(&value.to_string()) {
            let back: serde_json::Value = serde_json::from_str(&canonical.to_json()).expect("JSON");
            prop_assert_eq!(as_doubles(&back), as_doubles(&value));
        }
    }

    #[test]
    fn values_are_equal_exactly_when_their_canonical_texts_are(a in json(), b in json()) {
        prop_assert_eq!(canonical_of(&a.to_string()), canonical_of(&written_otherwise(&a)));
        if as_doubles(&a) != as_doubles(&b) {
            prop_assert_ne!(canonical_of(&a.to_string()), canonical_of(&b.to_string()));
        }
    }

    #[test]
    fn no_bytes_make_decoding_panic(
        topic in "(dev/lock/0xA/(state|ack|confirmed)|sensors|.{0,12})",
        payload: Vec<u8>,
    ) {
        let _ = object(&payload, None, RULES);
        let _ = publish(&topic, &payload, None, RULES);
    }

    #[test]
    fn nearly_right_messages_never_make_decoding_panic(
        text in r#"[{}\[\]",:0-9a-z\\. ]{0,40}"#,
        field in "(device_id|data|ts|id)",
    ) {
        let message = format!(r#"{{"device_id":"0xA","data":0,"{field}":{text}}}"#);
        let _ = object(message.as_bytes(), None, RULES);
        let _ = publish("dev/meter/0xA/state", message.as_bytes(), Some(&text), RULES);
    }
}

#[test]
fn a_refusal_does_not_repeat_a_whole_message() {
    let message = format!("\"{}\" and more", "x".repeat(60_000));
    let problem = object(message.as_bytes(), None, RULES).expect_err("not JSON");
    assert!(problem.detail.len() < 300, "{} bytes", problem.detail.len());
}
