//! What labels cost a fleet of a million. Measured are counts of selections over HTTP, whether an
//! import's answer is behind its counts, and how long a server takes to start.

use std::time::Instant;

use fieldpost_client::{Client, DeviceSelection};
use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::latency::Latency;
use simulator::places::FleetPlaces;
use simulator::registration::{DeviceTemplate, import_devices};
use simulator::traffic::DeviceIds;

use super::report::Report;
use super::site::Fieldpost;
use super::stage::SEED;
use super::{Failure, PATIENCE, Sizes, percentiles};

/// Devices whose labels change, in imports of so many each.
const CHANGED: u32 = 100_000;
const IMPORT_LINES: u32 = 10_000;
/// Three terms, of which each means a large part of the fleet.
const THREE_TERMS: &str = "country in (IN, CN),operator!=none,kind=probe";
const FLOOR_OF_COUNTS: &str = "floor 5 ms; by 300 values 30 ms";

pub(super) async fn of_a_million(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let server = Fieldpost::start().await?;
    let devices = DeviceIds::new("p", sizes.registered).of_kind("probe");
    let places = DeviceTemplate { places: Some(FleetPlaces::seeded(SEED)), ..DeviceTemplate::default() };
    let imported = import_devices(&server.site.http, &devices, &places, |_| Ok(())).await?;
    if imported.rejected > 0 {
        return Err(format!("not every device was registered: {imported:?}").into());
    }
    let client = Client::builder(server.url().await).timeout(PATIENCE).build()?;
    let three = DeviceSelection::all().selector(THREE_TERMS);
    for (what, by) in [("", None), (" by city", Some("city"))] {
        let mut took = Latency::default();
        for _ in 0..sizes.rounds {
            let begun = Instant::now();
            client.fleet().count(&three, by).await?;
            took.record(begun.elapsed());
        }
        let name = format!("labels_{}devices count_of_three_terms{what}", devices.count());
        report.note(&format!("  {name}: {took}"))?;
        report.figure(&format!("{name} p50 / p99"), format!("{} ({FLOOR_OF_COUNTS})", percentiles(&took)));
    }
    import_is_counted(&server, &client, &devices, report).await?;
    let (server, start) = server.restart().await?;
    let name = format!("labels_{}devices start_to_ready", devices.count());
    report.figure(&name, format!("{:.2} s", start.as_secs_f64()));
    server.stop().await
}

/// After each answer to an import the counts are those of its labels, at the first look.
async fn import_is_counted(
    server: &Fieldpost,
    client: &Client,
    devices: &DeviceIds,
    report: &mut Report,
) -> Result<(), Failure> {
    let api = ApiClient::new(server.site.http.clone(), PATIENCE);
    let changed = DeviceSelection::all().selector("round=1");
    let (begun, all) = (Instant::now(), CHANGED.min(devices.count()));
    for from in (0..all).step_by(IMPORT_LINES as usize) {
        let until = all.min(from + IMPORT_LINES);
        let line = |index| format!("{}\n", json!({"id": devices.id(index), "labels": {"round": "1"}}));
        let _answer: Value = api.post_lines("/v1/devices/import", (from..until).map(line).collect()).await?;
        let counted = client.fleet().count(&changed, None).await?.total;
        if counted != u64::from(until) {
            return Err(format!("{until} devices have the label, and {counted} are counted").into());
        }
    }
    let name = format!("labels_import_of_{all}");
    report.figure(&format!("{name} took"), format!("{:.2} s", begun.elapsed().as_secs_f64()));
    report.figure(&format!("{name} index_lag_behind_the_answer"), "none".to_owned());
    Ok(())
}
