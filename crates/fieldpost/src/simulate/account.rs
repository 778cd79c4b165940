//! The account of a simulation: what was sent, how it was answered, how long that took, and what is
//! wrong with it.

use std::time::Duration;

use serde_json::{Value, json};
use simulator::fleet::{FleetStats, Latencies, Reasons, Way};
use simulator::grouped::grouped;
use simulator::latency::Latency;
use simulator::registration::ImportTotals;

use super::commands::CommandAccount;

/// So many reasons are told to people; a script gets all of them.
const REASONS_TOLD: usize = 10;

/// Everything that is known at the end.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) way: Way,
    pub(super) seed: u64,
    pub(super) devices: u32,
    pub(super) connections: u32,
    /// From the start of the timetable to the last answer.
    pub(super) elapsed: Duration,
    pub(super) stats: FleetStats,
    pub(super) unanswered: u64,
    pub(super) latencies: Latencies,
    /// How far a report went out behind its time, at most.
    pub(super) behind: Duration,
    pub(super) refusals: Reasons,
    pub(super) troubles: Reasons,
    pub(super) imported: Option<ImportTotals>,
    pub(super) was_interrupted: bool,
    pub(super) commands: Option<CommandAccount>,
}

impl Account {
    /// Everything that should not be so; empty when all was answered as it should be.
    pub(super) fn faults(&self) -> Vec<String> {
        let FleetStats {
            sent, acknowledged, refused, disordered, flawed_acknowledged, flawed_refused, ..
        } = self.stats;
        let mut faults = Vec::new();
        let mut fault = |count: u64, what: &str| {
            if count > 0 {
                faults.push(format!("{} {what}", grouped(count)));
            }
        };
        fault(disordered, "acknowledgements came out of order");
        fault(refused - flawed_refused, "right reports were refused");
        if self.way.tells_refusals() {
            fault(flawed_acknowledged, "bad reports were accepted");
        }
        fault(self.unanswered, "reports were never answered");
        if let Some(ImportTotals { rejected, first_rejection, .. }) = &self.imported {
            let why = first_rejection.as_deref().unwrap_or("no reason was given");
            fault(*rejected, &format!("devices were not registered, the first because of {why}"));
        }
        let worked = if self.way.answers() { acknowledged + flawed_refused } else { sent };
        if worked == 0 {
            let what = if sent == 0 { "nothing was sent" } else { "nothing worked" };
            faults.push(what.to_owned());
        }
        faults.extend(self.commands.iter().flat_map(CommandAccount::faults));
        faults
    }

    /// For people.
    pub(super) fn lines(&self) -> Vec<String> {
        let stats = self.stats;
        let mut lines = vec![
            row(
                "reports",
                &[
                    ("sent", stats.sent),
                    ("acknowledged", stats.acknowledged),
                    ("refused", stats.refused),
                    ("unanswered", self.unanswered),
                ],
            ),
            row(
                "connections",
                &[
                    ("open", self.connections.into()),
                    ("broken", stats.broken),
                    ("by devices", stats.cut),
                    ("repeats", stats.repeated),
                ],
            ),
            format!("  {:<16}{:.1} answers/s over {:.1} s", "rate", self.rate(), self.elapsed.as_secs_f64()),
        ];
        if self.way.answers() {
            lines.push(format!("  {:<16}{}  since due", "latency", percentiles(&self.latencies.since_due)));
            lines.push(format!("  {:<16}{}  since sent", "", percentiles(&self.latencies.since_sent)));
        }
        lines.push(format!("  {:<16}{} behind the timetable at most", "pace", ms(self.behind)));
        lines.extend(reasons("refused", &self.refusals));
        if stats.flawed > 0 {
            lines.push(format!("  {:<16}{} on purpose", "bad reports", grouped(stats.flawed)));
        }
        lines.extend(reasons("trouble", &self.troubles));
        lines.extend(self.commands.iter().flat_map(CommandAccount::lines));
        lines.push(format!("  {:<16}{}", "seed", self.seed));
        lines
    }

    /// For scripts.
    pub(super) fn json(&self) -> Value {
        let stats = self.stats;
        json!({
            "seed": self.seed.to_string(),
            "devices": self.devices,
            "connections": self.connections,
            "elapsed_ms": self.elapsed.as_millis() as u64,
            "sent": stats.sent,
            "acknowledged": stats.acknowledged,
            "refused": stats.refused,
            "refused_by_reason": self.refusals,
            "unanswered": self.unanswered,
            "bad": {
                "sent": stats.flawed,
                "acknowledged": stats.flawed_acknowledged,
                "refused": stats.flawed_refused,
            },
            "repeated": stats.repeated,
            "reconnects": stats.cut,
            "broken_connections": stats.broken,
            "broken_by_reason": self.troubles,
            "disordered": stats.disordered,
            "answers_per_second": self.rate(),
            "latency_ms": {
                "since_due": percentiles_json(&self.latencies.since_due),
                "since_sent": percentiles_json(&self.latencies.since_sent),
            },
            "behind_ms_max": self.behind.as_secs_f64() * 1e3,
            "registered": self.imported.as_ref().map(|imported| json!({
                "created": imported.created,
                "updated": imported.updated,
                "rejected": imported.rejected,
            })),
            "commands": self.commands.as_ref().map(CommandAccount::json),
            "interrupted": self.was_interrupted,
            "faults": self.faults(),
        })
    }

