//! What was written where: every layer flattened to dotted keys, each value with its origin.
//!
//! This module knows TOML and variables, but neither types nor ranges. Where a layer cannot be read
//! at all, or names a section that does not exist, that is noted as a mistake. The rest goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::{Mistake, SettingOrigin};

const DEFAULTS: &str = include_str!("default.toml");
/// Sections that have no key in the default file, because they are empty by default.
const EMPTY_BY_DEFAULT: [&str; 2] = ["auth", "kinds"];
/// A list of sections, each written as `[[storages]]`.
const LIST_OF_SECTIONS: &str = "storages";
const PREFIX: &str = "FIELDPOST_";
/// Variables that the command line reads in place of flags. One shell may have them for its
/// commands and a server too, so they are no settings, whatever keys they resemble.
const OF_COMMAND_LINE: [&str; 5] = ["CA", "PASSWORD", "RELAY_DATABASE", "TOKEN", "URL"];

/// A value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WrittenValue {
    Text(String),
    Whole(i64),
    Switch(bool),
    List(Vec<Given>),
    Table(Vec<(String, Given)>),
    /// Something that no setting is, by name: "a date".
    Other(&'static str),
    /// Of a variable or flag, where every value is a text.
    Untyped(OsString),
}

impl WrittenValue {
    /// What sort of value it is, for where the value itself is not to be shown.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Untyped(_) => "a text",
            Self::Whole(_) => "a number",
            Self::Switch(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a section",
            Self::Other(what) => what,
        }
    }
}

impl fmt::Display for WrittenValue {
    /// As a file would write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Switch(on) => write!(f, "{on}"),
            Self::List(_) => write!(f, "a list"),
            Self::Table(_) => write!(f, "a section"),
            Self::Other(what) => write!(f, "{what}"),
            Self::Untyped(text) => write!(f, "{}", text.display()),
        }
    }
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) value: WrittenValue,
    pub(super) origin: SettingOrigin,
}

/// All layers: of each key what was written for it, the lowest layer first.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) by_key: BTreeMap<String, Vec<Given>>,
    pub(super) sections: BTreeSet<String>,
    pub(super) mistakes: Vec<Mistake>,
}

impl Layers {
    /// The lowest layer: the default file.
    pub(super) fn of_defaults() -> Self {
        let mut layers = Self {
            by_key: BTreeMap::new(),
            sections: EMPTY_BY_DEFAULT.map(str::to_owned).into(),
            mistakes: Vec::new(),
        };
        let root = DeTable::parse(DEFAULTS).expect("the default file is TOML, and every test reads it");
        for (name, value) in root.get_ref() {
            if value.get_ref().is_table() {
                layers.sections.insert(name.get_ref().to_string());
            }
        }
        layers.add_table(root.get_ref(), &|_| SettingOrigin::Default);
        layers
    }

    /// The layer of a file.
    pub(super) fn add_file(&mut self, path: &Path) {
        match std::fs::read_to_string(path) {
            Ok(text) => self.add_text(path, &text),
            Err(error) => self.note(
                SettingOrigin::WholeFile(path.to_owned()),
                "",
                format!("cannot be read: {error}"),
                "name a TOML file in UTF-8 that this user may read".to_owned(),
            ),
        }
    }

