//! What the topics and messages of a kind come to.

use base::Timestamp;
use engine::ReportContent;
use serde_json::json;

use super::*;

const RULES: DecodeRules =
    DecodeRules { device_ids: base::DeviceIdForm::DEFAULT, wall: Timestamp(1_795_222_800_000) };

fn template(text: &str) -> Option<TopicTemplate> {
    Some(TopicTemplate::new(text).unwrap_or_else(|| panic!("{text} is a template")))
}

fn pointer(text: &str) -> JsonPointer {
    JsonPointer::new(text).unwrap_or_else(|| panic!("{text} is a pointer"))
}

fn kind(name: &str) -> Kind {
    Kind::new(name).expect("a kind")
}

fn forms(name: &str, topics: KindTopics) -> Result<KindForms, TopicTwice> {
    KindForms::new(BTreeMap::from([(kind(name), topics)]))
}

/// A face terminal.
fn face() -> KindForms {
    let raw = RawForm {
        id_path: pointer("/messageId"),
        ack_id_path: pointer("/info/messageId"),
        ack_ok_path: pointer("/code"),
        ack_ok_value: json!(200),
    };
    let topics = KindTopics {
        down: template("mqtt/face/{id}"),
        ack: template("mqtt/face/{id}/Ack"),
        confirmed: None,
        heartbeat: template("alive/{id}"),
        state: template("mqtt/face/{id}/Rec"),
        raw: Some(raw),
    };
    forms("face", topics).expect("topics of one meaning")
}

fn id() -> EntityId {
    EntityId { routing: 1, at: Timestamp(2), number: 7, tag: 3 }
}

#[test]
fn a_template_is_a_topic_with_the_id_as_a_level() {
    for (text, expect) in [
        ("a/{id}/b", true),
        ("{id}/b", true),
        ("a/{id}", true),
        ("a/b", false),
        ("a/x{id}", false),
        ("a/{id}x/b", false),
        ("a/{id}/{id}", false),
        ("+/{id}", false),
        ("a/{id}/#", false),
        ("$a/{id}", false),
        ("", false),
    ] {
        assert_eq!(TopicTemplate::new(text).map(|it| it.to_string()), expect.then(|| text.into()), "{text}");
    }
    assert!(TopicTemplate::new(&format!("{}/{{id}}", "x".repeat(128))).is_none());
}

#[test]
fn a_filter_names_an_id_or_any_or_covers_nothing() {
    let template = template("a/{id}/b").expect("a template");
    for (filter, expect) in [
        ("a/0xA/b", Some(Some("0xA"))),
        ("+/0xA/+", Some(Some("0xA"))),
        ("a/0xA/#", Some(Some("0xA"))),
        ("a/0xA/b/#", Some(Some("0xA"))),
        ("a/+/b", Some(None)),
        ("a/#", Some(None)),
        ("#", Some(None)),
        ("a/0xA", None),
        ("a/0xA/b/c", None),
        ("a/0xA/c", None),
        ("b/#", None),
    ] {
        assert_eq!(template.id_in(filter), expect, "{filter}");
    }
    for (topic, expect) in [("a/0xA/b", Some("0xA")), ("a/x/y/b", None), ("a//b", Some("")), ("a/b", None)] {
        assert_eq!(template.device(topic), expect, "{topic}");
    }
}

#[test]
fn no_topic_has_two_meanings() {
    let none = KindTopics::default;
    for (topics, expect) in [
        (KindTopics { down: template("dev/face/{id}"), ack: template("dev/face/{id}/ack"), ..none() }, true),
        (KindTopics { ack: template("dev/face/{id}/answer"), ..none() }, true),
        (KindTopics { ack: template("{id}/answer"), ..none() }, true),
        (KindTopics { ack: template("dev/face/{id}/state"), ..none() }, false),
        (KindTopics { ack: template("dev/face/{id}"), ..none() }, false),
        (KindTopics { down: template("dev/lock/{id}"), ..none() }, false),
        (KindTopics { down: template("dev/face/x/{id}"), ..none() }, false),
        (KindTopics { state: template("{id}"), ..none() }, false),
        (KindTopics { state: template("{id}/face/1/state"), ..none() }, false),
        (KindTopics { down: template("a/{id}"), ack: template("a/{id}"), ..none() }, false),
        (KindTopics { state: template("a/{id}/b"), ack: template("{id}/x/b"), ..none() }, false),
    ] {
        assert_eq!(forms("face", topics.clone()).is_ok(), expect, "{topics:?}");
    }
}

