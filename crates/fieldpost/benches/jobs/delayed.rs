//! Millions of jobs that wait for their time, spread over a day. Measured are the memory they take,
//! whether publishing slows down with them, and how long a start takes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use simulator::random::SeededRandom;
use tokio::sync::mpsc;

use super::http::{self, Http};
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, PAYLOAD, lanes, machine};

const CONNECTIONS: u32 = 8;
const IN_EACH_CALL: u64 = 1_000;
/// Enough that every partition has some of them.
const QUEUES: u64 = 64;
const SPREAD_MS: u64 = 24 * 3_600 * 1_000;
const SEED: u64 = 20_261_121;
const MILLION: u64 = 1_000_000;
/// Reports of a million that wait to be written.
const MILLIONS_UNREPORTED_MAX: usize = 4;
/// Digits of a delay in milliseconds, up to a day.
const DIGITS: usize = 8;

/// As many as beanstalkd keeps in 573 MiB, and lmstfy on Redis in 808 MiB.
pub(super) async fn two_million(report: &mut Report) -> Result<(), Failure> {
    measure(report, 2 * MILLION).await
}

/// Ten times as many, which takes some minutes and some gigabytes of disk.
pub(super) async fn twenty_million(report: &mut Report) -> Result<(), Failure> {
    measure(report, 20 * MILLION).await
}

async fn measure(report: &mut Report, total: u64) -> Result<(), Failure> {
    let name = format!("delayed_jobs_{total}_over_24h_{QUEUES}queues");
    let server = Fieldpost::start().await?;
    let process = server.process_id()?;
    let millions = publish(report, &name, server.site.http.address().await, total).await?;
    let all: Duration = millions.iter().sum();
    let rate = report.round(&format!("{name} published"), total, all)?;
    report.rate(&format!("{name} published_rest_8x1000"), vec![rate], None);
    if let [first, .., last] = millions.as_slice() {
        let kept = first.as_secs_f64() / last.as_secs_f64();
        report.figure(&format!("{name} rate of last million / first"), format!("{kept:.2}"));
    }
    memory(report, &format!("{name} published"), process)?;
    all_there(&server, total).await?;
    let disk = disk_mib(&server.site.data_dir())?;
    report.note(&format!("  {name}: {disk} MiB of disk"))?;

    let (server, took) = server.restart().await?;
    report.figure(&format!("{name} restart to ready"), format!("{:.2} s", took.as_secs_f64()));
    memory(report, &format!("{name} restarted"), server.process_id()?)?;
    all_there(&server, total).await?;
    server.stop().await
}

fn memory(report: &mut Report, name: &str, process: u32) -> Result<(), Failure> {
    let (now, peak) = (machine::resident_mib(process)?, machine::peak_resident_mib(process)?);
    report.figure(&format!("{name} memory now / most"), format!("{now} / {peak} MiB"));
    Ok(report.note(&format!("  {name}: {now} MiB resident, {peak} MiB at most"))?)
}

/// Publishes `total` jobs, and reports each million of them; how long each took.
async fn publish(
    report: &mut Report,
    name: &str,
    address: SocketAddr,
    total: u64,
) -> Result<Vec<Duration>, Failure> {
    let (tell, mut passed) = mpsc::channel(MILLIONS_UNREPORTED_MAX);
    let published = Arc::new(AtomicU64::new(0));
    let publishing = async {
        let calls = total / IN_EACH_CALL / u64::from(CONNECTIONS);
        let lane = |lane| publish_lane(address, lane, calls, Arc::clone(&published), tell.clone());
        let took = lanes(0..CONNECTIONS, lane).await;
        // The last one who could tell.
        drop(tell);
        took
    };
    let reporting = async {
        let (mut millions, mut begun) = (Vec::new(), Instant::now());
        while let Some(at) = passed.recv().await {
            let took = at.duration_since(std::mem::replace(&mut begun, at));
            millions.push(took);
            report.round(&format!("{name} million {}", millions.len()), MILLION, took)?;
        }
        Ok(millions)
    };
    let (_, millions) = tokio::try_join!(publishing, reporting)?;
    Ok(millions)
}

async fn publish_lane(
    address: SocketAddr,
    lane: u32,
    calls: u64,
    published: Arc<AtomicU64>,
    tell: mpsc::Sender<Instant>,
) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    let mut requests = Calls::new(lane);
    for _ in 0..calls {
        http.ask(requests.next(), 201).await?;
        let so_far = published.fetch_add(IN_EACH_CALL, Ordering::Relaxed) + IN_EACH_CALL;
        if so_far.is_multiple_of(MILLION) {
            tell.send(Instant::now()).await?;
        }
    }
    Ok(())
}

/// Requests of a lane, each for its next queue, in which only the delays change.
struct Calls {
    random: SeededRandom,
    requests: Vec<Vec<u8>>,
    /// Where the delays begin in each of them, from its end.
    places: Vec<usize>,
    next: usize,
}

impl Calls {
    fn new(lane: u32) -> Self {
        let job = format!(r#"{{"payload":{PAYLOAD},"delay":"{:0DIGITS$}ms"}}"#, 0);
        let body = format!(r#"{{"jobs":[{}]}}"#, vec![job.as_str(); IN_EACH_CALL as usize].join(","));
        let path = |queue: u64| format!("/v1/queues/bench/delayed-{queue}/jobs");
        let queues = (0..QUEUES).filter(|queue| queue % u64::from(CONNECTIONS) == u64::from(lane));
        let requests = queues.map(|queue| http::json("POST", &path(queue), &body)).collect();
        // Behind the digits come `ms"}`, in front of the next job a comma, and at the very end
        // `]}`.
        let places = (0..IN_EACH_CALL as usize).map(|back| 2 + back * (job.len() + 1) + 4 + DIGITS).collect();
        Self { random: SeededRandom::part(SEED, lane.into()), requests, places, next: 0 }
    }

    fn next(&mut self) -> &[u8] {
        let request = self.next % self.requests.len();
        self.next += 1;
        let request = &mut self.requests[request];
        for place in &self.places {
            let mut rest = self.random.below(SPREAD_MS);
            let begin = request.len() - place;
            for digit in request[begin..begin + DIGITS].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        request
    }
}

/// Every job is either waiting, or became ready meanwhile.
async fn all_there(server: &Fieldpost, total: u64) -> Result<(), Failure> {
    let mut http = Http::open(server.site.http.address().await).await?;
    let mut found = 0;
    for queue in 0..QUEUES {
        let path = format!("/v1/queues/bench/delayed-{queue}");
        let stats: Value =
            serde_json::from_slice(http.ask(&http::request("GET", &path, &[], ""), 200).await?)?;
        found += ["scheduled", "ready"].iter().filter_map(|state| stats[*state].as_u64()).sum::<u64>();
    }
    if found == total {
        Ok(())
    } else {
        Err(format!("{found} jobs are there, {total} were published").into())
    }
}

/// What the files below `folder` take of the disk.
fn disk_mib(folder: &std::path::Path) -> Result<u64, Failure> {
    use std::os::unix::fs::MetadataExt;
    let (mut bytes, mut folders) = (0, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let data = entry.metadata()?;
            if data.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += data.blocks() * 512;
            }
        }
    }
    Ok(bytes >> 20)
}