    fn rate(&self) -> f64 {
        let answers = self.stats.acknowledged + self.stats.refused;
        answers as f64 / self.elapsed.as_secs_f64().max(1e-3)
    }
}

pub(super) fn row(what: &str, cells: &[(&str, u64)]) -> String {
    let cells: Vec<String> =
        cells.iter().map(|(name, count)| format!("{name} {:<14}", grouped(*count))).collect();
    format!("  {what:<16}{}", cells.concat()).trim_end().to_owned()
}

/// The commonest reasons, commonest first.
pub(super) fn reasons(what: &str, reasons: &Reasons) -> Vec<String> {
    let mut sorted: Vec<(&String, &u64)> = reasons.iter().collect();
    sorted.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    let heads = std::iter::once(what).chain(std::iter::repeat(""));
    let told = sorted.iter().take(REASONS_TOLD).zip(heads);
    let mut lines: Vec<String> =
        told.map(|((reason, times), head)| format!("  {head:<16}{} {reason}", grouped(**times))).collect();
    let untold: u64 = sorted.iter().skip(REASONS_TOLD).map(|(_, times)| **times).sum();
    if untold > 0 {
        lines.push(format!("  {:<16}{} for other reasons", "", grouped(untold)));
    }
    lines
}

/// What is told of a latency: name and percent.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)];

pub(super) fn percentiles(latency: &Latency) -> String {
    if latency.count() == 0 {
        return "-".to_owned();
    }
    let cell = |(name, percent)| format!("{name} {}", ms(latency.percentile(percent)));
    PERCENTILES.map(cell).join("  ")
}

pub(super) fn percentiles_json(latency: &Latency) -> Value {
    if latency.count() == 0 {
        return Value::Null;
    }
    let entry = |(name, percent): (&str, f64)| {
        let ms = latency.percentile(percent).as_micros() as f64 / 1e3;
        (name.to_owned(), ms.into())
    };
    Value::Object(PERCENTILES.map(entry).into_iter().collect())
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTTP: Way = Way::Http { lines: 1 };

    fn account(way: Way, stats: FleetStats) -> Account {
        let mut latencies = Latencies::default();
        latencies.since_due.record(Duration::from_millis(5));
        Account {
            way,
            seed: u64::MAX,
            devices: 7,
            connections: 2,
            elapsed: Duration::from_secs(2),
            stats,
            unanswered: 0,
            latencies,
            behind: Duration::from_millis(3),
            refusals: Reasons::from([("unreadable".to_owned(), 3), ("other".to_owned(), 4)]),
            troubles: Reasons::new(),
            imported: None,
            was_interrupted: false,
            commands: None,
        }
    }

    fn good() -> FleetStats {
        FleetStats {
            sent: 1_010,
            acknowledged: 1_000,
            refused: 7,
            flawed: 7,
            flawed_refused: 7,
            ..FleetStats::default()
        }
    }

    #[test]
    fn nothing_is_wrong_with_bad_reports_that_were_refused() {
        assert_eq!(account(HTTP, good()).faults(), [""; 0]);
    }

    #[test]
    fn every_wrong_answer_is_a_fault() {
        for (stats, fault) in [
            (FleetStats { refused: 9, ..good() }, "2 right reports were refused"),
            (FleetStats { flawed_acknowledged: 1, ..good() }, "1 bad reports were accepted"),
            (FleetStats { disordered: 1, ..good() }, "1 acknowledgements came out of order"),
            (FleetStats { sent: 5, ..FleetStats::default() }, "nothing worked"),
            (FleetStats::default(), "nothing was sent"),
        ] {
            assert_eq!(account(HTTP, stats).faults(), [fault]);
        }
        let unanswered = Account { unanswered: 3, ..account(HTTP, good()) };
        assert_eq!(unanswered.faults(), ["3 reports were never answered"]);
        let imported =
            ImportTotals { rejected: 1, first_rejection: Some("x: y".to_owned()), ..ImportTotals::default() };
        let rejected = Account { imported: Some(imported), ..account(HTTP, good()) };
        assert_eq!(rejected.faults(), ["1 devices were not registered, the first because of x: y"]);
    }

    #[test]
    fn a_way_that_cannot_tell_is_not_blamed() {
        let stats = FleetStats { flawed_acknowledged: 4, ..good() };
        assert_eq!(account(Way::Amqp { in_flight: 1 }, stats).faults(), [""; 0]);
    }

    #[test]
    fn people_and_scripts_are_told_the_same() {
        let account = account(HTTP, good());
        let (lines, json) = (account.lines().join("\n"), account.json());
        for part in
            ["sent 1,010", "acknowledged 1,000", "503.5 answers/s", "p99 5.0 ms", "4 other", "7 on purpose"]
        {
            assert!(lines.contains(part), "{part} is not in\n{lines}");
        }
        assert!(lines.find("4 other") < lines.find("3 unreadable"), "commonest first");
        assert_eq!((&json["sent"], &json["refused_by_reason"]["other"]), (&json!(1010), &json!(4)));
        assert_eq!(json["latency_ms"]["since_sent"], Value::Null);
        assert_eq!(json["seed"], "18446744073709551615", "larger than what every reader of JSON keeps");
    }
}
