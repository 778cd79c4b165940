//! What the commands of the relay print: tables for people, JSON for programs.

use std::io::{self, Write};
use std::time::Duration;

use ::relay::{OutboxStatus, RefusedRow, TableName};
use base::{Timestamp, duration};
use cli::{Cell, TextTable, plain};
use serde_json::{Value, json};

/// The table of refused rows, in a terminal so many columns wide.
pub(super) fn refused_table(width: Option<usize>) -> TextTable {
    TextTable::new(&["ID", "STATE", "DESTINATION", "KEY", "REASON"]).within(width)
}

/// Some more refused rows, by their ids: in the table for people, each a line for programs.
pub(super) fn refused_rows(
    rows: &[RefusedRow],
    table: &mut TextTable,
    as_json: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    if !as_json {
        let rows: Vec<_> = rows.iter().map(cells).collect();
        return out.write_all(table.lines(&rows).as_bytes());
    }
    for row in rows {
        let RefusedRow { id, is_held, destination, key, reason, times, payload } = row;
        let payload: Value = serde_json::from_str(payload).unwrap_or(Value::Null);
        let line = json!({
            "id": id, "state": state(*is_held), "destination": destination, "key": key, "reason": reason,
            "refused_at": times.0, "created_at": times.1, "payload": payload,
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn cells(row: &RefusedRow) -> Vec<Cell> {
    vec![
        // As the flag `--id` takes it: its digits are not grouped.
        Cell::text(&row.id.to_string()).aligned_right(),
        Cell::text(state(row.is_held)),
        // Anything may be written there, and its width is that of every row.
        Cell::short(&row.destination),
        row.key.as_deref().map_or_else(|| Cell::maybe(None), Cell::short),
        Cell::whole(&row.reason),
    ]
}

fn state(is_held: bool) -> &'static str {
    if is_held { "held" } else { "refused" }
}

/// How many rows something was done to.
pub(super) fn count(what: &str, rows: u64, as_json: bool, out: &mut impl Write) -> io::Result<()> {
    if as_json { writeln!(out, "{}", json!({ what: rows })) } else { writeln!(out, "{what}: {rows}") }
}

/// What waits, and who works.
pub(super) fn status(
    table: &TableName,
    status: &OutboxStatus,
    as_json: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let OutboxStatus { waiting, bytes, oldest_at_ms, oldest_age_ms, held, refused, worker } = status;
    let oldest_at = oldest_at_ms.map(|ms| Timestamp(ms).to_string());
    let rate = worker.as_ref().and_then(|worker| worker["rate"].as_u64());
    if as_json {
        let line = json!({
            "table": table.display_name(), "waiting": waiting, "bytes": bytes, "oldest_at": oldest_at,
            "oldest_age_ms": oldest_age_ms, "rate": rate, "held": held, "refused": refused,
            "working": worker.is_some(), "worker": worker,
        });
        return writeln!(out, "{line}");
    }
    writeln!(out, "table    {}", plain(&table.display_name()))?;
    writeln!(out, "waiting  {waiting} rows, {bytes} bytes")?;
    // A clock of the database that was set back makes no row younger than new.
    let lag = |ms: i64| duration::format(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
    writeln!(out, "oldest   {}", oldest_at.as_deref().unwrap_or("-"))?;
    writeln!(out, "lag      {}", oldest_age_ms.map_or_else(|| "-".to_owned(), lag))?;
    writeln!(out, "rate     {}", rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate} rows/s")))?;
    writeln!(out, "held     {held}")?;
    writeln!(out, "refused  {refused}")?;
    match worker {
        Some(worker) => writeln!(out, "worker   {}", plain(&worker.to_string())),
        None => writeln!(out, "worker   none: no relay works on this table"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_tells_the_lag_the_rate_and_who_works() {
        let status_of = OutboxStatus {
            waiting: 3,
            bytes: 99,
            oldest_at_ms: Some(0),
            oldest_age_ms: Some(61_500),
            held: 1,
            refused: 2,
            worker: Some(json!({"pid": 7, "rate": 850})),
        };
        let table = TableName::outbox("outbox").expect("a name");
        let shown = |of: &OutboxStatus, as_json| {
            let mut out = Vec::new();
            status(&table, of, as_json, &mut out).expect("written");
            String::from_utf8(out).expect("text")
        };
        let text = shown(&status_of, false);
        for line in ["waiting  3 rows, 99 bytes", "lag      1m1s500ms", "rate     850 rows/s", "refused  2"] {
            assert!(text.lines().any(|shown| shown == line), "{line}:\n{text}");
        }
        let json: Value = serde_json::from_str(&shown(&status_of, true)).expect("a document");
        assert_eq!(
            (&json["oldest_age_ms"], &json["rate"], &json["worker"]["pid"]),
            (&61_500.into(), &850.into(), &7.into())
        );
        let idle = OutboxStatus { oldest_at_ms: None, oldest_age_ms: None, worker: None, ..status_of };
        let text = shown(&idle, false);
        assert!(text.contains("lag      -\nrate     -\n") && text.contains("worker   none"), "{text}");
    }

    #[test]
    fn a_row_is_shown_to_people_and_to_programs() {
        let row = RefusedRow {
            id: 7,
            is_held: true,
            destination: "queue:a/b".to_owned(),
            key: Some("k".to_owned()),
            reason: "422 x: \u{1b}[31m".to_owned(),
            times: (None, "2030-01-01T00:00:00.000Z".to_owned()),
            payload: "{\"a\":1}".to_owned(),
        };
        let shown = |as_json| {
            let mut out = Vec::new();
            let rows = std::slice::from_ref(&row);
            refused_rows(rows, &mut refused_table(None), as_json, &mut out).expect("written");
            String::from_utf8(out).expect("text")
        };
        let text = shown(false);
        assert!(text.ends_with("\n 7  held   queue:a/b    k    422 x: \\u{1b}[31m\n"), "{text}");
        let json: Value = serde_json::from_str(&shown(true)).expect("a document");
        assert_eq!(
            (&json["id"], &json["state"], &json["payload"]["a"]),
            (&7.into(), &"held".into(), &1.into())
        );
    }
}
