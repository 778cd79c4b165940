//! `make bench`: how fast the outbox relay moves rows of a real PostgreSQL, which syncs.
//!
//! `full`: rows a second from a full table. `latency`: from a commit to the job's being consumed,
//! with nothing else to do. `backlog`: the rate with many rows waiting, and beside it the rate with
//! a transaction open elsewhere for the whole run. `bloat`: dead rows and the table's size at 1,000
//! rows a second. `cargo bench --bench relay -- full latency` runs these two parts alone.
//!
//! FIELDPOST_BENCH_RELAY_ROWS says how many rows wait (1,000,000), FIELDPOST_BENCH_RELAY_SECONDS
//! how long `bloat` lasts (60).
//!
//! This is no regression test: figures of a shared machine differ from run to run.

#[path = "../jobs/http.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod http;
#[path = "../main_job/machine.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod machine;
#[path = "../main_job/parts.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod parts;
#[path = "../../tests/black_box/ports.rs"]
mod ports;
#[path = "../../tests/black_box/postgres.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod postgres;
#[path = "../jobs/replies.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod replies;
#[path = "../main_job/report.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod report;
#[path = "../main_job/site.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod site;

use std::error::Error;
use std::io::Write;
use std::process::{Command as StdCommand, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::Http;
use parts::Parts;
use postgres::Postgres;
use report::Report;
use serde_json::Value;
use simulator::latency::Latency;
use tokio::process::{Child, Command};
use tokio::runtime::Builder;

/// What can go wrong in a benchmark: anything, and then there is no table.
type Failure = Box<dyn Error + Send + Sync>;

/// Rows of a round.
const ROWS: u64 = 200_000;
const ROUNDS: usize = 3;
/// Rows of `latency`, one every so often.
const SINGLE: usize = 1_000;
const SINGLE_EVERY: Duration = Duration::from_millis(10);
/// Between two looks at how much has arrived.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What a row carries: about a hundred bytes.
const PAYLOAD: &str =
    r#"{"order": 1001, "customer": "c-000017", "total": 99.5, "lines": [{"sku": "a-1", "n": 2}]}"#;

fn main() -> Result<(), Failure> {
    parts::run(Builder::new_current_thread(), &["full", "latency", "backlog", "bloat"], measure)
}

async fn measure(parts: &Parts, report: &mut Report) -> Result<(), Failure> {
    if parts.has("full") {
        for (name, to) in
            [("relay_full_1queue", "queue:bench/relay"), ("relay_full_1stream", "stream:bench/relay")]
        {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                let stage = RelayStage::start(ROWS, to).await?;
                rounds.push(report.round(name, ROWS, stage.moved(ROWS).await?)?);
                stage.stop().await?;
            }
            report.rate(name, rounds, None);
        }
    }
    if parts.has("latency") {
        latency(report).await?;
    }
    if parts.has("backlog") {
        let waiting = variable("FIELDPOST_BENCH_RELAY_ROWS", 1_000_000).max(ROWS);
        for (name, is_open) in [("relay_backlog", false), ("relay_backlog_open_transaction", true)] {
            let stage = RelayStage::start(waiting, "queue:bench/relay").await?;
            let open = is_open.then(|| OpenTransaction::begin(&stage.postgres)).transpose()?;
            let rate = report.round(name, ROWS, stage.moved(ROWS).await?)?;
            report.rate(name, vec![rate], None);
            drop(open);
            stage.stop().await?;
        }
    }
    if parts.has("bloat") {
        bloat(report).await?;
    }
    Ok(())
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A server, a database with rows, and no relay yet.
struct RelayStage {
    server: site::Fieldpost,
    postgres: Postgres,
    is_stream: bool,
}

/// A transaction that has a number and goes on until it is dropped.
struct OpenTransaction(std::process::Child);

impl OpenTransaction {
    fn begin(postgres: &Postgres) -> Result<Self, Failure> {
        let mut psql = psql(postgres)?;
        let input = psql.stdin.as_mut().ok_or("it is piped")?;
        input.write_all(b"CREATE TABLE other (); BEGIN; CREATE TABLE another ();\n")?;
        Ok(Self(psql))
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn psql(postgres: &Postgres) -> Result<std::process::Child, Failure> {
    let psql = postgres::programs().join("psql");
    let url = postgres.url("postgres");
    Ok(StdCommand::new(psql).args(["--no-psqlrc", "--quiet", &url]).stdin(Stdio::piped()).spawn()?)
}

impl RelayStage {
    async fn start(rows: u64, to: &str) -> Result<Self, Failure> {
        let server = site::Fieldpost::start().await?;
        let postgres = Postgres::start(&["shared_buffers=256MB", "max_wal_size=4GB"]);
        let made = StdCommand::new(env!("CARGO_BIN_EXE_fieldpost")).args(["relay", "sql"]).output()?;
        postgres.sql("postgres", &String::from_utf8(made.stdout)?);
        postgres.sql(
            "postgres",
            &format!(
                "INSERT INTO fieldpost_outbox (destination, key, payload) \
                 SELECT '{to}', (n % 1000)::text, '{PAYLOAD}' FROM generate_series(1, {rows}) n; \
                 VACUUM ANALYZE fieldpost_outbox; CHECKPOINT;"
            ),
        );
        Ok(Self { server, postgres, is_stream: to.starts_with("stream:") })
    }

    async fn relay(&self) -> Result<Child, Failure> {
        let (database, server) = (self.postgres.url("postgres"), self.server.url().await);
        let relay = Command::new(env!("CARGO_BIN_EXE_fieldpost"))
            .args(["relay", "run", "--database", &database, "--server", &server])
            .env("RUST_LOG", "warn")
            .kill_on_drop(true)
            .spawn();
        Ok(relay?)
    }

    /// How long a relay takes to bring so many rows to where they go, its start included.
    async fn moved(&self, rows: u64) -> Result<Duration, Failure> {
        let (kind, figures) = if self.is_stream {
            ("streams", &["messages"][..])
        } else {
            ("queues", &["ready", "scheduled"][..])
        };
        let request = http::request("GET", &format!("/v1/{kind}/bench/relay"), &[], "");
        let mut http = Http::open(self.server.site.http.address().await).await?;
        if self.is_stream {
            // One that is not there has no figures.
            http.ask(&http::json("PUT", "/v1/streams/bench/relay/settings", "{}"), 204).await?;
        }
        let begun = Instant::now();
        let mut relay = self.relay().await?;
        loop {
            let told: Value = serde_json::from_slice(http.ask(&request, 200).await?)?;
            let arrived: u64 = figures.iter().filter_map(|figure| told[*figure].as_u64()).sum();
            if arrived >= rows {
                let took = begun.elapsed();
                relay.kill().await?;
                return Ok(took);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn stop(self) -> Result<(), Failure> {
        self.server.stop().await
    }
}

/// Each row says when it was written; the consumer waits for it. The commit's own sync counts too.
async fn latency(report: &mut Report) -> Result<(), Failure> {
    let stage = RelayStage::start(0, "queue:bench/relay").await?;
    let mut relay = stage.relay().await?;
    let mut http = Http::open(stage.server.site.http.address().await).await?;
    let consume = http::json("POST", "/v1/queues/bench/relay/consume", r#"{"wait":"30s","max":1000}"#);
    let mut writer = psql(&stage.postgres)?;
    let mut input = writer.stdin.take().ok_or("it is piped")?;
    let row = "INSERT INTO fieldpost_outbox (destination, payload) \
               VALUES ('queue:bench/relay', to_jsonb(extract(epoch FROM clock_timestamp()) * 1000));\n";
    let writing = std::thread::spawn(move || {
        for _ in 0..SINGLE {
            if input.write_all(row.as_bytes()).is_err() {
                break;
            }
            std::thread::sleep(SINGLE_EVERY);
        }
    });
    let (mut latencies, mut seen) = (Latency::default(), 0);
    while seen < SINGLE {
        let told: Value = serde_json::from_slice(http.ask(&consume, 200).await?)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        for job in told["jobs"].as_array().ok_or("no jobs")? {
            let written = job["payload"].as_f64().ok_or("no time")?;
            // The first ones wait for the relay's start.
            if seen >= SINGLE / 10 {
                latencies.record(now.saturating_sub(Duration::from_secs_f64(written / 1_000.0)));
            }
            seen += 1;
        }
    }
    writing.join().map_err(|_| "the writer failed")?;
    for percent in [50.0, 99.0] {
        let latency = latencies.percentile(percent);
        report.figure(
            &format!("relay_idle p{percent:.0}"),
            format!("{:.1} ms", latency.as_secs_f64() * 1_000.0),
        );
    }
    writer.wait()?;
    relay.kill().await?;
    stage.stop().await
}

/// What is left of rows that were moved.
async fn bloat(report: &mut Report) -> Result<(), Failure> {
    let seconds = variable("FIELDPOST_BENCH_RELAY_SECONDS", 60);
    let stage = RelayStage::start(0, "stream:bench/relay").await?;
    let mut relay = stage.relay().await?;
    let mut writer = psql(&stage.postgres)?;
    let mut input = writer.stdin.take().ok_or("it is piped")?;
    let row = format!(
        "INSERT INTO fieldpost_outbox (destination, payload) \
         SELECT 'stream:bench/relay', '{PAYLOAD}' FROM generate_series(1, 100) n;\n"
    );
    let mut tenth = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..seconds * 10 {
        tenth.tick().await;
        input.write_all(row.as_bytes())?;
    }
    drop(input);
    writer.wait()?;
    let figures = "SELECT n_dead_tup, pg_total_relation_size(relid) FROM pg_stat_user_tables \
                   WHERE relname = 'fieldpost_outbox'";
    let found = stage.postgres.sql("postgres", figures);
    let (dead, bytes) = found.split_once('|').ok_or("two figures")?;
    report.note(&format!("  relay_1000_a_second: after {seconds} s {dead} dead rows, {bytes} bytes"))?;
    report.figure("relay_1000_a_second dead rows", dead.to_owned());
    report.figure("relay_1000_a_second size", format!("{:.1} MB", bytes.parse::<f64>()? / 1e6));
    relay.kill().await?;
    stage.stop().await
}
