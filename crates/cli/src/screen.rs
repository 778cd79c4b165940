//! Where results go: stdout, as the API's JSON or as text for people; notes and failures go to
//! stderr.
//!
//! Colours are written only to a terminal that wants them (`NO_COLOR`, `CLICOLOR_FORCE` and `TERM`
//! are honoured).

use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::termios::tcgetwinsize;
use serde_json::value::RawValue;
use unicode_width::UnicodeWidthStr;

use super::failure::CommandFailure;
use super::table::{beginning, plain};

/// The output of one command.
pub(super) struct Screen {
    out: BufWriter<Box<dyn Write>>,
    json: bool,
    progress: bool,
    /// Of the terminal that shows it, in columns.
    width: Option<usize>,
}

impl Screen {
    /// The output of this process.
    pub(super) fn of_process(json: bool) -> Self {
        let progress = !json && io::stderr().is_terminal();
        Self { out: BufWriter::new(stdout_of(json)), json, progress, width: stdout_columns() }
    }

    /// How wide the terminal is that shows it; `None` where there is none.
    pub(super) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Whether a program reads it.
    pub(super) fn is_for_programs(&self) -> bool {
        self.json
    }

    /// A document of the API as it came, for programs; else what `text` makes of it for people.
    pub(super) fn show(
        &mut self,
        document: &RawValue,
        text: impl FnOnce() -> Result<String, CommandFailure>,
    ) -> Result<(), CommandFailure> {
        if self.json {
            writeln!(self.out, "{document}")?;
        } else {
            self.out.write_all(text()?.as_bytes())?;
        }
        Ok(())
    }

    /// One of several sorts of lines: for programs an object that says which, `{"event":{...}}`.
    pub(super) fn show_as(
        &mut self,
        sort: &str,
        document: &RawValue,
        text: impl FnOnce() -> String,
    ) -> Result<(), CommandFailure> {
        if self.json {
            writeln!(self.out, "{{\"{sort}\":{document}}}")?;
        } else {
            self.out.write_all(text().as_bytes())?;
        }
        Ok(())
    }

    /// Text for people: lines that end in a newline. Programs have the exit code.
    pub(super) fn tell(&mut self, text: &str) -> Result<(), CommandFailure> {
        if !self.json {
            self.out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// Does something to each of these, and tells that it is done. Of several, one that is refused
    /// does not stop the others.
    pub(super) fn each(
        &mut self,
        ids: &[String],
        done: &str,
        act: impl Fn(&str) -> Result<(), CommandFailure>,
    ) -> Result<(), CommandFailure> {
        let mut refused = 0;
        for id in ids {
            match act(id) {
                Ok(()) => self.tell(&format!("{} {done}\n", plain(id)))?,
                Err(failure) if ids.len() > 1 && failure.is_of_one() => {
                    self.note_refused(id, &failure);
                    refused += 1;
                }
                Err(failure) => return Err(failure),
            }
        }
        match refused {
            0 => Ok(()),
            _ => Err(CommandFailure::Incomplete(format!("{refused} of {} refused", ids.len()))),
        }
    }

    /// One of several was refused, and the others go on.
    pub(super) fn note_refused(&self, id: &str, failure: &CommandFailure) {
        self.note(&match self.json {
            true => failure.to_json_of(id),
            false => format!("{}: {}", plain(id), plain(&failure.to_string())),
        });
    }

    /// Text that is the same for people and for programs, such as an export.
    pub(super) fn write_line(&mut self, text: &str) -> Result<(), CommandFailure> {
        Ok(writeln!(self.out, "{text}")?)
    }

    /// What was written so far is seen from now on.
    pub(super) fn flush(&mut self) -> Result<(), CommandFailure> {
        Ok(self.out.flush()?)
    }

    /// A remark beside the result. When nobody can be told, the result still counts.
    pub(super) fn note(&self, text: &str) {
        self.progress("");
        drop(writeln!(io::stderr(), "{text}"));
    }

    /// How far something long has come, in place of what was said before; only to a terminal.
    pub(super) fn progress(&self, text: &str) {
        const CLEAR_LINE: &str = "\r\u{1b}[K";
        if self.progress {
            let mut text = plain(text);
            // A line that goes on below cannot be cleared.
            if let Some(width) = columns(io::stderr()).filter(|width| text.width() >= *width) {
                text = beginning(&text, width - 1);
            }
            drop(write!(io::stderr(), "{CLEAR_LINE}{text}"));
        }
    }

    /// Tells a failure, below whatever was shown before it; what the process exits with.
    pub(super) fn fail(&mut self, failure: &CommandFailure) -> ExitCode {
        // When the output is what failed, this fails again, and has been told.
        drop(self.out.flush());
        if !failure.is_silent() {
            self.note(&if self.json { failure.to_json() } else { failure.to_text() });
        }
        ExitCode::from(failure.exit_code())
    }
}

/// Stdout as it is for programs; for people without colours where nobody would see them.
#[must_use]
pub fn stdout_of(json: bool) -> Box<dyn Write> {
    if json { Box::new(io::stdout()) } else { Box::new(anstream::AutoStream::auto(io::stdout())) }
}

/// How wide the terminal is that shows stdout; `None` where there is none.
#[must_use]
pub fn stdout_columns() -> Option<usize> {
    columns(io::stdout())
}

/// The width of a terminal; `None` for what is none, or does not say.
fn columns(of: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(of).ok()?;
    (size.ws_col > 1).then_some(usize::from(size.ws_col))
}
