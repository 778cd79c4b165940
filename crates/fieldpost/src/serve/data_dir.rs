//! Opens the data directory, and says what to do where the operating system does not allow it.

use std::io;
use std::sync::Arc;

use blocklog::RealDisk;
use store::{EmbeddedOptions, EmbeddedStore, StoreError, SyncMode};
use tokio::signal::unix::{SignalKind, signal};

use super::{ServeFailure, because};
use crate::config::{Durability, ServerSettings};

/// Opens the data directory of the settings, or makes it.
pub(super) fn open(settings: &ServerSettings) -> Result<Arc<EmbeddedStore>, ServeFailure> {
    outlive_the_limit_of_file_sizes()?;
    let directory = settings.data_dir.display();
    let disk = RealDisk::open_dir(&settings.data_dir, true).map_err(|error| {
        let advice = advice(error.kind());
        ServeFailure(format!("the data directory {directory} cannot be opened: {error}{advice}"))
    })?;
    let half = settings.store_memory_bytes / 2;
    let options = EmbeddedOptions {
        sync: sync_mode(settings.durability),
        table_cache_bytes: half,
        checkpoint_memory_bytes: half,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(Arc::new(disk), options).map_err(|error| {
        let advice = match &error {
            StoreError::Disk { source, .. } => advice(source.kind()),
            _ => "",
        };
        ServeFailure(format!("the data directory {directory} is refused: {error}{advice}"))
    })?;
    Ok(Arc::new(store))
}

/// Refuses a data directory that another server has open. What else is wrong with it, [`open`]
/// says.
pub(super) fn check_free(settings: &ServerSettings) -> Result<(), ServeFailure> {
    let Ok(disk) = RealDisk::open_dir(&settings.data_dir, false) else { return Ok(()) };
    match store::check_free(&disk) {
        Err(error @ StoreError::Refused(_)) => Err(ServeFailure(format!(
            "the data directory {} is refused: {error}",
            settings.data_dir.display()
        ))),
        _ => Ok(()),
    }
}

fn sync_mode(durability: Durability) -> SyncMode {
    match durability {
        Durability::Always => SyncMode::Always,
        Durability::Interval(interval) => SyncMode::Interval(interval),
    }
}

/// What an operator can do about an error.
fn advice(error: io::ErrorKind) -> &'static str {
    match error {
        io::ErrorKind::ReadOnlyFilesystem => {
            "; mount its file system for writing, or choose another data_dir"
        }
        io::ErrorKind::PermissionDenied => {
            "; give it to the user that runs the server (chown), or choose another data_dir"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room there, or move it and choose another data_dir"
        }
        io::ErrorKind::FileTooLarge => "; raise the limit of file sizes (ulimit -f, LimitFSIZE=)",
        _ => "",
    }
}

/// A write beyond that limit is to fail like any other write, with a reason that is told, and not
/// to kill the server. Once a signal is listened for it does so no more, whether somebody listens
/// or not.
fn outlive_the_limit_of_file_sizes() -> Result<(), ServeFailure> {
    let told_by_the_write_itself = signal(SignalKind::from_raw(libc::SIGXFSZ));
    told_by_the_write_itself.map(drop).map_err(because("signals cannot be listened for"))
}
