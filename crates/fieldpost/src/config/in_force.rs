//! The settings in force, as they may be shown: without secrets.
//!
//! Each setting is read by a form, and the form says whether its value is a secret ([`Exposure`]).
//! A new setting is hidden until somebody has decided.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::layers::{Layers, WrittenValue};
use super::shape::Exposure;

/// What stands in place of a secret.
const HIDDEN: &str = "(hidden)";
/// The section of keys that stand before the first one.
const TOP: &str = "server";

/// The settings by section and key.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InForce(Json);

impl InForce {
    /// Those of the highest layer that has each.
    pub(super) fn of(layers: &Layers, exposures: &BTreeMap<String, Exposure>) -> Self {
        let mut sections: BTreeMap<&str, Map<String, Json>> = BTreeMap::new();
        for (key, givens) in &layers.by_key {
            let Some(given) = givens.last() else { continue };
            let (section, name) = key.split_once('.').unwrap_or((TOP, key));
            let shown = shown(key, &given.value, exposures);
            sections.entry(section).or_default().insert(name.to_owned(), shown);
        }
        let sections = sections.into_iter().map(|(name, keys)| (name.to_owned(), Json::Object(keys)));
        Self(Json::Object(sections.collect()))
    }

    /// As JSON.
    pub(crate) fn json(&self) -> &Json {
        &self.0
    }
}

fn shown(key: &str, written: &WrittenValue, exposures: &BTreeMap<String, Exposure>) -> Json {
    let is_shown = exposures.get(key) == Some(&Exposure::Shown);
    match written {
        WrittenValue::Table(fields) => {
            let field = |name: &str| format!("{key}.{name}");
            let fields = fields
                .iter()
                .map(|(name, given)| (name.clone(), shown(&field(name), &given.value, exposures)));
            Json::Object(fields.collect())
        }
        WrittenValue::List(items) => items.iter().map(|item| shown(key, &item.value, exposures)).collect(),
        // That nothing is there is no secret.
        WrittenValue::Text(text) if text.is_empty() => Json::from(""),
        WrittenValue::Untyped(text) if text.is_empty() => Json::from(""),
        _ if !is_shown => Json::from(HIDDEN),
        WrittenValue::Text(text) => Json::from(text.as_str()),
        WrittenValue::Whole(number) => Json::from(*number),
        WrittenValue::Switch(on) => Json::from(*on),
        WrittenValue::Other(what) => Json::from(*what),
        WrittenValue::Untyped(text) => Json::from(text.to_string_lossy()),
    }
}
