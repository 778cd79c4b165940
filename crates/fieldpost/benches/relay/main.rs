//! `make bench`: how fast the outbox relay moves rows of a real PostgreSQL, which syncs.
//!
//! `full`: rows a second from a full table. `latency`: from a commit to the job's being consumed,
//! with nothing else to do. `backlog`: the rate with many rows waiting, beside that of `full`. Then
//! the same with a transaction open elsewhere for the whole run, and rolled-back rows among those
//! that wait. `bloat`: dead rows and the table's size at 1,000 rows a second, once a minute.
//! `cargo bench --bench relay -- full latency` runs these two parts alone.
//!
//! FIELDPOST_BENCH_RELAY_ROWS says how many rows wait (10,000,000).
//! FIELDPOST_BENCH_RELAY_BLOAT_MINUTES says how long `bloat` lasts: 60 where it is named on the
//! command line, else 2.
//!
//! This is no regression test: figures of a shared machine differ from run to run.

#[path = "../../tests/black_box/ports.rs"]
mod ports;
#[path = "../../tests/black_box/postgres.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod postgres;
#[path = "../rig.rs"]
mod rig;

use std::io::Write;
use std::process::{Command as StdCommand, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use postgres::Postgres;
use rig::http::{self, Http};
use rig::parts::{self, Parts};
use rig::report::Report;
use rig::{Failure, site};
use serde_json::Value;
use simulator::latency::Latency;
use tokio::process::{Child, Command};
use tokio::runtime::Builder;

/// Rows of a round.
const ROWS: u64 = 200_000;
const ROUNDS: usize = 3;
/// Rows that wait in `backlog`.
const BACKLOG_ROWS: u64 = 10_000_000;
/// Rows that are written in one transaction where others are rolled back in between, and those.
const CHUNK_ROWS: u64 = 100_000;
const ROLLED_BACK_ROWS: u64 = 10_000;
/// Minutes of `bloat`: where it is asked for by name, and beside the other parts.
const BLOAT_MINUTES: u64 = 60;
const BLOAT_MINUTES_BESIDE: u64 = 2;
/// Rows of a tenth of a second in `bloat`.
const BLOAT_ROWS: u64 = 100;
const TENTHS_OF_A_MINUTE: u64 = 600;
const QUEUE: &str = "queue:bench/relay";
const STREAM: &str = "stream:bench/relay";
/// The rate that those of `backlog` stand beside.
const FULL: &str = "relay_full_1queue";
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
    let mut full_rounds = Vec::new();
    if parts.has("full") || parts.has("backlog") {
        full_rounds = full(report, FULL, QUEUE).await?;
    }
    if parts.has("full") {
        full(report, "relay_full_1stream", STREAM).await?;
    }
    if parts.has("latency") {
        latency(report).await?;
    }
    if parts.has("backlog") {
        backlog(report, &full_rounds).await?;
    }
    if parts.has("bloat") {
        let usual = if parts.names("bloat") { BLOAT_MINUTES } else { BLOAT_MINUTES_BESIDE };
        bloat(report, parts::size("FIELDPOST_BENCH_RELAY_BLOAT_MINUTES", usual)?.max(1)).await?;
    }
    Ok(())
}

/// Rows a second from a table that is full when the relay starts.
async fn full(report: &mut Report, name: &str, to: &str) -> Result<Vec<f64>, Failure> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let stage = RelayStage::start(to).await?;
        stage.fill(ROWS);
        rounds.push(report.round(name, ROWS, stage.moved(ROWS).await?)?);
        stage.stop().await?;
    }
    report.rate(name, rounds.clone(), None);
    Ok(rounds)
}

/// The same with many more rows behind those that are moved, beside these rounds.
async fn backlog(report: &mut Report, full_rounds: &[f64]) -> Result<(), Failure> {
    let waiting = parts::size("FIELDPOST_BENCH_RELAY_ROWS", BACKLOG_ROWS)?.max(ROWS * ROUNDS as u64);
    for (name, is_open) in [("relay_backlog", false), ("relay_backlog_open_transaction", true)] {
        let stage = RelayStage::start(QUEUE).await?;
        let open = is_open.then(|| OpenTransaction::begin(&stage.postgres)).transpose()?;
        if is_open {
            stage.fill_with_gaps(waiting);
        } else {
            stage.fill(waiting);
        }
        let rows = stage.postgres.sql("postgres", "SELECT count(*) FROM fieldpost_outbox");
        report.note(&format!("  {name}: {rows} rows wait"))?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(report.round(name, ROWS, stage.moved(ROWS).await?)?);
        }
        report.rate(&format!("{name}, {rows} rows"), rounds, Some((FULL, full_rounds.to_vec())));
        drop(open);
        stage.stop().await?;
    }
    Ok(())
}

/// A server, a database with rows, and no relay yet.
struct RelayStage {
    server: site::Fieldpost,
    postgres: Postgres,
    to: String,
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
    async fn start(to: &str) -> Result<Self, Failure> {
        let server = site::Fieldpost::start().await?;
        let postgres = Postgres::start(&["shared_buffers=256MB", "max_wal_size=4GB"]);
        let made = StdCommand::new(env!("CARGO_BIN_EXE_fieldpost")).args(["relay", "sql"]).output()?;
        postgres.sql("postgres", &String::from_utf8(made.stdout)?);
        Ok(Self { server, postgres, to: to.to_owned() })
    }

