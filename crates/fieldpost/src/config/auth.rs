//! `[[auth.tokens]]` and `[[auth.mqtt]]`: who may call the API, and who may connect over MQTT.
//!
//! What is listed is the SHA-256 of a secret, never the secret. A mistake does not repeat what was
//! written for one: it may be the secret itself, in the wrong place.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use access::{Digest, Login, PickLimits, Scope, Token};
use base::DeviceId;
use base::limits::{LABEL_KEY_CHARS_MAX, LABEL_VALUE_BYTES_MAX};
use engine::records::PickClass;

use super::entry::SectionEntry;
use super::layers::{Given, WrittenValue};
use super::reader::SettingsReader;
use super::shape::{Exposure, Shape, Whole, Word, text};

/// The SHA-256 of no byte at all: what a script makes that could not read the secret.
const OF_NOTHING: [u8; Digest::BYTES] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
    0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];
const PER_SECOND: Whole = Whole { least: 1, most: 1_000_000 };
const IN_FLIGHT: Whole = Whole { least: 1, most: 100_000 };
const PICKS_PER_HOUR: Whole = Whole { least: 1, most: 1_000_000_000 };
const COUNT: Whole = Whole { least: 1, most: 100_000 };
const CLASS: Word<PickClass> = Word(&[
    ("large", PickClass::Large),
    ("enterprise", PickClass::Enterprise),
    ("ordinary", PickClass::Ordinary),
]);
/// Longest MQTT username, in bytes. The protocol takes more, but nobody types as many.
const USERNAME_BYTES_MAX: usize = 256;

/// `[auth]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthSettings {
    /// Who may call the API; anybody if there are none.
    pub tokens: Vec<Token>,
    /// Who may connect over MQTT; anybody if there are none.
    pub logins: Vec<MqttLogin>,
}

/// `[[auth.mqtt]]`
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct MqttLogin {
    /// Unique among the logins.
    pub username: String,
    /// What recognises the password.
    pub password_sha256: [u8; Digest::BYTES],
    /// For which devices it may speak.
    pub login: Login,
}

impl std::fmt::Debug for MqttLogin {
    /// Leaves out what recognises the password: who has it can try passwords against it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MqttLogin")
            .field("username", &self.username)
            .field("login", &self.login)
            .finish_non_exhaustive()
    }
}

/// Reads both lists. A name or a secret that is there twice is a mistake.
pub(super) fn read(from: &mut SettingsReader) -> AuthSettings {
    let mut names = Unique::default();
    let mut secrets = Unique::default();
    let mut tokens = Vec::new();
    for mut entry in from.entries("auth.tokens") {
        let token = token(from, &mut entry);
        if let Some((token, sha256)) = token {
            names.note(from, &entry, "name", token.name.clone(), "another token has that name");
            secrets.note(from, &entry, "sha256", sha256, "another token has that SHA-256");
            tokens.push(token);
        }
        entry.finish(from);
    }
    let mut usernames = Unique::default();
    let mut logins = Vec::new();
    for mut entry in from.entries("auth.mqtt") {
        if let Some(login) = mqtt_login(from, &mut entry) {
            usernames.note(
                from,
                &entry,
                "username",
                login.username.clone(),
                "another login has that username",
            );
            logins.push(login);
        }
        entry.finish(from);
    }
    AuthSettings { tokens, logins }
}

fn token(from: &mut SettingsReader, entry: &mut SectionEntry) -> Option<(Token, [u8; Digest::BYTES])> {
    let name = entry.required(from, "name", &TokenName);
    let sha256 = entry.required(from, "sha256", &Sha256);
    let scopes = scopes(from, entry);
    let limit = |most: u64| u32::try_from(most).ok().and_then(NonZeroU32::new);
    let requests_per_second = entry.optional(from, "requests_per_second", &PER_SECOND).and_then(limit);
    let requests_in_flight = entry.optional(from, "requests_in_flight", &IN_FLIGHT).and_then(limit);
    let picks = PickLimits {
        classes: classes(from, entry),
        picks_per_hour: entry.optional(from, "picks_per_hour", &PICKS_PER_HOUR).and_then(limit),
        count_max: entry.optional(from, "count_max", &COUNT).and_then(limit),
    };
    let (name, sha256, scopes) = (name?, sha256?, scopes?);
    let digest = Digest::from_bytes(sha256);
    Some((Token { name, digest, scopes, requests_per_second, requests_in_flight, picks }, sha256))
}

