//! An operation as people see it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::CommandFailure;
use crate::list::TableRow;
use crate::table::{BAD, Cell, GOOD, OPEN, facts, grouped, line, plain};
use crate::when::{age_of, with_age};

/// An operation, and how far it has come.
#[derive(Deserialize)]
pub(super) struct OperationView {
    pub(super) id: String,
    action: String,
    filter: Option<Box<RawValue>>,
    status: String,
    matched: u64,
    done: u64,
    refused: u64,
    skipped: u64,
    created_at: String,
    ended_at: Option<String>,
    by: Option<String>,
    last_error: Option<LastError>,
}

/// The latest refusal.
#[derive(Deserialize)]
struct LastError {
    code: String,
    detail: String,
    subject: String,
}

/// What an operation would be done to.
#[derive(Deserialize)]
pub(super) struct DryRun {
    matched: u64,
    looked_at: u64,
    complete: bool,
}

impl DryRun {
    pub(super) fn facts(&self) -> String {
        let complete = if self.complete { "yes" } else { "no, there may be more" };
        facts(&[
            ("matched", Cell::text(&grouped(self.matched))),
            ("looked at", Cell::text(&grouped(self.looked_at))),
            ("complete", Cell::text(complete)),
        ])
    }
}

impl OperationView {
    pub(super) fn has_ended(&self) -> bool {
        self.status != "running"
    }

    /// Nothing if it is done and nothing was refused; else why a script should stop here.
    pub(super) fn verdict(&self) -> Result<(), CommandFailure> {
        let id = plain(&self.id);
        match (self.status.as_str(), self.refused) {
            ("done", 0) => Ok(()),
            ("done", refused) => Err(CommandFailure::Incomplete(format!(
                "{id} is done, and {} of {} were refused",
                grouped(refused),
                grouped(self.matched)
            ))),
            (status, _) => Err(CommandFailure::Incomplete(format!("{id} is {}", plain(status)))),
        }
    }

    /// Everything that is known of it.
    pub(super) fn facts(&self) -> String {
        let filter = self.filter.as_ref().map_or("{}", |filter| filter.get());
        let mut known = vec![
            ("id", Cell::text(&self.id)),
            ("action", Cell::text(&self.action)),
            ("filter", Cell::short(filter)),
            ("status", self.status()),
            ("begun", Cell::text(&with_age(&self.created_at))),
        ];
        known.extend(self.ended_at.as_deref().map(|at| ("ended", Cell::text(&with_age(at)))));
        known.extend(self.by.as_deref().map(|by| ("by", Cell::text(by))));
        known.extend(self.counts().map(|(name, count)| (name, Cell::text(&grouped(count)))));
        if let Some(LastError { code, detail, subject }) = &self.last_error {
            let of = if subject.is_empty() { String::new() } else { format!("{subject}: ") };
            known.push(("last error", Cell::text(&format!("{of}{code}: {detail}"))));
        }
        facts(&known)
    }

    fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [("matched", self.matched), ("done", self.done), ("refused", self.refused), ("skipped", self.skipped)]
            .into_iter()
    }

    /// How far it has come, in a line of one that is watched.
    pub(super) fn line(&self) -> String {
        let counts = self.counts().map(|(name, count)| format!("{name} {}", grouped(count)));
        let counts = counts.collect::<Vec<_>>().join(", ");
        line(&[Cell::text(&self.id), self.status(), Cell::text(&counts)])
    }

    fn status(&self) -> Cell {
        Cell::standing(&self.status, &[(GOOD, &["done"]), (BAD, &["failed"]), (OPEN, &["running"])])
    }
}

impl TableRow for OperationView {
    const HEADINGS: &'static [&'static str] =
        &["ID", "ACTION", "STATUS", "MATCHED", "DONE", "REFUSED", "SKIPPED", "AGE"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.id),
            Cell::text(&self.action),
            self.status(),
            Cell::number(self.matched),
            Cell::number(self.done),
            Cell::number(self.refused),
            Cell::number(self.skipped),
            Cell::text(&age_of(&self.created_at)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_operation_that_is_done_without_refusals_ends_well() {
        for (status, refused, ended, says) in [
            ("done", 0, true, ""),
            ("done", 3, true, "op_1 is done, and 3 of 1 000 were refused"),
            ("failed", 0, true, "op_1 is failed"),
            ("cancelled", 3, true, "op_1 is cancelled"),
            ("running", 0, false, "op_1 is running"),
        ] {
            let text = format!(
                r#"{{"id":"op_1","action":"dead.delete","filter":{{}},"status":"{status}","matched":1000,
                "done":0,"refused":{refused},"skipped":0,"created_at":"2026-11-21T01:02:03.456Z","by":null}}"#
            );
            let operation: OperationView = serde_json::from_str(&text).expect("an operation");
            let verdict = operation.verdict().err().map(|failure| failure.to_string()).unwrap_or_default();
            let says = says.replace("1 000", &grouped(1_000));
            assert_eq!((verdict, operation.has_ended()), (says, ended));
        }
    }
}
