//! A command as people see it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::CommandFailure;
use crate::follow::Timed;
use crate::list::TableRow;
use crate::table::{BAD, Cell, FAINT, GOOD, OPEN, facts, grouped, line, plain};
use crate::when::{age_of, to_millisecond, with_age};

/// A command, and how far it has come.
#[derive(Deserialize)]
pub(super) struct CommandView {
    pub(super) id: String,
    device_id: String,
    pub(super) status: String,
    #[serde(default)]
    tries: u64,
    created_at: String,
    payload: Option<Box<RawValue>>,
    origin: Option<String>,
    key: Option<String>,
    #[serde(default)]
    priority: i64,
    max_attempts: Option<u64>,
    not_before: Option<String>,
    expires_at: Option<String>,
    published_at: Option<String>,
    finished_at: Option<String>,
    progress: Option<Box<RawValue>>,
    progress_at: Option<String>,
    result: Option<Box<RawValue>>,
    late: Option<LateReply>,
}

/// An answer that came after the end.
#[derive(Deserialize)]
struct LateReply {
    ok: bool,
    at: String,
    result: Option<Box<RawValue>>,
}

impl CommandView {
    /// Whether nothing more comes of it by itself.
    pub(super) fn has_ended(&self) -> bool {
        !super::open_statuses().any(|open| open == self.status)
    }

    /// Nothing if the device did it; else why a script should stop here.
    pub(super) fn verdict(&self) -> Result<(), CommandFailure> {
        let Self { id, status, .. } = self;
        match (status.as_str(), self.has_ended()) {
            ("acknowledged", _) => Ok(()),
            (_, true) => Err(CommandFailure::Incomplete(format!("{} ended as {}", plain(id), plain(status)))),
            (_, false) => Err(CommandFailure::Incomplete(format!(
                "{} has not ended, it is {}; `fieldpost command watch` waits for its end",
                plain(id),
                plain(status)
            ))),
        }
    }

    /// Everything that is known of it.
    pub(super) fn facts(&self) -> String {
        let tries = match self.max_attempts {
            Some(all) => format!("{} of {}", grouped(self.tries), grouped(all)),
            None => grouped(self.tries),
        };
        let mut known = vec![
            ("id", Cell::text(&self.id)),
            ("device", Cell::text(&self.device_id)),
            ("status", self.status()),
            ("payload", json(self.payload.as_deref())),
            ("tries", Cell::text(&tries)),
            ("sent", Cell::text(&with_age(&self.created_at))),
        ];
        let texts = [("origin", &self.origin), ("key", &self.key)];
        known.extend(texts.into_iter().filter_map(|(name, text)| Some((name, Cell::text(text.as_ref()?)))));
        if self.priority != 0 {
            known.push(("priority", Cell::text(&self.priority.to_string())));
        }
        known.extend(self.times());
        known.extend(self.answers());
        facts(&known)
    }

    fn times(&self) -> impl Iterator<Item = (&'static str, Cell)> {
        let ahead = [("not before", &self.not_before), ("expires", &self.expires_at)];
        let ahead = ahead.into_iter().filter_map(|(name, time)| {
            let time = time.as_deref().filter(|_| !self.has_ended())?;
            Some((name, Cell::text(&to_millisecond(time))))
        });
        let past = [("published", &self.published_at), ("ended", &self.finished_at)];
        let past =
            past.into_iter().filter_map(|(name, time)| Some((name, Cell::text(&with_age(time.as_deref()?)))));
        ahead.chain(past)
    }

    /// What the device said.
    fn answers(&self) -> Vec<(&'static str, Cell)> {
        let mut said = Vec::new();
        if let Some(progress) = &self.progress {
            let at = self.progress_at.as_deref().map(|at| format!("  {}", with_age(at)));
            said.push(("progress", Cell::text(&format!("{}{}", progress.get(), at.unwrap_or_default()))));
        }
        if let Some(result) = &self.result {
            said.push(("result", Cell::text(result.get())));
        }
        if let Some(LateReply { ok, at, result }) = &self.late {
            let did = if *ok { "done" } else { "not done" };
            let result = result.as_deref().map_or(String::new(), |result| format!(" {}", result.get()));
            said.push(("late answer", Cell::text(&format!("{did}{result}  {}", with_age(at)))));
        }
        said
    }

