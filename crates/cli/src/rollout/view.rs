//! A rollout as people see it.

use serde::Deserialize;

use crate::failure::CommandFailure;
use crate::list::TableRow;
use crate::max_failed::MaxFailed;
use crate::table::{BAD, Cell, FAINT, GOOD, OPEN, facts, grouped, line, plain};
use crate::when::{age_of, with_age};

/// A rollout, and how many of its devices stand where.
#[derive(Deserialize)]
pub(super) struct RolloutView {
    pub(super) id: String,
    status: String,
    #[serde(default)]
    waits_for: Option<String>,
    created_at: String,
    ended_at: Option<String>,
    origin: Option<String>,
    selector: Option<String>,
    stage: Option<u64>,
    devices: u64,
    waiting: u64,
    scheduled: u64,
    published: u64,
    acknowledged: u64,
    failed: u64,
    expired: u64,
    superseded: u64,
    cancelled: u64,
}

impl RolloutView {
    /// Whether nothing more is handed out by itself: it has ended, has stopped or is paused.
    pub(super) fn rests(&self) -> bool {
        !matches!(self.status.as_str(), "running" | "waiting")
    }

    fn ended(&self) -> u64 {
        self.acknowledged + self.failed + self.expired + self.superseded + self.cancelled
    }

    /// Nothing if it is done and not too many devices failed; else why a script should stop here.
    pub(super) fn verdict(&self, most: MaxFailed) -> Result<(), CommandFailure> {
        let failed = self.failed + self.expired;
        let id = plain(&self.id);
        if self.status != "done" {
            return Err(CommandFailure::Incomplete(format!("{id} is {}", plain(&self.status))));
        }
        if most.is_exceeded(failed, self.ended()) {
            let (failed, ended) = (grouped(failed), grouped(self.ended()));
            return Err(CommandFailure::Incomplete(format!(
                "{id} is done, and {failed} of {ended} devices failed"
            )));
        }
        Ok(())
    }

    /// Everything that is known of it.
    pub(super) fn facts(&self) -> String {
        let mut known = vec![
            ("id", Cell::text(&self.id)),
            ("status", self.status()),
            ("begun", Cell::text(&with_age(&self.created_at))),
        ];
        let waits_for = self.waits_for.as_ref().map(|what| ("waits for", Cell::text(what)));
        known.splice(2..2, waits_for);
        known.extend(self.ended_at.as_deref().map(|at| ("ended", Cell::text(&with_age(at)))));
        let texts = [("origin", &self.origin), ("selector", &self.selector)];
        known.extend(texts.into_iter().filter_map(|(name, text)| Some((name, Cell::text(text.as_ref()?)))));
        known.extend(self.stage.map(|stage| ("stage", Cell::text(&grouped(stage)))));
        known.push(("devices", Cell::text(&grouped(self.devices))));
        known.extend(self.counts().into_iter().map(|(name, count)| (name, Cell::text(&grouped(count)))));
        facts(&known)
    }

    /// How many devices stand where, without those where none does.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("waiting", self.waiting),
            ("scheduled", self.scheduled),
            ("published", self.published),
            ("acknowledged", self.acknowledged),
            ("failed", self.failed),
            ("expired", self.expired),
            ("superseded", self.superseded),
            ("cancelled", self.cancelled),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// How far it has come, in a line of a rollout that is watched.
    pub(super) fn line(&self) -> String {
        let counts = self.counts().into_iter().map(|(name, count)| format!("{name} {}", grouped(count)));
        let waits_for = self.waits_for.as_ref().map(|what| format!("waits for {}", plain(what)));
        let counts = waits_for.into_iter().chain(counts).collect::<Vec<_>>().join(", ");
        let of = format!("{} of {}", grouped(self.ended()), grouped(self.devices));
        line(&[Cell::text(&self.id), self.status(), Cell::text(&of), Cell::text(&counts).styled(FAINT)])
    }

    fn status(&self) -> Cell {
        Cell::standing(
            &self.status,
            &[(GOOD, &["done"]), (BAD, &["stopped"]), (OPEN, &["running", "waiting", "paused"])],
        )
    }
}

impl TableRow for RolloutView {
    const HEADINGS: &'static [&'static str] = &["ID", "STATUS", "DEVICES", "ENDED", "FAILED", "AGE"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.id),
            self.status(),
            Cell::number(self.devices),
            Cell::number(self.ended()),
            Cell::number(self.failed + self.expired),
            Cell::text(&age_of(&self.created_at)),
        ]
    }
}

/// A device of a rollout.
#[derive(Deserialize)]
pub(super) struct RolloutDeviceView {
    device_id: String,
    command_id: Option<String>,
    status: String,
}

impl TableRow for RolloutDeviceView {
    const HEADINGS: &'static [&'static str] = &["DEVICE", "STATUS", "COMMAND"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.device_id),
            Cell::standing(
                &self.status,
                &[
                    (GOOD, &["acknowledged"]),
                    (BAD, &["failed", "expired"]),
                    (OPEN, &["scheduled", "published"]),
                ],
            ),
            Cell::maybe(self.command_id.as_deref()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollout(status: &str, acknowledged: u64, failed: u64, published: u64) -> RolloutView {
        let text = format!(
            r#"{{"id":"rol_1","status":"{status}","created_at":"2026-11-21T01:02:03.456Z","stage":null,
            "devices":100,"waiting":0,"scheduled":0,"published":{published},"acknowledged":{acknowledged},
            "failed":{failed},"expired":0,"superseded":0,"cancelled":0}}"#
        );
        serde_json::from_str(&text).expect("a rollout")
    }

    #[test]
    fn only_a_rollout_that_is_done_with_few_failures_ends_well() {
        let two_percent = MaxFailed::Percent(2.0);
        for (rollout, rests, says) in [
            (rollout("done", 98, 2, 0), true, ""),
            (rollout("done", 97, 3, 0), true, "rol_1 is done, and 3 of 100 devices failed"),
            (rollout("stopped", 5, 5, 0), true, "rol_1 is stopped"),
            (rollout("cancelled", 5, 5, 1), true, "rol_1 is cancelled"),
            (rollout("running", 5, 0, 1), false, "rol_1 is running"),
            (rollout("waiting", 5, 0, 0), false, "rol_1 is waiting"),
            (rollout("paused", 5, 0, 0), true, "rol_1 is paused"),
        ] {
            assert_eq!(rollout.rests(), rests, "{}", rollout.status);
            let verdict = rollout.verdict(two_percent).err().map(|failure| failure.to_string());
            assert_eq!(verdict.unwrap_or_default(), says);
        }
    }

    #[test]
    fn a_line_leaves_out_where_nobody_stands() {
        let line = anstream::adapter::strip_str(&rollout("running", 5, 1, 2).line()).to_string();
        assert!(
            line.contains("6 of 100") && line.contains("published 2, acknowledged 5, failed 1"),
            "{line}"
        );
        assert!(!line.contains("cancelled") && !line.contains("waits"), "{line}");
    }

    #[test]
    fn a_rollout_that_waits_says_for_what() {
        let waiting = RolloutView { waits_for: Some("approval".into()), ..rollout("waiting", 5, 0, 0) };
        let shown = |text: &str| anstream::adapter::strip_str(text).to_string();
        assert!(shown(&waiting.line()).contains("waits for approval, acknowledged 5"));
        assert!(
            shown(&waiting.facts())
                .lines()
                .any(|line| line.starts_with("waits for") && line.ends_with("approval"))
        );
    }
}
