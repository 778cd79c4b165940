//! What happened, line by line: hashed, so that two runs can be compared, and printed when somebody
//! looks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

/// Lines that are kept for the report of a failure.
const KEPT_LINES: usize = 60;

/// The trace of a run.
pub(crate) struct Trace {
    lines: Rc<RefCell<Lines>>,
    /// Before each line: whose it is, where several share a trace.
    whose: Box<str>,
}

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
        let lines = RefCell::new(Lines { prints, ..Lines::default() });
        Self { lines: Rc::new(lines), whose: Box::default() }
    }

    /// All of it, for whoever comes after the run.
    pub(super) fn taken(&self) -> Self {
        Self { lines: Rc::new(RefCell::new(self.lines.take())), whose: Box::default() }
    }

    /// The same trace for one of several, whose name is before its lines.
    pub(crate) fn of(&self, whose: &str) -> Self {
        Self { lines: Rc::clone(&self.lines), whose: format!("{whose}: ").into() }
    }

    pub(crate) fn note(&self, line: fmt::Arguments<'_>) {
        let mut lines = self.lines.borrow_mut();
        let line = format!("{}{line}", self.whose);
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
        self.lines.borrow().hash
    }

    /// The last lines.
    pub(crate) fn tail(&self) -> String {
        Vec::from(self.lines.borrow().kept.clone()).join("\n")
    }
}
