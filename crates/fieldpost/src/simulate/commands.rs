//! The part of a simulation in which devices are told to do something. Commands are sent over REST
//! beside the reports, or come from elsewhere, such as a task. They are taken and answered over
//! connections of their own, and called to account.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use simulator::access::ConnectOptions;
use simulator::address::ServerAddress;
use simulator::api_client::ApiClient;
use simulator::commands::{
    CommandCounts, CommandLatencies, CommandLedger, CommandLoad, CommandedDevices,
    DEVICES_PER_CONNECTION_MAX, LoadPlan, Outcomes, ResponseProfile, outcomes,
};
use simulator::endpoint::Endpoint;
use simulator::fleet::Reasons;
use simulator::grouped::grouped;

use super::account::{percentiles, percentiles_json, reasons, row};
use super::flags::SimulationPlan;

/// Connections that commands are sent over.
pub(super) const SENDERS: u32 = 64;
/// Between two questions for what became of the commands, and at least as long as one takes.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// A call of the API may take so long.
const CALL_PATIENCE: Duration = Duration::from_secs(30);
/// What devices are told.
const PAYLOAD: &str = r#"{"open":true}"#;
/// Statuses of commands that have not ended.
const OPEN: [&str; 3] = ["scheduled", "published", "running"];

/// How commands are sent and answered.
#[derive(Debug, Clone)]
pub(super) struct CommandOrder {
    /// Those that are sent here; `None` where commands come from elsewhere alone.
    pub(super) per_second: Option<f64>,
    pub(super) profile: ResponseProfile,
    /// Where they are sent.
    pub(super) http: ServerAddress,
}

impl CommandOrder {
    /// Connections that this part needs besides those of the reports.
    pub(super) fn connections(plan: &SimulationPlan) -> u32 {
        match &plan.commands {
            Some(commands) => Self::of_devices(plan) + commands.per_second.map_or(0, |_| SENDERS),
            None => 0,
        }
    }

    fn of_devices(plan: &SimulationPlan) -> u32 {
        plan.connections.max(plan.devices.count().div_ceil(DEVICES_PER_CONNECTION_MAX))
    }
}

/// Commands at work.
#[derive(Debug)]
pub(super) struct Commanding {
    order: CommandOrder,
    http: Endpoint,
    origin: String,
    devices: CommandedDevices,
    load: Option<CommandLoad>,
    ledger: Arc<CommandLedger>,
    begun: Option<Instant>,
}

/// What is known of the commands at the end.
#[derive(Debug, Clone)]
pub(super) struct CommandAccount {
    counts: CommandCounts,
    latencies: CommandLatencies,
    unreceived: u64,
    outcomes: Outcomes,
    troubles: Reasons,
    profile: ResponseProfile,
    /// Whether commands were to be sent here.
    are_sent: bool,
    behind: Duration,
    elapsed: Duration,
}

impl Commanding {
    /// Sees that the server is there, and has the devices connect and subscribe, or as many as do
    /// within `patience`.
    pub(super) async fn start(
        commands: &CommandOrder,
        plan: &SimulationPlan,
        mqtt: &Endpoint,
        patience: Duration,
    ) -> io::Result<Self> {
        let access = ConnectOptions { login: None, ..plan.access.clone() };
        let http = commands.http.reach(access, plan.ca.as_deref()).await?;
        let ledger = Arc::new(CommandLedger::default());
        let connections = CommandOrder::of_devices(plan);
        let profile = commands.profile;
        let devices = CommandedDevices::connect(mqtt, &plan.devices, connections, profile, &ledger);
        devices.subscribed(plan.devices.count().into(), patience).await;
        let origin = format!("simulate-{}-{}", std::process::id(), plan.profile.seed);
        Ok(Self { order: commands.clone(), http, origin, devices, load: None, ledger, begun: None })
    }

