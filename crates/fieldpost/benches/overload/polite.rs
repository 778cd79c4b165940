//! Callers who behave: one report after the other over each way in, and how long each takes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use simulator::latency::Latency;
use tokio::time::{sleep, timeout};

use super::machine::ms;
use super::raw::{Http, Mqtt, report};
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, machine};

/// Between two reports of one caller.
const PAUSE: Duration = Duration::from_millis(2);
/// Reports that are timed while nothing else happens.
const QUIET_REPORTS: u32 = 1_000;
/// So many in a row that take no more than twice what most of them took before, and it is as
/// before.
const NORMAL_IN_A_ROW: u32 = 50;
const PATIENCE: Duration = Duration::from_secs(60);

/// What a server is asked by those who behave.
pub(super) struct Polite {
    http: SocketAddr,
    mqtt: SocketAddr,
    process: u32,
    quiet: Latency,
}

/// One caller over each way in.
struct Callers {
    http: Option<Http>,
    mqtt: Option<Mqtt>,
    refused: u64,
    value: u8,
}

impl Polite {
    /// Gets to know the server while nothing else happens.
    pub(super) async fn meet(server: &Fieldpost) -> Result<Self, Failure> {
        let (http, mqtt) = (server.site.http.address().await, server.site.mqtt.address().await);
        let mut polite = Self { http, mqtt, process: server.process_id()?, quiet: Latency::default() };
        let (mut callers, mut quiet) = (Callers::new(), Latency::default());
        for _ in 0..QUIET_REPORTS {
            quiet.record(callers.report(&polite).await?);
        }
        polite.quiet = quiet;
        Ok(polite)
    }

    /// Reports while `others` do what they do, then until it is as before, and notes all of it
    /// under `name`.
    pub(super) async fn endure<T>(
        &self,
        name: &str,
        report: &mut Report,
        others: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let (mut callers, mut meanwhile) = (Callers::new(), Latency::default());
        tokio::pin!(others);
        let done = loop {
            tokio::select! {
                done = &mut others => break done?,
                took = callers.report(self) => meanwhile.record(took?),
            }
        };
        let ended = Instant::now();
        let back = timeout(PATIENCE, self.until_normal(&mut callers)).await;
        let back = back.map_err(|_| format!("{name}: it is not as before within {PATIENCE:?}"))??;
        let after = back.duration_since(ended);
        let peak = machine::peak_resident_mib(self.process)?;
        report.note(&format!("  {name}: quiet {}", self.quiet))?;
        report.note(&format!("  {name}: meanwhile {meanwhile}, {} refused or cut", callers.refused))?;
        report.note(&format!("  {name}: as before after {after:?}; {peak} MiB at most"))?;
        report.figure(&format!("{name} report p50 / p99 before"), shown(&self.quiet));
        report.figure(&format!("{name} report p50 / p99 meanwhile"), shown(&meanwhile));
        report.figure(
            &format!("{name} as before after / memory at most"),
            format!("{:.1} s / {peak} MiB", after.as_secs_f64()),
        );
        Ok(done)
    }

    /// When the first of a row of reports began that took no longer than before.
    async fn until_normal(&self, callers: &mut Callers) -> Result<Instant, Failure> {
        let normal = self.quiet.percentile(99.0) * 2;
        let (mut in_a_row, mut began) = (0, Instant::now());
        while in_a_row < NORMAL_IN_A_ROW {
            let start = Instant::now();
            if callers.report(self).await? > normal {
                in_a_row = 0;
                continue;
            }
            if in_a_row == 0 {
                began = start;
            }
            in_a_row += 1;
        }
        Ok(began)
    }
}

fn shown(latency: &Latency) -> String {
    format!("{:.1} / {:.1} ms", ms(latency.percentile(50.0)), ms(latency.percentile(99.0)))
}

impl Callers {
    fn new() -> Self {
        Self { http: None, mqtt: None, refused: 0, value: 0 }
    }

    /// A report over each way in, however often that has to be tried: how long it took altogether.
    async fn report(&mut self, polite: &Polite) -> Result<Duration, Failure> {
        sleep(PAUSE).await;
        self.value ^= 1;
        let start = Instant::now();
        let both = async {
            while !self.over_http(polite.http).await.unwrap_or(false) {
                (self.http, self.refused) = (None, self.refused + 1);
            }
            while self.over_mqtt(polite.mqtt).await.is_err() {
                (self.mqtt, self.refused) = (None, self.refused + 1);
            }
        };
        timeout(PATIENCE, both).await.map_err(|_| "who behaves is not served")?;
        Ok(start.elapsed())
    }

    async fn over_http(&mut self, address: SocketAddr) -> std::io::Result<bool> {
        let http = match &mut self.http {
            Some(http) => http,
            none => none.insert(Http::open(address).await?),
        };
        Ok(http.ask(&report("polite", self.value)).await?.status == 200)
    }

    async fn over_mqtt(&mut self, address: SocketAddr) -> std::io::Result<()> {
        let mqtt = match &mut self.mqtt {
            Some(mqtt) => mqtt,
            none => {
                let mqtt = none.insert(Mqtt::open(address).await?);
                if mqtt.connect("polite").await? != 0 {
                    return Err(std::io::ErrorKind::ConnectionRefused.into());
                }
                mqtt
            }
        };
        mqtt.report("polite", self.value).await
    }
}
