//! `fieldpost cache`: bytes in the server's memory.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::input;
use super::screen::Screen;
use super::table::grouped;

/// The server takes so many bytes.
const VALUE_BYTES_MAX: u64 = 1_024 * 1_024;

/// What can be done with the cache.
#[derive(Debug, Subcommand)]
pub enum CacheAction {
    /// Write a value to stdout, as it was put.
    Get(CachedKey),
    /// Put a value.
    Put(PutCachedValue),
    /// Take values out.
    Delete(CachedKeys),
}

#[derive(Args, Debug)]
pub struct CachedKey {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// The key.
    #[arg(value_name = "KEY")]
    key: String,
}

#[derive(Args, Debug)]
pub struct CachedKeys {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// The keys.
    #[arg(value_name = "KEY", required = true, num_args = 1..=1_000)]
    keys: Vec<String>,
}

#[derive(Args, Debug)]
pub struct PutCachedValue {
    #[command(flatten)]
    place: CachedKey,
    /// The value: a file of up to 1 MiB, - for stdin.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// It is gone after this; without it, when there is no room.
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
    /// Put it only where none is.
    #[arg(long)]
    if_absent: bool,
}

#[derive(Deserialize)]
struct DeletedValues {
    deleted: u64,
}

impl CachedKey {
    fn path(&self) -> ApiPath {
        ApiPath::of(&["cache", &self.namespace, &self.key])
    }
}

impl CacheAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Get(key) => {
                let mut out = io::stdout().lock();
                api.download(&key.path(), &mut out)?;
                Ok(out.flush()?)
            }
            Self::Put(put) => put.run(api, screen),
            Self::Delete(CachedKeys { namespace, keys }) => {
                let answer =
                    api.post(&ApiPath::of(&["cache", namespace, "delete"]), &json!({ "keys": keys }))?;
                screen.show(&answer, || {
                    let DeletedValues { deleted } = api.read(&answer)?;
                    Ok(format!("{} deleted\n", grouped(deleted)))
                })
            }
        }
    }
}

impl PutCachedValue {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let mut value = Vec::new();
        let read = input::open(&self.file)?.take(VALUE_BYTES_MAX + 1).read_to_end(&mut value);
        read.map_err(|error| input::unreadable(&self.file, &error))?;
        if value.len() as u64 > VALUE_BYTES_MAX {
            return Err(CommandFailure::Usage(format!("{} is longer than 1 MiB", self.file.display())));
        }
        let path = self.place.path().with_maybe("ttl", self.ttl.as_ref());
        let path = path.with_maybe("if_absent", self.if_absent.then_some(true));
        api.put_bytes(&path, value)?;
        screen.tell("put\n")
    }
}
