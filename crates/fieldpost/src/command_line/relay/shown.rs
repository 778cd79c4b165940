//! What the commands of the relay print: tables for people, JSON for programs.

use std::io::{self, Write};

use ::relay::{OutboxStatus, RefusedRow, TableName};
use base::Timestamp;
use serde_json::{Value, json};

/// Refused rows, by their ids.
pub(super) fn refused_rows(rows: &[RefusedRow], as_json: bool, out: &mut impl Write) -> io::Result<()> {
    for row in rows {
        let RefusedRow { id, is_held, destination, key, reason, times, payload } = row;
        if as_json {
            let payload: Value = serde_json::from_str(payload).unwrap_or(Value::Null);
            let line = json!({
                "id": id, "state": state(*is_held), "destination": destination, "key": key, "reason": reason,
                "refused_at": times.0, "created_at": times.1, "payload": payload,
            });
            writeln!(out, "{line}")?;
        } else {
            let key = key.as_deref().unwrap_or("-");
            let line = format!("{id:>12}  {:<7}  {destination}  {key}  {reason}", state(*is_held));
            writeln!(out, "{}", printable(&line))?;
        }
    }
    if rows.is_empty() && !as_json {
        writeln!(out, "no refused rows")?;
    }
    Ok(())
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
    let OutboxStatus { waiting, bytes, oldest_at_ms, held, refused, worker } = status;
    let oldest_at = oldest_at_ms.map(|ms| Timestamp(ms).to_string());
    if as_json {
        let line = json!({
            "table": table.told(), "waiting": waiting, "bytes": bytes, "oldest_at": oldest_at, "held": held,
            "refused": refused, "working": worker.is_some(), "worker": worker,
        });
        return writeln!(out, "{line}");
    }
    writeln!(out, "table    {}", printable(&table.told()))?;
    writeln!(out, "waiting  {waiting} rows, {bytes} bytes")?;
    writeln!(out, "oldest   {}", oldest_at.as_deref().unwrap_or("-"))?;
    writeln!(out, "held     {held}")?;
    writeln!(out, "refused  {refused}")?;
    match worker {
        Some(worker) => writeln!(out, "worker   {}", printable(&worker.to_string())),
        None => writeln!(out, "worker   none: no relay works on this table"),
    }
}

/// A row may hold anything: what a terminal would obey is shown escaped.
fn printable(line: &str) -> String {
    line.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_shown_to_people_and_to_programs() {
        let row = RefusedRow {
            id: 7,
            is_held: true,
            destination: "queue:a/b".to_owned(),
            key: None,
            reason: "422 x: \u{1b}[31m".to_owned(),
            times: (None, "2030-01-01T00:00:00.000Z".to_owned()),
            payload: "{\"a\":1}".to_owned(),
        };
        let shown = |as_json| {
            let mut out = Vec::new();
            refused_rows(std::slice::from_ref(&row), as_json, &mut out).expect("written");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(shown(false), "           7  held     queue:a/b  -  422 x: \\u{1b}[31m\n");
        let json: Value = serde_json::from_str(&shown(true)).expect("a document");
        assert_eq!(
            (&json["id"], &json["state"], &json["payload"]["a"]),
            (&7.into(), &"held".into(), &1.into())
        );
    }
}
