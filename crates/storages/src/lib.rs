//! Storages of blocks of streams beside the data directory: a folder, a bucket of an S3 server, a
//! table of PostgreSQL.
//!
//! Each is a [`BlockStorage`]: its calls block for a bounded time, and those over a network are
//! done by a runtime of this crate's own. Servers may share a storage. The folder in the names
//! keeps their blocks apart; it is the affair of whoever names blocks. Knows no stream and no row.
//!
//! | module | does |
//! |---|---|
//! | [`folder`] | a folder of another disk, which is never made again |
//! | [`s3`] | a bucket |
//! | [`postgres`] | a table |
//! | [`over_network`] | few calls at a time, each bounded; none to a server that does not answer |
//! | [`made`] | the folders that were made once |

mod folder;
mod made;
mod over_network;
mod postgres;
mod s3;
mod s3_http;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::{BlockStorage, BlockStorages};

pub use folder::FolderStorage;
pub use made::MadeStorages;
pub use postgres::{PostgresLogin, PostgresStorage, check_postgres_url};
pub use s3::{S3Settings, S3Storage};

/// A storage, as an operator sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageSettings {
    /// Its name; unique, and not `local`.
    pub name: Box<str>,
    /// What it is.
    pub kind: BlockStorageKind,
}

/// What a storage is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockStorageKind {
    /// A folder.
    Disk(PathBuf),
    /// A bucket of an S3 server.
    S3(S3Settings),
    /// A table of a PostgreSQL database.
    Postgres(PostgresLogin),
}

/// Why a storage cannot be opened: a sentence for the operator. That it is away is none.
#[derive(Debug, thiserror::Error)]
#[error("storage {name:?}: {problem}")]
pub struct StorageRefused {
    /// Its name.
    pub name: Box<str>,
    /// What is wrong.
    pub problem: String,
}

/// Opens storages for the server of a data directory. One that is away is opened too: it is used
/// once it is back. The folder of a new one is made, and never again.
///
/// # Errors
/// When settings of one make no sense.
pub fn open(settings: &[StorageSettings], data_dir: &Path) -> Result<BlockStorages, StorageRefused> {
    open_with(settings, &MadeStorages::of(data_dir))
}

/// The same for whoever only looks: no folder is made.
///
/// # Errors
/// See [`open`].
pub fn open_to_look(settings: &[StorageSettings]) -> Result<BlockStorages, StorageRefused> {
    open_with(settings, &MadeStorages::all())
}

fn open_with(settings: &[StorageSettings], made: &MadeStorages) -> Result<BlockStorages, StorageRefused> {
    let mut all: BTreeMap<Box<str>, Arc<dyn BlockStorage>> = BTreeMap::new();
    for StorageSettings { name, kind } in settings {
        let refused = |problem| StorageRefused { name: name.clone(), problem };
        let storage: Arc<dyn BlockStorage> = match kind {
            BlockStorageKind::Disk(path) => Arc::new(FolderStorage::open(name, path, made)),
            BlockStorageKind::S3(settings) => Arc::new(S3Storage::open(settings).map_err(refused)?),
            BlockStorageKind::Postgres(login) => Arc::new(PostgresStorage::open(login).map_err(refused)?),
        };
        all.insert(name.clone(), storage);
    }
    Ok(BlockStorages::new(all))
}
