//! The storages of blocks, opened with the secrets that their files hold.

use std::path::Path;

use ::storages::{BlockStorageKind, PostgresLogin, StorageSettings};
use store::BlockStorages;

use crate::config::{StorageEntry, StorageEntryKind, secret_file};

/// Opens those of a server, whose folders are made once.
///
/// # Errors
/// A sentence for the operator. That a storage is away is none.
pub(crate) fn open(entries: &[StorageEntry], data_dir: &Path) -> Result<BlockStorages, String> {
    ::storages::open(&with_secrets(entries)?, data_dir).map_err(|refused| refused.to_string())
}

/// Opens those that a check looks at.
///
/// # Errors
/// A sentence for the operator.
pub(crate) fn open_to_look(entries: &[StorageEntry]) -> Result<BlockStorages, String> {
    ::storages::open_to_look(&with_secrets(entries)?).map_err(|refused| refused.to_string())
}

fn with_secrets(entries: &[StorageEntry]) -> Result<Vec<StorageSettings>, String> {
    let all = entries.iter().map(|StorageEntry { name, kind }| {
        let secret =
            |file: &Path| secret_file::read(file).map_err(|wrong| format!("storage {name:?}: {wrong}"));
        let kind = match kind {
            StorageEntryKind::Disk(path) => BlockStorageKind::Disk(path.clone()),
            StorageEntryKind::S3(settings, file) => {
                let secret_key = Some(secret(file)?);
                BlockStorageKind::S3(::storages::S3Settings { secret_key, ..settings.clone() })
            }
            StorageEntryKind::Postgres(url, file) => {
                let password = file.as_deref().map(secret).transpose()?;
                BlockStorageKind::Postgres(PostgresLogin { url: url.0.clone(), password })
            }
        };
        Ok(StorageSettings { name: name.as_str().into(), kind })
    });
    all.collect()
}
