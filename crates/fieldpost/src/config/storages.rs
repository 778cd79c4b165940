//! `[[storages]]`: where blocks of streams may go, beside the data directory. Files of secrets are
//! named here, and read when the server starts.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ::storages::{S3Settings, check_postgres_url};

use super::entry::Entry;
use super::reader::Reader;
use super::shape::{Directory, Exposure, Shape, Word, text};

/// Most storages: each has a worker.
const STORAGES_MAX: usize = 16;
const KIND: Word<KindWord> =
    Word(&[("disk", KindWord::Disk), ("s3", KindWord::S3), ("postgres", KindWord::Postgres)]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KindWord {
    Disk,
    S3,
    Postgres,
}

/// An entry of `[[storages]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorageEntry {
    /// Unique, and not `local`.
    pub name: String,
    /// What it is.
    pub kind: StorageEntryKind,
}

/// What a storage is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StorageEntryKind {
    /// A folder.
    Disk(PathBuf),
    /// A bucket, and the file with the secret of its key.
    S3(S3Settings, PathBuf),
    /// A database, and the file with its password, if the URL has none.
    Postgres(HiddenUrl, Option<PathBuf>),
}

/// A URL that may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HiddenUrl(pub String);

impl std::fmt::Debug for HiddenUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Reads the list. A name that is there twice is a mistake.
pub(super) fn read(from: &mut Reader) -> Vec<StorageEntry> {
    let (mut all, mut names) = (Vec::new(), BTreeSet::new());
    for mut entry in from.entries("storages") {
        let name = entry.required(from, "name", &StorageName);
        let kind = entry.required(from, "kind", &KIND).and_then(|kind| read_kind(from, &mut entry, kind));
        if let Some(name) = &name
            && !names.insert(name.clone())
        {
            entry.refuse(from, "name", "is that of another storage too", "each storage needs its own name");
        }
        if let (Some(name), Some(kind)) = (name, kind) {
            all.push(StorageEntry { name, kind });
        }
        entry.finish(from);
    }
    if all.len() > STORAGES_MAX {
        let wrong = format!("has {} entries", all.len());
        from.refuse("storages", &wrong, &format!("up to {STORAGES_MAX} storages are possible"));
    }
    all
}

fn read_kind(from: &mut Reader, entry: &mut Entry, kind: KindWord) -> Option<StorageEntryKind> {
    match kind {
        KindWord::Disk => entry.required(from, "path", &Directory).map(StorageEntryKind::Disk),
        KindWord::S3 => {
            let url = entry.required(from, "url", &PlainText);
            let access_key = entry.required(from, "access_key", &PlainText);
            let file = entry.required(from, "secret_key_file", &SecretFile);
            let settings = S3Settings {
                url: url?,
                endpoint: entry.optional(from, "endpoint", &PlainText),
                region: entry.optional(from, "region", &PlainText),
                access_key,
                // What the file has is not looked at here.
                secret_key: Some(String::new()),
            };
            let (access_key, file) = (settings.access_key.as_ref(), file?);
            access_key?;
            if let Err(wrong) = settings.check() {
                entry.refuse(from, "url", "makes no sense with what stands beside it", &wrong);
                return None;
            }
            Some(StorageEntryKind::S3(settings, file))
        }
        KindWord::Postgres => {
            let url = entry.required(from, "url", &PostgresUrl);
            let file = entry.optional(from, "password_file", &SecretFile);
            url.map(|url| StorageEntryKind::Postgres(HiddenUrl(url), file))
        }
    }
}

/// What a storage is called.
struct StorageName;

impl Shape for StorageName {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = String;

    fn parse(&self, written: &super::layers::Written) -> Result<String, String> {
        let name = text(written)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        let fits = (1..=64).contains(&name.len()) && name.bytes().all(plain);
        match name {
            "local" => Err("\"local\" is the data directory, which is always there".to_owned()),
            _ if fits => Ok(name.to_owned()),
            _ => Err(format!("{name:?} is not a name")),
        }
    }

    fn right(&self) -> String {
        "1 to 64 letters, digits, '_' and '-', such as \"cold\"".to_owned()
    }
}

/// A text that is no secret.
struct PlainText;

impl Shape for PlainText {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = String;

    fn parse(&self, written: &super::layers::Written) -> Result<String, String> {
        let found = text(written)?;
        if found.is_empty() { Err("is empty".to_owned()) } else { Ok(found.to_owned()) }
    }

    fn right(&self) -> String {
        "a text in quotes".to_owned()
    }
}

/// A file with a secret.
struct SecretFile;

impl Shape for SecretFile {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = PathBuf;

    fn parse(&self, written: &super::layers::Written) -> Result<PathBuf, String> {
        Directory.parse(written)
    }

    fn right(&self) -> String {
        "the path of a file that holds the secret and nothing else".to_owned()
    }
}

/// The URL of a database. What was written is not repeated.
struct PostgresUrl;

impl Shape for PostgresUrl {
    const EXPOSURE: Exposure = Exposure::Hidden;
    type Value = String;

    fn parse(&self, written: &super::layers::Written) -> Result<String, String> {
        let Ok(url) = text(written) else {
            return Err(format!("is {}, not a text in quotes", written.kind()));
        };
        check_postgres_url(url).map(|()| url.to_owned())
    }

    fn right(&self) -> String {
        "a URL such as \"postgres://USER@HOST:5432/DATABASE\"".to_owned()
    }
}
