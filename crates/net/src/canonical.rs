//! JSON in canonical form (RFC 8785), so that equal values have equal bytes.
//!
//! Keys sorted by UTF-16 units, numbers as IEEE doubles in their shortest form (`1.0` is `1`),
//! strings escaped in one way, no space. What RFC 8785 leaves to the reader is refused here:
//! duplicate keys, numbers beyond a double, values too deep or too large. The text is written while
//! it is parsed; no tree is made.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use base::limits::VALUE_BYTES_MAX;
use base::{Problem, Value};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

use crate::problem::quoted;

/// How many arrays and objects may be inside one another. Far more than a device needs, and far
/// below what a reader's stack holds.
pub const VALUE_DEPTH_MAX: usize = 64;

/// Reads one JSON value.
///
/// # Errors
/// `unreadable` (not JSON, a duplicate key), `value_too_large`, `value_too_deep`,
/// `value_not_allowed` (a number beyond a double).
pub fn value(text: &str) -> Result<Value, Problem> {
    value_in(text, text)
}

/// The same for a value that is a piece of a message. Where it is unreadable, the refusal counts
/// from the message's beginning.
///
/// # Errors
/// As [`value`].
pub fn value_in(message: &str, text: &str) -> Result<Value, Problem> {
    match text {
        "0" => Ok(Value::Number(0.0)),
        "1" => Ok(Value::Number(1.0)),
        _ => parse(message, text),
    }
}

fn parse(message: &str, text: &str) -> Result<Value, Problem> {
    let mut writer = CanonicalWriter::default();
    let mut parser = serde_json::Deserializer::from_str(text);
    let parsed = writer.deserialize(&mut parser).and_then(|number| parser.end().map(|()| number));
    match (parsed, writer.refused) {
        (_, Some(refused)) => Err(refused),
        (Err(error), None) => Err(unparsed(&error, message, text)),
        (Ok(None), None) => Ok(Value::from_canonical(&writer.out)),
        (Ok(Some(number)), None) => Value::number(number).ok_or_else(out_of_range),
    }
}

fn unparsed(error: &serde_json::Error, message: &str, text: &str) -> Problem {
    if error.to_string().starts_with("number out of range") {
        out_of_range()
    } else {
        not_json_in(error, message, text)
    }
}

fn out_of_range() -> Problem {
    Problem::not_allowed("value_not_allowed", "a number of the value is beyond an IEEE double")
}

/// Writes what it parses. Every `Deserializer` given to it is one JSON value.
#[derive(Default)]
struct CanonicalWriter {
    out: String,
    depth: usize,
    /// Set before parsing is broken off: serde's errors carry only text.
    refused: Option<Problem>,
}

/// A number at the top is kept as a number; everything else is in `out`.
type Top = Option<f64>;

impl<'de> DeserializeSeed<'de> for &mut CanonicalWriter {
    type Value = Top;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Top, D::Error> {
        parser.deserialize_any(self)
    }
}

impl CanonicalWriter {
    fn refuse<T, E: Error>(&mut self, problem: Problem) -> Result<T, E> {
        self.refused = Some(problem);
        Err(E::custom("refused"))
    }

    fn push<E: Error>(&mut self, text: &str) -> Result<Top, E> {
        if self.out.len() + text.len() > VALUE_BYTES_MAX {
            let detail = format!("the value takes over {VALUE_BYTES_MAX} bytes as compact JSON");
            return self.refuse(Problem::not_allowed("value_too_large", detail));
        }
        self.out.push_str(text);
        Ok(None)
    }

    fn number<E: Error>(&mut self, number: f64) -> Result<Top, E> {
        if self.depth == 0 {
            return Ok(Some(number));
        }
        match Value::number(number) {
            Some(number) => self.push(&number.to_json()),
            None => self.refuse(out_of_range()),
        }
    }

    fn string<E: Error>(&mut self, text: &str) -> Result<Top, E> {
        self.push("\"")?;
        let mut plain_from = 0;
        for (at, byte) in text.bytes().enumerate() {
            if byte >= b' ' && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.push(&text[plain_from..at])?;
            self.escape(byte)?;
            plain_from = at + 1;
        }
        self.push(&text[plain_from..])?;
        self.push("\"")
    }

    fn escape<E: Error>(&mut self, byte: u8) -> Result<Top, E> {
        match byte {
            b'"' => self.push("\\\""),
            b'\\' => self.push("\\\\"),
            0x08 => self.push("\\b"),
            0x09 => self.push("\\t"),
            0x0a => self.push("\\n"),
            0x0c => self.push("\\f"),
            0x0d => self.push("\\r"),
            _ => self.push(&format!("\\u{byte:04x}")),
        }
    }