    /// Sends from now on, if anything is sent here.
    pub(super) fn begin(&mut self, plan: &SimulationPlan) {
        self.begun = Some(Instant::now());
        let Some(per_second) = self.order.per_second else { return };
        let load = LoadPlan {
            endpoint: self.http.clone(),
            devices: plan.devices.clone(),
            per_second,
            commands: u64::MAX,
            connections: SENDERS,
            origin: self.origin.clone(),
            payload: serde_json::from_str(PAYLOAD).expect("the payload is a constant and JSON"),
        };
        self.load = Some(CommandLoad::start(load, &self.ledger));
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    pub(super) fn counts(&self) -> CommandCounts {
        self.ledger.counts()
    }

    /// Sends nothing more, waits up to `patience` until every command has ended, and counts.
    pub(super) async fn finish(self, patience: Duration) -> CommandAccount {
        let Self { order, http, origin, devices, load, ledger, begun } = self;
        let mut behind = Duration::ZERO;
        if let Some(mut load) = load {
            load.stop();
            load.sent().await;
            behind = load.behind();
        }
        let elapsed = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let until = Instant::now() + patience;
        let profile = order.profile;
        let is_quiet = |counts: CommandCounts| {
            counts.received >= counts.sent && (!profile.answer_all() || counts.settled >= counts.received)
        };
        ledger.until(patience, is_quiet).await;
        let outcomes = ended(&ApiClient::new(http, CALL_PATIENCE), &origin, until).await;
        devices.disconnect().await;
        let mut troubles = ledger.troubles();
        let outcomes = outcomes.unwrap_or_else(|why| {
            *troubles.entry(why).or_default() += 1;
            Outcomes::new()
        });
        CommandAccount {
            counts: ledger.counts(),
            latencies: ledger.latencies(),
            unreceived: ledger.unreceived(),
            outcomes,
            troubles,
            profile,
            are_sent: order.per_second.is_some(),
            behind,
            elapsed,
        }
    }
}

/// What became of the commands once all have ended, or as it is when the time is over.
async fn ended(api: &ApiClient, origin: &str, until: Instant) -> Result<Outcomes, String> {
    loop {
        let asked = Instant::now();
        let found = outcomes(api, origin).await.map_err(|error| error.to_string())?;
        let is_over = Instant::now() >= until;
        if is_over || OPEN.iter().all(|status| !found.contains_key(*status)) {
            return Ok(found);
        }
        tokio::time::sleep(ASK_EVERY.max(asked.elapsed())).await;
    }
}

impl CommandAccount {
    /// Everything that should not be so.
    pub(super) fn faults(&self) -> Vec<String> {
        let CommandCounts { sent, unsent, received, answered, refused, settled, .. } = self.counts;
        let with = |status: &str| self.outcomes.get(status).copied().unwrap_or_default();
        let open = OPEN.iter().map(|status| with(status)).sum::<u64>();
        let all = self.outcomes.values().sum::<u64>();
        let answers_all = self.profile.answer_all();
        let found = [
            (unsent, "commands were not accepted"),
            (self.unreceived, "commands never reached their device"),
            (if answers_all { received - settled } else { 0 }, "answers were never acknowledged"),
            (if answers_all { open } else { 0 }, "commands have not ended"),
            (
                with("acknowledged").saturating_sub(answered - refused),
                "commands are acknowledged that no device did",
            ),
            (sent.saturating_sub(all), "commands are missing from the list of the server"),
        ];
        let told = found.iter().filter(|(count, _)| *count > 0);
        let mut faults: Vec<_> = told.map(|(count, what)| format!("{} {what}", grouped(*count))).collect();
        if sent == 0 && self.are_sent {
            faults.push("no command was sent".to_owned());
        }
        faults
    }

    /// For people.
    pub(super) fn lines(&self) -> Vec<String> {
        let counts = self.counts;
        let outcomes: Vec<_> =
            self.outcomes.iter().map(|(status, count)| format!("{status} {}", grouped(*count))).collect();
        let latencies = &self.latencies;
        let mut lines = vec![
            row(
                "commands",
                &[("sent", counts.sent), ("received", counts.received), ("again", counts.repeated)],
            ),
            row(
                "answers",
                &[
                    ("given", counts.answered),
                    ("refusals", counts.refused),
                    ("settled", counts.settled),
                    ("left", counts.left),
                ],
            ),
            format!(
                "  {:<16}{}",
                "outcomes",
                if outcomes.is_empty() { "-".to_owned() } else { outcomes.join("  ") }
            ),
            format!("  {:<16}{}  until received", "since sent", percentiles(&latencies.asked_to_received)),
            format!(
                "  {:<16}{}  until received",
                "since accepted",
                percentiles(&latencies.accepted_to_received)
            ),
            format!("  {:<16}{}  until settled", "", percentiles(&latencies.accepted_to_settled)),
        ];
        lines.extend(reasons("trouble", &self.troubles));
        lines
    }

