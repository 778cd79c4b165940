//! Reads keys out of the layers by their shape, and collects every mistake on the way instead of
//! stopping at the first.
//!
//! A value that is wrong is noted and the layer below it is used, so that reading always goes on to
//! the end. The default file, at the bottom, is right by test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::entry::SectionEntry;
use super::in_force::InForce;
use super::layers::{Given, Layers, WrittenValue, nearest};
use super::mistake::{ConfigErrors, Mistake, SettingOrigin};
use super::secret_file::{self, SecretFile};
use super::shape::{Exposure, Shape};

/// A value that was read, and where it came from.
#[derive(Debug)]
pub(super) struct ReadValue<T> {
    pub(super) value: T,
    pub(super) origin: SettingOrigin,
}

/// The layers while they are read.
#[derive(Debug)]
pub(super) struct SettingsReader {
    layers: Layers,
    known: BTreeSet<String>,
    exposures: BTreeMap<String, Exposure>,
    mistakes: Vec<Mistake>,
    /// Files with secrets, each with the place and the key that name it.
    secrets: Vec<(SettingOrigin, String, PathBuf)>,
}

impl SettingsReader {
    pub(super) fn new(mut layers: Layers) -> Self {
        let mistakes = std::mem::take(&mut layers.mistakes);
        Self { layers, known: BTreeSet::new(), exposures: BTreeMap::new(), mistakes, secrets: Vec::new() }
    }

    /// The value of the highest layer that has a right one; every wrong one is a mistake.
    pub(super) fn read<S: Shape>(&mut self, key: &'static str, shape: &S) -> ReadValue<S::Value> {
        let mut found: Option<ReadValue<S::Value>> = None;
        for given in self.layers.by_key.get(key).into_iter().flatten() {
            match shape.parse(&given.value) {
                Ok(value) => found = Some(ReadValue { value, origin: given.origin.clone() }),
                Err(wrong) => self.mistakes.push(Mistake {
                    origin: given.origin.clone(),
                    key: key.to_owned(),
                    wrong,
                    right: format!("write {}", shape.right()),
                }),
            }
        }
        self.known.insert(key.to_owned());
        self.note_exposure(key, S::EXPOSURE);
        found.expect("the default file has a right value for every key, and every test reads it")
    }

    /// Whether a list has entries, right or wrong.
    pub(super) fn has_entries(&self, key: &str) -> bool {
        let given = self.layers.by_key.get(key).into_iter().flatten();
        given
            .map(|given| &given.value)
            .any(|value| matches!(value, WrittenValue::List(items) if !items.is_empty()))
    }

    /// The entries of `[[section.key]]`, each with its fields.
    pub(super) fn entries(&mut self, key: &'static str) -> Vec<SectionEntry> {
        self.known.insert(key.to_owned());
        let mut entries = Vec::new();
        for given in self.layers.by_key.get(key).cloned().unwrap_or_default() {
            match given.value {
                WrittenValue::List(items) => {
                    entries = items.into_iter().filter_map(|item| self.entry(key, item)).collect();
                }
                WrittenValue::Untyped(_) => {
                    let right = format!("write [[{key}]] in a file");
                    self.refuse_at(
                        given.origin,
                        key,
                        "is a list, which no variable can hold".to_owned(),
                        right,
                    );
                }
                other => {
                    let wrong = format!("is {}, not a list of sections", other.kind());
                    self.refuse_at(given.origin, key, wrong, format!("write [[{key}]]"));
                }
            }
        }
        entries
    }

    fn entry(&mut self, key: &'static str, given: Given) -> Option<SectionEntry> {
        match given.value {
            WrittenValue::Table(fields) => {
                Some(SectionEntry::new(key.to_owned(), format!("[[{key}]]"), given.origin, fields))
            }
            other => {
                let wrong = format!("is a list with {} in it", other.kind());
                self.refuse_at(given.origin, key, wrong, format!("write [[{key}]] above each entry"));
                None
            }
        }
    }

