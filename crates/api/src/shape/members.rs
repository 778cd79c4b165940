//! The members of jobs or messages in a body, found in one pass: each stays a piece of the body's
//! text until it is asked for.
//!
//! A call may bring a thousand of them, so no map is made of each, and no tree of anything. What
//! the members mean is read in [`super::new_job`] and [`super::new_message`].

use std::fmt;

use base::Problem;
use net::problem::quoted;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::payload::{self, GivenPayload};
use crate::fields::{Reader, not_an_object, unreadable};

/// Most fields that an item may have.
const FIELDS_MAX: usize = 13;

/// What a body may have: one item, or many in an array.
#[derive(Debug)]
pub(super) struct Grammar {
    /// What an item is called in a refusal.
    pub item: &'static str,
    /// The fields that an item may have.
    pub fields: &'static [&'static str],
    /// The field of a body with many.
    pub many: &'static str,
    /// The fields of a body, beside those of one item or beside the many.
    pub beside: &'static [&'static str],
    /// Most items in a body.
    pub items_max: usize,
    /// The code of a refusal of more.
    pub too_many: &'static str,
}

/// The members of one item, or of a body.
#[derive(Debug)]
pub(super) struct Members<'a> {
    find: Find,
    /// In the order of [`Find::name`].
    given: [Option<&'a RawValue>; FIELDS_MAX],
    /// The first that no item has.
    unknown: Option<String>,
}

impl<'a> Members<'a> {
    fn of(find: Find) -> Self {
        Self { find, given: [None; FIELDS_MAX], unknown: None }
    }

    /// The member's JSON text, null too.
    pub(super) fn json(&self, name: &str) -> Option<&'a str> {
        self.given[self.find.place(name)?].map(RawValue::get)
    }

    /// The member; null is as good as nothing.
    pub(super) fn optional<T>(&self, name: &str, read: Reader<T>) -> Result<Option<T>, Problem> {
        self.json(name).filter(|json| *json != "null").map(|json| read(name, json)).transpose()
    }

    /// That there is none that no item has.
    pub(super) fn all_known(&self) -> Result<(), Problem> {
        let Some(name) = &self.unknown else { return Ok(()) };
        let known = self.find.names().collect::<Vec<_>>().join(", ");
        let detail = format!("there is no field {}; known are {known}", quoted(name));
        Err(Problem::not_allowed("unknown_field", detail))
    }

    /// The name of one that may not stand beside many items, before all others of an unknown one.
    fn foreign_name(&self) -> Option<&str> {
        let fields = self.find.grammar.fields;
        let given = || fields.iter().zip(&self.given).find(|(_, given)| given.is_some());
        self.unknown.as_deref().or_else(|| given().map(|(name, _)| *name))
    }
}

/// What a body has.
#[derive(Debug)]
pub(super) enum Body<'a> {
    /// One item.
    One(Members<'a>),
    /// Those in its array; what is there in place of an item, in words.
    Many {
        /// In their order.
        items: Items<'a>,
        /// What stands beside them.
        beside: Members<'a>,
    },
}

