//! What is read from a file or from stdin: whole, or line by line in pieces that fit into a
//! request.
//!
//! A piece is what there is now, so that lines which come slowly are not kept waiting for others.
//! Memory is bounded also where a line never ends.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use serde_json::value::RawValue;

use super::failure::CommandFailure;

/// The most that is read at once, and so about the size of a request.
const PIECE_BYTES_MAX: usize = 1_024 * 1_024;
/// A secret or another small thing that is read whole.
const WHOLE_BYTES_MAX: u64 = 64 * 1_024;
/// The name of stdin.
const STDIN: &str = "-";

/// JSON on the command line.
pub(super) fn json(text: &str) -> Result<Box<RawValue>, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("not JSON ({error}); a text is written with its quotes: '\"open\"'"))
}

/// Opens a file, or stdin for `-`.
pub(super) fn open(file: &Path) -> Result<Box<dyn Read>, CommandFailure> {
    if file.as_os_str() == STDIN {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = File::open(file).map_err(|error| unreadable(file, &error))?;
    Ok(Box::new(opened))
}

/// How long a file is, or what stdin is read from; `None` where that is not known before it is
/// read.
pub(super) fn size(file: &Path) -> Option<u64> {
    let opened = if file.as_os_str() == STDIN {
        File::from(io::stdin().as_fd().try_clone_to_owned().ok()?)
    } else {
        File::open(file).ok()?
    };
    let metadata = opened.metadata().ok()?;
    metadata.is_file().then_some(metadata.len())
}

/// The whole text of a small file.
pub(super) fn whole(file: &Path) -> Result<String, CommandFailure> {
    let mut text = String::new();
    let read = open(file)?.take(WHOLE_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| unreadable(file, &error))?;
    Ok(text)
}

pub(super) fn unreadable(file: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::Usage(format!("{} cannot be read: {error}", file.display()))
}

/// Some whole lines that follow each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InputPiece {
    /// How many lines of the input were before it.
    pub(super) lines_before: u64,
    pub(super) lines: u64,
    pub(super) text: Vec<u8>,
}

/// Cuts an input into pieces.
pub(super) struct InputPieces<R> {
    input: R,
    /// What was read and not handed over: the beginning of a line.
    rest: Vec<u8>,
    size_max: usize,
    lines_before: u64,
    ended: bool,
}

impl<R: Read> InputPieces<R> {
    pub(super) fn of(input: R) -> Self {
        Self::up_to(PIECE_BYTES_MAX, input)
    }

    fn up_to(size_max: usize, input: R) -> Self {
        Self { input, rest: Vec::new(), size_max, lines_before: 0, ended: false }
    }

    /// The next lines, or `None` at the end. The last line need not end in a newline.
    pub(super) fn next(&mut self) -> io::Result<Option<InputPiece>> {
        loop {
            if let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') {
                let rest = self.rest.split_off(end + 1);
                return Ok(Some(self.piece(rest)));
            }
            if self.ended {
                return Ok((!self.rest.is_empty()).then(|| self.piece(Vec::new())));
            }
            if self.rest.len() >= self.size_max {
                self.skip_line()?;
            } else {
                self.fill()?;
            }
        }
    }

    /// Hands over what was read, and keeps the rest.
    fn piece(&mut self, rest: Vec<u8>) -> InputPiece {
        let text = std::mem::replace(&mut self.rest, rest);
        let newlines = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        let lines = newlines + u64::from(text.last() != Some(&b'\n'));
        let lines_before = self.lines_before;
        self.lines_before += lines;
        InputPiece { lines_before, lines, text }
    }

    /// Reads once, up to the limit.
    fn fill(&mut self) -> io::Result<()> {
        let held = self.rest.len();
        self.rest.resize(self.size_max, 0);
        let read = loop {
            match self.input.read(&mut self.rest[held..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.rest.truncate(held + *read.as_ref().unwrap_or(&0));
        self.ended = read? == 0;
        Ok(())
    }

    /// A line that fills the whole piece is longer than the server takes. It gets its beginning, to
    /// reject it by its number, and the remainder is passed over.
    fn skip_line(&mut self) -> io::Result<()> {
        let beginning = std::mem::take(&mut self.rest);
        while !self.ended {
            self.rest.clear();
            self.fill()?;
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                self.rest.drain(..end);
                break;
            }
        }
        self.rest.splice(..0, beginning);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that gives what it has in these parts.
    struct Parts(Vec<&'static str>);

    impl Read for Parts {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let part = self.0.remove(0).as_bytes();
            let fits = part.len().min(into.len());
            into[..fits].copy_from_slice(&part[..fits]);
            if fits < part.len() {
                self.0.insert(0, std::str::from_utf8(&part[fits..]).expect("the tests are in ASCII"));
            }
            Ok(fits)
        }
    }

    fn check(size_max: usize, parts: &[&'static str], expect: &[(u64, u64, &str)]) {
        let mut pieces = InputPieces::up_to(size_max, Parts(parts.to_vec()));
        let mut got = Vec::new();
        while let Some(piece) = pieces.next().expect("the parts can be read") {
            got.push((piece.lines_before, piece.lines, String::from_utf8(piece.text).expect("text")));
        }
        let got: Vec<_> = got.iter().map(|(before, lines, text)| (*before, *lines, text.as_str())).collect();
        assert_eq!(got, expect, "{parts:?}");
    }

    #[test]
    fn a_piece_is_the_whole_lines_that_there_are_now() {
        check(100, &["a\nb\n", "c\n"], &[(0, 2, "a\nb\n"), (2, 1, "c\n")]);
        check(100, &["a\nb", "b\nc"], &[(0, 1, "a\n"), (1, 1, "bb\n"), (2, 1, "c")]);
        check(100, &["\n\n"], &[(0, 2, "\n\n")]);
        check(100, &[], &[]);
    }

    #[test]
    fn a_large_input_comes_in_pieces() {
        check(5, &["a\nbb\nc\n"], &[(0, 2, "a\nbb\n"), (2, 1, "c\n")]);
    }

    #[test]
    fn a_line_that_does_not_fit_is_cut_and_counted_once() {
        check(4, &["aaaaaaaaaa\nb\n"], &[(0, 1, "aaaa\n"), (1, 1, "b\n")]);
        check(4, &["aaaaaaaaaa"], &[(0, 1, "aaaa")]);
        check(4, &["aaaa\nb\nc"], &[(0, 2, "aaaa\nb\n"), (2, 1, "c")]);
    }
}
