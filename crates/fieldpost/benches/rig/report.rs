//! The table, and the raw run behind it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::Timestamp;

use super::{Failure, machine};

/// One line of the table.
struct Row {
    name: String,
    figure: String,
    beside: String,
}

/// Collects rows, and writes every round down as it comes.
pub(crate) struct Report {
    raw: File,
    path: PathBuf,
    rows: Vec<Row>,
}

impl Report {
    /// Begins a run; a second one on the same day follows the first in its file.
    pub(crate) fn open() -> Result<Self, Failure> {
        let now = Timestamp(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64).to_string();
        let date = now.get(..10).unwrap_or(&now);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/runs");
        std::fs::create_dir_all(&folder)?;
        let path = folder.canonicalize()?.join(format!("{date}-{}.txt", machine::name()));
        let raw = OpenOptions::new().create(true).append(true).open(&path)?;
        let mut report = Self { raw, path, rows: Vec::new() };
        report.note(&format!("run of {now}"))?;
        Ok(report)
    }

    /// Writes a line to the raw run and to stderr, so that somebody who waits sees where it is.
    pub(crate) fn note(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.raw, "{line}")?;
        writeln!(io::stderr(), "{line}")
    }

    /// Writes a round down.
    pub(crate) fn round(&mut self, name: &str, count: u64, took: Duration) -> io::Result<f64> {
        let rate = count as f64 / took.as_secs_f64();
        self.note(&format!("  {name}: {count} in {:.3} s, {} /s", took.as_secs_f64(), thousands(rate)))?;
        Ok(rate)
    }

    /// Adds a line to the table: the median of the rounds, beside that of a peer where there is
    /// one.
    pub(crate) fn rate(&mut self, name: &str, rounds: Vec<f64>, peer: Option<(&str, Vec<f64>)>) {
        let own = median(rounds);
        let beside = peer.map_or_else(String::new, |(peer, rounds)| {
            let other = median(rounds);
            format!("{:.2} x {peer} ({} /s)", own / other, thousands(other))
        });
        self.rows.push(Row { name: name.to_owned(), figure: format!("{} /s", thousands(own)), beside });
    }

    /// Adds a line that is no rate.
    pub(crate) fn figure(&mut self, name: &str, figure: String) {
        self.rows.push(Row { name: name.to_owned(), figure, beside: String::new() });
    }

    /// Prints the table, and puts it at the end of the raw run.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let width = |of: fn(&Row) -> &str| self.rows.iter().map(|row| of(row).len()).max().unwrap_or(0);
        let (names, figures) = (width(|row| &row.name), width(|row| &row.figure));
        let mut table = String::new();
        for Row { name, figure, beside } in &self.rows {
            let line = format!("{name:<names$}  {figure:>figures$}  {beside}");
            table.push_str(line.trim_end());
            table.push('\n');
        }
        writeln!(self.raw, "\n{table}")?;
        let mut out = io::stdout().lock();
        write!(
            out,
            "\n{table}\nsync = \"always\"; client, server and peer on the same cores; medians of rounds\n"
        )?;
        writeln!(out, "raw run: {}", self.path.display())?;
        Ok(())
    }
}

pub(crate) fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds.get(rounds.len() / 2).copied().unwrap_or(f64::NAN)
}

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
