//! Fields of a JSON object in a request: read one by one, so that each refusal names its field and
//! what would be right.
//!
//! Values stay text until they are asked for: no tree is made of what nobody wants. A field that is
//! there twice makes the body unreadable, an unknown one makes it refused.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use base::limits::EXACT_NUMBER_MAX;
use base::{Problem, Timestamp};
use engine::Patch;
use memchr::memchr2;
use net::problem::quoted;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Most members that are read of an object inside a body: far more than the labels that a device
/// may have.
const MEMBERS_MAX: usize = 1_000;

/// The fields of an object.
#[derive(Debug)]
pub(crate) struct ObjectFields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> ObjectFields<'a> {
    /// Reads an object that may have the fields in `known` and no others.
    ///
    /// # Errors
    /// `unreadable`, `not_an_object` or `unknown_field`.
    pub(crate) fn read(text: &'a str, known: &[&str]) -> Result<Self, Problem> {
        Self::of("the body", text, known)
    }

    /// The same of a line of a body.
    ///
    /// # Errors
    /// As [`ObjectFields::read`].
    pub(crate) fn read_line(text: &'a str, known: &[&str]) -> Result<Self, Problem> {
        Self::of("the line", text, known)
    }

    fn of(subject: &str, text: &'a str, known: &[&str]) -> Result<Self, Problem> {
        let members = members(text, &|name| known.contains(&name));
        let members = members.map_err(|error| unreadable(subject, &error))?;
        let members = members.ok_or_else(|| not_an_object(subject, what(text)))?;
        match members.left_out {
            None => Ok(Self(members.kept)),
            Some(name) => {
                let detail = format!("there is no field {}; known are {}", quoted(&name), known.join(", "));
                Err(Problem::not_allowed("unknown_field", detail))
            }
        }
    }

    /// The JSON text of the field, null too.
    pub(crate) fn json(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|raw| raw.get())
    }

    /// The field, which has to be there.
    ///
    /// # Errors
    /// `missing_field`, or what `read` says.
    pub(crate) fn required<T>(&self, name: &str, read: Reader<T>) -> Result<T, Problem> {
        self.optional(name, read)?
            .ok_or_else(|| Problem::not_allowed("missing_field", format!("the field {name} has to be there")))
    }

    /// The field; null is as good as nothing.
    ///
    /// # Errors
    /// What `read` says.
    pub(crate) fn optional<T>(&self, name: &str, read: Reader<T>) -> Result<Option<T>, Problem> {
        match self.patch(name, read)? {
            Patch::Set(value) => Ok(Some(value)),
            Patch::Keep | Patch::Clear => Ok(None),
        }
    }

    /// What a merge patch says of the field.
    ///
    /// # Errors
    /// What `read` says.
    pub(crate) fn patch<T>(&self, name: &str, read: Reader<T>) -> Result<Patch<T>, Problem> {
        match self.0.get(name) {
            None => Ok(Patch::Keep),
            Some(raw) if raw.get() == "null" => Ok(Patch::Clear),
            Some(raw) => read(name, raw.get()).map(Patch::Set),
        }
    }
}

/// The fields of a body that may be left out altogether.
///
/// # Errors
/// See [`ObjectFields::read`].
pub(crate) fn or_nothing<'a>(text: &'a str, known: &[&str]) -> Result<ObjectFields<'a>, Problem> {
    if text.trim_ascii().is_empty() {
        Ok(ObjectFields(BTreeMap::new()))
    } else {
        ObjectFields::read(text, known)
    }
}

