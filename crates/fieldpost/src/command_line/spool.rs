//! `spool`: the agent that takes reports, jobs and messages while the server cannot be reached.
//!
//! It runs on one thread beside those that go to the disk: it is meant for weak machines.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fieldpost_client::{Client, Trust};
use spool::{Destination, KeepFree, ReleaseMemory, SpoolConfig, SpoolError, SpoolFullChoice};

use crate::EXIT_WRONG;
use crate::allocator_settings;
use crate::program_pages::ProgramPages;

/// Threads for what blocks beside the two of the spool's own.
const BLOCKING_THREADS: usize = 2;
/// Their stacks, in bytes.
const STACK_BYTES: usize = 512 * 1_024;

/// The flags of `spool`.
#[derive(Args, Debug)]
pub(crate) struct SpoolFlags {
    /// The server to forward to.
    #[arg(long, value_name = "URL")]
    to: String,
    /// A file with the token that the server asks for.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file with the certificates to trust in place of the system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Where everything is kept; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "fieldpost-spool")]
    dir: PathBuf,
    /// Where reports, jobs and messages are taken over HTTP.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Where devices' reports are taken over MQTT too, such as 127.0.0.1:1883.
    #[arg(long, value_name = "ADDR")]
    mqtt: Option<SocketAddr>,
    /// Most bytes on disk of what waits; at least 64KB.
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = bytes_max)]
    max_bytes: u64,
    /// What becomes of a request that there is no room for.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = SpoolWhenFull::Reject)]
    when_full: SpoolWhenFull,
    /// Items that have waited longer are dropped, such as 7d; without it none are.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_age: Option<Duration>,
    /// Room that is left on the disk for others: a part of it, or a size.
    #[arg(long, value_name = "PART", default_value = "5%", value_parser = keep_free)]
    keep_free: KeepFree,
    /// A file whose lines become messages, as they are appended.
    #[arg(long, value_name = "FILE", requires = "stream")]
    follow: Option<PathBuf>,
    /// The stream that they go to.
    #[arg(long, value_name = "NS/STREAM", requires = "follow", value_parser = stream)]
    stream: Option<Destination>,
    /// Written once everything listens: the bound addresses as one JSON object.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

/// The values of `--when-full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SpoolWhenFull {
    /// It is answered 503.
    Reject,
    /// The oldest items go, and are counted.
    DropOldest,
}

/// The least that `--max-bytes` may be.
const BYTES_MAX_MIN: u64 = 64_000;

/// Runs the agent.
pub(crate) fn run(flags: SpoolFlags) -> ExitCode {
    allocator_settings::re_exec_with(&allocator_settings::for_agent());
    let config = match config(flags) {
        Ok(config) => config,
        Err(text) => return failed(&text, EXIT_WRONG),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_stack_size(STACK_BYTES)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("no runtime can be started: {error}"), 1),
    };
    match runtime.block_on(spool::run(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ (SpoolError::InUse(_) | SpoolError::Directory { .. } | SpoolError::Listen { .. })) => {
            failed(&error.to_string(), EXIT_WRONG)
        }
        Err(error) => failed(&error.to_string(), 1),
    }
}

fn failed(text: &str, code: u8) -> ExitCode {
    eprintln!("error: {text}");
    ExitCode::from(code)
}

fn config(flags: SpoolFlags) -> Result<SpoolConfig, String> {
    let server = client(&flags)?;
    let when_full = match flags.when_full {
        SpoolWhenFull::Reject => SpoolFullChoice::Reject,
        SpoolWhenFull::DropOldest => SpoolFullChoice::DropOldest,
    };
    if let Some(file) = &flags.ready_file {
        // So that nobody reads the addresses of an earlier run.
        match fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{} cannot be removed: {error}", file.display()));
            }
            _ => {}
        }
    }
    let program_pages = ProgramPages::at_start();
    Ok(SpoolConfig {
        server,
        directory: flags.dir,
        listen: flags.listen,
        mqtt: flags.mqtt,
        bytes_max: flags.max_bytes,
        when_full,
        max_age: flags.max_age,
        keep_free: flags.keep_free,
        follow: flags.follow.zip(flags.stream),
        ready_file: flags.ready_file,
        release_memory: ReleaseMemory(Arc::new(move || program_pages.release())),
    })
}

