//! Tasks and their results as people see them.

use std::time::Duration;

use base::{Timestamp, duration};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::CommandFailure;
use crate::follow::Timed;
use crate::list::TableRow;
use crate::max_failed::MaxFailed;
use crate::pick_counts::PickCountsView;
use crate::receiver::ReceiverView;
use crate::screen::Screen;
use crate::table::{BAD, Cell, GOOD, OPEN, facts, grouped, line, plain};
use crate::when::to_millisecond;

/// A task, and what came of its picks.
#[derive(Deserialize)]
pub(super) struct TaskView {
    pub(super) id: String,
    status: String,
    #[serde(flatten)]
    counts: PickCountsView,
    notify: Option<ReceiverView>,
}

impl TaskView {
    pub(super) fn has_ended(&self) -> bool {
        self.status != "running"
    }

    /// Nothing if as many devices as were wanted gave a good answer, but for the most that may be
    /// missing. Else why a script should stop here.
    pub(super) fn verdict(&self, most: MaxFailed) -> Result<(), CommandFailure> {
        let Self { id, status, counts: PickCountsView { wanted, answered, .. }, .. } = self;
        if status != "done" {
            return Err(CommandFailure::Incomplete(format!("{} is {}", plain(id), plain(status))));
        }
        if most.is_exceeded(wanted.saturating_sub(*answered), *wanted) {
            let (answered, wanted) = (grouped(*answered), grouped(*wanted));
            let what = format!("{} is done, with {answered} good answers of {wanted} wanted", plain(id));
            return Err(CommandFailure::Incomplete(what));
        }
        Ok(())
    }

    /// Everything that is known of it.
    pub(super) fn facts(&self) -> String {
        let mut known = vec![("id", Cell::text(&self.id)), ("status", self.status())];
        let counts = self.counts.named();
        known.extend(counts.map(|(name, count)| (name, Cell::text(&grouped(count)))));
        known.extend(self.notify.as_ref().map(|receiver| ("told", Cell::text(receiver.place()))));
        facts(&known)
    }

    /// How far it has come, for programs its document.
    pub(super) fn show_line(&self, document: &RawValue, screen: &mut Screen) -> Result<(), CommandFailure> {
        screen.show_as("task", document, || self.line())
    }

    fn line(&self) -> String {
        let [answered, rest] = self.counts.cells();
        line(&[Cell::text(&self.id), self.status(), answered, rest])
    }

    /// The secret of its receiver, where it was made just now.
    pub(super) fn secret_once(&self) -> String {
        self.notify.as_ref().map(ReceiverView::secret_once).unwrap_or_default()
    }

    fn status(&self) -> Cell {
        Cell::standing(&self.status, &[(GOOD, &["done"]), (OPEN, &["running"])])
    }
}

/// What came of a device that was picked.
#[derive(Deserialize)]
pub(crate) struct ResultView {
    device_id: String,
    picked_at: String,
    answered_at: Option<String>,
    outcome: String,
    reason: Option<String>,
    result: Option<Box<RawValue>>,
    late: Option<LateView>,
    /// Of a campaign's result.
    pub(crate) slot: Option<u64>,
}

/// An answer that came after the end.
#[derive(Deserialize)]
struct LateView {
    ok: bool,
    result: Option<Box<RawValue>>,
}

impl ResultView {
    fn outcome(&self) -> Cell {
        Cell::standing(&self.outcome, &[(GOOD, &["answered"]), (BAD, &["failed", "expired"])])
    }

    /// How long the device took for its answer.
    fn took(&self) -> Option<Duration> {
        let answered = Timestamp::parse(self.answered_at.as_deref()?).ok()?;
        Some(answered.since(Timestamp::parse(&self.picked_at).ok()?))
    }

    /// What the device said, or why it said nothing.
    fn said(&self) -> String {
        let said = self.result.as_deref().map(RawValue::get).or(self.reason.as_deref());
        let late = self.late.as_ref().map(|LateView { ok, result }| {
            let did = if *ok { "done" } else { "not done" };
            let result = result.as_deref().map_or(String::new(), |result| format!(" {}", result.get()));
            format!("late: {did}{result}")
        });
        said.map(str::to_owned).into_iter().chain(late).collect::<Vec<_>>().join(", ")
    }
}

impl TableRow for ResultView {
    const HEADINGS: &'static [&'static str] = &["DEVICE", "PICKED", "OUTCOME", "TOOK", "SAID"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.device_id),
            Cell::text(&to_millisecond(&self.picked_at)),
            self.outcome(),
            Cell::maybe(self.took().map(duration::format).as_deref()),
            Cell::short(&self.said()),
        ]
    }
}

impl Timed for ResultView {
    fn time(&self) -> &str {
        &self.picked_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TextTable;

    fn task(status: &str, answered: u64, failed: u64, expired: u64) -> TaskView {
        let text = format!(
            r#"{{"id":"tsk_1","status":"{status}","wanted":100,"picked":102,"answered":{answered},
            "failed":{failed},"expired":{expired},"replaced":2}}"#
        );
        serde_json::from_str(&text).expect("a task")
    }

    fn unstyled(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn only_a_task_that_got_its_answers_ends_well() {
        let all_but_two = MaxFailed::Percent(2.0);
        for (task, says) in [
            (task("done", 98, 2, 2), ""),
            (task("done", 100, 0, 2), ""),
            (task("done", 97, 1, 4), "tsk_1 is done, with 97 good answers of 100 wanted"),
            (task("cancelled", 100, 0, 2), "tsk_1 is cancelled"),
            (task("running", 100, 0, 2), "tsk_1 is running"),
        ] {
            let verdict = task.verdict(all_but_two).err().map(|failure| failure.to_string());
            assert_eq!(verdict.unwrap_or_default(), says);
        }
    }

    #[test]
    fn a_line_of_a_task_has_what_it_waits_for_first() {
        let line = unstyled(&task("done", 98, 0, 4).line());
        assert_eq!(line, "tsk_1  done  98 of 100 answered  picked 102, expired 4, replaced 2\n");
    }

    #[test]
    fn a_result_is_what_was_said_or_why_nothing_was() {
        let items = [
            r#"{"device_id":"p1","picked_at":"2026-11-21T01:02:03.000Z","answered_at":"2026-11-21T01:02:03.250Z",
                "outcome":"answered","result":{"ms":12}}"#,
            r#"{"device_id":"probe17","picked_at":"2026-11-21T01:02:03.000Z","answered_at":null,
                "outcome":"expired","reason":"no_answer","result":null,
                "late":{"ok":true,"at":"2026-11-21T01:02:30.000Z","result":7}}"#,
        ];
        let rows = items.map(|item| serde_json::from_str::<ResultView>(item).expect("a result").cells());
        assert_eq!(
            unstyled(&TextTable::new(ResultView::HEADINGS).lines(&rows)),
            "DEVICE   PICKED                    OUTCOME   TOOK   SAID\n\
             p1       2026-11-21 01:02:03.000Z  answered  250ms  {\"ms\":12}\n\
             probe17  2026-11-21 01:02:03.000Z  expired   -      no_answer, late: done 7\n"
        );
    }
}
