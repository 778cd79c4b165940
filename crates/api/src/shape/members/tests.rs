//! Bodies of one or many, as jobs and messages have them.

use super::*;
use crate::shape::new_job::JOBS;
use crate::shape::new_message::MESSAGES;

fn refused(text: &str) -> Option<&'static str> {
    match Body::read(text, &JOBS) {
        Err(problem) => Some(problem.code),
        Ok(Body::One(members)) => members.all_known().err().map(|problem| problem.code),
        Ok(Body::Many { .. }) => None,
    }
}

#[test]
fn there_is_room_for_every_field() {
    for Grammar { fields, beside, .. } in [&JOBS, &MESSAGES] {
        assert!(fields.len() + beside.len() <= FIELDS_MAX, "{fields:?}");
    }
}

#[test]
fn a_body_is_one_job_or_many() {
    let one = Body::read(r#" {"tries": 3, "payload": [1, 2], "alias": null} "#, &JOBS);
    let Ok(Body::One(members)) = one else { panic!("{one:?}") };
    assert_eq!((members.json("payload"), members.json("tries")), (Some("[1, 2]"), Some("3")));
    assert_eq!((members.json("alias"), members.json("ttl")), (Some("null"), None));
    let many = Body::read(r#"{"jobs": [{"payload": 1}, {}, 7, [], null, {"x": 1}]}"#, &JOBS);
    let Ok(Body::Many { items, .. }) = many else { panic!("{many:?}") };
    let found: Vec<_> = items.iter().map(|item| item.as_ref().map(Members::foreign_name)).collect();
    let (number, array, null) = (Err(&"a number"), Err(&"an array"), Err(&"null"));
    assert_eq!(found, [Ok(Some("payload")), Ok(None), number, array, null, Ok(Some("x"))]);
}

#[test]
fn what_is_of_a_body_stands_beside_its_items_and_in_none_of_them() {
    let many = Body::read(r#"{"expect_last_id": "3", "messages": [{"expect_last_id": "3"}]}"#, &MESSAGES);
    let Ok(Body::Many { items, beside }) = many else { panic!("{many:?}") };
    assert_eq!(beside.json("expect_last_id"), Some(r#""3""#));
    let item = items[0].as_ref().expect("an object");
    assert_eq!(item.all_known().map_err(|problem| problem.code), Err("unknown_field"));
    let one = Body::read(r#"{"payload": 1, "expect_last_id": "3"}"#, &MESSAGES);
    let Ok(Body::One(members)) = one else { panic!("{one:?}") };
    assert!(members.all_known().is_ok() && members.json("expect_last_id").is_some());
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
        let problem = Body::read(text, &JOBS).expect_err("it is refused");
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
