//! The part with tasks. Some probes are connected; two tasks ask half of them each, and so all of
//! them, each once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use simulator::commands::{CommandLedger, CommandedDevices, ResponseProfile};
use simulator::registration::{DeviceTemplate, import_devices};
use simulator::traffic::DeviceIds;

use super::Failure;
use super::screen::DemoScreen;
use super::stage::Stage;

/// How long anything that is awaited may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Probes that are connected.
const PROBES: u32 = 12;
/// Probes that each task asks.
const ASKED: u32 = 6;

/// What became of the tasks, as far as it was seen from outside.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbesAccount {
    /// Devices that the API says were picked, and that it says answered.
    pub(super) picked: u64,
    pub(super) answered: u64,
    /// Devices of which one or both tasks had an answer.
    pub(super) devices: u64,
    /// Everything that should have happened and did not.
    pub(super) missing: Vec<String>,
}

#[derive(Deserialize)]
struct ProbeTask {
    status: String,
    picked: u64,
    answered: u64,
    results: Vec<ProbeResult>,
}

#[derive(Deserialize)]
struct ProbeResult {
    device_id: String,
    outcome: String,
}

/// Plays it.
pub(super) async fn play(screen: &mut DemoScreen, stage: &Stage) -> Result<ProbesAccount, Failure> {
    let devices = DeviceIds::new("probe", PROBES).of_kind("probe");
    import_devices(&stage.site.http, &devices, &DeviceTemplate::default(), |_| Ok(())).await?;
    let ledger = Arc::new(CommandLedger::default());
    let connected =
        CommandedDevices::connect(&stage.site.mqtt, &devices, PROBES, ResponseProfile::default(), &ledger);
    let mut account = ProbesAccount::default();
    if !connected.subscribed(PROBES.into(), PATIENCE).await {
        account.missing.push("MISSING not every probe is connected".to_owned());
    }
    screen.event("probes", &format!("{PROBES} are connected; two tasks ask {ASKED} of them each"))?;
    let mut asked = BTreeSet::new();
    for name in ["first task", "second task"] {
        let body = json!({"payload": "ping", "selector": "kind=probe", "count": ASKED});
        let task: Value = stage.api.post("/v1/tasks?wait=10s", &body).await?;
        let task: ProbeTask = serde_json::from_value(task)?;
        screen.event(name, &format!("is {}: {} of {ASKED} answered", task.status, task.answered))?;
        account.picked += task.picked;
        account.answered += task.answered;
        let good = task.results.into_iter().filter(|result| result.outcome == "answered");
        asked.extend(good.map(|result| result.device_id));
    }
    account.devices = asked.len() as u64;
    if account.devices < PROBES.into() {
        account.missing.push("MISSING two tasks did not ask each probe once".to_owned());
    }
    if ledger.counts().received != account.picked {
        account.missing.push("MISSING probes were asked more or less often than the API says".to_owned());
    }
    connected.disconnect().await;
    Ok(account)
}
