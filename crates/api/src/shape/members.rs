//! The members of jobs in a body, found in one pass: each stays a piece of the body's text until it
//! is asked for.
//!
//! A call may bring a thousand jobs, so no map is made of each, and no tree of anything. What the
//! members mean is read in [`super::new_job`].

use std::fmt;

use base::Problem;
use base::limits::JOBS_PER_CALL_MAX;
use net::problem::quoted;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::fields::{Reader, not_an_object, unreadable};

/// The fields that a job may have.
const NAMES: [&str; 13] = [
    "payload",
    "payload_base64",
    "delay",
    "run_at",
    "ttl",
    "tries",
    "alias",
    "on_conflict",
    "group",
    "every",
    "cron",
    "tz",
    "executions",
];
/// The field of a body with many jobs.
const JOBS: &str = "jobs";

/// The members of one job.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    /// In the order of [`NAMES`].
    given: [Option<&'a RawValue>; NAMES.len()],
    /// The first that no job has.
    unknown: Option<String>,
}

impl<'a> Members<'a> {
    /// The member's JSON text, null too.
    pub(super) fn json(&self, name: &str) -> Option<&'a str> {
        let index = NAMES.iter().position(|known| *known == name)?;
        self.given[index].map(RawValue::get)
    }

    /// The member; null is as good as nothing.
    pub(super) fn optional<T>(&self, name: &str, read: Reader<T>) -> Result<Option<T>, Problem> {
        self.json(name).filter(|json| *json != "null").map(|json| read(name, json)).transpose()
    }

    /// That there is none that no job has.
    pub(super) fn all_known(&self) -> Result<(), Problem> {
        let Some(name) = &self.unknown else { return Ok(()) };
        let detail = format!("there is no field {}; known are {}", quoted(name), NAMES.join(", "));
        Err(Problem::not_allowed("unknown_field", detail))
    }

    /// The name of one that is there, before all others of one that no job has.
    fn any_name(&self) -> Option<&str> {
        let given = || self.given.iter().position(Option::is_some).map(|index| NAMES[index]);
        self.unknown.as_deref().or_else(given)
    }
}

/// What a body has.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each call")]
pub(super) enum Body<'a> {
    /// One job.
    One(Members<'a>),
    /// Those in its array; what is there in place of a job, in words.
    Many(Vec<Result<Members<'a>, &'static str>>),
}

impl<'a> Body<'a> {
    /// Reads a body: a job, or an object whose only field `jobs` has many.
    ///
    /// # Errors
    /// `unreadable`, `not_an_object`, `wrong_type`, `unknown_field` or `too_many_jobs`.
    pub(super) fn read(text: &'a str) -> Result<Self, Problem> {
        let mut parser = serde_json::Deserializer::from_str(text);
        let found = Find::Body.deserialize(&mut parser).and_then(|found| parser.end().map(|()| found));
        match found.map_err(|error| unreadable(&error))? {
            Found::Object(Object { members, jobs: None }) => Ok(Self::One(members)),
            Found::Object(Object { members, jobs: Some(jobs) }) => match members.any_name() {
                None => many(*jobs),
                Some(name) => {
                    let detail = format!(
                        "the field {} stands beside {JOBS}; a body has {JOBS} and nothing else, or the fields of one job",
                        quoted(name)
                    );
                    Err(Problem::not_allowed("unknown_field", detail))
                }
            },
            Found::Array { .. } => Err(not_an_object("the body", "an array")),
            Found::Other(what) => Err(not_an_object("the body", what)),
        }
    }
}

fn many(jobs: Found<'_>) -> Result<Body<'_>, Problem> {
    let wrong = |what| {
        let detail = format!("{JOBS} is {what}; it must be an array of jobs");
        Problem::not_allowed("wrong_type", detail)
    };
    match jobs {
        Found::Array { items, count } if count == items.len() => Ok(Body::Many(items)),
        Found::Array { count, .. } => {
            let detail = format!("{JOBS} has {count} items; a call takes at most {JOBS_PER_CALL_MAX}");
            Err(Problem::not_allowed("too_many_jobs", detail))
        }
        Found::Object(_) => Err(wrong("an object")),
        Found::Other(what) => Err(wrong(what)),
    }
}

/// What is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Find {
    Body,
    Jobs,
    Job,
}

