//! The built program under faults that a machine really has: SIGKILL, a stop under load, a full or
//! read-only disk, and a stepping wall clock.
//!
//! What was acknowledged and what was due is counted by the devices and the receivers, never by the
//! server. Faults come from outside: signals, limits and mounts of the operating system, and
//! libfaketime for the wall clock. Where this machine lets nobody mount, a limit or a file mode
//! makes the same calls of the server fail. The promises are the same, so no test is left out.
//! Damaged files are the subject of `directories`, what happens below the sockets that of
//! `simulation`.

mod clock;
pub(crate) mod disk;
mod full_disk;
mod jobs;
mod kills;
mod load;
mod read_only_disk;
mod scribe;
mod stop;
mod streams;
pub(crate) mod wall_clock;

use std::path::Path;
use std::time::Duration;

use simulator::server::Site;

/// For anything that is awaited: far longer than it takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Receivers are on loopback, retries soon, and answers wait for the sync. Ten attempts from 1 s on
/// span 27 s, far longer than any trouble of a receiver. An attempt ends after 5 s, longer than a
/// receiver on a busy machine takes to answer.
const SETTINGS: [(&str, &str); 5] = [
    ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true"),
    ("FIELDPOST_NOTIFY__RETRY_BASE", "1s"),
    ("FIELDPOST_NOTIFY__TIMEOUT", "5s"),
    ("FIELDPOST_DURABILITY__SYNC", "always"),
    ("FIELDPOST_QUARANTINE__MAX_BYTES", "32MB"),
];

/// An empty data directory for the program.
fn site() -> Site {
    Site::new(Path::new(env!("CARGO_BIN_EXE_fieldpost")), &SETTINGS).expect("a temporary directory")
}
