//! A file that holds a secret and nothing else: how a setting names it, and how it is read.
//!
//! It is read when the settings are checked, so that `check-config` refuses what a start would
//! refuse, and once more when the server starts. A pipe is read at the start alone. The secret
//! itself is in no setting.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::layers::WrittenValue;
use super::shape::{DirectoryShape, Exposure, Shape};

/// Most bytes of such a file; a secret has some dozens.
const FILE_BYTES_MAX: u64 = 64 * 1_024;

/// Whether the secret can be read. A pipe is left to the start: it can be read once.
pub(super) fn check(file: &Path) -> Result<(), String> {
    if fs::metadata(file).is_ok_and(|found| found.file_type().is_fifo()) {
        return Ok(());
    }
    read(file).map(drop)
}

/// The secret in a file, without the line break at its end.
///
/// # Errors
/// What is wrong with the file, which it names.
pub(crate) fn read(file: &Path) -> Result<String, String> {
    let shown = file.display();
    let mut text = String::new();
    let reading = File::open(file).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    let bytes = reading.map_err(|error| format!("{shown} cannot be read: {error}"))?;
    if bytes as u64 > FILE_BYTES_MAX {
        return Err(format!("{shown} has more than {FILE_BYTES_MAX} bytes"));
    }
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() { Err(format!("{shown} is empty")) } else { Ok(secret.to_owned()) }
}

/// The path of such a file.
pub(super) struct SecretFile;

impl Shape for SecretFile {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = PathBuf;

    fn parse(&self, written: &WrittenValue) -> Result<PathBuf, String> {
        DirectoryShape.parse(written)
    }

    fn right(&self) -> String {
        "the path of a file that holds the secret and nothing else".to_owned()
    }
}