fn scopes(from: &mut SettingsReader, entry: &mut SectionEntry) -> Option<Vec<Scope>> {
    let right = format!("write a list such as [\"read\"] of {}", Scope::FORMS);
    let Some(given) = entry.take("scopes") else {
        entry.refuse(from, "scopes", "is missing", &right);
        return None;
    };
    list(from, entry, "scopes", given, &ScopeText, right)
}

fn classes(from: &mut SettingsReader, entry: &mut SectionEntry) -> Option<Box<[&'static str]>> {
    let given = entry.take("classes")?;
    let right = format!("write a list such as [\"ordinary\"] of {}", CLASS.right());
    let classes = list(from, entry, "classes", given, &CLASS, right)?;
    Some(classes.into_iter().map(PickClass::as_str).collect())
}

/// The items of a list that has some.
fn list<S: Shape>(
    from: &mut SettingsReader,
    entry: &SectionEntry,
    field: &str,
    given: Given,
    shape: &S,
    right: String,
) -> Option<Vec<S::Value>> {
    let wrong = match given.value {
        WrittenValue::List(items) if !items.is_empty() => {
            // Every one, so that each mistake is told.
            let read: Vec<_> = items.iter().map(|item| entry.parse(from, field, item, shape)).collect();
            return read.into_iter().collect();
        }
        WrittenValue::List(_) => "is empty".to_owned(),
        other => format!("is {}, not a list", other.kind()),
    };
    from.refuse_at(given.origin, &entry.key_of(field), wrong, right);
    None
}

fn mqtt_login(from: &mut SettingsReader, entry: &mut SectionEntry) -> Option<MqttLogin> {
    let username = entry.required(from, "username", &Username);
    let password_sha256 = entry.required(from, "password_sha256", &Sha256);
    let speaks_for = [
        ("device", entry.take("device")),
        ("prefix", entry.take("prefix")),
        ("label", entry.take("label")),
        ("admin", entry.take("admin")),
    ];
    let mut given = speaks_for.into_iter().filter_map(|(field, given)| Some((field, given?)));
    let (first, second) = (given.next(), given.next());
    let login = match (first, second) {
        (Some((field, given)), None) => entry.parse(from, field, &given, &SpeaksFor(field)),
        (first, second) => {
            let wrong = match (first, second) {
                (Some((one, _)), Some((other, _))) => format!("{one} and {other} are both there"),
                _ => "does not say for which devices it speaks".to_owned(),
            };
            let right = "write exactly one of device, prefix, label and admin";
            from.refuse_at(entry.origin.clone(), "auth.mqtt", wrong, right.to_owned());
            None
        }
    };
    Some(MqttLogin { username: username?, password_sha256: password_sha256?, login: login? })
}

/// Values that may be there once.
#[derive(Debug)]
struct Unique<T>(BTreeSet<T>);

impl<T> Default for Unique<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Ord> Unique<T> {
    fn note(&mut self, from: &mut SettingsReader, entry: &SectionEntry, field: &str, value: T, twice: &str) {
        if !self.0.insert(value) {
            entry.refuse(from, field, twice, "write each once");
        }
    }
}

/// What a token is called: in metrics, in refusals, in nothing that needs quoting.
struct TokenName;

impl Shape for TokenName {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = String;

    fn parse(&self, written: &WrittenValue) -> Result<String, String> {
        let name = text(written)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let fits = (1..=64).contains(&name.len()) && name.bytes().all(plain);
        if fits { Ok(name.to_owned()) } else { Err(format!("{name:?} is not a name")) }
    }