impl<'a> Body<'a> {
    /// Reads a body: an item, or an object whose array has many.
    ///
    /// # Errors
    /// `unreadable`, `not_an_object`, `wrong_type`, `unknown_field` or the one for too many items.
    pub(super) fn read(text: &'a str, grammar: &'static Grammar) -> Result<Self, Problem> {
        match found(text, Find { what: Sought::Body, grammar })? {
            Found::Object(Object { members, many: None }) => Ok(Self::One(members)),
            Found::Object(Object { members, many: Some(items) }) => match members.foreign_name() {
                None => Ok(Self::Many { items: all_of(*items, grammar)?, beside: members }),
                Some(name) => {
                    let Grammar { many, item, .. } = grammar;
                    let detail = format!(
                        "the field {} stands beside {many}; a body has {many} and nothing else, or the fields of one {item}",
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

/// Reads a line with one item.
///
/// # Errors
/// `unreadable` or `not_an_object`.
pub(super) fn read_line<'a>(text: &'a str, grammar: &'static Grammar) -> Result<Members<'a>, Problem> {
    match found(text, Find { what: Sought::Item, grammar })? {
        Found::Object(Object { members, .. }) => Ok(members),
        Found::Array { .. } => Err(not_an_object("the line", "an array")),
        Found::Other(what) => Err(not_an_object("the line", what)),
    }
}

/// What each of many items means; a refusal says which item it is.
///
/// # Errors
/// `not_an_object`, or what `read` says.
pub(super) fn read_all<T>(
    items: Items<'_>,
    grammar: &Grammar,
    read: impl Fn(&Members<'_>) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    let one = |(item, place): (Result<Members<'_>, _>, usize)| {
        let members = item.map_err(|what| not_an_object("it", what));
        members.and_then(|members| read(&members)).map_err(|Problem { status, code, detail }| {
            Problem::new(status, code, format!("{} {place}: {detail}", grammar.item))
        })
    };
    items.into_iter().zip(1..).map(one).collect()
}

/// The payload of an item, which has to be there.
///
/// # Errors
/// `missing_field`, or what [`payload::given`] says.
pub(super) fn payload_of<'a>(members: &Members<'a>) -> Result<GivenPayload<'a>, Problem> {
    let item = members.find.grammar.item;
    let given = payload::given(item, members.json("payload"), members.json("payload_base64"))?;
    given.ok_or_else(|| Problem::not_allowed("missing_field", "payload or payload_base64 has to be there"))
}

fn found(text: &str, find: Find) -> Result<Found<'_>, Problem> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let found = find.deserialize(&mut parser).and_then(|found| parser.end().map(|()| found));
    found.map_err(|error| unreadable(&error))
}

pub(super) type Items<'a> = Vec<Result<Members<'a>, &'static str>>;

fn all_of<'a>(found: Found<'a>, grammar: &Grammar) -> Result<Items<'a>, Problem> {
    let Grammar { many, item, items_max, too_many, .. } = grammar;
    let wrong = |what| {
        let detail = format!("{many} is {what}; it must be an array of {item}s");
        Problem::not_allowed("wrong_type", detail)
    };
    match found {
        Found::Array { items, count } if count == items.len() => Ok(items),
        Found::Array { count, .. } => {
            let detail = format!("{many} has {count} items; a call takes at most {items_max}");
            Err(Problem::not_allowed(too_many, detail))
        }
        Found::Object(_) => Err(wrong("an object")),
        Found::Other(what) => Err(wrong(what)),
    }
}

/// What is looked for.
#[derive(Clone, Copy, Debug)]
struct Find {
    what: Sought,
    grammar: &'static Grammar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sought {
    Body,
    Many,
    Item,
}

impl Find {
    /// The fields that are known here.
    fn names(self) -> impl Iterator<Item = &'static str> {
        let beside = if self.what == Sought::Body { self.grammar.beside } else { &[] };
        self.grammar.fields.iter().chain(beside).copied()
    }

    fn place(self, name: &str) -> Option<usize> {
        self.names().position(|known| known == name)
    }
}

/// What is there.
#[expect(clippy::large_enum_variant, reason = "nearly all are objects")]
enum Found<'a> {
    Object(Object<'a>),
    /// The first items, as many as a call may have, and how many there are.
    Array {
        items: Items<'a>,
        count: usize,
    },
    /// Something else, in words.
    Other(&'static str),
}

struct Object<'a> {
    members: Members<'a>,
    many: Option<Box<Found<'a>>>,
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
        let mut object = Object { members: Members::of(self), many: None };
        while let Some(name) = map.next_key_seed(NameOf(self))? {
            match name {
                Name::Known(index) => {
                    let given = &mut object.members.given[index];
                    if given.replace(map.next_value()?).is_some() {
                        return Err(twice(self.names().nth(index).unwrap_or_default()));
                    }
                }
                Name::Many => {
                    let many = map.next_value_seed(Self { what: Sought::Many, ..self })?;
                    if object.many.replace(Box::new(many)).is_some() {
                        return Err(twice(self.grammar.many));
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
        while self.what == Sought::Many && items.len() < self.grammar.items_max {
            let Some(item) = array.next_element_seed(Self { what: Sought::Item, ..self })? else {
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
    Many,
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
        Ok(match self.0.place(name) {
            Some(index) => Name::Known(index),
            None if self.0.what == Sought::Body && name == self.0.grammar.many => Name::Many,
            None => Name::Unknown(name.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests;
