//! Bodies of one or many, as jobs and messages have them.

use super::*;
use crate::shape::new_job::JOBS;
use crate::shape::new_message::MESSAGES;

fn refused(text: &str) -> Option<&'static str> {
    ParsedBody::read(text, &JOBS, all_known).err().map(|problem| problem.code)
}

fn all_known(members: &Members<'_>) -> Result<(), Problem> {
    members.all_known()
}

/// The unknown field of an item, or else its first one.
fn name_of(members: &Members<'_>) -> Result<Option<String>, Problem> {
    Ok(members.foreign_name().map(str::to_owned))
}

#[test]
fn there_is_room_for_every_field() {
    for Grammar { fields, beside, .. } in [&JOBS, &MESSAGES] {
        assert!(fields.len() + beside.len() <= FIELDS_MAX, "{fields:?}");
        assert_eq!(fields[..2], Grammar::PAYLOAD.map(|field| field.name));
    }
}

#[test]
fn a_body_is_one_job_or_many() {
    let one = ParsedBody::read(r#" {"tries": 3, "payload": [1, 2], "alias": null} "#, &JOBS, name_of);
    let Ok(ParsedBody::One(_, members)) = one else { panic!("{one:?}") };
    assert_eq!(
        (members.json(JOBS.field("payload")), members.json(JOBS.field("tries"))),
        (Some("[1, 2]"), Some("3"))
    );
    assert_eq!((members.json(JOBS.field("alias")), members.json(JOBS.field("ttl"))), (Some("null"), None));
    let many = ParsedBody::read(r#"{"jobs": [{"payload": 1}, {}, {"x": 1}, {"ttl": 1}]}"#, &JOBS, name_of);
    let Ok(ParsedBody::Many { items, .. }) = many else { panic!("{many:?}") };
    let found: Vec<_> = items.iter().map(Option::as_deref).collect();
    assert_eq!(found, [Some("payload"), None, Some("x"), Some("ttl")]);
}

#[test]
fn a_refusal_names_the_first_wrong_item() {
    for (items, code, detail) in [
        (r#"{}, 7, []"#, "not_an_object", "job 2: it is a number; it must be an object"),
        (r#"[{"payload": 1}], 7"#, "not_an_object", "job 1: it is an array; it must be an object"),
        (r#"{}, {}, null"#, "not_an_object", "job 3: it is null; it must be an object"),
        (r#"{}, {"x": 1}, 7"#, "unknown_field", "job 2: there is no field \"x\""),
        (r#"{"x": 1}, {"#, "unreadable", ""),
    ] {
        let text = format!(r#"{{"jobs": [{items}]}}"#);
        let Problem { code: found, detail: said, .. } =
            ParsedBody::read(&text, &JOBS, all_known).expect_err("it is refused");
        assert!(found == code && said.contains(detail), "{text}: {found} {said}");
    }
}

#[test]
fn what_is_of_a_body_stands_beside_its_items_and_in_none_of_them() {
    let text = r#"{"expect_last_id": "3", "messages": [{"expect_last_id": "3"}]}"#;
    let many = ParsedBody::read(text, &MESSAGES, |item| Ok(item.all_known().map_err(|problem| problem.code)));
    let Ok(ParsedBody::Many { items, beside }) = many else { panic!("{many:?}") };
    assert_eq!(
        (beside.json(MESSAGES.field("expect_last_id")), &items[..]),
        (Some(r#""3""#), &[Err("unknown_field")][..])
    );
    let one = ParsedBody::read(r#"{"payload": 1, "expect_last_id": "3"}"#, &MESSAGES, all_known);
    let Ok(ParsedBody::One((), members)) = one else { panic!("{one:?}") };
    assert!(members.json(MESSAGES.field("expect_last_id")).is_some());
    for (line, code) in [("{", "unreadable"), ("[]", "not_an_object"), ("7", "not_an_object")] {
        assert_eq!(read_line(line, &MESSAGES).map(drop).map_err(|problem| problem.code), Err(code));
    }
    let line = read_line(r#"{"payload": 1, "messages": []}"#, &MESSAGES).expect("an object");
    assert_eq!(line.all_known().map_err(|problem| problem.code), Err("unknown_field"));
}

#[test]
fn what_stands_beside_jobs_is_named() {
    for (text, name) in [
        (r#"{"jobs":[],"hue":1}"#, "hue"),
        (r#"{"delay":"1s","jobs":[]}"#, "delay"),
        (r#"{"delay":"1s","jobs":[],"hue":1}"#, "hue"),
    ] {
        let problem = ParsedBody::read(text, &JOBS, name_of).expect_err("it is refused");
        let begins = format!("the field \"{name}\" stands beside jobs; ");
        assert!(problem.detail.starts_with(&begins), "{text}: {}", problem.detail);
    }
}

#[test]
fn what_is_neither_is_refused() {
    for (text, code) in [
        ("", "unreadable"),
        ("{", "unreadable"),
        ("{} {}", "unreadable"),
        (r#"{"payload":1,"p\u0061yload":2}"#, "unreadable"),
        (r#"{"jobs":[],"jobs":[]}"#, "unreadable"),
        ("[]", "not_an_object"),
        ("7", "not_an_object"),
        (r#"{"payload":1,"hue":2}"#, "unknown_field"),
        (r#"{"jobs":[],"payload":1}"#, "unknown_field"),
        (r#"{"jobs":[],"hue":1}"#, "unknown_field"),
        (r#"{"jobs":{}}"#, "wrong_type"),
        (r#"{"jobs":null}"#, "wrong_type"),
    ] {
        assert_eq!(refused(text), Some(code), "{text}");
    }
    let jobs = |count: usize| format!(r#"{{"jobs":[{}]}}"#, vec!["{}"; count].join(","));
    assert_eq!((refused(&jobs(1_000)), refused(&jobs(1_001))), (None, Some("too_many_jobs")));
}
