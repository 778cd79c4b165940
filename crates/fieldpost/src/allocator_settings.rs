//! Starts the program once more with settings of the allocator.
//!
//! The allocator reads its settings before `main` does anything. Its own suit a large machine: four
//! arenas for each core, and caches of threads that keep blocks of up to 32 KiB. On a device with
//! two cores that is megabytes which nobody uses.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::available_parallelism;

/// Where the allocator reads its settings.
const SETTINGS_VARIABLE: &str = "_RJEM_MALLOC_CONF";

/// Settings for a server: an arena for every two cores, and caches for small blocks alone. What is
/// free goes back to the system within a second, so that the process is as large as what it holds.
/// Within a quarter of that, a busy server gave back what it needed again for its next batches. It
/// had more than twice as many page faults while it worked off a backlog.
pub(crate) fn for_server() -> String {
    let arenas = available_parallelism().map_or(1, usize::from).div_ceil(2);
    format!("narenas:{arenas},tcache_max:2048,dirty_decay_ms:1000,muzzy_decay_ms:0")
}

/// Settings for the agent, which has a handful of threads that mostly wait, and runs where every
/// megabyte counts: one arena, and no caches.
pub(crate) fn for_agent() -> String {
    "narenas:1,tcache:false,dirty_decay_ms:1000,muzzy_decay_ms:0".to_owned()
}

/// Does not return if it can start the program in its place, under the same process id. Where
/// settings are given already, they stay: ours, or those of whoever started it.
pub(crate) fn re_exec_with(settings: &str) {
    if env::var_os(SETTINGS_VARIABLE).is_some() {
        return;
    }
    let error = try_re_exec(settings);
    tracing::debug!(%error, "the allocator's own settings are used");
}

fn try_re_exec(settings: &str) -> io::Error {
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut words = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = words.next() {
        again.arg0(name);
    }
    again.args(words).env(SETTINGS_VARIABLE, settings).exec()
}
