//! What happened, line by line: hashed, so that two runs can be compared, and printed when somebody
//! looks.

use std::collections::VecDeque;
use std::fmt;

/// Lines that are kept for the report of a failure.
const KEPT_LINES: usize = 60;

/// The trace of a run.
pub(crate) struct Trace {
    hash: u64,
    lines: u64,
    kept: VecDeque<String>,
    prints: bool,
}

impl Trace {
    /// `SIM_TRACE=1` prints every line at once.
    pub(crate) fn new() -> Self {
        let prints = std::env::var_os("SIM_TRACE").is_some();
        Self { hash: 0, lines: 0, kept: VecDeque::new(), prints }
    }

    pub(crate) fn note(&mut self, line: fmt::Arguments<'_>) {
        let line = line.to_string();
        self.lines += 1;
        self.hash = base::hash::derived(self.hash, line.as_bytes());
        if self.prints {
            eprintln!("{:>6} {line}", self.lines);
        }
        if self.kept.len() == KEPT_LINES {
            self.kept.pop_front();
        }
        self.kept.push_back(line);
    }

    /// Equal for equal traces.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// The last lines.
    pub(crate) fn tail(&self) -> String {
        let lines: Vec<&str> = self.kept.iter().map(String::as_str).collect();
        lines.join("\n")
    }
}
