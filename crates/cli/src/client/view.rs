//! A client as people see it, and the outcome of a test.

use serde::Deserialize;

use crate::list::TableRow;
use crate::table::{BAD, Cell, FAINT, GOOD, facts};
use crate::when::{to_second, with_age};

/// A client. The secret is there only in the answer to its registration.
#[derive(Deserialize)]
pub(super) struct ClientView {
    id: String,
    name: String,
    url: String,
    enabled: bool,
    created_at: String,
    secret: Option<String>,
}

/// The answer to a rotation.
#[derive(Deserialize)]
pub(super) struct Rotated {
    secret: String,
}

/// What became of a test.
#[derive(Deserialize)]
pub(super) struct TestAttempt {
    status_code: Option<u16>,
    error: Option<String>,
    duration_ms: u64,
}

impl ClientView {
    pub(super) fn facts(&self) -> String {
        let mut known = vec![
            ("id", Cell::text(&self.id)),
            ("name", Cell::text(&self.name)),
            ("url", Cell::text(&self.url)),
            ("enabled", self.enabled()),
            ("created", Cell::text(&with_age(&self.created_at))),
        ];
        if let Some(secret) = &self.secret {
            known.push(("secret", Cell::text(secret)));
        }
        let note = if self.secret.is_some() { KEEP_IT } else { "" };
        facts(&known) + note
    }

    fn enabled(&self) -> Cell {
        if self.enabled { Cell::text("yes").styled(GOOD) } else { Cell::text("no").styled(BAD) }
    }
}

const KEEP_IT: &str = "Keep the secret where the client can read it: it is not shown again.\n";

impl TableRow for ClientView {
    const HEADINGS: &'static [&'static str] = &["ID", "NAME", "URL", "ENABLED", "CREATED"];

    fn cells(&self) -> Vec<Cell> {
        let created = Cell::text(&to_second(&self.created_at)).styled(FAINT);
        vec![Cell::text(&self.id), Cell::text(&self.name), Cell::text(&self.url), self.enabled(), created]
    }
}

impl Rotated {
    pub(super) fn facts(&self) -> String {
        facts(&[("secret", Cell::text(&self.secret))]) + KEEP_IT
    }
}

impl TestAttempt {
    /// By the rule for every attempt: a 2xx and nothing else.
    pub(super) fn is_success(&self) -> bool {
        self.error.is_none() && self.status_code.is_some_and(|status| (200..300).contains(&status))
    }

    pub(super) fn sentence(&self) -> String {
        let came = match (self.status_code, &self.error) {
            (Some(status), None) => format!("answered {status}"),
            (Some(status), Some(error)) => format!("answered {status} ({error})"),
            (None, Some(error)) => error.clone(),
            (None, None) => "no answer".to_owned(),
        };
        let outcome = if self.is_success() { "taken" } else { "not taken" };
        format!("{outcome}: {came} after {} ms\n", self.duration_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_2xx_is_a_success() {
        for (attempt, success, says) in [
            (r#"{"status_code":204,"error":null,"duration_ms":7}"#, true, "taken: answered 204 after 7 ms\n"),
            (
                r#"{"status_code":302,"error":null,"duration_ms":7}"#,
                false,
                "not taken: answered 302 after 7 ms\n",
            ),
            (
                r#"{"status_code":null,"error":"timeout","duration_ms":10000}"#,
                false,
                "not taken: timeout after 10000 ms\n",
            ),
        ] {
            let attempt: TestAttempt = serde_json::from_str(attempt).expect("an attempt");
            assert_eq!((attempt.is_success(), attempt.sentence().as_str()), (success, says));
        }
    }

    #[test]
    fn a_secret_is_shown_with_the_advice_to_keep_it() {
        let client =
            r#"{"id":"a","name":"A","url":"http://a","enabled":true,"created_at":"x","secret":"whsec_x"}"#;
        let client: ClientView = serde_json::from_str(client).expect("a client");
        assert!(client.facts().contains("whsec_x\nKeep"), "{}", client.facts());
        assert!(client.cells().iter().all(|cell| *cell != Cell::text("whsec_x")));
    }
}
