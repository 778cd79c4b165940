//! Kinds whose devices have topics or messages of a fixed form of their own. Here is which topic
//! means what, what a command looks like, and what an answer says.
//!
//! A topic that a kind has in place of one of the contract's is beside it, but for commands: these
//! go to one topic only.

use std::collections::BTreeMap;
use std::fmt;

use base::{DeviceId, EntityId, Kind, Problem};
use engine::Report;
use engine::commands::COMMAND_ID_PREFIX;

use super::topic::Topic;
use super::{DecodeRules, publish_as};

mod raw;
mod template;

pub use raw::{JsonPointer, RawForm};
pub use template::TopicTemplate;

/// What the settings say of the devices of a kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindTopics {
    /// Where its commands go, in place of `dev/{kind}/{id}`.
    pub down: Option<TopicTemplate>,
    /// Where its devices answer, beside `dev/{kind}/{id}/ack`.
    pub ack: Option<TopicTemplate>,
    /// Where they tell of changed entries, beside `dev/{kind}/{id}/confirmed`.
    pub confirmed: Option<TopicTemplate>,
    /// Where they say that they are alive, beside `dev/{kind}/{id}/heartbeat`.
    pub heartbeat: Option<TopicTemplate>,
    /// Where they report, beside `dev/{kind}/{id}/state`.
    pub state: Option<TopicTemplate>,
    /// How its commands and answers look; as in the contract if `None`.
    pub raw: Option<RawForm>,
}

/// What a topic of a kind is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Down,
    Ack,
    Confirmed,
    Heartbeat,
    State,
}

impl Meaning {
    /// A topic of this meaning that devices publish to.
    fn of<'a>(self, kind: &'a str, device: &'a str) -> Topic<'a> {
        match self {
            Self::Down => Topic::Unknown,
            Self::Ack => Topic::Ack { kind, device },
            Self::Confirmed => Topic::Confirmed { kind, device },
            Self::Heartbeat => Topic::Heartbeat { kind, device },
            Self::State => Topic::State { kind, device },
        }
    }
}

impl KindTopics {
    fn all(&self) -> impl Iterator<Item = (Meaning, &TopicTemplate)> {
        let all = [
            (Meaning::Down, &self.down),
            (Meaning::Ack, &self.ack),
            (Meaning::Confirmed, &self.confirmed),
            (Meaning::Heartbeat, &self.heartbeat),
            (Meaning::State, &self.state),
        ];
        all.into_iter().filter_map(|(meaning, template)| Some((meaning, template.as_ref()?)))
    }
}

/// Two topics of the settings that some text could be both of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicTwice {
    /// The kind of one of them; of the other too, or it is a topic of the contract.
    pub kind: Kind,
    /// Its template.
    pub template: String,
}

impl fmt::Display for TopicTwice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, template } = self;
        write!(f, "the topic {template:?} of kind {kind} would be that of something else too")
    }
}

impl std::error::Error for TopicTwice {}

/// The kinds that have something of their own. Without any, everything is as the contract has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindForms(BTreeMap<Kind, KindTopics>);

impl KindForms {
    /// These kinds.
    ///
    /// # Errors
    /// When a topic would have two meanings.
    pub fn new(kinds: BTreeMap<Kind, KindTopics>) -> Result<Self, TopicTwice> {
        let of_all = || kinds.iter().flat_map(|(kind, topics)| topics.all().map(move |one| (kind, one)));
        for (at, (kind, (meaning, template))) in of_all().enumerate() {
            let is_twice = of_all().skip(at + 1).any(|(_, (_, other))| template.overlaps(other));
            if is_twice || clashes(kind, meaning, template) {
                return Err(TopicTwice { kind: kind.clone(), template: template.to_string() });
            }
        }
        Ok(Self(kinds))
    }

    /// Decodes a publish; see [`super::publish`].
    ///
    /// # Errors
    /// When it cannot be said which device it is from.
    pub fn publish(
        &self,
        topic: &str,
        payload: &[u8],
        id: Option<&str>,
        rules: DecodeRules,
    ) -> Result<Report, Problem> {
        let parsed = self.parse(topic);
        let raw = match parsed {
            Topic::Ack { kind, .. } if !self.0.is_empty() => {
                Kind::new(kind).and_then(|kind| self.0.get(&kind)?.raw.as_ref())
            }
            _ => None,
        };
        publish_as(parsed, topic, (payload, id, rules), |text| match raw {
            Some(raw) => raw.answer(text),
            None => super::answer::answer(text),
        })
    }

