//! What a job or a message carries, on the command line: JSON, or a file.

use std::io::Read;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::{ArgGroup, Args};
use serde_json::value::RawValue;

use super::failure::CommandFailure;
use super::input::{self, json};

/// The server takes a megabyte of payload, in a body of at most this.
const FILE_BYTES_MAX: u64 = 16 * 1_024 * 1_024;

/// What a job or a message carries.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("carried").args(["payload", "file"]))]
pub(super) struct PayloadFlags {
    /// What it carries, as JSON: 1, '"text"', '{"to":"ann"}'.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true, value_parser = json)]
    payload: Option<Box<RawValue>>,
    /// Read what it carries from a file, - for stdin.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The file holds bytes, not JSON.
    // A requirement alone does not hold beside what excludes the file.
    #[arg(long, requires = "file", conflicts_with = "payload")]
    bytes: bool,
    /// What stands without its flag.
    #[arg(value_name = "PAYLOAD", hide = true, value_parser = misplaced)]
    #[allow(dead_code, reason = "it is refused wherever it is")]
    misplaced: Option<String>,
}

/// A value, or bytes in base64; neither where nothing was said.
type Carried = (Option<Box<RawValue>>, Option<String>);

impl PayloadFlags {
    /// What something new carries: where nothing was said, null.
    pub(super) fn read_or_null(&self) -> Result<Carried, CommandFailure> {
        Ok(match self.read()? {
            (None, None) => (Some(RawValue::NULL.to_owned()), None),
            said => said,
        })
    }

    /// What was said.
    pub(super) fn read(&self) -> Result<Carried, CommandFailure> {
        let Some(file) = &self.file else { return Ok((self.payload.clone(), None)) };
        let mut content = Vec::new();
        let read = input::open(file)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut content);
        read.map_err(|error| input::unreadable(file, &error))?;
        if content.len() as u64 > FILE_BYTES_MAX {
            return Err(CommandFailure::Usage(format!("{} is too long", file.display())));
        }
        if self.bytes {
            return Ok((None, Some(BASE64_STANDARD.encode(content))));
        }
        let value = serde_json::from_slice(&content).map_err(|error| {
            CommandFailure::Usage(format!(
                "{} is not JSON ({error}); --bytes takes it as it is",
                file.display()
            ))
        })?;
        Ok((Some(value), None))
    }
}

fn misplaced(_: &str) -> Result<String, String> {
    Err("write what it carries behind --payload, or name its file with --file".to_owned())
}
