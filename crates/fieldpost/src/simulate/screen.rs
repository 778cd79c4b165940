//! What is seen of a simulation while it runs: on stderr, so that stdout holds the account alone.
//!
//! On a terminal a bar and the figures stay on one line that is written over; elsewhere a plain
//! line comes every few seconds.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Stderr, Write, stderr};
use std::time::{Duration, Instant};

use simulator::commands::CommandCounts;
use simulator::fleet::FleetProgress;
use simulator::grouped::grouped;

const START_OF_LINE: &str = "\r\x1b[2K";

/// So many kinds of trouble are told while it runs; the account has all.
const TROUBLES_TOLD: usize = 5;

const BAR_CELLS: usize = 20;

/// Between two looks at the figures.
const ON_TERMINAL: Duration = Duration::from_millis(250);
const ELSEWHERE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(super) struct ProgressScreen<W: Write = Stderr> {
    out: W,
    is_terminal: bool,
    /// Whether the cursor stands behind figures that the next line is to replace.
    stats_shown: bool,
    before: Option<(Instant, u64)>,
    /// Why connections broke, as far as it was told.
    told: BTreeSet<String>,
}

impl ProgressScreen {
    pub(super) fn on_stderr() -> Self {
        Self::new(stderr(), stderr().is_terminal())
    }
}

impl<W: Write> ProgressScreen<W> {
    const fn new(out: W, is_terminal: bool) -> Self {
        Self { out, is_terminal, stats_shown: false, before: None, told: BTreeSet::new() }
    }

    /// How often figures are to be shown.
    pub(super) const fn refresh(&self) -> Duration {
        if self.is_terminal { ON_TERMINAL } else { ELSEWHERE }
    }

    /// A line that stays.
    pub(super) fn line(&mut self, line: &str) -> io::Result<()> {
        self.clear()?;
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }

    /// How far something is that has no figures yet.
    pub(super) fn step(&mut self, what: &str, done: u64, all: u64) -> io::Result<()> {
        if !self.is_terminal {
            return Ok(());
        }
        let share = done as f64 / all.max(1) as f64;
        self.replace(&format!("{}  {what} {} of {}", bar(share), grouped(done), grouped(all)))
    }

    /// How far the reports are: `share` of the run is over, if that can be said.
    pub(super) fn stats(
        &mut self,
        elapsed: Duration,
        share: Option<f64>,
        progress: &FleetProgress,
        behind: Duration,
        commands: Option<CommandCounts>,
    ) -> io::Result<()> {
        self.tell_new_troubles(progress)?;
        let line = format!("{:6.1} s  {}", elapsed.as_secs_f64(), self.live(elapsed, progress, behind));
        let commands = commands.map_or(String::new(), |CommandCounts { sent, received, settled, .. }| {
            // Those that come from elsewhere are seen here only when a device has them.
            format!("  commands {}  settled {}", grouped(sent.max(received)), grouped(settled))
        });
        let line = format!("{line}{commands}");
        match share.filter(|_| self.is_terminal) {
            Some(share) => self.replace(&format!("{}  {line}", bar(share))),
            None => self.replace(&line),
        }
    }

    /// The first of each kind is told at once: whoever is not let in need not wait for the account.
    fn tell_new_troubles(&mut self, progress: &FleetProgress) -> io::Result<()> {
        for trouble in progress.troubles().into_keys() {
            if self.told.len() < TROUBLES_TOLD && self.told.insert(trouble.clone()) {
                self.line(&format!("a connection broke: {trouble}"))?;
            }
        }
        Ok(())
    }

    fn live(&mut self, elapsed: Duration, progress: &FleetProgress, behind: Duration) -> String {
        let stats = progress.stats();
        let (now, done) = (Instant::now(), stats.acknowledged + stats.refused);
        let begun = now.checked_sub(elapsed).unwrap_or(now);
        let (then, before) = self.before.replace((now, done)).unwrap_or((begun, 0));
        let seconds = now.duration_since(then).as_secs_f64();
        let rate = if seconds > 0.0 { (done - before) as f64 / seconds } else { 0.0 };
        let latency = progress.latencies().since_due;
        let mut live = format!(
            "sent {}  acknowledged {}  refused {}  {} answers/s  p99 {:.1} ms",
            grouped(stats.sent),
            grouped(stats.acknowledged),
            grouped(stats.refused),
            grouped(rate.round() as u64),
            latency.percentile(99.0).as_secs_f64() * 1e3,
        );
        if behind > ON_TERMINAL {
            live.push_str(&format!("  {:.1} s behind", behind.as_secs_f64()));
        }
        if stats.broken > 0 {
            live.push_str(&format!("  {} broken connections", grouped(stats.broken)));
        }
        live
    }

    fn replace(&mut self, line: &str) -> io::Result<()> {
        if self.is_terminal {
            write!(self.out, "{START_OF_LINE}{line}")?;
            self.stats_shown = true;
        } else {
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()
    }

    /// Takes the figures away.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.stats_shown) {
            write!(self.out, "{START_OF_LINE}")?;
        }
        self.out.flush()
    }
}

/// `[#####---------------]`
fn bar(share: f64) -> String {
    let filled = (share.clamp(0.0, 1.0) * BAR_CELLS as f64).round() as usize;
    format!("[{}{}]", "#".repeat(filled), "-".repeat(BAR_CELLS - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_terminal: bool) -> String {
        let mut screen = ProgressScreen::new(Vec::new(), is_terminal);
        let progress = FleetProgress::default();
        screen.step("registering", 5, 10).expect("memory takes everything");
        let behind = Duration::from_millis(1500);
        screen
            .stats(Duration::from_secs(3), Some(0.25), &progress, behind, None)
            .expect("memory takes everything");
        screen.line("done").expect("memory takes everything");
        String::from_utf8(screen.out).expect("text")
    }

    #[test]
    fn elsewhere_there_are_plain_lines() {
        let stats = "sent 0  acknowledged 0  refused 0  0 answers/s  p99 0.0 ms  1.5 s behind";
        assert_eq!(shown(false), format!("   3.0 s  {stats}\ndone\n"));
    }

    #[test]
    fn on_a_terminal_one_line_is_written_over() {
        let shown = shown(true);
        assert_eq!(shown.matches(START_OF_LINE).count(), 3);
        assert_eq!(shown.lines().count(), 1);
        assert!(shown.contains("[##########----------]  registering 5 of 10"), "{shown}");
        assert!(shown.contains("[#####---------------]     3.0 s"), "{shown}");
    }
}
