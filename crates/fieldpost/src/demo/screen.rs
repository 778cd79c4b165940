//! What the demo shows: a line for each thing that happens, and figures once a second.
//!
//! On a terminal the figures stay on one line that is written over; in a pipe every line is plain
//! text.

use std::io::{self, IsTerminal, Stdout, Write, stdout};
use std::time::Instant;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const NORMAL: &str = "\x1b[0m";
const START_OF_LINE: &str = "\r\x1b[2K";

/// See the module.
#[derive(Debug)]
pub(super) struct DemoScreen<W: Write = Stdout> {
    out: W,
    is_terminal: bool,
    started: Instant,
    /// Whether the cursor stands behind figures that the next line is to replace.
    stats_shown: bool,
}

impl DemoScreen {
    pub(super) fn on_stdout() -> Self {
        let is_terminal = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self::new(stdout(), is_terminal)
    }
}

impl<W: Write> DemoScreen<W> {
    fn new(out: W, is_terminal: bool) -> Self {
        Self { out, is_terminal, started: Instant::now(), stats_shown: false }
    }

    /// Something happens to `who`.
    pub(super) fn event(&mut self, who: &str, what: &str) -> io::Result<()> {
        let elapsed_s = self.started.elapsed().as_secs_f64();
        self.clear_stats()?;
        if self.is_terminal {
            writeln!(self.out, "{elapsed_s:5.1} s  {BOLD}{who:<9}{NORMAL} {what}")?;
        } else {
            writeln!(self.out, "{elapsed_s:5.1} s  {who:<9} {what}")?;
        }
        self.out.flush()
    }

    /// How far things are.
    pub(super) fn stats(&mut self, stats: &str) -> io::Result<()> {
        let elapsed_s = self.started.elapsed().as_secs_f64();
        if self.is_terminal {
            write!(self.out, "{START_OF_LINE}{DIM}{elapsed_s:5.1} s            {stats}{NORMAL}")?;
            self.stats_shown = true;
        } else {
            writeln!(self.out, "{elapsed_s:5.1} s            {stats}")?;
        }
        self.out.flush()
    }

    /// A line that stands for itself.
    pub(super) fn line(&mut self, line: &str) -> io::Result<()> {
        self.clear_stats()?;
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }

    fn clear_stats(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.stats_shown) {
            write!(self.out, "{START_OF_LINE}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_terminal: bool) -> String {
        let mut screen = DemoScreen::new(Vec::new(), is_terminal);
        screen.stats("1 sent").expect("memory takes everything");
        screen.event("server", "up").expect("memory takes everything");
        String::from_utf8(screen.out).expect("text")
    }

    #[test]
    fn a_pipe_gets_plain_lines() {
        assert_eq!(shown(false), "  0.0 s            1 sent\n  0.0 s  server    up\n");
    }

    #[test]
    fn a_terminal_has_its_figures_replaced() {
        let shown = shown(true);
        assert_eq!(shown.matches(START_OF_LINE).count(), 2);
        assert_eq!(shown.lines().count(), 1);
    }
}