/// What `read` makes of an object in a body that may have the fields in `known`. A refusal says
/// which object it is; `right` is what it has to be.
///
/// # Errors
/// `wrong_type`, see [`ObjectFields::read`], and what `read` says.
pub(crate) fn within<T>(
    name: &str,
    json: &str,
    (right, known): (&str, &[&str]),
    read: impl FnOnce(&ObjectFields<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    if !json.starts_with('{') {
        return Err(wrong_type(name, json, right));
    }
    let read = ObjectFields::of("it", json, known).and_then(|fields| read(&fields));
    read.map_err(|problem| Problem { detail: format!("{name}: {}", problem.detail), ..problem })
}

/// Reads the JSON text of the field with that name, which is not null.
pub(crate) type Reader<T> = fn(&str, &str) -> Result<T, Problem>;

/// A string.
pub(crate) fn string(name: &str, json: &str) -> Result<String, Problem> {
    let Some(rest) = json.strip_prefix('"') else { return Err(wrong_type(name, json, "a string")) };
    // Most have nothing escaped, and are taken as they stand.
    let plain = rest.strip_suffix('"').filter(|text| memchr2(b'\\', b'"', text.as_bytes()).is_none());
    match plain {
        Some(plain) => Ok(plain.to_owned()),
        None => serde_json::from_str(json).map_err(|error| Problem::unreadable(format!("{name}: {error}"))),
    }
}

/// True or false.
pub(crate) fn boolean(name: &str, json: &str) -> Result<bool, Problem> {
    match json {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(wrong_type(name, json, "true or false")),
    }
}

/// A report interval: a duration as text. How long it may be is not decided here.
pub(crate) fn report_interval(name: &str, json: &str) -> Result<Duration, Problem> {
    if !json.starts_with('"') {
        return Err(wrong_type(name, json, "a duration such as \"30s\" or \"1h30m\""));
    }
    let text = string(name, json)?;
    base::duration::parse(&text).map_err(|error| {
        Problem::not_allowed("invalid_interval", format!("{name} is {}, which is {error}", quoted(&text)))
    })
}

/// A duration as text, of up to ten years.
pub(crate) fn duration(name: &str, json: &str) -> Result<Duration, Problem> {
    if !json.starts_with('"') {
        return Err(wrong_type(name, json, "a duration such as \"30s\" or \"1h30m\""));
    }
    let text = string(name, json)?;
    base::duration::parse(&text).map_err(|error| {
        Problem::not_allowed("invalid_duration", format!("{name} is {}, which is {error}", quoted(&text)))
    })
}

/// A duration that is not nothing.
pub(crate) fn some_duration(name: &str, json: &str) -> Result<Duration, Problem> {
    not_nothing(name, json, "1ms")
}

/// A duration that is not nothing. If it is, the refusal names the least that the field takes.
pub(crate) fn not_nothing(name: &str, json: &str, least: &str) -> Result<Duration, Problem> {
    let span = duration(name, json)?;
    if span.is_zero() {
        let detail = format!("{name} is {}; it must be at least {least:?}", shown(json));
        return Err(Problem::not_allowed("invalid_duration", detail));
    }
    Ok(span)
}

/// A whole number, 0 included.
pub(crate) fn whole(name: &str, json: &str) -> Result<u64, Problem> {
    whole_within(name, json, &(0..=EXACT_NUMBER_MAX))
}

/// A whole number of this range.
pub(crate) fn whole_within(name: &str, json: &str, range: &RangeInclusive<u64>) -> Result<u64, Problem> {
    let number = any_whole(name, json, range)?;
    if range.contains(&number) { Ok(number) } else { Err(out_of_range(name, json, range)) }
}

/// The same, where a whole number that is out of the range has a refusal of its own.
pub(crate) fn whole_or(
    name: &str,
    json: &str,
    range: &RangeInclusive<u64>,
    refusal: impl FnOnce(String) -> Problem,
) -> Result<u64, Problem> {
    let is_whole = json.strip_prefix('-').unwrap_or(json).bytes().all(|digit| digit.is_ascii_digit());
    whole_within(name, json, range)
        .map_err(|problem| if is_whole { refusal(problem.detail) } else { problem })
}

/// A whole number. Whether it is in the range is not decided here, but the refusal of what is none
/// names that.
pub(crate) fn any_whole(name: &str, json: &str, range: &RangeInclusive<u64>) -> Result<u64, Problem> {
    if !json.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(wrong_type(name, json, "a whole number"));
    }
    json.parse().map_err(|_| out_of_range(name, json, range))
}

