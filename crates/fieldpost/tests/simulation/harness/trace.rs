//! What happened, line by line: hashed, so that two runs can be compared, and printed when somebody
//! looks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

/// Lines that are kept for the report of a failure.
const KEPT_LINES: usize = 60;

/// The trace of a run.
pub(crate) struct Trace(RefCell<Lines>);

#[derive(Default)]
struct Lines {
    hash: u64,
    lines: u64,
    kept: VecDeque<String>,
    prints: bool,
}

impl Trace {
    /// `SIM_TRACE=1` prints every line at once.
    pub(crate) fn new() -> Self {
        let prints = std::env::var_os("SIM_TRACE").is_some();
        Self(RefCell::new(Lines { prints, ..Lines::default() }))
    }

    /// All of it, for whoever comes after the run.
    pub(super) fn taken(&self) -> Self {
        Self(RefCell::new(self.0.take()))
    }

    pub(crate) fn note(&self, line: fmt::Arguments<'_>) {
        let mut lines = self.0.borrow_mut();
        let line = line.to_string();
        lines.lines += 1;
        lines.hash = base::hash::derived(lines.hash, line.as_bytes());
        if lines.prints {
            eprintln!("{:>6} {line}", lines.lines);
        }
        if lines.kept.len() == KEPT_LINES {
            lines.kept.pop_front();
        }
        lines.kept.push_back(line);
    }

    /// Equal for equal traces.
    pub(crate) fn hash(&self) -> u64 {
        self.0.borrow().hash
    }

    /// The last lines.
    pub(crate) fn tail(&self) -> String {
        Vec::from(self.0.borrow().kept.clone()).join("\n")
    }
}