    /// Whether a command with this payload can be sent to devices of a kind.
    ///
    /// # Errors
    /// 422 `no_place` when the payload has no place for the command's id where the kind has it.
    pub fn check_payload(&self, kind: &Kind, payload: &[u8]) -> Result<(), Problem> {
        let Some(raw) = self.0.get(kind).and_then(|topics| topics.raw.as_ref()) else { return Ok(()) };
        if raw.has_place(payload) {
            return Ok(());
        }
        let detail = format!(
            "devices of kind {kind} are shown the id of a command at {} of its payload, by the setting \
             kinds.{kind}.id_path; the payload must be an object, and so must what leads there",
            raw.id_path,
        );
        Err(Problem::not_allowed("no_place", detail))
    }

    /// Where a command goes, and what stands there. `None` if its payload has no place for an id.
    pub(crate) fn command(
        &self,
        (kind, device): (&Kind, &DeviceId),
        id: EntityId,
        payload: &[u8],
    ) -> Option<(Box<str>, Box<[u8]>)> {
        let topics = self.0.get(kind);
        let topic = match topics.and_then(|topics| topics.down.as_ref()) {
            Some(down) => down.topic(device),
            None => format!("dev/{}/{}", kind.as_str(), device.as_str()),
        };
        let id = id.to_text(COMMAND_ID_PREFIX);
        let payload = match topics.and_then(|topics| topics.raw.as_ref()) {
            Some(raw) => raw.command(&id, payload)?,
            None => {
                let parts: [&[u8]; 5] =
                    [b"{\"message_id\":\"", id.as_bytes(), b"\",\"payload\":", payload, b"}"];
                parts.concat()
            }
        };
        Some((topic.into(), payload.into()))
    }

    /// The level of a topic or filter where the id of a device stands; `None` too where a filter
    /// covers topics of several devices.
    pub(crate) fn device_level<'a>(&self, topic: &'a str) -> Option<&'a str> {
        let of_contract = topic.strip_prefix("dev/").and_then(|levels| levels.split('/').nth(1));
        if of_contract.is_some() || self.0.is_empty() {
            return of_contract;
        }
        let mut levels =
            self.0.values().flat_map(KindTopics::all).filter_map(|(_, template)| template.id_in(topic));
        let first = levels.next()??;
        // A filter may cover topics of the contract as well.
        let beside = topic.strip_prefix("+/").and_then(|levels| levels.split('/').nth(1));
        (levels.all(|level| level == Some(first)) && beside.is_none_or(|level| level == first))
            .then_some(first)
    }

    /// The kinds whose commands go to topics of the settings.
    pub(crate) fn with_down(&self) -> impl Iterator<Item = &Kind> {
        self.0.iter().filter(|(_, topics)| topics.down.is_some()).map(|(kind, _)| kind)
    }

    /// The kinds whose topics of commands, as the settings have them, a filter covers: each with
    /// the id that the filter names.
    pub(crate) fn covered<'a>(
        &'a self,
        filter: &'a str,
    ) -> impl Iterator<Item = (&'a Kind, Option<&'a str>)> + 'a {
        let downs = self.0.iter().filter_map(|(kind, topics)| Some((kind, topics.down.as_ref()?)));
        downs.filter_map(move |(kind, down)| Some((kind, down.id_in(filter)?)))
    }

    /// Whether a filter covers topics of the settings that devices publish to.
    pub(crate) fn may_match(&self, filter: &str) -> bool {
        let mut templates = self.0.values().flat_map(KindTopics::all);
        templates.any(|(meaning, template)| meaning != Meaning::Down && template.id_in(filter).is_some())
    }

    fn parse<'a>(&'a self, topic: &'a str) -> Topic<'a> {
        let parsed = super::topic::parse(topic);
        if parsed != Topic::Unknown || self.0.is_empty() {
            return parsed;
        }
        let of_kind = |(kind, topics): (&'a Kind, &'a KindTopics)| {
            let of = |(meaning, template): (Meaning, &'a TopicTemplate)| {
                let device = template.device(topic)?;
                Some(meaning.of(kind.as_str(), device))
            };
            topics.all().find_map(of)
        };
        self.0.iter().find_map(of_kind).unwrap_or(Topic::Unknown)
    }
}

/// Whether topics of a template mean something else already: by the contract, or by where the id of
/// a device stands there.
fn clashes(kind: &Kind, meaning: Meaning, template: &TopicTemplate) -> bool {
    let below = format!("dev/{}/", kind.as_str());
    if !template.before().starts_with("dev/") {
        return template.is_of_contract();
    }
    let example = template.example();
    let of_contract = super::topic::parse(&example);
    template.before() != below
        || of_contract != Topic::Unknown && of_contract != meaning.of(kind.as_str(), template::EXAMPLE_ID)
        || template.behind().is_empty() && meaning != Meaning::Down
}

#[cfg(test)]
mod tests;