    /// The sections `[section.NAME]` of a file, each with its name and fields.
    pub(super) fn sections_below(&mut self, section: &str) -> Vec<(String, SectionEntry)> {
        let prefix = format!("{section}.");
        let below = self.layers.by_key.iter().filter(|(key, _)| key.starts_with(&prefix));
        let below: Vec<_> = below.map(|(key, givens)| (key.clone(), givens.clone())).collect();
        let mut sections = Vec::new();
        for (key, givens) in below {
            self.known.insert(key.clone());
            for Given { value, origin } in givens {
                let wrong = match value {
                    WrittenValue::Table(fields) => {
                        let heading = format!("[{key}]");
                        let name = key[prefix.len()..].to_owned();
                        sections.push((name, SectionEntry::new(key.clone(), heading, origin, fields)));
                        continue;
                    }
                    WrittenValue::Untyped(_) => "is a section, which no variable can hold".to_owned(),
                    other => format!("is {}, not a section", other.kind()),
                };
                self.refuse_at(origin, &key, wrong, format!("write [{key}] in a file"));
            }
        }
        sections
    }

    /// Notes whether the values of a key may be shown. Of a key that nobody notes none is.
    pub(super) fn note_exposure(&mut self, key: &str, exposure: Exposure) {
        self.exposures.insert(key.to_owned(), exposure);
    }

    /// The settings in force as they may be shown, once all are read.
    pub(super) fn in_force(&self) -> InForce {
        InForce::of(&self.layers, &self.exposures)
    }

    /// Notes a mistake at the place where a key was last written.
    pub(super) fn refuse(&mut self, key: &'static str, wrong: &str, right: &str) {
        let last = self.layers.by_key.get(key).and_then(|givens| givens.last());
        let origin = last.map_or(SettingOrigin::Default, |given| given.origin.clone());
        self.refuse_at(origin, key, wrong.to_owned(), right.to_owned());
    }

    /// Notes a mistake at a place.
    pub(super) fn refuse_at(&mut self, origin: SettingOrigin, key: &str, wrong: String, right: String) {
        self.mistakes.push(Mistake { origin, key: key.to_owned(), wrong, right });
    }

    /// Notes that a key names a file with a secret, which is looked at when everything is read.
    pub(super) fn note_secret(&mut self, named_at: Option<SettingOrigin>, key: &str, file: Option<&Path>) {
        let named = named_at.zip(file);
        self.secrets.extend(named.map(|(origin, file)| (origin, key.to_owned(), file.to_owned())));
    }

    /// A file whose secret cannot be read is a mistake where it is named.
    pub(super) fn look_at_secrets(&mut self) {
        for (origin, key, file) in std::mem::take(&mut self.secrets) {
            if let Err(wrong) = secret_file::check(&file) {
                self.refuse_at(origin, &key, wrong, format!("write {}", SecretFile.right()));
            }
        }
    }

    /// The settings, if neither they nor any key that nobody asked for is a mistake.
    pub(super) fn finish(
        mut self,
        settings: super::ServerSettings,
    ) -> Result<super::ServerSettings, ConfigErrors> {
        self.refuse_unknown_keys();
        ConfigErrors::of(self.mistakes).map_or(Ok(settings), Err)
    }

    fn refuse_unknown_keys(&mut self) {
        let unknown = self.layers.by_key.iter().filter(|(key, _)| !self.known.contains(*key));
        let found: Vec<_> = unknown
            .flat_map(|(key, givens)| {
                let right = self.instead_of(key);
                givens.iter().map(move |given| Mistake {
                    origin: given.origin.clone(),
                    key: key.clone(),
                    wrong: "unknown key".to_owned(),
                    right: right.clone(),
                })
            })
            .collect();
        self.mistakes.extend(found);
    }

    fn instead_of(&self, key: &str) -> String {
        if self.layers.sections.contains(key) {
            return format!("it is a section: write [{key}]");
        }
        if key.ends_with(".data_dir") {
            return "data_dir stands before the first [section]".to_owned();
        }
        match nearest(key, self.known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None => "the commented default file lists every key".to_owned(),
        }
    }
}
