//! What a JSON pointer (RFC 6901) leads to, found without building a tree of the rest.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A pointer, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataPointer {
    tokens: Vec<String>,
}

impl DataPointer {
    /// The pointer that a text is; an empty one leads to the whole.
    pub(crate) fn new(text: &str) -> Self {
        let unescaped = |token: &str| token.replace("~1", "/").replace("~0", "~");
        Self { tokens: text.split('/').skip(1).map(unescaped).collect() }
    }

    /// The text of what it leads to in a JSON text; `None` where there is nothing.
    pub(crate) fn pick<'a>(&self, json: &'a str) -> Option<&'a RawValue> {
        Descent(&self.tokens).deserialize(&mut serde_json::Deserializer::from_str(json)).ok()?
    }
}

/// The way that is left, from a value on.
#[derive(Clone, Copy)]
struct Descent<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for Descent<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() {
            return serde::Deserialize::deserialize(from).map(Some);
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Descent<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let Some((wanted, rest)) = self.0.split_first() else { return Ok(None) };
        let mut found = None;
        while let Some(is_wanted) = members.next_key_seed(IsName(wanted))? {
            if is_wanted {
                found = members.next_value_seed(Descent(rest))?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let Some((wanted, rest)) = self.0.split_first() else { return Ok(None) };
        let wanted = index(wanted);
        let (mut found, mut at) = (None, 0);
        loop {
            if Some(at) == wanted {
                let Some(item) = items.next_element_seed(Descent(rest))? else { return Ok(found) };
                found = item;
            } else if items.next_element::<IgnoredAny>()?.is_none() {
                return Ok(found);
            }
            at += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Whether the name of a member is this one.
struct IsName<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for IsName<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for IsName<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// A place in a list: digits without a zero ahead of others.
fn index(token: &str) -> Option<usize> {
    let is_number = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = is_number && (token == "0" || !token.starts_with('0'));
    token.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    #[test]
    fn a_pointer_leads_to_what_it_leads_to_in_a_tree() {
        let texts = [
            r#"{"a":{"b":[1,{"c":"x"},[true,null]],"b/c":2,"~":3,"":4},"é":"\u00e9","n":-1.5e300}"#,
            r#"[[0,1],"two",{"3":3}]"#,
            "\"text\"",
            "true",
            "null",
            "{}",
            "[]",
        ];
        let pointers = [
            "", "/", "/a", "/a/b", "/a/b/0", "/a/b/1/c", "/a/b/2/1", "/a/b/2/2", "/a/b/01", "/a/b/+1",
            "/a/b/-", "/a/b~1c", "/a/~0", "/a/", "/é", "/n", "/n/x", "/0/1", "/1", "/2/3", "/3", "/2/03",
        ];
        for text in texts {
            let tree: Json = serde_json::from_str(text).expect("JSON");
            for pointer in pointers {
                let found = DataPointer::new(pointer).pick(text).map(|found| found.get().to_owned());
                let found = found.map(|found| serde_json::from_str::<Json>(&found).expect("JSON"));
                assert_eq!(found.as_ref(), tree.pointer(pointer), "{pointer} of {text}");
            }
        }
    }

    #[test]
    fn what_is_no_json_leads_nowhere() {
        for text in ["", "{", r#"{"a":}"#, r#"{"a":1"#] {
            assert!(DataPointer::new("/a").pick(text).is_none(), "{text}");
        }
    }
}
