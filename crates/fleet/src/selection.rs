//! Selections: which devices are meant, by labels and by what is known of a device.
//!
//! The text is that of Kubernetes label selectors, and `place` is short for some of them. A
//! selection is parsed once and asked of one device after the other; looking devices up happens
//! elsewhere.

mod parse;
mod place;

use std::collections::BTreeSet;
use std::fmt;

use base::Problem;
use records::Connection;

use crate::RegistryRefusal;
use crate::label::is_key;

pub use parse::SELECTOR_BYTES_MAX;
pub use place::{PLACE_BYTES_MAX, place};

/// Which devices are meant: those that meet every requirement. Without any, all are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    requirements: Vec<Requirement>,
}

/// What a device has to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// What is looked at.
    pub key: SelectionKey,
    /// What it has to be.
    pub test: Test,
}

/// What a requirement looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionKey {
    /// The kind.
    Kind,
    /// Whether the device is heard of: `online`, `lost`, `never_seen`.
    Connection,
    /// Whether a session of the device lives: `true`, `false`.
    Connected,
    /// Whether the device answers what it is asked: `true`, or `false` while it is set aside for
    /// being mute.
    Answering,
    /// The clients that the device is linked to.
    Client,
    /// A label.
    Label(Box<str>),
}

/// What a key has to be. A device without the key passes `NotIn`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// One of these.
    In(BTreeSet<Box<str>>),
    /// None of these.
    NotIn(BTreeSet<Box<str>>),
    /// Present.
    Exists,
    /// Absent.
    Missing,
}

/// A device as selections see it.
#[derive(Clone, Copy)]
pub struct Selectable<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// Its labels.
    pub labels: &'a [(String, String)],
    /// Whether it is heard of.
    pub connection: Connection,
    /// Whether a session of its own lives.
    pub connected: bool,
    /// Whether it answers what it is asked.
    pub answering: bool,
    /// The ids of the clients that it is linked to.
    pub clients: &'a [&'a str],
}

impl FromIterator<Requirement> for Selection {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        Self { requirements: requirements.into_iter().collect() }
    }
}

impl Selection {
    /// The devices that both mean.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.requirements.extend(other.requirements);
        self
    }

    /// Refuses a selection that cannot be kept: its text is kept, and has to mean the same.
    ///
    /// # Errors
    /// `bad_selector` if the text is too long, or `bad_place` if it means something else.
    pub fn check_kept(&self) -> Result<(), Problem> {
        let read = Self::parse(&self.to_string()).map_err(|problem| Problem {
            detail: format!("selector and place, written out together: {}", problem.detail),
            ..problem
        })?;
        if read != *self {
            let detail = "a label of the setting [fleet] place is named like a built-in key: kind, connection, \
                          connected, answering or client";
            return Err(RegistryRefusal::BadPlace.problem(detail));
        }
        Ok(())
    }

    /// What a device has to be like.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether the clients of a device decide.
    #[must_use]
    pub fn asks_for_clients(&self) -> bool {
        self.requirements.iter().any(|requirement| requirement.key == SelectionKey::Client)
    }

    /// Whether the device is meant.
    #[must_use]
    pub fn matches(&self, device: Selectable<'_>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(device))
    }
}

impl Requirement {
    fn holds(&self, device: Selectable<'_>) -> bool {
        let one = |value: &str| self.test.holds(std::iter::once(value));
        match &self.key {
            SelectionKey::Kind => one(device.kind),
            SelectionKey::Connection => one(device.connection.as_str()),
            SelectionKey::Connected => one(truth(device.connected)),
            SelectionKey::Answering => one(truth(device.answering)),
            SelectionKey::Client => self.test.holds(device.clients.iter().copied()),
            SelectionKey::Label(key) => {
                let label = device.labels.iter().find(|(label, _)| **label == **key);
                self.test.holds(label.iter().map(|(_, value)| value.as_str()))
            }
        }
    }
}

impl Test {
    /// Whether a key with these values passes.
    fn holds<'a>(&self, mut values: impl Iterator<Item = &'a str>) -> bool {
        match self {
            Self::In(wanted) => values.any(|value| wanted.contains(value)),
            Self::NotIn(unwanted) => !values.any(|value| unwanted.contains(value)),
            Self::Exists => values.next().is_some(),
            Self::Missing => values.next().is_none(),
        }
    }
}

/// How a selection writes yes and no.
#[must_use]
pub fn truth(is: bool) -> &'static str {
    if is { "true" } else { "false" }
}

impl SelectionKey {
    /// The key that a text names; `None` if it can be neither a label's nor a built-in one.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        is_key(text).then(|| Self::named(text))
    }

    /// The key of that name: a built-in one, else a label's.
    fn named(name: &str) -> Self {
        match name {
            "kind" => Self::Kind,
            "connection" => Self::Connection,
            "connected" => Self::Connected,
            "answering" => Self::Answering,
            "client" => Self::Client,
            label => Self::Label(label.into()),
        }
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Kind => "kind",
            Self::Connection => "connection",
            Self::Connected => "connected",
            Self::Answering => "answering",
            Self::Client => "client",
            Self::Label(key) => key,
        }
    }

    /// The values that the key can have, where these are few.
    fn values(&self) -> Option<&'static [&'static str]> {
        match self {
            Self::Connection => Some(&["online", "lost", "never_seen"]),
            Self::Connected | Self::Answering => Some(&["true", "false"]),
            Self::Kind | Self::Client | Self::Label(_) => None,
        }
    }
}

/// The text that [`Selection::parse`] reads the same selection from.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_str();
        let (single, several, values) = match &self.test {
            Test::Exists => return f.write_str(key),
            Test::Missing => return write!(f, "!{key}"),
            Test::In(values) => ("=", "in", values),
            Test::NotIn(values) => ("!=", "notin", values),
        };
        let texts: Vec<String> = values.iter().map(|value| parse::quoted_if_needed(value)).collect();
        match &*texts {
            [one] => write!(f, "{key}{single}{one}"),
            many => write!(f, "{key} {several} ({})", many.join(",")),
        }
    }
}

#[cfg(test)]
mod tests;
