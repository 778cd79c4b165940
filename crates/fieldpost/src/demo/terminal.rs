//! The part with commands. A face terminal that is away is told to open, and does it once it comes
//! back. Then it is to have another volume, and confirms that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use simulator::commands::{CommandCounts, CommandLedger, CommandedDevices, ResponseProfile};
use simulator::traffic::DeviceIds;

use super::Failure;
use super::screen::DemoScreen;
use super::stage::Stage;

/// How long anything that is awaited may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the terminal takes to do what it is told.
const WORK: Duration = Duration::from_millis(150);
/// The entry that it is to have.
const KEY: &str = "volume";
const VALUE: u64 = 5;

/// What became of the commands, as far as it was seen from outside.
#[derive(Debug, Clone, Default)]
pub(super) struct TerminalAccount {
    /// At the terminal's own end.
    pub(super) counts: CommandCounts,
    /// Commands that the API calls acknowledged.
    pub(super) acknowledged: u64,
    /// Everything that should have happened and did not.
    pub(super) missing: Vec<String>,
}

#[derive(Deserialize)]
struct SeenStatus {
    status: String,
}

#[derive(Deserialize)]
struct SeenType {
    r#type: String,
}

/// Plays it.
pub(super) async fn play(screen: &mut DemoScreen, stage: &Stage) -> Result<TerminalAccount, Failure> {
    let devices = DeviceIds::new("face", 1).of_kind("face");
    let terminal = devices.id(0);
    let _: Value = stage.api.post("/v1/devices", &json!({"id": terminal, "kind": "face"})).await?;
    let sent: Value = stage
        .api
        .post(
            &format!("/v1/devices/{terminal}/commands"),
            &json!({"payload": {"open": true}, "origin": "demo"}),
        )
        .await?;
    let command = sent["id"].as_str().ok_or("a command has an id")?.to_owned();
    screen.event(&terminal, "a face terminal, is away and told to open: the command waits for it")?;
    let waiting: SeenStatus = stage.api.get(&format!("/v1/commands/{command}")).await?;
    let mut told = TerminalAccount::default();
    expect(&mut told, waiting.status == "scheduled", "a command for an absent terminal did not wait");

    let ledger = Arc::new(CommandLedger::default());
    let profile = ResponseProfile { answer_after: WORK, ..ResponseProfile::default() };
    let back = Instant::now();
    let connected = CommandedDevices::connect(&stage.site.mqtt, &devices, 1, profile, &ledger);
    let is_told = ledger.until(PATIENCE, |counts| counts.received == 1).await;
    let after = back.elapsed();
    expect(&mut told, is_told, "a terminal that came back was not told what waited for it");
    screen.event(&terminal, &format!("comes back, and is told {} ms later", after.as_millis()))?;
    let done = ledger.until(PATIENCE, |counts| counts.settled == 1).await;
    expect(&mut told, done, "the answer of a terminal was not acknowledged");
    screen.event(&terminal, "opens and says so: the command is acknowledged")?;

    let wish = format!("/v1/devices/{terminal}/desired");
    let wished = stage.api.any(Method::PUT, &format!("{wish}/{KEY}"), Some(&json!({"value": VALUE}))).await?;
    expect(&mut told, wished.status.is_success(), "an entry could not be desired");
    let has_it = |entries: &Value| {
        let entry = &entries["items"][0];
        entry["confirmed"] == VALUE && entry["desired"] == VALUE && entry["pending"] == false
    };
    let confirmed = stage.api.until::<Value>(&wish, PATIENCE, has_it).await;
    expect(&mut told, confirmed.is_ok(), "a desired entry was not confirmed");
    screen.event(&terminal, &format!("is to have {KEY} {VALUE}, is told and confirms it"))?;
    look_back(stage, &terminal, &mut told).await?;
    connected.disconnect().await;
    told.counts = ledger.counts();
    Ok(told)
}

/// Holds what the terminal did against what the API tells of it.
async fn look_back(stage: &Stage, terminal: &str, told: &mut TerminalAccount) -> Result<(), Failure> {
    let commands: Vec<SeenStatus> = stage.api.list(&format!("/v1/devices/{terminal}/commands")).await?;
    told.acknowledged = commands.iter().filter(|command| command.status == "acknowledged").count() as u64;
    expect(told, told.acknowledged == 2, "not both commands are acknowledged");
    let timeline: Vec<SeenType> =
        stage.api.list(&format!("/v1/devices/{terminal}/timeline?order=asc")).await?;
    let types: Vec<_> = timeline.iter().map(|happening| happening.r#type.as_str()).collect();
    let story = ["command.scheduled", "connected", "command.published", "command.acknowledged"];
    let mut rest = types.iter();
    let is_told = story.iter().all(|what| rest.any(|r#type| r#type == what));
    expect(told, is_told, "the timeline of a terminal does not tell its story");
    Ok(())
}

fn expect(told: &mut TerminalAccount, holds: bool, what: &str) {
    if !holds {
        told.missing.push(format!("MISSING {what}"));
    }
}
