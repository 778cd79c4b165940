//! Reading a selector: the grammar of Kubernetes label selectors, with values that may be quoted.

use std::collections::BTreeSet;

use base::Problem;

use super::{Requirement, Selection, SelectionKey, Test};
use crate::RegistryRefusal;
use crate::id::shown;
use crate::label::is_key;

/// Longest selector, in bytes: it names hundreds of values, and is still read by people.
pub const SELECTOR_BYTES_MAX: usize = 16 * 1_024;

impl Selection {
    /// The selection that a text stands for.
    ///
    /// # Errors
    /// `bad_selector`, with the position of what is wrong, in characters from 0.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        if text.len() > SELECTOR_BYTES_MAX {
            let detail =
                format!("the selector has {} bytes; it may have at most {SELECTOR_BYTES_MAX}", text.len());
            return Err(RegistryRefusal::BadSelector.problem(detail));
        }
        let mut reader = SelectorReader { text, at: 0 };
        let requirements = reader.requirements();
        let requirements = requirements.map_err(|wrong| reader.problem(&wrong))?;
        Ok(Self { requirements })
    }
}

/// What is wrong, and where, in bytes.
struct SelectorFault {
    at: usize,
    what: String,
}

/// A text, and how far it was read, in bytes.
struct SelectorReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> SelectorReader<'a> {
    fn requirements(&mut self) -> Result<Vec<Requirement>, SelectorFault> {
        let mut requirements = Vec::new();
        self.skip_spaces();
        if self.peek().is_none() {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.peek() {
                None => return Ok(requirements),
                Some(',') => self.take(','),
                Some(_) => return Err(self.wrong("expected a comma, or the end")),
            };
            self.skip_spaces();
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorFault> {
        if self.take('!') {
            return Ok(Requirement { key: self.key()?, test: Test::Missing });
        }
        let key = self.key()?;
        let test = match self.peek() {
            None | Some(',') => Test::Exists,
            Some('=') => {
                self.take('=');
                // `==` says the same.
                self.take('=');
                Test::In(BTreeSet::from([self.value(&key)?]))
            }
            Some('!') => {
                self.at += 1;
                if self.peek() != Some('=') {
                    return Err(self.wrong("expected = behind !"));
                }
                self.take('=');
                Test::NotIn(BTreeSet::from([self.value(&key)?]))
            }
            Some(_) => self.one_of_several(&key)?,
        };
        Ok(Requirement { key, test })
    }

    fn key(&mut self) -> Result<SelectionKey, SelectorFault> {
        self.skip_spaces();
        let begin = self.at;
        let name = self.word();
        if !is_key(name) {
            let what = if name.is_empty() {
                "expected a key".to_owned()
            } else {
                format!("{} is no key", shown(name))
            };
            let what = format!("{what}: a label's, or kind, connection, connected, answering or client");
            return Err(SelectorFault { at: begin, what });
        }
        self.skip_spaces();
        Ok(SelectionKey::named(name))
    }

    fn one_of_several(&mut self, key: &SelectionKey) -> Result<Test, SelectorFault> {
        let begin = self.at;
        let make = match self.word() {
            "in" => Test::In,
            "notin" => Test::NotIn,
            _ => {
                return Err(SelectorFault {
                    at: begin,
                    what: "expected =, ==, !=, in, notin or a comma".to_owned(),
                });
            }
        };
        self.skip_spaces();
        if !self.take('(') {
            return Err(self.wrong("expected ( and a list of values"));
        }
        if self.peek() == Some(')') {
            return Err(self.wrong("expected a value"));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value(key)?);
            if self.take(')') {
                return Ok(make(values));
            }
            if !self.take(',') {
                return Err(self.wrong("expected a comma, or ) behind the values"));
            }
        }
    }

    /// A value, plain or quoted. Nothing at all is the empty value.
    fn value(&mut self, key: &SelectionKey) -> Result<Box<str>, SelectorFault> {
        self.skip_spaces();
        let begin = self.at;
        let value = if self.peek() == Some('"') { self.quoted()? } else { self.word().to_owned() };
        self.skip_spaces();
        if let Some(known) = key.values().filter(|known| !known.contains(&&*value)) {
            let what = format!("{} is one of {}, not {}", key.as_str(), known.join(", "), shown(&value));
            return Err(SelectorFault { at: begin, what });
        }
        Ok(value.into())
    }

    fn quoted(&mut self) -> Result<String, SelectorFault> {
        let begin = self.at;
        let mut value = String::new();
        let mut chars = self.text[begin + 1..].char_indices();
        while let Some((at, char)) = chars.next() {
            match char {
                '"' => {
                    self.at = begin + 1 + at + 1;
                    return Ok(value);
                }
                '\\' => match chars.next() {
                    Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                    _ => {
                        let what = "only \\\" and \\\\ are written with a backslash".to_owned();
                        return Err(SelectorFault { at: begin + 1 + at, what });
                    }
                },
                plain => value.push(plain),
            }
        }
        Err(SelectorFault { at: begin, what: "the closing quote is missing".to_owned() })
    }

    /// The characters up to the next that means something.
    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(|char| !is_plain(char)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        if is_there {
            self.at += wanted.len_utf8();
            self.skip_spaces();
        }
        is_there
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn wrong(&self, what: &str) -> SelectorFault {
        SelectorFault { at: self.at, what: what.to_owned() }
    }

    fn problem(&self, wrong: &SelectorFault) -> Problem {
        let position = self.text[..wrong.at].chars().count();
        RegistryRefusal::BadSelector.problem(format!("selector, at character {position}: {}", wrong.what))
    }
}

/// Whether a character may stand in a key or a value without quotes.
fn is_plain(char: char) -> bool {
    !char.is_whitespace() && !char.is_control() && !matches!(char, ',' | '=' | '!' | '(' | ')' | '"' | '\\')
}

/// A value as a selector holds it.
pub(super) fn quoted_if_needed(value: &str) -> String {
    if value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}
