//! `restore`: a data directory from a backup.
//!
//! The whole backup is read before anything is written, so that one that is damaged is refused with
//! nothing done.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use blocklog::{Disk, RealDisk};
use clap::Args;
use store::{BackupSummary, EmbeddedOptions};

use super::files::{anything_in, backup_at};
use crate::EXIT_WRONG;

/// The flags of `restore`.
#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// The directory that `backup` made, or the file in it.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Where the server will keep everything: a directory that is empty, or not there yet.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Restores a backup.
///
/// # Errors
/// When `out` cannot be written.
pub(crate) fn run(flags: &Restore, out: &mut dyn Write) -> io::Result<ExitCode> {
    let data_dir = flags.data_dir.display();
    let file = match usable(flags) {
        Ok(file) => file,
        Err(text) => {
            eprintln!("error: {text}");
            return Ok(ExitCode::from(EXIT_WRONG));
        }
    };
    match restore(&file, &flags.data_dir) {
        Ok(BackupSummary { recorded_now, rows, elsewhere, .. }) => {
            writeln!(out, "{data_dir} holds {rows} rows again, up to {recorded_now}")?;
            for (storage, blocks) in elsewhere {
                writeln!(
                    out,
                    "{blocks} blocks of streams are not in the backup: they lie in storage {storage:?}, and are read there"
                )?;
            }
            writeln!(out, "start it with: fieldpost serve --data-dir {data_dir}")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(text) => {
            eprintln!("error: {text}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The file of the backup, if there is one and room for what it holds.
fn usable(flags: &Restore) -> Result<PathBuf, String> {
    let file = backup_at(&flags.backup)?;
    match anything_in(&flags.data_dir) {
        Ok(None) => Ok(file),
        Ok(Some(there)) => {
            Err(format!("{} is there already: restore into an empty directory", there.display()))
        }
        Err(error) => Err(format!("{} cannot be used: {error}", flags.data_dir.display())),
    }
}

fn restore(file: &Path, data_dir: &Path) -> Result<BackupSummary, String> {
    let name = file.display().to_string();
    let open = || File::open(file).map(BufReader::new).map_err(|error| format!("opening {name}: {error}"));
    store::verify_backup(open()?, &name).map_err(|error| error.to_string())?;
    let backup = open()?;
    let disk = RealDisk::open_dir(data_dir, true)
        .map_err(|error| format!("making {}: {error}", data_dir.display()))?;
    let disk: Arc<dyn Disk> = Arc::new(disk);
    store::restore(backup, &name, &disk, &EmbeddedOptions::default()).map_err(|error| {
        format!("{error}; what was written to {} is of no use, remove it", data_dir.display())
    })
}