/// What is there.
#[expect(clippy::large_enum_variant, reason = "nearly all are objects")]
enum Found<'a> {
    Object(Object<'a>),
    /// The first items, as many as a call may have, and how many there are.
    Array {
        items: Vec<Result<Members<'a>, &'static str>>,
        count: usize,
    },
    /// Something else, in words.
    Other(&'static str),
}

#[derive(Default)]
struct Object<'a> {
    members: Members<'a>,
    jobs: Option<Box<Found<'a>>>,
}

impl<'de> DeserializeSeed<'de> for Find {
    type Value = Found<'de>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Found<'de>, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found<'de>, A::Error> {
        let mut object = Object::default();
        while let Some(name) = map.next_key_seed(NameOf(self))? {
            match name {
                Name::Known(index) => {
                    let given = &mut object.members.given[index];
                    if given.replace(map.next_value()?).is_some() {
                        return Err(twice(NAMES[index]));
                    }
                }
                Name::Jobs => {
                    let jobs = map.next_value_seed(Self::Jobs)?;
                    if object.jobs.replace(Box::new(jobs)).is_some() {
                        return Err(twice(JOBS));
                    }
                }
                Name::Unknown(name) => {
                    map.next_value::<IgnoredAny>()?;
                    object.members.unknown.get_or_insert(name);
                }
            }
        }
        Ok(Found::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Found<'de>, A::Error> {
        let (mut items, mut count) = (Vec::new(), 0);
        while self == Self::Jobs && items.len() < JOBS_PER_CALL_MAX {
            let Some(item) = array.next_element_seed(Self::Job)? else {
                return Ok(Found::Array { items, count });
            };
            count += 1;
            items.push(match item {
                Found::Object(object) => Ok(object.members),
                Found::Array { .. } => Err("an array"),
                Found::Other(what) => Err(what),
            });
        }
        while array.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Found::Array { items, count })
    }

    fn visit_str<E>(self, _: &str) -> Result<Found<'de>, E> {
        Ok(Found::Other("a string"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Found<'de>, E> {
        Ok(Found::Other("a boolean"))
    }

    fn visit_unit<E>(self) -> Result<Found<'de>, E> {
        Ok(Found::Other("null"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Found<'de>, E> {
        Ok(Found::Other("a number"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Found<'de>, E> {
        Ok(Found::Other("a number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Found<'de>, E> {
        Ok(Found::Other("a number"))
    }
}

fn twice<E: Error>(name: &str) -> E {
    E::custom(format_args!("{} is there twice", quoted(name)))
}

/// The name of a member of what is looked for.
struct NameOf(Find);

enum Name {
    Known(usize),
    Jobs,
    Unknown(String),
}

impl<'de> DeserializeSeed<'de> for NameOf {
    type Value = Name;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Name, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for NameOf {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Name, E> {
        Ok(match NAMES.iter().position(|known| *known == name) {
            Some(index) => Name::Known(index),
            None if self.0 == Find::Body && name == JOBS => Name::Jobs,
            None => Name::Unknown(name.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<&'static str> {
        match Body::read(text) {
            Err(problem) => Some(problem.code),
            Ok(Body::One(members)) => members.all_known().err().map(|problem| problem.code),
            Ok(Body::Many(_)) => None,
        }
    }

    #[test]
    fn a_body_is_one_job_or_many() {
        let one = Body::read(r#" {"tries": 3, "payload": [1, 2], "alias": null} "#);
        let Ok(Body::One(members)) = one else { panic!("{one:?}") };
        assert_eq!((members.json("payload"), members.json("tries")), (Some("[1, 2]"), Some("3")));
        assert_eq!((members.json("alias"), members.json("ttl")), (Some("null"), None));
        let many = Body::read(r#"{"jobs": [{"payload": 1}, {}, 7, [], null, {"x": 1}]}"#);
        let Ok(Body::Many(items)) = many else { panic!("{many:?}") };
        let found: Vec<_> = items.iter().map(|item| item.as_ref().map(Members::any_name)).collect();
        let (number, array, null) = (Err(&"a number"), Err(&"an array"), Err(&"null"));
        assert_eq!(found, [Ok(Some("payload")), Ok(None), number, array, null, Ok(Some("x"))]);
    }

    #[test]
    fn what_stands_beside_jobs_is_named() {
        for (text, name) in [
            (r#"{"jobs":[],"hue":1}"#, "hue"),
            (r#"{"delay":"1s","jobs":[]}"#, "delay"),
            (r#"{"delay":"1s","jobs":[],"hue":1}"#, "hue"),
        ] {
            let problem = Body::read(text).expect_err("it is refused");
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
}
