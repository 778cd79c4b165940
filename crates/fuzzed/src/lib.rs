//! What fuzzing asks of every reader of foreign bytes: one function for each target, which panics
//! where an answer is wrong.
//!
//! Each asks for more than "no panic": a round trip, a second way to the same result, a place
//! within the text, a bound. The targets of `fuzz/` hand them what libFuzzer makes up;
//! `tests/corpora.rs` hands them the corpora and mutations of these, on a stable toolchain. Nothing
//! here is part of the server.

#![allow(clippy::missing_panics_doc, reason = "panicking is how a target tells")]

pub mod cursors;
pub mod import_lines;
pub mod log_recovery;
pub mod mqtt;
pub mod mutation;
pub mod report_lines;
pub mod reports;
pub mod settings;
pub mod stored;
pub mod stream_blocks;
pub mod webhook_answers;

mod pieces;
mod server;

/// The binary, which has no library that could be depended on: its settings.
#[path = "../../fieldpost/src"]
mod binary {
    #[allow(dead_code, unused_imports, reason = "most of it is used by the rest of the binary")]
    pub(crate) mod config;
}

/// A target: its name, which is also that of its corpus, and its body.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// As in `fuzz/fuzz_targets` and `fuzz/corpus`.
    pub name: &'static str,
    /// Panics where an answer is wrong.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [FuzzTarget; 10] = [
    FuzzTarget { name: "cursors", run: cursors::run },
    FuzzTarget { name: "import_lines", run: import_lines::run },
    FuzzTarget { name: "log_recovery", run: log_recovery::run },
    FuzzTarget { name: "mqtt", run: mqtt::run },
    FuzzTarget { name: "report_lines", run: report_lines::run },
    FuzzTarget { name: "reports", run: reports::run },
    FuzzTarget { name: "settings", run: settings::run },
    FuzzTarget { name: "stored", run: stored::run },
    FuzzTarget { name: "stream_blocks", run: stream_blocks::run },
    FuzzTarget { name: "webhook_answers", run: webhook_answers::run },
];
