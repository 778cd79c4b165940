//! Many lines to the server: sent in pieces one after the other, so that everything before a
//! failure is known to be settled.
//!
//! The answers are added up to the one that a single request would have got.

use std::path::Path as File;

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::input::{self, InputPieces};
use super::progress;
use super::screen::Screen;
use super::table::{grouped, plain};
use serde::{Deserialize, Serialize};

/// So many rejected lines are shown to people; the rest is counted.
const SHOWN_MAX: usize = 20;
/// So many are listed in the sum, as in any answer of the server.
const LISTED_MAX: usize = 1_000;

/// What became of lines. Reports are accepted; devices are created or updated; messages are
/// appended, or were there before.
#[derive(Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct ImportTally {
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    appended: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicates: Option<u64>,
    rejected_count: u64,
    rejected: Vec<ImportRejection>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_id: Option<String>,
}

#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
struct ImportRejection {
    line: u64,
    code: String,
    detail: String,
}

/// What a refusal of lines may say beside why: how far they went, and what became of those.
#[derive(Debug, Deserialize)]
struct TakenBefore {
    last_line: u64,
    #[serde(flatten)]
    tally: ImportTally,
}

impl ImportTally {
    fn nothing_yet(counts: &[ImportCount]) -> Self {
        let zero = |count| counts.contains(&count).then_some(0);
        Self {
            accepted: zero(ImportCount::Accepted),
            created: zero(ImportCount::Created),
            updated: zero(ImportCount::Updated),
            appended: zero(ImportCount::Appended),
            duplicates: zero(ImportCount::Duplicates),
            ..Self::default()
        }
    }

    /// Adds what became of the lines behind those that were before.
    fn add(&mut self, mut other: Self, lines_before: u64) {
        let sum = |a: Option<u64>, b: Option<u64>| a.map(|a| a + b.unwrap_or(0)).or(b);
        self.accepted = sum(self.accepted, other.accepted);
        self.created = sum(self.created, other.created);
        self.updated = sum(self.updated, other.updated);
        self.appended = sum(self.appended, other.appended);
        self.duplicates = sum(self.duplicates, other.duplicates);
        self.last_id = other.last_id.or(self.last_id.take());
        self.rejected_count += other.rejected_count;
        other.rejected.iter_mut().for_each(|rejected| rejected.line += lines_before);
        let room = LISTED_MAX.saturating_sub(self.rejected.len());
        self.rejected.extend(other.rejected.into_iter().take(room));
    }

    /// Adds what the refusal of a piece says of its first lines. How many lines those are: none
    /// where it does not say.
    fn add_before(&mut self, refused: &CommandFailure, (lines_before, lines): (u64, u64)) -> u64 {
        let CommandFailure::Refused(refusal) = refused else { return 0 };
        let Some(text) = &refusal.document else { return 0 };
        let Ok(TakenBefore { last_line, tally }) = serde_json::from_str(text) else { return 0 };
        self.add(tally, lines_before);
        last_line.min(lines)
    }

    /// `1,200 accepted, 3 rejected`.
    pub(super) fn sentence(&self) -> String {
        let counts = [
            (self.created, "created"),
            (self.updated, "updated"),
            (self.accepted, "accepted"),
            (self.appended, "appended"),
            (self.duplicates, "duplicates"),
        ];
        let mut parts: Vec<_> = counts
            .iter()
            .filter_map(|(count, what)| Some(format!("{} {what}", grouped((*count)?))))
            .collect();
        parts.push(format!("{} rejected", grouped(self.rejected_count)));
        parts.join(", ")
    }

    /// An error where anything was rejected: a script has to notice.
    pub(super) fn verdict(&self) -> Result<(), CommandFailure> {
        match self.rejected_count {
            0 => Ok(()),
            1 => Err(CommandFailure::Incomplete("one was rejected".to_owned())),
            count => Err(CommandFailure::Incomplete(format!("{} were rejected", grouped(count)))),
        }
    }

    /// Tells people the rejected lines from this one of the list on, while they are few. Programs
    /// have them in the sum.
    pub(super) fn tell_rejected(&self, from: usize, screen: &Screen) {
        if screen.is_for_programs() {
            return;
        }
        let few = &self.rejected[..self.rejected.len().min(SHOWN_MAX)];
        for ImportRejection { line, code, detail } in few.iter().skip(from) {
            screen.note(&format!("line {line}: {} ({})", plain(detail), plain(code)));
        }
    }
}

/// What the answers of a call count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImportCount {
    Accepted,
    Created,
    Updated,
    Appended,
    Duplicates,
}