/// A whole number of 1 or more that fits into 32 bits.
pub(crate) fn count(name: &str, json: &str) -> Result<u32, Problem> {
    count_naming_most(name, json, u32::MAX)
}

/// The same, of a field that takes up to `most`. More is refused elsewhere; here, only the refusal
/// of what is no count names that.
pub(crate) fn count_naming_most(name: &str, json: &str, most: u32) -> Result<u32, Problem> {
    let range = 1..=u64::from(most);
    let number = any_whole(name, json, &range)?;
    let count = u32::try_from(number).ok().filter(|count| *count > 0);
    count.ok_or_else(|| out_of_range(name, json, &range))
}

fn out_of_range(name: &str, json: &str, range: &RangeInclusive<u64>) -> Problem {
    let (least, most) = (range.start(), range.end());
    let detail = format!("{name} is {}; it must be a whole number, {least} to {most}", shown(json));
    Problem::not_allowed("invalid_number", detail)
}

/// A whole number within bounds.
pub(crate) fn number_between(name: &str, json: &str, least: i8, most: i8) -> Result<i8, Problem> {
    if !json.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(wrong_type(name, json, "a whole number"));
    }
    json.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(|| {
        let detail = format!("{name} is {}; it must be a whole number, {least} to {most}", shown(json));
        Problem::not_allowed("invalid_number", detail)
    })
}

/// A number above 0. The refusal of what is none names the range of the field.
pub(crate) fn positive(name: &str, json: &str, range: &RangeInclusive<f64>) -> Result<f64, Problem> {
    if !json.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(wrong_type(name, json, "a number"));
    }
    json.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        let detail = format!("{name} is {}; it must be {least} to {most}", shown(json));
        Problem::not_allowed("invalid_number", detail)
    })
}

/// The beginning of a number or of a duration, which may be long.
fn shown(number: &str) -> &str {
    const SHOWN_MAX: usize = 40;
    &number[..number.len().min(SHOWN_MAX)]
}

/// A time.
pub(crate) fn time(name: &str, json: &str) -> Result<Timestamp, Problem> {
    const RIGHT: &str = "an RFC 3339 time such as \"2026-11-21T01:02:03.456Z\"";
    if !json.starts_with('"') {
        return Err(wrong_type(name, json, RIGHT));
    }
    let text = string(name, json)?;
    let wrong = || format!("{name} is {}; it must be {RIGHT}", quoted(&text));
    Timestamp::parse(&text).map_err(|_| Problem::not_allowed("invalid_time", wrong()))
}

/// Strings in an array.
pub(crate) fn strings(name: &str, json: &str) -> Result<Vec<String>, Problem> {
    let items: Vec<&RawValue> =
        serde_json::from_str(json).map_err(|_| wrong_type(name, json, "an array of strings"))?;
    items
        .into_iter()
        .zip(1..)
        .map(|(item, place)| string(&format!("{name}, item {place},"), item.get()))
        .collect()
}

/// Members by name, and the JSON text of one more.
pub(crate) type Scalars<'a> = (Vec<(String, String)>, Option<&'a str>);

/// The members of an object whose values are texts, numbers or switches, each as its text. Besides,
/// the JSON text of the member `but`, which may be something else.
pub(crate) fn scalars<'a>(name: &str, json: &'a str, but: &str) -> Result<Scalars<'a>, Problem> {
    let members = object_members(name, json)?;
    let scalar = |(key, value): (String, &RawValue)| {
        let of = format!("{name}.{}", shortened(&key));
        let text = match value.get() {
            json if json.starts_with('"') => string(&of, json)?,
            json if json.starts_with(['{', '[']) || json == "null" => {
                return Err(wrong_type(&of, json, "a string, a number, true or false"));
            }
            json => json.to_owned(),
        };
        Ok((key, text))
    };
    let (other, kept): (Vec<_>, Vec<_>) = members.into_iter().partition(|(key, _)| key == but);
    let scalars = kept.into_iter().map(scalar).collect::<Result<_, _>>()?;
    Ok((scalars, other.first().map(|(_, value)| value.get())))
}