    fn enter<E: Error>(&mut self, open: &str) -> Result<(), E> {
        self.depth += 1;
        if self.depth > VALUE_DEPTH_MAX {
            let detail = format!("the value is nested deeper than {VALUE_DEPTH_MAX}");
            return self.refuse(Problem::not_allowed("value_too_deep", detail));
        }
        self.push(open).map(|_| ())
    }

    fn leave<E: Error>(&mut self, close: &str) -> Result<Top, E> {
        self.depth -= 1;
        self.push(close)
    }

    /// Puts the members of an object, written one after the other in the order they came, into the
    /// order of their keys.
    fn sort_members<E: Error>(&mut self, mut members: Vec<CanonicalMember<'_>>) -> Result<(), E> {
        if members.is_sorted_by(|a, b| precedes(&a.key, &b.key)) {
            return Ok(());
        }
        members.sort_by(|a, b| a.key.encode_utf16().cmp(b.key.encode_utf16()));
        if let Some(twice) = members.windows(2).find(|pair| pair[0].key == pair[1].key) {
            let detail = format!("the value has the key {} twice", quoted(&twice[0].key));
            return self.refuse(Problem::unreadable(detail));
        }
        let from = members.iter().map(|member| member.written.start).min().unwrap_or(self.out.len());
        let unsorted = self.out.split_off(from);
        for (at, member) in members.iter().enumerate() {
            self.out.push_str(if at == 0 { "" } else { "," });
            self.out.push_str(&unsorted[member.written.start - from..member.written.end - from]);
        }
        Ok(())
    }
}

/// Whether `a` is strictly before `b`; so an object whose members are in this order has no key
/// twice.
fn precedes(a: &str, b: &str) -> bool {
    // Where both are ASCII, bytes are in the order of UTF-16 units.
    if a.is_ascii() && b.is_ascii() { a < b } else { a.encode_utf16().lt(b.encode_utf16()) }
}

/// A member of an object: its key, and where in the output `"key":value` stands.
struct CanonicalMember<'de> {
    key: Cow<'de, str>,
    written: Range<usize>,
}

impl<'de> Visitor<'de> for &mut CanonicalWriter {
    type Value = Top;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Top, E> {
        self.push("null")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Top, E> {
        self.push(if value { "true" } else { "false" })
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Top, E> {
        self.number(value as f64)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Top, E> {
        self.number(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Top, E> {
        self.number(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Top, E> {
        self.string(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Top, A::Error> {
        self.enter("[")?;
        let mut first = true;
        while items.next_element_seed(ArrayItem { writer: &mut *self, first })?.is_some() {
            first = false;
        }
        self.leave("]")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Top, A::Error> {
        self.enter("{")?;
        let mut members = Vec::new();
        while let Some(key) = map.next_key_seed(ObjectKey)? {
            if !members.is_empty() {
                self.push(",")?;
            }
            let start = self.out.len();
            self.string(&key)?;
            self.push(":")?;
            map.next_value_seed(&mut *self)?;
            members.push(CanonicalMember { key, written: start..self.out.len() });
        }
        self.sort_members(members)?;
        self.leave("}")
    }
}

/// An item of an array, with the comma before it.
struct ArrayItem<'a> {
    writer: &'a mut CanonicalWriter,
    first: bool,
}

impl<'de> DeserializeSeed<'de> for ArrayItem<'_> {
    type Value = Top;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Top, D::Error> {
        if !self.first {
            self.writer.push(",")?;
        }
        self.writer.deserialize(parser)
    }
}

/// A key; borrowed unless it has escapes.
struct ObjectKey;

impl<'de> DeserializeSeed<'de> for ObjectKey {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Self::Value, D::Error> {
        parser.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for ObjectKey {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

/// Longest piece of what a JSON parser said that a detail repeats, in characters.
const PARSER_CHARS_MAX: usize = 160;

/// What a JSON parser said of a message. The place is a byte of the message, counted from 1.
#[must_use]
pub fn not_json(error: &serde_json::Error, message: &str) -> Problem {
    not_json_in(error, message, message)
}

/// The same of a piece of a message.
fn not_json_in(error: &serde_json::Error, message: &str, text: &str) -> Problem {
    let said = error.to_string();
    let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
    // It may repeat a string as long as the message.
    let end = what.char_indices().nth(PARSER_CHARS_MAX).map_or(what.len(), |(end, _)| end);
    let (what, dots) = (&what[..end], if end < what.len() { "..." } else { "" });
    let start = (text.as_ptr() as usize).saturating_sub(message.as_ptr() as usize);
    let lines_before = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let at = start + lines_before.map(str::len).sum::<usize>() + error.column();
    Problem::unreadable(format!("not readable JSON at byte {at}: {what}{dots}"))
}
