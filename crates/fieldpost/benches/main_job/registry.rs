//! A million devices: imported, listed, filtered and exported over HTTP, and the memory that the
//! server takes meanwhile.

use std::fmt::Write as _;
use std::io::Read;
use std::time::{Duration, Instant};

use simulator::latency::Latency;
use tokio::task::spawn_blocking;

use super::report::Report;
use super::reports::Load;
use super::site::Fieldpost;
use super::{Failure, machine};

const DEVICES: u32 = 1_000_000;
/// Devices that share the label `site`.
const DEVICES_PER_SITE: u32 = 500;
/// Pages that are asked for, each of another site.
const PAGES: u32 = 1_000;
const PAGE_ITEMS: u32 = 500;

/// Lines of an import, made as they are read.
struct Lines {
    next: u32,
    begun: String,
    at: usize,
}

impl Read for Lines {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.begun.len() {
            self.begun.clear();
            self.at = 0;
            let until = (self.next + 1_000).min(DEVICES);
            for number in self.next..until {
                let site = number / DEVICES_PER_SITE;
                // Writing to a String cannot fail.
                let _written = writeln!(
                    self.begun,
                    r#"{{"id":"D{number:06}","address":"{site} Harbour St, door {number}","labels":{{"site":"{site}"}}}}"#
                );
            }
            self.next = until;
        }
        let rest = &self.begun.as_bytes()[self.at..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Imports, lists, filters and exports, and says how much memory that took.
pub(super) async fn a_million_devices(report: &mut Report) -> Result<(), Failure> {
    const IMPORT: &str = "devices_imported_1000000_1_connection";
    const EXPORT: &str = "devices_exported_1000000_ndjson";
    let server = Fieldpost::start().await?;
    let (base, process) = (server.url().await, server.process_id()?);
    let idle = machine::resident_mib(process)?;

    let (answer, took) = timed(base.clone(), import).await?;
    if answer["created"] != DEVICES || answer["rejected_count"] != 0 {
        return Err(format!("not every device was imported: {answer}").into());
    }
    let rate = report.round(IMPORT, DEVICES.into(), took)?;
    report.rate(IMPORT, vec![rate], None);

    let (pages, _) = timed(base.clone(), list_sites).await?;
    let (p50, p99) = (pages.percentile(50.0), pages.percentile(99.0));
    report.note(&format!("  devices_of_a_label_page_of_500_among_1000000: {pages}"))?;
    report.figure(
        "devices_of_a_label_page_of_500_among_1000000 p50 / p99",
        format!("{:.2} / {:.2} ms", machine::ms(p50), machine::ms(p99)),
    );

    let (lines, took) = timed(base, export).await?;
    if lines != u64::from(DEVICES) {
        return Err(format!("{lines} devices were exported").into());
    }
    let rate = report.round(EXPORT, lines, took)?;
    report.rate(EXPORT, vec![rate], None);

    let (now, peak) = (machine::resident_mib(process)?, machine::peak_resident_mib(process)?);
    report.note(&format!("  resident memory: {idle} MiB idle, {now} MiB after, {peak} MiB at most"))?;
    report.figure("server_memory_1000000_devices_registered now / most", format!("{now} / {peak} MiB"));
    all_report(server, report).await
}

/// Every device reports, twice; then the server starts again and every device reports once more.
async fn all_report(server: Fieldpost, report: &mut Report) -> Result<(), Failure> {
    let load = Load::http(DEVICES);
    for name in ["first_reports_of_1000000_devices", "second_reports_of_1000000_devices"] {
        let took = load.send(&server.site.http, DEVICES.into()).await?;
        report.round(name, DEVICES.into(), took)?;
    }
    let process = server.process_id()?;
    let (now, peak) = (machine::resident_mib(process)?, machine::peak_resident_mib(process)?);
    report.figure("server_memory_1000000_devices_all_reporting now / most", format!("{now} / {peak} MiB"));

    let (server, start) = server.restart().await?;
    let process = server.process_id()?;
    let begun = machine::resident_mib(process)?;
    report.figure("server_start_to_ready_1000000_devices", format!("{:.2} s", start.as_secs_f64()));
    let took = load.send(&server.site.http, DEVICES.into()).await?;
    report.round("reports_of_1000000_devices_after_a_restart", DEVICES.into(), took)?;
    let (now, peak) = (machine::resident_mib(process)?, machine::peak_resident_mib(process)?);
    report.figure(
        "server_memory_1000000_devices_restarted, then all reporting now / most",
        format!("{begun}, {now} / {peak} MiB"),
    );
    server.stop().await
}

type Answer<T> = Result<T, ureq::Error>;

/// Runs what blocks on a thread of its own, and says how long it took.
async fn timed<T: Send + 'static>(
    base: String,
    call: fn(&str) -> Answer<T>,
) -> Result<(T, Duration), Failure> {
    let started = Instant::now();
    let answer = spawn_blocking(move || call(&base)).await??;
    Ok((answer, started.elapsed()))
}

fn import(base: &str) -> Answer<serde_json::Value> {
    let lines = Lines { next: 0, begun: String::new(), at: 0 };
    let request = ureq::post(format!("{base}/v1/devices/import")).content_type("application/x-ndjson");
    let mut answer = request.send(ureq::SendBody::from_owned_reader(lines))?;
    let text = answer.body_mut().read_to_string()?;
    Ok(serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text)))
}

fn list_sites(base: &str) -> Answer<Latency> {
    let mut latency = Latency::default();
    let agent = ureq::Agent::new_with_defaults();
    for page in 0..PAGES {
        let site = u64::from(page) * 7_919 % u64::from(DEVICES / DEVICES_PER_SITE);
        let started = Instant::now();
        let path = format!("{base}/v1/devices?label.site={site}&limit={PAGE_ITEMS}");
        agent.get(path).call()?.body_mut().read_to_string()?;
        latency.record(started.elapsed());
    }
    Ok(latency)
}

fn export(base: &str) -> Answer<u64> {
    let request = ureq::get(format!("{base}/v1/devices")).header("Accept", "application/x-ndjson");
    let mut body = request.call()?.into_body().into_reader();
    let (mut lines, mut buffer) = (0, vec![0; 256 * 1_024]);
    loop {
        match body.read(&mut buffer)? {
            0 => return Ok(lines),
            count => lines += buffer[..count].iter().filter(|byte| **byte == b'\n').count() as u64,
        }
    }
}
