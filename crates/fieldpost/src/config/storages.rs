//! `[[storages]]`: where blocks of streams may go, beside the data directory. Files of secrets are
//! named here; what they hold is in no setting.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::storages::{S3Settings, check_postgres_url};

use super::entry::SectionEntry;
use super::reader::SettingsReader;
use super::secret_file::SecretFile;
use super::shape::{DirectoryShape, Exposure, Shape, Word, text};

/// Most storages: each has a worker.
const STORAGES_MAX: usize = 16;
const KIND: Word<StorageKindName> = Word(&[
    ("disk", StorageKindName::Disk),
    ("s3", StorageKindName::S3),
    ("postgres", StorageKindName::Postgres),
]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StorageKindName {
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
pub(super) fn read(from: &mut SettingsReader) -> Vec<StorageEntry> {
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

/// Looks at the folders and files that storages name.
pub(super) fn look(all: &[StorageEntry], data_dir: &Path, from: &mut SettingsReader) {
    from.look_at_secrets();
    are_apart(all, data_dir, from);
}

/// What lies in one place twice would be deleted twice: each storage needs a place of its own,
/// which is not the data directory either. Folders are looked at: a link may lead to another one.
fn are_apart(all: &[StorageEntry], data_dir: &Path, from: &mut SettingsReader) {
    let data_dir = real_path(data_dir);
    for (place, StorageEntry { name, kind }) in all.iter().enumerate() {
        let met = all[..place].iter().find(|earlier| meets(&earlier.kind, kind));
        if let Some(StorageEntry { name: earlier, .. }) = met {
            let wrong = format!("{name:?} lies in the same place as {earlier:?}, or one inside the other");
            from.refuse("storages", &wrong, "each storage needs a place of its own, apart from all others");
        }
        if matches!(kind, StorageEntryKind::Disk(path) if real_path(path) == data_dir) {
            let wrong = format!("{name:?} lies in the data directory, which is the storage \"local\"");
            from.refuse("storages", &wrong, "name a folder of its own");
        }
    }
}

/// Whether blocks of two storages may lie in one place.
fn meets(one: &StorageEntryKind, other: &StorageEntryKind) -> bool {
    match (one, other) {
        (StorageEntryKind::Disk(one), StorageEntryKind::Disk(other)) => {
            let (one, other) = (real_path(one), real_path(other));
            one.starts_with(&other) || other.starts_with(&one)
        }
        (StorageEntryKind::S3(one, _), StorageEntryKind::S3(other, _)) => {
            let server = |of: &S3Settings| {
                let endpoint = of.endpoint.as_deref().unwrap_or_default();
                endpoint.trim_end_matches('/').to_ascii_lowercase()
            };
            server(one) == server(other) && one.bucket() == other.bucket()
        }
        (StorageEntryKind::Postgres(one, _), StorageEntryKind::Postgres(other, _)) => one == other,
        _ => false,
    }
}

/// A path without links, as far as it is there.
fn real_path(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = whole.ancestors().find_map(|there| {
        let rest = whole.strip_prefix(there).ok()?;
        Some(there.canonicalize().ok()?.join(rest))
    });
    found.unwrap_or(whole)
}

fn read_kind(
    from: &mut SettingsReader,
    entry: &mut SectionEntry,
    kind: StorageKindName,
) -> Option<StorageEntryKind> {
    match kind {
        StorageKindName::Disk => entry.required(from, "path", &DirectoryShape).map(StorageEntryKind::Disk),
        StorageKindName::S3 => {
            let url = entry.required(from, "url", &PlainText);
            let access_key = entry.required(from, "access_key", &PlainText);
            let named_at = entry.origin_of("secret_key_file");
            let file = entry.required(from, "secret_key_file", &SecretFile);
            from.note_secret(named_at, &entry.key_of("secret_key_file"), file.as_deref());
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
        StorageKindName::Postgres => {
            let url = entry.required(from, "url", &PostgresUrl);
            let named_at = entry.origin_of("password_file");
            let file = entry.optional(from, "password_file", &SecretFile);
            from.note_secret(named_at, &entry.key_of("password_file"), file.as_deref());
            url.map(|url| StorageEntryKind::Postgres(HiddenUrl(url), file))
        }
    }
}

/// What a storage is called.
struct StorageName;

impl Shape for StorageName {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = String;

    fn parse(&self, written: &super::layers::WrittenValue) -> Result<String, String> {
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

    fn parse(&self, written: &super::layers::WrittenValue) -> Result<String, String> {
        let found = text(written)?;
        if found.is_empty() { Err("is empty".to_owned()) } else { Ok(found.to_owned()) }
    }

    fn right(&self) -> String {
        "a text in quotes".to_owned()
    }
}

/// The URL of a database. What was written is not repeated.
struct PostgresUrl;

impl Shape for PostgresUrl {
    const EXPOSURE: Exposure = Exposure::Hidden;
    type Value = String;

    fn parse(&self, written: &super::layers::WrittenValue) -> Result<String, String> {
        let Ok(url) = text(written) else {
            return Err(format!("is {}, not a text in quotes", written.kind()));
        };
        check_postgres_url(url).map(|()| url.to_owned())
    }

    fn right(&self) -> String {
        "a URL such as \"postgres://USER@HOST:5432/DATABASE\"".to_owned()
    }
}
