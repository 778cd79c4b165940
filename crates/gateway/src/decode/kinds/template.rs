//! A topic with the id of a device in one of its levels: `door/{id}/answer`.

use std::fmt;

use base::DeviceId;

use crate::decode::SENSORS;

const ID: &str = "{id}";
/// The id in an example.
pub(super) const EXAMPLE_ID: &str = "0";
/// Longest template, in bytes: with the longest id it fits into a filter.
const TEMPLATE_BYTES_MAX: usize = 128;

/// The topics of something, one for each device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicTemplate {
    /// What stands before the id.
    before: Box<str>,
    /// What stands behind it.
    behind: Box<str>,
}

impl TopicTemplate {
    /// What a template has to be.
    pub const FORM: &str =
        "a topic of up to 128 bytes without wildcards, with {id} as one of its levels, such as \"door/{id}\"";

    /// The template that is written so, if it is one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = text.len() <= TEMPLATE_BYTES_MAX && !text.starts_with('$');
        let plain = !text.contains(['+', '#', '\0']);
        let (before, behind) = text.split_once(ID)?;
        let is_level = (before.is_empty() || before.ends_with('/'))
            && (behind.is_empty() || behind.starts_with('/'))
            && !behind.contains(ID);
        (fits && plain && is_level).then(|| Self { before: before.into(), behind: behind.into() })
    }

    /// The topic of a device.
    #[must_use]
    pub fn topic(&self, device: &DeviceId) -> String {
        [&*self.before, device.as_str(), &self.behind].concat()
    }

    /// The id in a topic, which need not be that of a device; `None` if it is another topic.
    pub(super) fn device<'a>(&self, topic: &'a str) -> Option<&'a str> {
        let id = topic.strip_prefix(&*self.before)?.strip_suffix(&*self.behind)?;
        (!id.contains('/')).then_some(id)
    }

    /// What a filter has for the id: an id, or `None` for any. `None` if it covers no such topic.
    pub(super) fn id_in<'a>(&self, filter: &'a str) -> Option<Option<&'a str>> {
        let mut wanted = filter.split('/');
        let mut id = None;
        for level in self.levels() {
            match (wanted.next()?, level) {
                ("#", _) => return Some(id),
                ("+", _) => {}
                (named, ID) => id = Some(named),
                (named, level) if named == level => {}
                _ => return None,
            }
        }
        matches!((wanted.next(), wanted.next()), (None | Some("#"), None)).then_some(id)
    }

    /// Whether a topic may be of both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.could_be(other.levels())
    }

    /// Whether a topic may be of this one and of the contract.
    pub(super) fn is_of_contract(&self) -> bool {
        let below = ["state", "heartbeat", "ack", "Ack", "confirmed"];
        self.could_be(std::iter::once(SENSORS))
            || self.could_be(["dev", ID, ID].into_iter())
            || below.iter().any(|last| self.could_be(["dev", ID, ID, last].into_iter()))
    }

    pub(super) fn before(&self) -> &str {
        &self.before
    }

    pub(super) fn behind(&self) -> &str {
        &self.behind
    }

    /// One of its topics, with [`EXAMPLE_ID`].
    pub(super) fn example(&self) -> String {
        [&*self.before, EXAMPLE_ID, &self.behind].concat()
    }

    fn could_be<'a>(&self, levels: impl Iterator<Item = &'a str>) -> bool {
        let mut others = levels;
        let same =
            |level: &str| others.next().is_some_and(|other| other == level || ID == level || ID == other);
        let all_same = self.levels().all(same);
        all_same && others.next().is_none()
    }

    fn levels(&self) -> impl Iterator<Item = &str> {
        let before = self.before.split_terminator('/');
        before.chain([ID]).chain(self.behind.split('/').skip(1))
    }
}

impl fmt::Display for TopicTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{ID}{}", self.before, self.behind)
    }
}