    fn insert(&self, rows: u64) -> String {
        format!(
            "INSERT INTO fieldpost_outbox (destination, key, payload) \
             SELECT '{}', (n % 1000)::text, '{PAYLOAD}' FROM generate_series(1, {rows}) n;\n",
            self.to
        )
    }

    /// So many rows wait.
    fn fill(&self, rows: u64) {
        let insert = self.insert(rows);
        self.postgres.sql("postgres", &format!("{insert}VACUUM ANALYZE fieldpost_outbox; CHECKPOINT;"));
    }

    /// The same, in several transactions, with others in between that were rolled back. While a
    /// transaction is open, no vacuum takes away what is left of those.
    fn fill_with_gaps(&self, rows: u64) {
        let mut script = String::new();
        for _ in 0..rows.div_ceil(CHUNK_ROWS) {
            let (kept, gone) = (self.insert(CHUNK_ROWS), self.insert(ROLLED_BACK_ROWS));
            script.push_str(&format!("{kept}BEGIN;\n{gone}ROLLBACK;\n"));
        }
        self.postgres.sql("postgres", &format!("{script}VACUUM ANALYZE fieldpost_outbox; CHECKPOINT;"));
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

    /// How long a relay takes to bring so many more rows to where they go, its start included.
    async fn moved(&self, rows: u64) -> Result<Duration, Failure> {
        let is_stream = self.to == STREAM;
        let (kind, fields) =
            if is_stream { ("streams", &["messages"][..]) } else { ("queues", &["ready", "scheduled"][..]) };
        let request = http::request("GET", &format!("/v1/{kind}/bench/relay"), &[], "");
        let mut http = Http::open(self.server.site.http.address().await).await?;
        if is_stream {
            // One that is not there has no figures.
            http.ask(&http::json("PUT", "/v1/streams/bench/relay/settings", "{}"), 204).await?;
        }
        let count = |told: &[u8]| -> Result<u64, Failure> {
            let told: Value = serde_json::from_slice(told)?;
            Ok(fields.iter().filter_map(|field| told[*field].as_u64()).sum())
        };
        // A queue without jobs has figures, too.
        let before = count(http.ask(&request, 200).await?)?;
        let begun = Instant::now();
        let mut relay = self.relay().await?;
        loop {
            let arrived = count(http.ask(&request, 200).await?)?;
            if arrived >= before + rows {
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
    let stage = RelayStage::start(QUEUE).await?;
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

/// What is left of rows that were moved, once a minute: dead rows, and bytes of the table.
async fn bloat(report: &mut Report, minutes: u64) -> Result<(), Failure> {
    let stage = RelayStage::start(STREAM).await?;
    let mut relay = stage.relay().await?;
    let mut writer = psql(&stage.postgres)?;
    let mut input = writer.stdin.take().ok_or("it is piped")?;
    let row = stage.insert(BLOAT_ROWS);
    let mut tenth = tokio::time::interval(Duration::from_millis(100));
    let mut samples = Vec::new();
    for minute in 1..=minutes {
        for _ in 0..TENTHS_OF_A_MINUTE {
            tenth.tick().await;
            input.write_all(row.as_bytes())?;
        }
        let sample = BloatSample::of(&stage.postgres)?;
        let BloatSample { dead, bytes } = sample;
        report.note(&format!("  relay_1000_a_second: after {minute} min {dead} dead rows, {bytes} bytes"))?;
        samples.push(sample);
    }
    drop(input);
    writer.wait()?;
    // Bounded and flat is what is no larger in the end than in the middle.
    let at = |place: usize| samples.get(place).copied().ok_or("a minute at least");
    let most = BloatSample {
        dead: samples.iter().map(|sample| sample.dead).max().unwrap_or_default(),
        bytes: samples.iter().map(|sample| sample.bytes).max().unwrap_or_default(),
    };
    let (first, middle, last) = (at(0)?, at(samples.len() / 2)?, at(samples.len() - 1)?);
    for (when, sample) in [("first", first), ("middle", middle), ("last", last), ("max", most)] {
        let name = format!("relay_1000_a_second, {minutes} min, {when}");
        report.figure(&format!("{name}: dead rows"), sample.dead.to_string());
        report.figure(&format!("{name}: size"), format!("{:.1} MB", sample.bytes as f64 / 1e6));
    }
    relay.kill().await?;
    stage.stop().await
}

#[derive(Clone, Copy)]
struct BloatSample {
    dead: u64,
    bytes: u64,
}

impl BloatSample {
    fn of(postgres: &Postgres) -> Result<Self, Failure> {
        let query = "SELECT n_dead_tup, pg_total_relation_size(relid) FROM pg_stat_user_tables \
                     WHERE relname = 'fieldpost_outbox'";
        let found = postgres.sql("postgres", query);
        let (dead, bytes) = found.split_once('|').ok_or("two figures")?;
        Ok(Self { dead: dead.parse()?, bytes: bytes.parse()? })
    }
}