    /// Where it stands, in a line of a command that is watched.
    pub(super) fn line(&self) -> String {
        let at = [&self.finished_at, &self.progress_at, &self.published_at];
        let at = at.into_iter().flatten().max().unwrap_or(&self.created_at);
        let mut cells = vec![
            Cell::text(&to_millisecond(at)).styled(FAINT),
            Cell::text(&self.id),
            self.status(),
            Cell::text(&format!("try {}", grouped(self.tries))),
        ];
        let said = if self.has_ended() { &self.result } else { &self.progress };
        cells.extend(said.as_deref().map(|said| Cell::short(said.get())));
        line(&cells)
    }

    fn status(&self) -> Cell {
        Cell::standing(
            &self.status,
            &[
                (GOOD, &["acknowledged"]),
                (BAD, &["failed", "expired"]),
                (OPEN, &["scheduled", "published", "running"]),
            ],
        )
    }
}

impl TableRow for CommandView {
    const HEADINGS: &'static [&'static str] = &["ID", "DEVICE", "STATUS", "TRIES", "AGE"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.id),
            Cell::text(&self.device_id),
            self.status(),
            Cell::number(self.tries),
            Cell::text(&age_of(&self.created_at)),
        ]
    }
}

impl Timed for CommandView {
    fn time(&self) -> &str {
        &self.created_at
    }
}

fn json(value: Option<&RawValue>) -> Cell {
    Cell::maybe(value.map(RawValue::get))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TextTable;

    const COMMAND: &str = r#"{"id":"cmd_1","device_id":"face7","status":"STATUS","tries":2,"max_attempts":5,
        "created_at":"2026-11-21T01:02:03.456Z","payload":{"open":1},"origin":"ops","key":null,"priority":0,
        "expires_at":"2026-11-21T02:00:00.000Z","published_at":"2026-11-21T01:02:04.000Z","finished_at":null,
        "progress":null,"result":RESULT,"late":null}"#;

    fn command(status: &str, result: &str) -> CommandView {
        let text = COMMAND.replace("STATUS", status).replace("RESULT", result);
        serde_json::from_str(&text).expect("a command")
    }

    fn unstyled(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_command_is_a_row_of_80_columns() {
        let long = COMMAND.replace("cmd_1", &format!("cmd_{}", "0".repeat(32)));
        let long = long.replace("STATUS", "acknowledged").replace("RESULT", "null");
        let long: CommandView = serde_json::from_str(&long).expect("a command");
        let shown = unstyled(&TextTable::new(CommandView::HEADINGS).lines(&[long.cells()]));
        assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
        assert!(
            shown.lines().nth(1).is_some_and(|row| row.contains("face7   acknowledged      2")),
            "{shown}"
        );
    }

    #[test]
    fn a_command_alone_is_shown_with_what_the_device_said() {
        let open = unstyled(&command("published", "null").facts());
        assert!(
            open.contains("status     published\npayload    {\"open\":1}\ntries      2 of 5\n"),
            "{open}"
        );
        assert!(open.contains("origin     ops\nexpires    2026-11-21 02:00:00.000Z\npublished  "), "{open}");
        let ended = unstyled(&command("failed", r#"{"why":"jam"}"#).facts());
        assert!(ended.ends_with("result     {\"why\":\"jam\"}\n") && !ended.contains("expires"), "{ended}");
    }

    #[test]
    fn only_what_the_device_did_is_a_good_end() {
        for (status, says) in [
            ("acknowledged", ""),
            ("failed", "cmd_1 ended as failed"),
            ("superseded", "cmd_1 ended as superseded"),
            ("running", "cmd_1 has not ended, it is running; `fieldpost command watch` waits for its end"),
        ] {
            let verdict = command(status, "null").verdict().err().map(|failure| failure.to_string());
            assert_eq!(verdict.unwrap_or_default(), says);
        }
    }
}
