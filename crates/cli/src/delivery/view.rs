//! A delivery and its attempts as people see them.

use serde::Deserialize;

use crate::follow::Timed;
use crate::list::TableRow;
use crate::table::{BAD, Cell, GOOD, OPEN, TextTable, facts};
use crate::when::{to_millisecond, to_second, with_age};

/// A delivery.
#[derive(Deserialize)]
pub(super) struct DeliveryView {
    id: String,
    client_id: String,
    device_id: String,
    r#type: String,
    status: String,
    attempt_count: u64,
    created_at: String,
    next_attempt_at: Option<String>,
    resend_of: Option<String>,
}

/// A delivery with its attempts.
#[derive(Deserialize)]
pub(super) struct WithAttempts {
    #[serde(flatten)]
    delivery: DeliveryView,
    attempts: Vec<ShownAttempt>,
}

#[derive(Deserialize)]
struct ShownAttempt {
    at: String,
    status_code: Option<u16>,
    error: Option<String>,
    duration_ms: u64,
    cause: Option<String>,
    answer: Option<String>,
}

impl ShownAttempt {
    /// The first line of what the receiver said.
    fn said(&self) -> Option<&str> {
        self.answer.as_deref().map(|answer| answer.lines().next().unwrap_or_default())
    }
}

impl DeliveryView {
    fn status(&self) -> Cell {
        Cell::standing(&self.status, &[(GOOD, &["delivered"]), (BAD, &["failed"]), (OPEN, &["pending"])])
    }

    fn facts(&self) -> String {
        let mut known = vec![
            ("id", Cell::text(&self.id)),
            ("client", Cell::text(&self.client_id)),
            ("device", Cell::text(&self.device_id)),
            ("type", Cell::text(&self.r#type)),
            ("status", self.status()),
            ("created", Cell::text(&with_age(&self.created_at))),
        ];
        if let Some(next) = &self.next_attempt_at {
            known.push(("next attempt", Cell::text(&to_second(next))));
        }
        if let Some(of) = &self.resend_of {
            known.push(("resend of", Cell::text(of)));
        }
        facts(&known)
    }
}

impl TableRow for DeliveryView {
    const HEADINGS: &'static [&'static str] =
        &["CREATED", "ID", "CLIENT", "DEVICE", "TYPE", "STATUS", "ATTEMPTS", "NEXT"];

    fn cells(&self) -> Vec<Cell> {
        let next = self.next_attempt_at.as_deref().map(to_second);
        vec![
            Cell::text(&to_second(&self.created_at)),
            Cell::text(&self.id),
            Cell::text(&self.client_id),
            Cell::text(&self.device_id),
            Cell::text(&self.r#type),
            self.status(),
            Cell::number(self.attempt_count),
            Cell::maybe(next.as_deref()),
        ]
    }
}

impl Timed for DeliveryView {
    fn time(&self) -> &str {
        &self.created_at
    }
}

impl WithAttempts {
    /// What is known of it, and a row for each attempt.
    pub(super) fn to_text(&self, width: Option<usize>) -> String {
        let mut table = TextTable::new(&["ATTEMPT AT", "ANSWER", "ERROR", "MS"]).within(width);
        let row = |attempt: &ShownAttempt| {
            let answer = attempt.status_code.map(|status| status.to_string());
            vec![
                Cell::text(&to_millisecond(&attempt.at)),
                Cell::maybe(answer.as_deref()),
                Cell::maybe(attempt.error.as_deref()),
                Cell::number(attempt.duration_ms),
            ]
        };
        let attempts: Vec<_> = self.attempts.iter().map(row).collect();
        let between = if attempts.is_empty() { "" } else { "\n" };
        let latest = self.attempts.last();
        let said = [
            ("cause", latest.and_then(|it| it.cause.as_deref())),
            ("answer", latest.and_then(ShownAttempt::said)),
        ];
        let said: Vec<_> =
            said.into_iter().filter_map(|(what, text)| Some((what, Cell::text(text?)))).collect();
        let behind = if said.is_empty() { String::new() } else { format!("\n{}", facts(&said)) };
        format!("{}{between}{}{behind}", self.delivery.facts(), table.lines(&attempts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELIVERY: &str = r#"{"id":"msg_1","client_id":"acme","device_id":"lock7","type":"device.changed",
        "status":"pending","attempt_count":1,"created_at":"2026-11-21T01:02:03.456Z",
        "next_attempt_at":"2026-11-21T01:02:33.000Z",
        "attempts":[{"at":"2026-11-21T01:02:03.500Z","status_code":null,"error":"timeout","duration_ms":10000}]}"#;

    fn unstyled(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_delivery_is_a_row() {
        let delivery: DeliveryView = serde_json::from_str(DELIVERY).expect("a delivery");
        let shown = unstyled(&TextTable::new(DeliveryView::HEADINGS).lines(&[delivery.cells()]));
        assert_eq!(
            shown,
            "CREATED               ID     CLIENT  DEVICE  TYPE            STATUS   ATTEMPTS  NEXT\n\
             2026-11-21 01:02:03Z  msg_1  acme    lock7   device.changed  pending         1  2026-11-21 01:02:33Z\n"
        );
    }

    #[test]
    fn a_delivery_alone_is_shown_with_its_attempts() {
        let delivery: WithAttempts = serde_json::from_str(DELIVERY).expect("a delivery");
        let shown = unstyled(&delivery.to_text(None));
        assert!(shown.contains("next attempt  2026-11-21 01:02:33Z\n\nATTEMPT AT"), "{shown}");
        assert!(shown.ends_with("2026-11-21 01:02:03.500Z  -       timeout  10,000\n"), "{shown}");
    }
}
