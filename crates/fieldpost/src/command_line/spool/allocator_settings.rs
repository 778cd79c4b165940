//! Starts the program once more with an allocator that keeps little.
//!
//! The allocator reads its settings before `main` does anything. Those of the server suit many
//! cores: several arenas for each, and a cache for each thread. The agent has a handful of threads
//! that mostly wait, and runs where every megabyte counts.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Where the allocator reads its settings.
const SETTINGS_VARIABLE: &str = "_RJEM_MALLOC_CONF";
/// One arena, no caches, and what is free goes back after a second.
const SETTINGS: &str = "narenas:1,tcache:false,dirty_decay_ms:1000,muzzy_decay_ms:0";

/// Does not return if it can start the program in its place, under the same process id. Where the
/// settings are given already, they stay: ours, or those of whoever started it.
pub(super) fn re_exec_with_settings() {
    if env::var_os(SETTINGS_VARIABLE).is_some() {
        return;
    }
    let error = try_re_exec();
    tracing::debug!(%error, "the allocator of the server is used");
}

fn try_re_exec() -> io::Error {
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut words = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = words.next() {
        again.arg0(name);
    }
    again.args(words).env(SETTINGS_VARIABLE, SETTINGS).exec()
}