    fn right(&self) -> String {
        "1 to 64 letters, digits, '_', '-' and '.'".to_owned()
    }
}

/// What a device says that it is called.
struct Username;

impl Shape for Username {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = String;

    fn parse(&self, written: &WrittenValue) -> Result<String, String> {
        let username = text(written)?;
        let fits = (1..=USERNAME_BYTES_MAX).contains(&username.len());
        if fits { Ok(username.to_owned()) } else { Err(format!("has {} bytes", username.len())) }
    }

    fn right(&self) -> String {
        format!("a text in quotes of 1 to {USERNAME_BYTES_MAX} bytes")
    }
}

/// 64 hexadecimal digits. What was written is not repeated.
struct Sha256;

impl Shape for Sha256 {
    const EXPOSURE: Exposure = Exposure::Hidden;
    type Value = [u8; Digest::BYTES];

    fn parse(&self, written: &WrittenValue) -> Result<Self::Value, String> {
        let Ok(text) = text(written) else {
            return Err(format!("is {}, not a text in quotes", written.kind()));
        };
        match from_hex(text) {
            Some(OF_NOTHING) => Err("is the SHA-256 of nothing at all".to_owned()),
            Some(bytes) => Ok(bytes),
            None => Err("is not the hexadecimal form of a SHA-256".to_owned()),
        }
    }

    fn right(&self) -> String {
        "64 hexadecimal digits, as printf %s SECRET | sha256sum gives them".to_owned()
    }
}

fn from_hex(text: &str) -> Option<[u8; Digest::BYTES]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    rest.is_empty().then(|| bytes.try_into().ok()).flatten()
}

/// One scope.
struct ScopeText;

impl Shape for ScopeText {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = Scope;

    fn parse(&self, written: &WrittenValue) -> Result<Scope, String> {
        let text = text(written)?;
        Scope::parse(text).ok_or_else(|| format!("{text:?} is not a scope"))
    }

    fn right(&self) -> String {
        Scope::FORMS.to_owned()
    }
}

/// For which devices a login speaks, by the field that says so.
struct SpeaksFor(&'static str);

impl Shape for SpeaksFor {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = Login;

    fn parse(&self, written: &WrittenValue) -> Result<Login, String> {
        if self.0 == "admin" {
            let is_on = *written == WrittenValue::Switch(true);
            return if is_on { Ok(Login::Admin) } else { Err(format!("is {written}")) };
        }
        let text = text(written)?;
        let login = match self.0 {
            "device" => DeviceId::new(text).map(Login::Device),
            // What an id may begin with is what an id may be.
            "prefix" => DeviceId::new(text).map(|_| Login::Prefix(text.to_owned())),
            _ => {
                label(text).map(|(key, value)| Login::Label { key: key.to_owned(), value: value.to_owned() })
            }
        };
        let what = match self.0 {
            "device" => "an id",
            "prefix" => "the beginning of an id",
            _ => "a label",
        };
        login.ok_or_else(|| format!("{text:?} is not {what}"))
    }

    fn right(&self) -> String {
        let right = match self.0 {
            "device" => "the id of a device: 1 to 64 letters, digits, '-', '_', '.' and ':'",
            "prefix" => "the beginning of ids of devices: 1 to 64 letters, digits, '-', '_', '.' and ':'",
            "label" => "a label: \"key=value\"",
            _ => "admin = true, or leave it out",
        };
        right.to_owned()
    }
}

/// The two parts of `key=value`, by the rules for labels.
fn label(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-');
    let is_key = key.len() <= LABEL_KEY_CHARS_MAX
        && key.starts_with(|c: char| c.is_ascii_lowercase())
        && key.bytes().all(plain);
    (is_key && value.len() <= LABEL_VALUE_BYTES_MAX).then_some((key, value))
}

#[cfg(test)]
mod tests;
