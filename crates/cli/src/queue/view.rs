//! Queues and dead jobs as people see them.

use std::time::Duration;

use base::duration;
use base::limits::DEAD_LETTERS_DEFAULT;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::job::{attempt, carried};
use crate::list::TableRow;
use crate::table::{BAD, Cell, FAINT, GOOD, facts, grouped};
use crate::when::to_second;

/// How a queue stands.
#[derive(Deserialize)]
pub(super) struct QueueView {
    namespace: String,
    queue: String,
    scheduled: u64,
    ready: u64,
    reserved: u64,
    dead: u64,
    oldest_ready_ms: Option<u64>,
    rates: Option<RatesView>,
    paused: bool,
    settings: QueueSettingsView,
}

/// Jobs a second, over about the last minute.
#[derive(Deserialize)]
struct RatesView {
    published: f64,
    consumed: f64,
    acked: f64,
}

#[derive(Deserialize)]
struct QueueSettingsView {
    order: String,
    concurrency: Option<u64>,
    rate: Option<Value>,
    jobs_max: Option<u64>,
    dead_max: Option<u64>,
    dead_max_age: Option<String>,
}

impl QueueView {
    pub(super) fn facts(&self) -> String {
        let QueueSettingsView { order, concurrency, rate, jobs_max, dead_max, dead_max_age } = &self.settings;
        let limit = |limit: &Option<u64>| limit.map_or_else(none, Cell::number);
        let a_second = |of: fn(&RatesView) -> f64| {
            Cell::maybe(self.rates.as_ref().map(|rates| format!("{}/s", of(rates))).as_deref())
        };
        facts(&[
            ("queue", Cell::text(&format!("{}/{}", self.namespace, self.queue))),
            ("scheduled", Cell::number(self.scheduled)),
            ("ready", Cell::number(self.ready)),
            ("reserved", Cell::number(self.reserved)),
            ("dead", self.dead()),
            ("oldest ready", self.oldest_ready()),
            ("published", a_second(|rates| rates.published)),
            ("consumed", a_second(|rates| rates.consumed)),
            ("acknowledged", a_second(|rates| rates.acked)),
            ("hands out", self.hands_out()),
            ("order", Cell::text(order)),
            ("concurrency", limit(concurrency)),
            ("rate", rate.as_ref().map_or_else(none, |rate| Cell::text(&format!("{rate}/s")))),
            ("most jobs", limit(jobs_max)),
            ("most dead", dead_max.map_or_else(default_dead_max, Cell::number)),
            ("dead kept for", dead_max_age.as_deref().map_or_else(none, Cell::text)),
        ])
    }

    fn dead(&self) -> Cell {
        let dead = Cell::number(self.dead);
        if self.dead > 0 { dead.styled(BAD) } else { dead }
    }

    fn oldest_ready(&self) -> Cell {
        let age = self.oldest_ready_ms.filter(|_| self.ready > 0);
        Cell::maybe(age.map(|ms| duration::format(Duration::from_millis(ms))).as_deref())
    }

    fn hands_out(&self) -> Cell {
        if self.paused { Cell::text("no, paused").styled(BAD) } else { Cell::text("yes").styled(GOOD) }
    }
}

fn none() -> Cell {
    Cell::text("no limit").styled(FAINT)
}

/// What the server keeps to where nothing is set.
fn default_dead_max() -> Cell {
    Cell::text(&format!("{} (default)", grouped(DEAD_LETTERS_DEFAULT))).styled(FAINT)
}

impl TableRow for QueueView {
    const HEADINGS: &'static [&'static str] =
        &["NAMESPACE", "QUEUE", "SCHEDULED", "READY", "RESERVED", "DEAD", "OLDEST READY", "HANDS OUT"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.namespace),
            Cell::text(&self.queue),
            Cell::number(self.scheduled),
            Cell::number(self.ready),
            Cell::number(self.reserved),
            self.dead(),
            self.oldest_ready(),
            self.hands_out(),
        ]
    }
}

/// A job that failed for good.
#[derive(Deserialize)]
pub(super) struct DeadJobView {
    id: String,
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
    attempt: u64,
    tries: u64,
    reason: String,
    error: Option<String>,
    died_at: String,
}

impl TableRow for DeadJobView {
    const HEADINGS: &'static [&'static str] = &["DIED", "ID", "TRY", "REASON", "ERROR", "PAYLOAD"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&to_second(&self.died_at)),
            Cell::text(&self.id),
            attempt(self.attempt, self.tries),
            Cell::text(&self.reason),
            self.error.as_deref().map_or_else(|| Cell::maybe(None), Cell::short),
            Cell::short(&carried(self.payload.as_deref(), self.payload_base64.as_deref())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TextTable;

    fn unstyled(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_queue_is_a_row_and_alone_shows_what_is_set() {
        let stats = r#"{"namespace":"shop","queue":"mail","scheduled":1200,"ready":2,"reserved":1,"dead":0,
            "oldest_ready_ms":61500,"rates":{"published":0.5,"consumed":12,"acked":0.48},"paused":true,
            "settings":{"order":"fifo","concurrency":4,"rate":0.5,"jobs_max":null,
            "dead_max":null,"dead_max_age":"7d"}}"#;
        let stats: QueueView = serde_json::from_str(stats).expect("stats");
        assert_eq!(
            unstyled(&TextTable::new(QueueView::HEADINGS).lines(&[stats.cells()])),
            "NAMESPACE  QUEUE  SCHEDULED  READY  RESERVED  DEAD  OLDEST READY  HANDS OUT\n\
             shop       mail       1,200      2         1     0  1m1s500ms     no, paused\n"
        );
        let facts = unstyled(&stats.facts());
        assert!(
            facts.contains("rate           0.5/s\n") && facts.contains("most jobs      no limit\n"),
            "{facts}"
        );
        assert!(facts.contains("most dead      1,000,000 (default)\n"), "{facts}");
        let rates = "published      0.5/s\nconsumed       12/s\nacknowledged   0.48/s\n";
        assert!(facts.contains(rates), "{facts}");
    }

    #[test]
    fn a_dead_job_is_a_row() {
        let dead = r#"{"id":"01J","payload":7,"attempt":3,"tries":3,"reason":"released","error":"no paper",
            "died_at":"2026-11-21T01:02:03.456Z"}"#;
        let dead: DeadJobView = serde_json::from_str(dead).expect("a dead job");
        assert_eq!(
            unstyled(&TextTable::new(DeadJobView::HEADINGS).lines(&[dead.cells()])),
            "DIED                  ID   TRY  REASON    ERROR     PAYLOAD\n\
             2026-11-21 01:02:03Z  01J  3/3  released  no paper  7\n"
        );
    }
}