/// The members of an object, each as its JSON text.
pub(crate) fn object_members<'a>(
    name: &str,
    json: &'a str,
) -> Result<BTreeMap<String, &'a RawValue>, Problem> {
    let members = members(json, &|_| true).map_err(|error| unreadable("the body", &error))?;
    let members = members.ok_or_else(|| wrong_type(name, json, "an object"))?;
    match members.left_out {
        None => Ok(members.kept),
        Some(_) => {
            let detail = format!("{name} has over {MEMBERS_MAX} members");
            Err(Problem::not_allowed("too_long", detail))
        }
    }
}

/// Labels as a merge patch names them: an object of strings, null where a label goes.
pub(crate) fn label_changes(name: &str, json: &str) -> Result<Vec<(String, Option<String>)>, Problem> {
    let members = members(json, &|_| true).map_err(|error| unreadable("the body", &error))?;
    let members = members.ok_or_else(|| wrong_type(name, json, "an object of strings"))?;
    if members.left_out.is_some() {
        let detail = format!("{name} has over {MEMBERS_MAX} members; a device may have far fewer labels");
        return Err(Problem::not_allowed("too_many_labels", detail));
    }
    let change = |(key, value): (String, &RawValue)| {
        let value = match value.get() {
            "null" => None,
            json => Some(string(&format!("{name}.{}", shortened(&key)), json)?),
        };
        Ok((key, value))
    };
    members.kept.into_iter().map(change).collect()
}

/// Labels: an object of strings.
pub(crate) fn labels(name: &str, json: &str) -> Result<Vec<(String, String)>, Problem> {
    let label = |(key, value): (String, Option<String>)| match value {
        Some(value) => Ok((key, value)),
        None => Err(wrong_type(&format!("{name}.{}", shortened(&key)), "null", "a string")),
    };
    label_changes(name, json)?.into_iter().map(label).collect()
}

fn shortened(key: &str) -> String {
    quoted(key).replace('"', "")
}

pub(crate) fn wrong_type(name: &str, json: &str, right: &str) -> Problem {
    Problem::not_allowed("wrong_type", format!("{name} is {}; it must be {right}", what(json)))
}

/// What is said of something that is `what` in place of an object.
pub(crate) fn not_an_object(subject: &str, what: &str) -> Problem {
    Problem::not_allowed("not_an_object", format!("{subject} is {what}; it must be an object"))
}

pub(crate) fn unreadable(subject: &str, error: &serde_json::Error) -> Problem {
    Problem::unreadable(format!("{subject} is not JSON that can be read: {error}"))
}

/// The type of a JSON value, in words.
fn what(json: &str) -> &'static str {
    match json.trim_ascii_start().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// Some members of an object.
struct WantedMembers<'a> {
    kept: BTreeMap<String, &'a RawValue>,
    /// The first that was left out, because nobody wants it or because there are too many.
    left_out: Option<String>,
}

/// The members that `wanted` names; `None` if the text is JSON but not an object.
fn members<'a>(
    text: &'a str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Option<WantedMembers<'a>>, serde_json::Error> {
    if !text.trim_ascii_start().starts_with('{') {
        return serde_json::from_str::<IgnoredAny>(text).map(|_| None);
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    let members = MembersOf { wanted }.deserialize(&mut parser)?;
    parser.end()?;
    Ok(Some(members))
}

struct MembersOf<'w> {
    wanted: &'w dyn Fn(&str) -> bool,
}

impl<'de> DeserializeSeed<'de> for MembersOf<'_> {
    type Value = WantedMembers<'de>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<WantedMembers<'de>, D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MembersOf<'_> {
    type Value = WantedMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WantedMembers<'de>, A::Error> {
        let mut members = WantedMembers { kept: BTreeMap::new(), left_out: None };
        while let Some(name) = map.next_key::<String>()? {
            if members.kept.contains_key(&name) {
                return Err(A::Error::custom(format_args!("{} is there twice", quoted(&name))));
            }
            if (self.wanted)(&name) && members.kept.len() < MEMBERS_MAX {
                members.kept.insert(name, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
                members.left_out.get_or_insert(name);
            }
        }
        Ok(members)
    }
}
