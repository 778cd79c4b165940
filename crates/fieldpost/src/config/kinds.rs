//! `[kinds.NAME]`: how commands go to devices of one kind, and the topics and messages that its
//! devices have of their own.

use std::collections::BTreeMap;

use base::Kind;
use engine::settings::CommandPace;
use gateway::decode::kinds::{JsonPointer, KindForms, KindTopics, RawForm, TopicTemplate};

use super::commands::{GAP, IN_FLIGHT};
use super::entry::SectionEntry;
use super::mistake::SettingOrigin;
use super::reader::SettingsReader;
use super::shape::{DeviceTopic, Pointer, Scalar, Word};

/// The fields that only a message format of its own has.
const OF_RAW: [&str; 4] = ["id_path", "ack_id_path", "ack_ok_path", "ack_ok_value"];

/// What is said of kinds.
#[derive(Debug, Default)]
pub(super) struct KindSections {
    pub(super) paces: BTreeMap<Kind, CommandPace>,
    pub(super) forms: KindForms,
}

/// A kind takes from `[commands]` what it does not say itself.
pub(super) fn read(from: &mut SettingsReader, pace: CommandPace) -> KindSections {
    let mut paces = BTreeMap::new();
    let mut forms: BTreeMap<Kind, KindTopics> = BTreeMap::new();
    let mut origins: BTreeMap<Kind, SettingOrigin> = BTreeMap::new();
    for (name, mut section) in from.sections_below("kinds") {
        let of_kind = kind_pace(from, &mut section, pace);
        let topics = topics(from, &mut section);
        if let Some(kind) = Kind::new(&name) {
            origins.insert(kind.clone(), section.origin.clone());
            forms.insert(kind.clone(), topics);
            paces.insert(kind, of_kind);
        } else {
            let right = "write a name such as [kinds.face]: a letter, then up to 31 of a-z, 0-9, _ and -";
            section.refuse_name(from, "is not a kind", right);
        }
        section.finish(from);
    }
    forms.retain(|_, topics| *topics != KindTopics::default());
    let forms = KindForms::new(forms).unwrap_or_else(|twice| {
        let origin = origins.remove(&twice.kind).unwrap_or(SettingOrigin::Default);
        let wrong = format!("the topic {:?} has another meaning too", twice.template);
        from.refuse_at(origin, &format!("kinds.{}", twice.kind.as_str()), wrong, "write another".to_owned());
        KindForms::default()
    });
    KindSections { paces, forms }
}

fn kind_pace(from: &mut SettingsReader, section: &mut SectionEntry, pace: CommandPace) -> CommandPace {
    let in_flight = section.optional(from, "in_flight", &IN_FLIGHT);
    CommandPace {
        in_flight: in_flight.map_or(pace.in_flight, |count| count as u32),
        gap: section.optional(from, "gap", &GAP).unwrap_or(pace.gap),
    }
}

fn topics(from: &mut SettingsReader, section: &mut SectionEntry) -> KindTopics {
    let mut topic = |field| -> Option<TopicTemplate> { section.optional(from, field, &DeviceTopic) };
    KindTopics {
        down: topic("down"),
        ack: topic("ack"),
        confirmed: topic("confirmed"),
        heartbeat: topic("heartbeat"),
        state: topic("state"),
        raw: raw(from, section),
    }
}

fn raw(from: &mut SettingsReader, section: &mut SectionEntry) -> Option<RawForm> {
    let Some(envelope) = section.take("envelope") else {
        for field in OF_RAW {
            if let Some(given) = section.take(field) {
                let (wrong, right) = ("is given without an envelope", "write envelope = \"raw\" too");
                from.refuse_at(given.origin, &section.key_of(field), wrong.to_owned(), right.to_owned());
            }
        }
        return None;
    };
    if section.parse(from, "envelope", &envelope, &Word(&[("raw", ())])).is_none() {
        // What is wrong with it is told; what it would have needed need not be.
        OF_RAW.into_iter().for_each(|field| drop(section.take(field)));
        return None;
    }
    let mut pointer = |field| -> Option<JsonPointer> { section.required(from, field, &Pointer) };
    let [id_path, ack_id_path, ack_ok_path] = ["id_path", "ack_id_path", "ack_ok_path"].map(&mut pointer);
    let ack_ok_value = section.required(from, "ack_ok_value", &Scalar);
    Some(RawForm {
        id_path: id_path?,
        ack_id_path: ack_id_path?,
        ack_ok_path: ack_ok_path?,
        ack_ok_value: ack_ok_value?,
    })
}
