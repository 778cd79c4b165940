//! `check`: looks at every checksum and every reference of a data directory or a backup, and
//! changes neither.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use store::{BlockStorages, Checked, StoreError};

use super::files::backup_at;
use crate::EXIT_WRONG;
use crate::config::ServerSettings;
use crate::serve::storages::open_to_look;

/// The flags of `check`.
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// A data directory of a server that is stopped; or what `backup` made, the directory or the
    /// file in it.
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// Where a backup is unpacked to be looked at: a directory with room for it. That of temporary
    /// files otherwise.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// The server's file of settings: blocks of streams are also looked at in its [[storages]], as
    /// far as they can be reached.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Checks what is there, and tells what was looked at and what was found.
///
/// # Errors
/// When `out` cannot be written.
pub(crate) fn run(flags: &Check, out: &mut dyn Write) -> io::Result<ExitCode> {
    let mut written = Ok(());
    let mut tell = |told: Checked| {
        let line = match told {
            Checked::Counted(what, count) => format!("{count:>14}  {what}"),
            Checked::Found(error) => format!("WRONG: {error}"),
            Checked::Noted(text) => format!("note: {text}"),
        };
        if written.is_ok() {
            written = writeln!(out, "{line}");
        }
    };
    let checked = check(flags, &mut tell);
    written?;
    match checked {
        Ok(0) => {
            writeln!(out, "sound: nothing is wrong with {}", flags.path.display())?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(findings) => {
            writeln!(out, "{findings} found; docs/backup.md says what to do")?;
            Ok(ExitCode::FAILURE)
        }
        Err(text) => {
            eprintln!("error: {text}");
            Ok(ExitCode::from(EXIT_WRONG))
        }
    }
}

fn check(flags: &Check, tell: &mut dyn FnMut(Checked)) -> Result<u64, String> {
    let told = |error: StoreError| error.to_string();
    let storages = storages(flags.config.as_deref())?;
    if store::was_data_directory(&flags.path) {
        return store::check_directory(&flags.path, &storages, tell).map_err(told);
    }
    let path = flags.path.display();
    let file = backup_at(&flags.path)
        .map_err(|text| format!("{path} is neither a data directory nor a backup: {text}"))?;
    let name = file.display().to_string();
    let backup = File::open(&file).map_err(|error| format!("opening {name}: {error}"))?;
    let scratch = scratch(flags.scratch.as_deref()).map_err(|error| {
        format!("no directory to unpack it can be made: {error}; --scratch names another")
    })?;
    store::check_backup(BufReader::new(backup), &name, scratch.path(), &storages, tell).map_err(told)
}

/// Those of a file of settings.
fn storages(config: Option<&Path>) -> Result<BlockStorages, String> {
    let Some(file) = config else { return Ok(BlockStorages::default()) };
    let settings = ServerSettings::load(Some(file), std::env::vars_os(), None, |_| Vec::new());
    let settings = settings.map_err(|errors| errors.to_string())?;
    open_to_look(&settings.storages)
}

/// Gone when it is dropped.
fn scratch(within: Option<&Path>) -> io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    let named = builder.prefix("fieldpost-check-");
    within.map_or_else(|| named.tempdir(), |within| named.tempdir_in(within))
}
