//! The table at the end, and what is missing.

use simulator::account::Audit;
use simulator::fleet::FleetOutcome;
use simulator::grouped::grouped;
use simulator::latency::Latency;

use super::probes::ProbesAccount;
use super::terminal::TerminalAccount;

/// So many things that are missing are named; the others are counted.
const NAMED_MAX: usize = 20;

/// What came of the parts behind the main job.
#[derive(Debug, Clone, Default)]
pub(super) struct Extras {
    pub(super) told: TerminalAccount,
    pub(super) probes: ProbesAccount,
}

/// The figures; webhooks are timed at `client_id`, whose receiver was always well.
pub(super) fn table(audit: &Audit, client_id: &str, extras: &Extras) -> Vec<String> {
    let row = |what: &str, counts: &[(&str, u64)]| {
        let cells: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name:>14} {:>7}", grouped(*count))).collect();
        format!("  {what:<14}{}", cells.concat())
    };
    let to_webhook = audit.report_to_webhook.get(client_id).cloned().unwrap_or_default();
    let Extras { told, probes } = extras;
    vec![
        row(
            "reports",
            &[
                ("sent", audit.reports_sent),
                ("acknowledged", audit.reports_acknowledged),
                ("in history", audit.reports_found),
            ],
        ),
        row(
            "events",
            &[("changed", audit.changes), ("lost", audit.losses), ("restored", audit.restorations)],
        ),
        row(
            "notifications",
            &[
                ("due", audit.notifications_due),
                ("delivered", audit.delivered),
                ("superseded", audit.superseded),
                ("retried", audit.retried),
            ],
        ),
        row(
            "commands",
            &[
                ("received", told.counts.received),
                ("answered", told.counts.answered),
                ("acknowledged", told.acknowledged),
            ],
        ),
        row(
            "picks",
            &[("picked", probes.picked), ("answered", probes.answered), ("devices", probes.devices)],
        ),
        latency_row("report to acknowledgement", &audit.report_to_ack),
        latency_row(&format!("report to webhook ({client_id})"), &to_webhook),
        "  (latencies leave out the seconds around the SIGKILL)".to_owned(),
    ]
}

/// Everything that should be so and is not, in words.
pub(super) fn missing(audit: &Audit, outcome: &FleetOutcome) -> Vec<String> {
    let stats = outcome.stats;
    let mut missing: Vec<String> = [
        (outcome.unanswered, "reports were never answered"),
        (stats.refused, "reports were refused"),
        (stats.disordered, "acknowledgements came out of order"),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("MISSING {} {what}", grouped(*count)))
    .collect();
    missing.extend(audit.shortfalls.iter().take(NAMED_MAX).map(|shortfall| format!("MISSING {shortfall}")));
    let unnamed = audit.shortfalls.len().saturating_sub(NAMED_MAX);
    if unnamed > 0 {
        missing.push(format!("MISSING and {} more", grouped(unnamed as u64)));
    }
    missing
}

fn latency_row(what: &str, latency: &Latency) -> String {
    format!("  {what:<28} {latency}")
}

#[cfg(test)]
mod tests {
    use simulator::account::Shortfall;
    use simulator::fleet::FleetStats;
    use simulator::sent::Sent;
    use simulator::traffic::DeviceIds;

    use super::*;

    fn outcome(stats: FleetStats, unanswered: u64) -> FleetOutcome {
        FleetOutcome {
            stats,
            unanswered,
            latency: Latency::default(),
            sent: Sent::nothing(DeviceIds::new("d", 1)),
        }
    }

    #[test]
    fn the_table_tells_all_figures() {
        let audit = Audit { reports_sent: 12_345, superseded: 77, ..Audit::default() };
        let table = table(&audit, "acme", &Extras::default()).join("\n");
        assert!(
            table.contains("12,345") && table.contains("77") && table.contains("webhook (acme)"),
            "{table}"
        );
    }

    #[test]
    fn nothing_missing_is_said_of_a_good_run_only() {
        assert_eq!(missing(&Audit::default(), &outcome(FleetStats::default(), 0)), [""; 0]);
        let refused = FleetStats { refused: 2, ..FleetStats::default() };
        assert_eq!(missing(&Audit::default(), &outcome(refused, 1)).len(), 2);
    }

    #[test]
    fn many_shortfalls_are_named_in_part() {
        let shortfall = Shortfall::DeviceWrong { device_id: "d0".into(), what: "gone".into() };
        let audit = Audit { shortfalls: vec![shortfall; 30], ..Audit::default() };
        let missing = missing(&audit, &outcome(FleetStats::default(), 0));
        assert_eq!((missing.len(), missing[20].as_str()), (21, "MISSING and 10 more"));
    }
}