#[test]
fn topics_of_the_settings_are_read_beside_those_of_the_contract() {
    let (face, text) = (face(), id().to_text(COMMAND_ID_PREFIX));
    let answer = format!(r#"{{"info": {{"messageId":"{text}"}}, "code":200}}"#);
    let content = |topic: &str, payload: &str| {
        face.publish(topic, payload.as_bytes(), None, RULES).map(|report| match report.content {
            ReportContent::Value { value, .. } => format!("{} {:?} {value:?}", report.device, report.kind),
            ReportContent::Alive => "alive".into(),
            ReportContent::Answer { command, ok, result } => {
                format!("{} {ok} {}", command.number, result.expect("an answer in JSON"))
            }
            ReportContent::Refused(problem) => format!("!{}", problem.code),
            content => format!("{content:?}"),
        })
    };
    let compact = answer.replace(' ', "");
    for (topic, payload, expect) in [
        ("mqtt/face/0xA/Rec", "5", "0xA Some(Kind(\"face\")) 5"),
        ("dev/face/0xA/state", "5", "0xA Some(Kind(\"face\")) 5"),
        ("alive/0xA", "", "alive"),
        ("mqtt/face/0xA/Ack", &*answer, &*format!("7 true {compact}")),
        (
            "dev/face/0xA/ack",
            &answer.replace("200", "2e2"),
            &*format!("7 true {}", compact.replace("200", "2e2")),
        ),
        (
            "dev/face/0xA/ack",
            &answer.replace("200", "500"),
            &*format!("7 false {}", compact.replace("200", "500")),
        ),
        ("mqtt/face/0xA/Ack", r#"{"info":{"messageId":7},"code":200}"#, "!unknown_command"),
        ("mqtt/face/0xA/Ack", r#"{"code":200}"#, "!missing_field"),
        ("mqtt/face/0xA/Ack", "[]", "!not_an_object"),
        ("dev/lock/0xA/ack", &*answer, "!missing_field"),
    ] {
        assert_eq!(content(topic, payload).as_deref(), Ok(expect), "{topic} {payload}");
    }
    for topic in ["mqtt/face/0xA", "mqtt/face/0xA/other", "mqtt/face"] {
        assert_eq!(content(topic, "5").map_err(|problem| problem.code), Err("unknown_topic"), "{topic}");
    }
}

#[test]
fn a_command_has_its_id_where_the_device_looks_for_it() {
    let (face, device, text) =
        (face(), DeviceId::new("0xA").expect("an id"), id().to_text(COMMAND_ID_PREFIX));
    let command = |kind: &str, payload: &str| {
        let kind = Kind::new(kind).expect("a kind");
        let made = face.command((&kind, &device), id(), payload.as_bytes())?;
        Some((made.0.into_string(), String::from_utf8(made.1.into()).expect("text")))
    };
    let made = command("face", r#"{"operator":"add","messageId":0}"#).expect("a place");
    assert_eq!(made.0, "mqtt/face/0xA");
    assert_eq!(made.1, format!(r#"{{"messageId":"{text}","operator":"add"}}"#));
    assert_eq!(command("face", "[1]"), None);
    let made = command("lock", "[1]").expect("any payload");
    assert_eq!(made, ("dev/lock/0xA".into(), format!(r#"{{"message_id":"{text}","payload":[1]}}"#)));
}

#[test]
fn pointers_name_places_and_make_them() {
    for (text, expect) in
        [("/a", true), ("/a/b~1c~0", true), ("", false), ("a", false), ("/a~", false), ("/a~2", false)]
    {
        assert_eq!(JsonPointer::new(text).is_some(), expect, "{text}");
    }
    let raw = RawForm {
        id_path: pointer("/head/x~1y"),
        ack_id_path: pointer("/a"),
        ack_ok_path: pointer("/b"),
        ack_ok_value: json!("ok"),
    };
    assert_eq!(
        raw.command("cmd_1", b"{\"n\":1}").as_deref(),
        Some(&br#"{"head":{"x/y":"cmd_1"},"n":1}"#[..])
    );
    assert_eq!(raw.command("cmd_1", b"{\"head\":1}"), None, "there is something else");
}

#[test]
fn ids_stand_where_the_templates_say() {
    let face = face();
    for (topic, expect) in [
        ("mqtt/face/0xA", Some("0xA")),
        ("mqtt/face/0xA/Ack", Some("0xA")),
        ("alive/0xA", Some("0xA")),
        ("mqtt/face/0xA/#", Some("0xA")),
        ("dev/lock/0xA/state", Some("0xA")),
        ("mqtt/face/+", None),
        ("mqtt/#", None),
        ("elsewhere/0xA", None),
    ] {
        assert_eq!(face.device_level(topic), expect, "{topic}");
    }
    assert!(face.may_match("alive/+") && face.may_match("mqtt/#") && !face.may_match("mqtt/face/0xA"));
}