/// Sends a file, or stdin, and shows what became of it.
pub(super) fn run(
    api: &ServerApi,
    screen: &mut Screen,
    path: &ApiPath,
    file: &File,
    counts: &[ImportCount],
) -> Result<(), CommandFailure> {
    let size = input::size(file);
    let mut pieces = InputPieces::of(input::open(file)?);
    let mut sent_bytes = 0;
    let mut sum = ImportTally::nothing_yet(counts);
    let mut after_line = 0;
    loop {
        let known = format!("{} lines: {}", grouped(after_line), sum.sentence());
        screen.progress(&progress::line(sent_bytes, size, &known));
        let piece = match pieces.next() {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(error) => {
                let (so_far, cause) = (Box::new(sum), Box::new(input::unreadable(file, &error)));
                return Err(CommandFailure::BrokenOff { after_line, so_far, cause });
            }
        };
        let bytes = piece.text.len() as u64;
        let answer = api.post_lines(path, piece.text).and_then(|answer| api.read::<ImportTally>(&answer));
        let listed = sum.rejected.len();
        let refused = match answer {
            Ok(tally) => {
                sum.add(tally, piece.lines_before);
                after_line = piece.lines_before + piece.lines;
                None
            }
            Err(cause) => {
                let place = (piece.lines_before, piece.lines);
                after_line = piece.lines_before + sum.add_before(&cause, place);
                Some(cause)
            }
        };
        sum.tell_rejected(listed, screen);
        if let Some(cause) = refused {
            return Err(CommandFailure::BrokenOff {
                after_line,
                so_far: Box::new(sum),
                cause: Box::new(cause),
            });
        }
        sent_bytes += bytes;
    }
    screen.progress("");
    let document = serde_json::value::to_raw_value(&sum).expect("a tally has only names for keys");
    screen.show(&document, || Ok(format!("{}\n", sum.sentence())))?;
    sum.verdict()
}

#[cfg(test)]
mod tests {
    use fieldpost_client::Refusal;
    use serde_json::{Value, json};

    use super::*;

    fn tally(text: &str) -> ImportTally {
        serde_json::from_str(text).expect("a tally")
    }

    #[test]
    fn answers_add_up_with_the_lines_of_the_whole_input() {
        let mut sum = ImportTally::nothing_yet(&[ImportCount::Accepted]);
        let answer = r#"{"accepted":9,"rejected_count":1,"rejected":[{"line":3,"code":"c","detail":"d"}]}"#;
        sum.add(tally(answer), 0);
        sum.add(tally(answer), 10);
        assert_eq!((sum.accepted, sum.rejected_count), (Some(18), 2));
        assert_eq!(sum.rejected.iter().map(|rejected| rejected.line).collect::<Vec<_>>(), [3, 13]);
        assert_eq!(sum.sentence(), "18 accepted, 2 rejected");
        assert!(sum.verdict().is_err());
    }

    #[test]
    fn a_refusal_that_says_how_far_it_went_is_of_the_whole_input() {
        let refused =
            |document: &str| CommandFailure::Refused(Box::new(Refusal::read(503, None, document.as_bytes())));
        let mut sum = ImportTally::nothing_yet(&[ImportCount::Appended]);
        sum.add(tally(r#"{"appended":100,"rejected_count":0,"rejected":[],"last_id":"100"}"#), 0);
        let plain = r#"{"code":"busy","detail":"d"}"#;
        assert_eq!(sum.add_before(&refused(plain), (100, 50)), 0);
        let failure = refused(
            r#"{"code":"stream_full","detail":"d","last_line":20,"appended":19,"duplicates":0,
                "rejected_count":1,"rejected":[{"line":7,"code":"c","detail":"e"}],"last_id":"119"}"#,
        );
        assert_eq!(sum.add_before(&failure, (100, 50)), 20);
        assert_eq!((sum.appended, sum.rejected[0].line), (Some(119), 107));
        let before_it =
            CommandFailure::BrokenOff { after_line: 120, so_far: Box::new(sum), cause: Box::new(failure) };
        let document: Value = serde_json::from_str(&before_it.to_json()).expect("JSON");
        assert_eq!((&document["code"], &document["last_line"]), (&json!("stream_full"), &json!(120)));
        assert_eq!((&document["appended"], &document["last_id"]), (&json!(119), &json!("119")));
        assert_eq!(document["rejected"][0]["line"], 107);
    }

    #[test]
    fn an_empty_input_has_a_sum_too() {
        let sum = ImportTally::nothing_yet(&[ImportCount::Created, ImportCount::Updated]);
        let text = serde_json::to_string(&sum).expect("JSON");
        assert_eq!(text, r#"{"created":0,"updated":0,"rejected_count":0,"rejected":[]}"#);
        assert_eq!(sum.sentence(), "0 created, 0 updated, 0 rejected");
        assert!(sum.verdict().is_ok());
    }

    #[test]
    fn only_the_first_thousand_are_listed_and_all_are_counted() {
        let line = |line: u64| ImportRejection { line, code: "c".to_owned(), detail: "d".to_owned() };
        let many = || ImportTally {
            rejected_count: 5_000,
            rejected: (1..=700).map(line).collect(),
            ..ImportTally::default()
        };
        let mut sum = ImportTally::default();
        sum.add(many(), 0);
        sum.add(many(), 5_000);
        assert_eq!((sum.rejected_count, sum.rejected.len()), (10_000, LISTED_MAX));
    }
}