fn client(flags: &SpoolFlags) -> Result<Client, String> {
    let mut client = Client::builder(&flags.to)
        .user_agent(concat!("fieldpost-spool/", env!("CARGO_PKG_VERSION")))
        .proxy_of_environment();
    if let Some(file) = &flags.token_file {
        client = client.token(read(file)?.trim());
    }
    if let Some(file) = &flags.ca {
        let trust = Trust::of_pem(read(file)?.as_bytes());
        client = client.trust(trust.map_err(|error| format!("--ca {}: {error}", file.display()))?);
    }
    client.build().map_err(|error| error.to_string())
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))
}

fn bytes_max(text: &str) -> Result<u64, String> {
    let bytes = base::size::parse(text).filter(|bytes| *bytes >= BYTES_MAX_MIN);
    bytes.ok_or_else(|| "write a size of at least 64KB, such as 500MB or 1GB".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    base::duration::parse(text).map_err(|error| error.to_string())
}

fn keep_free(text: &str) -> Result<KeepFree, String> {
    KeepFree::parse(text).ok_or_else(|| "write a part such as 5%, or a size such as 200MB".to_owned())
}

fn stream(text: &str) -> Result<Destination, String> {
    let names = text.split_once('/');
    let stream = names.and_then(|(namespace, stream)| Destination::stream(namespace, stream));
    let stream = stream.ok_or_else(|| "write it as NAMESPACE/STREAM".to_owned())?;
    let is_own = |(namespace, stream): (&str, &str)| namespace.starts_with('_') || stream.starts_with('_');
    if stream.names().is_some_and(is_own) {
        return Err("names that begin with '_' are the server's own: name another stream".to_owned());
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: SpoolFlags,
    }

    fn parse(line: &str) -> Result<SpoolConfig, String> {
        let words = std::iter::once("spool").chain(line.split_whitespace());
        Line::try_parse_from(words).map_err(|error| error.to_string()).and_then(|line| config(line.flags))
    }

    #[test]
    fn a_server_is_all_that_has_to_be_named() {
        let config = parse("--to http://127.0.0.1:8080").expect("a right line");
        assert_eq!(config.directory, Path::new("fieldpost-spool"));
        assert_eq!((config.listen.to_string().as_str(), config.mqtt), ("127.0.0.1:8090", None));
        assert_eq!((config.bytes_max, config.max_age), (1_000_000_000, None));
        assert_eq!((config.when_full, config.keep_free), (SpoolFullChoice::Reject, KeepFree::Percent(5)));
        let more = "--to https://h --ca /dev/null --max-bytes 2MB --when-full drop-oldest --max-age 7d";
        assert!(parse(more).is_err(), "no certificate is in there");
        let more =
            "--to http://h --max-bytes 2MB --when-full drop-oldest --max-age 7d --follow f --stream a/b";
        let config = parse(more).expect("a right line");
        assert_eq!(config.follow, Destination::stream("a", "b").map(|stream| ("f".into(), stream)));
        assert_eq!(config.when_full, SpoolFullChoice::DropOldest);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for line in [
            "",
            "--to 127.0.0.1:8080",
            "--to http://h --follow f",
            "--to http://h --stream a/b",
            "--to http://h --follow f --stream a",
            "--to http://h --follow f --stream _a/b",
            "--to http://h --follow f --stream a/_b",
            "--to http://h --max-bytes 1KB",
            "--to http://h --max-age soon",
            "--to http://h --keep-free 5",
            "--to http://h --token-file /nonexistent/token",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
