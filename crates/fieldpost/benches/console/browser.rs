//! What a browser says: `console/bench.mjs` drives it and prints one line of JSON.

use std::process::Stdio;

use serde_json::Value;
use simulator::registration::{DeviceTemplate, import_devices};
use simulator::traffic::DeviceIds;
use tokio::process::Command;

use super::report::Report;
use super::reporting::Reporting;
use super::site::Fieldpost;
use super::{Failure, Sizes};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../console/bench.mjs");
const DEVICES: u32 = 10_000;

/// Bytes and requests of the first page, with an empty cache, and when it can be used.
pub(super) async fn first_load(report: &mut Report) -> Result<(), Failure> {
    let (server, _) = server().await?;
    let seen = drive(&server, &["first_load"]).await?;
    report.note(&format!("  console_first_load: {seen}"))?;
    let figure = format!("{} requests, {} B of them files", seen["requests"], seen["file_bytes"]);
    report.figure("console_first_load", figure);
    report.figure("console_time_to_interactive median", format!("{} ms", seen["interactive_ms"]));
    server.stop().await
}

/// Memory of a tab that shows devices as they report, at first and at last.
pub(super) async fn long_open(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let (server, devices) = server().await?;
    let reporting = Reporting::start(&server.site.mqtt, &devices, sizes.reports_per_second / 10);
    let seen = drive(&server, &["tab", &sizes.tab_seconds.to_string()]).await?;
    reporting.stop().await?;
    report.note(&format!("  console_tab_open_{}s: {seen}", sizes.tab_seconds))?;
    let figure = format!("{} / {} MiB", seen["first_mib"], seen["last_mib"]);
    report.figure(&format!("console_tab_heap at_first / after_{}s", sizes.tab_seconds), figure);
    server.stop().await
}

async fn server() -> Result<(Fieldpost, DeviceIds), Failure> {
    let server = Fieldpost::start().await?;
    let devices = DeviceIds::new("r", DEVICES);
    let imported =
        import_devices(&server.site.http, &devices, &DeviceTemplate::default(), |_| Ok(())).await?;
    if imported.rejected > 0 {
        return Err(format!("not every device was registered: {imported:?}").into());
    }
    Ok((server, devices))
}

async fn drive(server: &Fieldpost, arguments: &[&str]) -> Result<Value, Failure> {
    let mut script = Command::new("node");
    script.arg(SCRIPT).arg(server.url().await).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = script.stderr(Stdio::inherit()).output().await?;
    if !output.status.success() {
        return Err(format!("console/bench.mjs failed: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