    /// For scripts.
    pub(super) fn json(&self) -> Value {
        let counts = self.counts;
        json!({
            "sent": counts.sent,
            "not_accepted": counts.unsent,
            "received": counts.received,
            "received_again": counts.repeated,
            "unreceived": self.unreceived,
            "answered": counts.answered,
            "refused_by_devices": counts.refused,
            "settled": counts.settled,
            "left": counts.left,
            "outcomes": self.outcomes,
            "settled_per_second": counts.settled as f64 / self.elapsed.as_secs_f64().max(1e-3),
            "latency_ms": {
                "asked_to_received": percentiles_json(&self.latencies.asked_to_received),
                "accepted_to_received": percentiles_json(&self.latencies.accepted_to_received),
                "accepted_to_settled": percentiles_json(&self.latencies.accepted_to_settled),
            },
            "behind_ms_max": self.behind.as_secs_f64() * 1e3,
            "broken_connections": counts.broken,
            "trouble_by_reason": self.troubles,
        })
    }
}

#[cfg(test)]
mod tests {
    use simulator::random::Probability;

    use super::*;

    fn account(counts: CommandCounts, outcomes: &[(&str, u64)]) -> CommandAccount {
        CommandAccount {
            counts,
            latencies: CommandLatencies::default(),
            unreceived: 0,
            outcomes: outcomes.iter().map(|(status, count)| ((*status).to_owned(), *count)).collect(),
            troubles: Reasons::new(),
            profile: ResponseProfile::default(),
            are_sent: true,
            behind: Duration::ZERO,
            elapsed: Duration::from_secs(1),
        }
    }

    fn good() -> CommandCounts {
        CommandCounts {
            sent: 1_000,
            received: 1_000,
            answered: 1_000,
            refused: 10,
            settled: 1_000,
            ..CommandCounts::default()
        }
    }

    #[test]
    fn nothing_is_wrong_when_every_command_ended_as_its_device_said() {
        let account = account(good(), &[("acknowledged", 990), ("failed", 10)]);
        assert_eq!(account.faults(), [""; 0]);
        let lines = account.lines().join("\n");
        assert!(lines.contains("sent 1,000") && lines.contains("acknowledged 990  failed 10"), "{lines}");
        assert_eq!(account.json()["outcomes"]["failed"], 10);
    }

    #[test]
    fn every_command_that_went_astray_is_a_fault() {
        let ended = [("acknowledged", 990), ("failed", 10)];
        for (counts, outcomes, fault) in [
            (CommandCounts { unsent: 1, ..good() }, &ended[..], "1 commands were not accepted"),
            (CommandCounts { settled: 998, ..good() }, &ended, "2 answers were never acknowledged"),
            (
                good(),
                &[("acknowledged", 991), ("failed", 9)],
                "1 commands are acknowledged that no device did",
            ),
            (good(), &[("failed", 999)], "1 commands are missing from the list of the server"),
            (good(), &[("failed", 999), ("running", 1)], "1 commands have not ended"),
        ] {
            assert_eq!(account(counts, outcomes).faults(), [fault]);
        }
        let silent = ResponseProfile { silent: Probability::ALWAYS, ..ResponseProfile::default() };
        let open = account(CommandCounts { answered: 10, settled: 10, ..good() }, &[("published", 1_000)]);
        assert_eq!(CommandAccount { profile: silent, ..open }.faults(), [""; 0]);
        let taken = account(CommandCounts { sent: 0, ..good() }, &[]);
        assert_eq!(CommandAccount { are_sent: false, ..taken.clone() }.faults(), [""; 0]);
        assert_eq!(taken.faults(), ["no command was sent"]);
    }
}
