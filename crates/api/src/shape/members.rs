//! The members of jobs or messages in a body, found in one pass. Each stays a piece of the body's
//! text until it is asked for.
//!
//! A call may bring a thousand items, so none gets a map or a tree of its own. The members of an
//! item overwrite those of the item before. What they mean is read in [`super::new_job`] and
//! [`super::new_message`].

use std::fmt;

use base::Problem;
use net::problem::quoted;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::payload::{self, GivenPayload};
use crate::fields::{Reader, not_an_object, unreadable};

/// Most fields that an item may have.
const FIELDS_MAX: usize = 14;

/// What a body may have: one item, or many in an array.
#[derive(Debug)]
pub(super) struct Grammar {
    /// What an item is called in a refusal.
    pub item: &'static str,
    /// The fields that an item may have; the first two are those of its payload.
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

/// A field of a grammar, looked up when the program is compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrammarField {
    name: &'static str,
    place: usize,
}

impl Grammar {
    /// The fields of a payload: as JSON, and in base64.
    const PAYLOAD: [GrammarField; 2] =
        [GrammarField { name: "payload", place: 0 }, GrammarField { name: "payload_base64", place: 1 }];

    /// A field that an item or a body has. Panics where there is none of that name.
    pub(super) const fn field(&self, name: &'static str) -> GrammarField {
        let (of_item, of_body) = (self.fields.len(), self.fields.len() + self.beside.len());
        let mut place = 0;
        while place < of_body {
            let known = if place < of_item { self.fields[place] } else { self.beside[place - of_item] };
            if is_same(known.as_bytes(), name.as_bytes()) {
                return GrammarField { name, place };
            }
            place += 1;
        }
        panic!("there is no such field")
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// The members of one item, or of a body.
#[derive(Debug)]
pub(super) struct Members<'a> {
    find: Find,
    /// In the order of [`Find::names`].
    given: [Option<&'a RawValue>; FIELDS_MAX],
    /// The first that no item has.
    unknown: Option<String>,
}

impl<'a> Members<'a> {
    fn of(find: Find) -> Self {
        Self { find, given: [None; FIELDS_MAX], unknown: None }
    }

    fn clear(&mut self) {
        self.given.fill(None);
        self.unknown = None;
    }

    /// The member's JSON text, null too.
    pub(super) fn json(&self, field: GrammarField) -> Option<&'a str> {
        self.given[field.place].map(RawValue::get)
    }

    /// The member; null is as good as nothing.
    pub(super) fn optional<T>(&self, field: GrammarField, read: Reader<T>) -> Result<Option<T>, Problem> {
        self.json(field).filter(|json| *json != "null").map(|json| read(field.name, json)).transpose()
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

/// Reads what the members of an item mean.
type ReadItem<'r, T> = &'r dyn Fn(&Members<'_>) -> Result<T, Problem>;

/// What a body has.
#[derive(Debug)]
pub(super) enum ParsedBody<'a, T> {
    /// One item.
    One(T, Members<'a>),
    /// Those in its array.
    Many {
        /// In their order.
        items: Vec<T>,
        /// What stands beside them.
        beside: Members<'a>,
    },
}

impl<'a, T> ParsedBody<'a, T> {
    /// Reads a body: an item, or an object whose array has many. Of one of many a refusal says
    /// which it is.
    ///
    /// # Errors
    /// `unreadable`, `not_an_object`, `wrong_type`, `unknown_field`, the one for too many items, or
    /// what `read` says.
    pub(super) fn read(
        text: &'a str,
        grammar: &'static Grammar,
        read: impl Fn(&Members<'_>) -> Result<T, Problem>,
    ) -> Result<Self, Problem> {
        let mut members = Members::of(Find { what: Sought::Body, grammar });
        match found(("the body", text), &mut members, &read)? {
            FoundMembers::Object { many: None } => Ok(Self::One(read(&members)?, members)),
            FoundMembers::Object { many: Some(many) } => match members.foreign_name() {
                None => Ok(Self::Many { items: all_of(*many, grammar)?, beside: members }),
                Some(name) => {
                    let Grammar { many, item, .. } = grammar;
                    let detail = format!(
                        "the field {} stands beside {many}; a body has {many} and nothing else, or the fields of one {item}",
                        quoted(name)
                    );
                    Err(Problem::not_allowed("unknown_field", detail))
                }
            },
            FoundMembers::Array { .. } => Err(not_an_object("the body", "an array")),
            FoundMembers::Other(what) => Err(not_an_object("the body", what)),
        }
    }
}

/// Reads a line with one item.
///
/// # Errors
/// `unreadable` or `not_an_object`.
pub(super) fn read_line<'a>(text: &'a str, grammar: &'static Grammar) -> Result<Members<'a>, Problem> {
    let mut members = Members::of(Find { what: Sought::Item, grammar });
    match found::<()>(("the line", text), &mut members, &|_| Ok(()))? {
        FoundMembers::Object { .. } => Ok(members),
        FoundMembers::Array { .. } => Err(not_an_object("the line", "an array")),
        FoundMembers::Other(what) => Err(not_an_object("the line", what)),
    }
}

/// The payload of an item, which has to be there.
///
/// # Errors
/// `missing_field`, or what [`payload::given`] says.
pub(super) fn payload_of<'a>(members: &Members<'a>) -> Result<GivenPayload<'a>, Problem> {
    let item = members.find.grammar.item;
    let [json, base64] = Grammar::PAYLOAD.map(|field| members.json(field));
    let given = payload::given(item, json, base64)?;
    given.ok_or_else(|| Problem::not_allowed("missing_field", "payload or payload_base64 has to be there"))
}

fn found<'a, T>(
    (subject, text): (&str, &'a str),
    members: &mut Members<'a>,
    read: ReadItem<'_, T>,
) -> Result<FoundMembers<T>, Problem> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let found = Parse { members, read, are_many: false }.deserialize(&mut parser);
    let found = found.and_then(|found| parser.end().map(|()| found));
    found.map_err(|error| unreadable(subject, &error))
}

fn all_of<T>(found: FoundMembers<T>, grammar: &Grammar) -> Result<Vec<T>, Problem> {
    let Grammar { many, item, items_max, too_many, .. } = grammar;
    let wrong = |what| {
        let detail = format!("{many} is {what}; it must be an array of {item}s");
        Problem::not_allowed("wrong_type", detail)
    };
    match found {
        FoundMembers::Array { items, count } if count <= *items_max => items,
        FoundMembers::Array { count, .. } => {
            let detail = format!("{many} has {count} items; a call takes at most {items_max}");
            Err(Problem::not_allowed(too_many, detail))
        }
        FoundMembers::Object { .. } => Err(wrong("an object")),
        FoundMembers::Other(what) => Err(wrong(what)),
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
enum FoundMembers<T> {
    /// The item's members are in [`Parse::members`].
    Object { many: Option<Box<FoundMembers<T>>> },
    /// What the items mean, or the refusal of the first wrong one; and how many there are. Of more
    /// than a call may have, only the count is of use.
    Array { items: Result<Vec<T>, Problem>, count: usize },
    /// Something else, in words.
    Other(&'static str),
}

/// Parses a body, its array of items, or one item.
struct Parse<'m, 'a, T> {
    /// Where members go: those of an object, or those of one item of an array after the other.
    members: &'m mut Members<'a>,
    read: ReadItem<'m, T>,
    /// An array of items is looked for. No other array is looked into.
    are_many: bool,
}

impl<T> Parse<'_, '_, T> {
    /// What the item means that was just read, the one at this place; a refusal says which it is.
    fn item(&self, found: &FoundMembers<T>, place: usize) -> Result<T, Problem> {
        let item = match found {
            FoundMembers::Object { .. } => (self.read)(self.members),
            FoundMembers::Array { .. } => Err(not_an_object("it", "an array")),
            FoundMembers::Other(what) => Err(not_an_object("it", what)),
        };
        item.map_err(|Problem { status, code, detail }| {
            let item = self.members.find.grammar.item;
            Problem::new(status, code, format!("{item} {place}: {detail}"))
        })
    }
}

impl<'de, T> DeserializeSeed<'de> for Parse<'_, 'de, T> {
    type Value = FoundMembers<T>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<FoundMembers<T>, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de, T> Visitor<'de> for Parse<'_, 'de, T> {
    type Value = FoundMembers<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FoundMembers<T>, A::Error> {
        let Self { members, read, are_many: _ } = self;
        let (find, mut found) = (members.find, None);
        while let Some(name) = map.next_key_seed(NameOf(find))? {
            match name {
                Name::Known(index) => {
                    if members.given[index].replace(map.next_value()?).is_some() {
                        return Err(twice(find.names().nth(index).unwrap_or_default()));
                    }
                }
                Name::Many => {
                    let mut one = Members::of(Find { what: Sought::Item, ..find });
                    let many = map.next_value_seed(Parse { members: &mut one, read, are_many: true })?;
                    if found.replace(Box::new(many)).is_some() {
                        return Err(twice(find.grammar.many));
                    }
                }
                Name::Unknown(name) => {
                    map.next_value::<IgnoredAny>()?;
                    members.unknown.get_or_insert(name);
                }
            }
        }
        Ok(FoundMembers::Object { many: found })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<FoundMembers<T>, A::Error> {
        let (mut items, mut count) = (Ok(Vec::new()), 0);
        while self.are_many && count < self.members.find.grammar.items_max {
            self.members.clear();
            let one = Parse { members: &mut *self.members, read: self.read, are_many: false };
            let Some(found) = array.next_element_seed(one)? else {
                return Ok(FoundMembers::Array { items, count });
            };
            count += 1;
            if let Ok(read) = &mut items {
                match self.item(&found, count) {
                    Ok(item) => read.push(item),
                    Err(refused) => items = Err(refused),
                }
            }
        }
        while array.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(FoundMembers::Array { items, count })
    }

    fn visit_str<E>(self, _: &str) -> Result<FoundMembers<T>, E> {
        Ok(FoundMembers::Other("a string"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<FoundMembers<T>, E> {
        Ok(FoundMembers::Other("a boolean"))
    }

    fn visit_unit<E>(self) -> Result<FoundMembers<T>, E> {
        Ok(FoundMembers::Other("null"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<FoundMembers<T>, E> {
        Ok(FoundMembers::Other("a number"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<FoundMembers<T>, E> {
        Ok(FoundMembers::Other("a number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<FoundMembers<T>, E> {
        Ok(FoundMembers::Other("a number"))
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