    /// The layer of a file's text.
    pub(super) fn add_text(&mut self, path: &Path, text: &str) {
        let origin = |span: Range<usize>| {
            let (line, column) = position(text, span.start);
            SettingOrigin::File { path: path.to_owned(), line, column }
        };
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let wrong = format!("not TOML: {}", error.message().trim().replace('\n', ", "));
            // Of a few mistakes the parser does not say where they are.
            let place = error.span().map_or_else(|| SettingOrigin::WholeFile(path.to_owned()), origin);
            self.note(place, "", wrong, "key = value below [section]".to_owned());
        }
        if errors.is_empty() {
            self.add_table(root.get_ref(), &origin);
        }
    }

    fn add_table(&mut self, root: &DeTable<'_>, origin: &dyn Fn(Range<usize>) -> SettingOrigin) {
        for (name, value) in root {
            match value.get_ref() {
                DeValue::Table(section) if name.get_ref() != LIST_OF_SECTIONS => {
                    self.add_section(name, section, origin);
                }
                _ => self.add(name.get_ref().to_string(), written(value, origin), origin(name.span())),
            }
        }
    }

    fn add_section(
        &mut self,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        section: &DeTable<'_>,
        origin: &dyn Fn(Range<usize>) -> SettingOrigin,
    ) {
        let section_name = name.get_ref().as_ref();
        if !self.sections.contains(section_name) {
            let sections = self.sections.iter().map(String::as_str);
            let right = match nearest(section_name, sections.chain([LIST_OF_SECTIONS])) {
                Some(LIST_OF_SECTIONS) => format!("did you mean [[{LIST_OF_SECTIONS}]]?"),
                Some(near) => format!("did you mean [{near}]?"),
                None => format!("the sections are {} and [[{LIST_OF_SECTIONS}]]", join(&self.sections)),
            };
            self.note(origin(name.span()), section_name, "unknown section".to_owned(), right);
            return;
        }
        for (key, value) in section {
            self.add(format!("{section_name}.{}", key.get_ref()), written(value, origin), origin(key.span()));
        }
    }

    /// The layer of the variables.
    pub(super) fn add_variables(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        for (name, value) in variables {
            let Some(name) = name.to_str() else { continue };
            let Some(setting) = name.strip_prefix(PREFIX) else { continue };
            if OF_COMMAND_LINE.contains(&setting) {
                continue;
            }
            let origin = SettingOrigin::Variable(name.to_owned());
            if setting.starts_with('_') {
                let (key, right) = self.meant_with_one_behind_prefix(setting.trim_start_matches('_'));
                self.note(origin, &key, "has two underscores behind FIELDPOST".to_owned(), right);
            } else if let Some(key) = key_of_variable(setting) {
                self.add(key, WrittenValue::Untyped(value), origin);
            } else if let Some((key, variable)) = self.meant_with_one_underscore(setting) {
                let wrong = "has one underscore between section and key, so it would be ignored";
                self.note(origin, &key, wrong.to_owned(), format!("write {variable}, with two"));
            }
        }
    }

    /// The key that a variable's name would be with two underscores behind its section, and that
    /// right name.
    fn meant_with_one_underscore(&self, name: &str) -> Option<(String, String)> {
        let meant = |key: &&String| {
            let (section, field) = key.split_once('.')?;
            let (section, field) = (section.to_ascii_uppercase(), field.to_ascii_uppercase());
            let is_meant = name.eq_ignore_ascii_case(&format!("{section}_{field}"));
            is_meant.then(|| format!("{PREFIX}{section}__{field}"))
        };
        self.known_keys().find_map(|key| Some((key.clone(), meant(&key)?)))
    }

    /// The key that a variable's name would be with one underscore behind the prefix, and what to
    /// write.
    fn meant_with_one_behind_prefix(&self, name: &str) -> (String, String) {
        let written = key_of_variable(name).filter(|key| self.known_keys().any(|known| known == key));
        let written = written.map(|key| (key, format!("{PREFIX}{name}")));
        match written.or_else(|| self.meant_with_one_underscore(name)) {
            Some((key, variable)) => (key, format!("write {variable}")),
            None => {
                let form = format!("write {PREFIX}<SECTION>__<KEY>, such as {PREFIX}HTTP__LISTEN");
                (String::new(), form)
            }
        }
    }

    /// Unknown keys of the file are among all keys too, but no variable is right for them.
    fn known_keys(&self) -> impl Iterator<Item = &String> {
        let known = self.by_key.iter().filter(|(_, given)| given[0].origin == SettingOrigin::Default);
        known.map(|(key, _)| key)
    }

    /// The highest layer.
    pub(super) fn add_data_dir_flag(&mut self, directory: &Path) {
        let value = WrittenValue::Untyped(directory.as_os_str().to_owned());
        self.add("data_dir".to_owned(), value, SettingOrigin::Flag("--data-dir"));
    }

    fn add(&mut self, key: String, value: WrittenValue, origin: SettingOrigin) {
        self.by_key.entry(key).or_default().push(Given { value, origin });
    }

    fn note(&mut self, origin: SettingOrigin, key: &str, wrong: String, right: String) {
        self.mistakes.push(Mistake { origin, key: key.to_owned(), wrong, right });
    }
}

/// `HTTP__LISTEN` is `http.listen`; only `DATA_DIR` does without a section, and other names are not
/// settings.
///
/// What is not upper case stays as it is, and no key is found under it.
fn key_of_variable(name: &str) -> Option<String> {
    if name == "DATA_DIR" {
        return Some("data_dir".to_owned());
    }
    let (section, key) = name.split_once("__")?;
    let lower_case = name.contains(|c: char| c.is_ascii_lowercase());
    Some(if lower_case { name.to_owned() } else { format!("{section}.{key}").to_ascii_lowercase() })
}

fn written(value: &Spanned<DeValue<'_>>, origin: &dyn Fn(Range<usize>) -> SettingOrigin) -> WrittenValue {
    let given =
        |value: &Spanned<DeValue<'_>>, span| Given { value: written(value, origin), origin: origin(span) };
    match value.get_ref() {
        DeValue::String(text) => WrittenValue::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(WrittenValue::Other("a number that is far too large"), WrittenValue::Whole),
        DeValue::Float(_) => WrittenValue::Other("a number with a fraction"),
        DeValue::Boolean(on) => WrittenValue::Switch(*on),
        DeValue::Datetime(_) => WrittenValue::Other("a date"),
        DeValue::Array(items) => {
            WrittenValue::List(items.iter().map(|item| given(item, item.span())).collect())
        }
        DeValue::Table(fields) => {
            let fields = fields.iter();
            WrittenValue::Table(
                fields.map(|(key, value)| (key.get_ref().to_string(), given(value, key.span()))).collect(),
            )
        }
    }
}

/// Line and column of a byte, both counted from 1, the column in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The known name that was probably meant.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LIKENESS_MIN: f64 = 0.6;
    known
        .map(|candidate| (strsim::normalized_damerau_levenshtein(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

fn join(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
