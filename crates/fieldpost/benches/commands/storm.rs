//! All devices come back at once, with a password, and something waits for each.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use simulator::access::{ConnectOptions, NameAndPassword, Secret};
use simulator::api_client::ApiClient;
use simulator::commands::{CommandLedger, CommandedDevices, ResponseProfile};

use super::machine::ms;
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, PATIENCE, Sizes, stage};

const USERNAME: &str = "bench";
const PASSWORD: &str = "password";
/// The SHA-256 of that.
const PASSWORD_SHA256: &str = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";

pub(super) async fn all_come_back(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let name = format!("commands_storm_{}reconnects_1waiting_each", sizes.devices);
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("bench.toml");
    let login = format!("username = {USERNAME:?}\npassword_sha256 = {PASSWORD_SHA256:?}\nadmin = true\n");
    std::fs::write(&config, format!("[[auth.mqtt]]\n{login}"))?;
    let server = Fieldpost::start_with_config(&config).await?;
    let login = NameAndPassword { name: USERNAME.to_owned(), password: Secret::new(PASSWORD.to_owned()) };
    let mqtt = server
        .site
        .mqtt
        .clone()
        .entered_with(ConnectOptions { login: Some(login), ..ConnectOptions::default() });
    let devices = stage::devices(sizes.devices);
    stage::register(&server, &devices).await?;
    let ledger = Arc::new(CommandLedger::default());
    let connected = stage::connect(&mqtt, &devices, &ledger).await?;
    connected.vanish().await;

    let all_gone = |page: &Value| page["items"].as_array().is_some_and(Vec::is_empty);
    let api = ApiClient::new(server.site.http.clone(), PATIENCE);
    api.until("/v1/devices?connected=true&limit=1", PATIENCE, all_gone).await?;

    let all = u64::from(sizes.devices);
    let mut load = stage::load(&server, &devices, all, f64::INFINITY, &ledger);
    load.sent().await;
    let begun = Instant::now();
    let back =
        CommandedDevices::connect(&mqtt, &devices, devices.count(), ResponseProfile::default(), &ledger);
    if !back.subscribed(all, PATIENCE).await {
        return Err(format!("not every device came back: {}", stage::told(&ledger)).into());
    }
    let up = begun.elapsed();
    stage::all_settled(&ledger, all).await?;
    let done = begun.elapsed();
    report.note(&format!("  {name}: all sessions after {up:?}, all commands answered after {done:?}"))?;
    let figure = format!("{:.2} / {:.2} s", ms(up) / 1e3, ms(done) / 1e3);
    report.figure(&format!("{name} sessions_up / all_answered"), figure);
    back.disconnect().await;
    server.stop().await
}
