//! `backup`: everything that is durable, as one file in a directory of its own.
//!
//! It comes from a running server over its API, or from the data directory of one that is stopped.
//! The file has its name only once it is whole, synced and read again: what is found under that
//! name can be restored.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use blocklog::RealDisk;
use clap::Args;
use cli::ServerFlags;
use store::{BackupSummary, EmbeddedOptions, EmbeddedStore};

use super::files::{BACKUP, PARTIAL, anything_in};
use crate::EXIT_WRONG;

/// A backup is as secret as what it is of.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The flags of `backup`.
#[derive(Args, Debug)]
pub(crate) struct BackupFlags {
    /// Where the backup is put: a directory that is empty, or not there yet.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Back up this data directory, of a server that is stopped, instead of asking one that runs.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    server: ServerFlags,
}

/// Why there is no backup.
enum BackupFailure {
    /// What was asked for cannot be done.
    Wrong(String),
    /// It was begun, and failed here.
    Here(String),
    /// A server was asked, and it was told what came of that.
    Told(ExitCode),
}

fn here(what: &str, path: &Path) -> impl FnOnce(io::Error) -> BackupFailure {
    let what = format!("{what} {}", path.display());
    move |error| BackupFailure::Here(format!("{what}: {error}"))
}

/// Makes a backup.
///
/// # Errors
/// When `out` cannot be written.
pub(crate) fn run(flags: &BackupFlags, out: &mut dyn Write) -> io::Result<ExitCode> {
    let (code, text) = match make(flags) {
        Ok(BackupSummary { recorded_now, rows, bytes, .. }) => {
            let file = flags.directory.join(BACKUP);
            writeln!(out, "{} holds {rows} rows in {bytes} bytes, up to {recorded_now}", file.display())?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(BackupFailure::Told(code)) => return Ok(code),
        Err(BackupFailure::Wrong(text)) => (ExitCode::from(EXIT_WRONG), text),
        Err(BackupFailure::Here(text)) => (ExitCode::FAILURE, text),
    };
    eprintln!("error: {text}");
    Ok(code)
}

fn make(flags: &BackupFlags) -> Result<BackupSummary, BackupFailure> {
    let directory = &flags.directory;
    let there = anything_in(directory)
        .map_err(|error| BackupFailure::Wrong(format!("{} cannot be used: {error}", directory.display())))?;
    if let Some(there) = there {
        return Err(BackupFailure::Wrong(format!(
            "{} is there already: name an empty directory",
            there.display()
        )));
    }
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(directory)
        .map_err(here("making", directory))?;
    let partial = directory.join(PARTIAL);
    let made = write(flags, &partial).and_then(|()| finish(directory, &partial));
    if made.is_err() {
        // so that the same can be tried again; what stays is refused by its name
        if let Err(error) = fs::remove_file(&partial) {
            eprintln!("{} cannot be removed: {error}", partial.display());
        }
    }
    made
}

fn write(flags: &BackupFlags, partial: &Path) -> Result<(), BackupFailure> {
    let options = || OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(partial);
    let mut file = options().map_err(here("making", partial))?;
    match &flags.data_dir {
        Some(data_dir) => write_stopped(data_dir, &mut file, partial)?,
        None => cli::download(&flags.server, &["backup"], &mut file).map_err(BackupFailure::Told)?,
    }
    file.sync_all().map_err(here("syncing", partial))
}

/// Opens the data directory as a server does, which applies what is only in its log.
fn write_stopped(data_dir: &Path, file: &mut File, partial: &Path) -> Result<(), BackupFailure> {
    if !store::is_data_directory(data_dir) {
        return Err(BackupFailure::Wrong(format!("{} is no data directory", data_dir.display())));
    }
    let disk = RealDisk::open_dir(data_dir, false).map_err(here("opening", data_dir))?;
    let failed = |error| BackupFailure::Here(format!("{error}"));
    let store = EmbeddedStore::open(Arc::new(disk), EmbeddedOptions::default()).map_err(failed)?;
    let mut backup = store.backup().map_err(failed)?;
    while let Some(piece) = backup.next_piece().map_err(failed)? {
        file.write_all(&piece).map_err(here("writing", partial))?;
    }
    Ok(())
}

/// Reads back what was written, and gives it its name.
fn finish(directory: &Path, partial: &Path) -> Result<BackupSummary, BackupFailure> {
    let file = File::open(partial).map_err(here("opening", partial))?;
    let summary = store::verify_backup(BufReader::new(file), &partial.display().to_string());
    let summary = summary.map_err(|error| BackupFailure::Here(format!("{error}")))?;
    fs::rename(partial, directory.join(BACKUP)).map_err(here("renaming", partial))?;
    let sync = |path: &Path| File::open(path).and_then(|directory| directory.sync_all());
    sync(directory).map_err(here("syncing", directory))?;
    Ok(summary)
}
