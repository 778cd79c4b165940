//! Jobs as people see them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::list::TableRow;
use crate::table::{Cell, FAINT, GOOD, OPEN, facts, grouped, plain};
use crate::when::{to_millisecond, to_second, with_age};

/// Jobs that were published.
#[derive(Deserialize)]
pub(super) struct PublishedView {
    jobs: Vec<PublishedJobView>,
}

#[derive(Deserialize)]
struct PublishedJobView {
    id: String,
    run_at: String,
}

impl PublishedView {
    pub(super) fn to_text(&self) -> String {
        let line = |job: &PublishedJobView| {
            format!("{} is due at {}\n", plain(&job.id), to_millisecond(&job.run_at))
        };
        self.jobs.iter().map(line).collect()
    }
}

/// Jobs that were taken.
#[derive(Deserialize)]
pub(super) struct ConsumedJobs {
    pub(super) jobs: Vec<Box<RawValue>>,
}

/// A job that was taken.
#[derive(Deserialize)]
pub(super) struct ConsumedView {
    id: String,
    queue: String,
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
    attempt: u64,
    tries: u64,
    reservation: String,
}

impl TableRow for ConsumedView {
    const HEADINGS: &'static [&'static str] = &["ID", "QUEUE", "TRY", "RESERVATION", "PAYLOAD"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.id),
            Cell::text(&self.queue),
            attempt(self.attempt, self.tries),
            Cell::text(&self.reservation),
            // It is not seen again.
            Cell::whole(&carried(self.payload.as_deref(), self.payload_base64.as_deref())),
        ]
    }
}

/// The reservations of each queue.
pub(super) fn by_queue(jobs: &[ConsumedView]) -> BTreeMap<&str, Vec<&str>> {
    let mut queues: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for job in jobs {
        queues.entry(&job.queue).or_default().push(&job.reservation);
    }
    queues
}

/// What became of acknowledgements.
#[derive(Deserialize)]
pub(super) struct AckedView {
    pub(super) acked: u64,
    pub(super) stale: Vec<String>,
}

/// A job that was looked at.
#[derive(Deserialize)]
pub(super) struct ShownJob {
    id: String,
    queue: String,
    state: String,
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
    run_at: String,
    published_at: String,
    attempt: u64,
    tries: u64,
    alias: Option<String>,
    group: Option<String>,
    every: Option<String>,
    cron: Option<String>,
    tz: Option<String>,
    executions_left: Option<u64>,
}

impl ShownJob {
    pub(super) fn facts(&self) -> String {
        let mut shown = vec![
            ("id", Cell::text(&self.id)),
            ("queue", Cell::text(&self.queue)),
            ("state", self.state()),
            ("payload", Cell::text(&self.carried())),
            ("due", Cell::text(&to_millisecond(&self.run_at))),
            ("published", Cell::text(&with_age(&self.published_at))),
            ("try", attempt(self.attempt, self.tries)),
            ("alias", Cell::maybe(self.alias.as_deref())),
            ("group", Cell::maybe(self.group.as_deref())),
        ];
        shown.extend(self.schedule());
        facts(&shown)
    }

    /// When it comes again; nothing for a job that does not.
    fn schedule(&self) -> Vec<(&'static str, Cell)> {
        let mut shown = Vec::new();
        if let Some(every) = &self.every {
            shown.push(("every", Cell::text(every)));
        }
        if let Some(cron) = &self.cron {
            shown.push(("cron", Cell::text(cron)));
            shown.push(("zone", Cell::text(self.tz.as_deref().unwrap_or("UTC"))));
        }
        if !shown.is_empty() {
            let left = self.executions_left.map(|left| Cell::text(&format!("{} left", grouped(left))));
            shown.push(("executions", left.unwrap_or_else(|| Cell::text("no end").styled(FAINT))));
        }
        shown
    }

    fn state(&self) -> Cell {
        Cell::standing(&self.state, &[(OPEN, &["ready"]), (GOOD, &["reserved"])])
    }

    fn carried(&self) -> String {
        carried(self.payload.as_deref(), self.payload_base64.as_deref())
    }
}

impl TableRow for ShownJob {
    const HEADINGS: &'static [&'static str] = &["ID", "STATE", "DUE", "TRY", "ALIAS", "GROUP", "PAYLOAD"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.id),
            self.state(),
            Cell::text(&to_second(&self.run_at)),
            attempt(self.attempt, self.tries),
            Cell::maybe(self.alias.as_deref()),
            Cell::maybe(self.group.as_deref()),
            Cell::short(&self.carried()),
        ]
    }
}

/// Attempts begun, of those that it has: `1/5`.
pub(crate) fn attempt(attempt: u64, tries: u64) -> Cell {
    Cell::text(&format!("{attempt}/{tries}"))
}

/// What a job carries, as text; of bytes their base64.
pub(crate) fn carried(payload: Option<&RawValue>, payload_base64: Option<&str>) -> String {
    match (payload, payload_base64) {
        (Some(value), _) => value.get().to_owned(),
        (None, Some(bytes)) => format!("base64:{bytes}"),
        // JSON's null is read as nothing.
        (None, None) => "null".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TextTable;

    const JOB: &str = r#"{"id":"01J","queue":"mail","state":"scheduled","payload":{"to":"ann"},
        "run_at":"2026-11-21T01:02:03.456Z","published_at":"2026-11-21T00:00:00.000Z","attempt":0,"tries":5,"alias":"a"}"#;

    fn unstyled(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_job_is_a_row_and_alone_has_all_facts() {
        let job: ShownJob = serde_json::from_str(JOB).expect("a job");
        assert_eq!(
            unstyled(&TextTable::new(ShownJob::HEADINGS).lines(&[job.cells()])),
            "ID   STATE      DUE                   TRY  ALIAS  GROUP  PAYLOAD\n\
             01J  scheduled  2026-11-21 01:02:03Z  0/5  a      -      {\"to\":\"ann\"}\n"
        );
        let facts = unstyled(&job.facts());
        assert!(facts.contains("due        2026-11-21 01:02:03.456Z\n"), "{facts}");
        assert!(!facts.contains("executions"), "{facts}");
    }

    #[test]
    fn a_recurring_job_tells_its_schedule() {
        for (fields, says) in [
            (r#""every":"1h30m""#, "every       1h30m\nexecutions  no end\n"),
            (
                r#""cron":"0 9 * * 1","tz":"Europe/Berlin","executions_left":3"#,
                "cron        0 9 * * 1\nzone        Europe/Berlin\nexecutions  3 left\n",
            ),
            (r#""cron":"0 9 * * 1""#, "cron        0 9 * * 1\nzone        UTC\nexecutions  no end\n"),
        ] {
            let job: ShownJob = serde_json::from_str(&JOB.replace(r#""alias":"a""#, fields)).expect("a job");
            let facts = unstyled(&job.facts());
            assert!(facts.ends_with(says), "{facts}");
        }
    }

    #[test]
    fn nothing_and_bytes_are_payloads_too() {
        for (payload, shows) in [
            (r#""payload":null"#, "null"),
            (r#""payload":1.50"#, "1.50"),
            (r#""payload_base64":"AP8=""#, "base64:AP8="),
        ] {
            let job: ShownJob =
                serde_json::from_str(&JOB.replace(r#""payload":{"to":"ann"}"#, payload)).expect("a job");
            assert_eq!(job.carried(), shows);
        }
    }
}
