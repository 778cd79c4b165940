//! The calls of lmstfy's API, beside what lmstfy itself did.
//!
//! lmstfy is in no distribution, so its numbers are constants. They are of release 725f59e on Redis
//! 7.0 with an append-only file that is synced every second. It ran on two cores of the kind that
//! the runs in `benches/runs` name, with 64 connections and payloads of 100 bytes. It acknowledged
//! before it synced; ours does not.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use super::http::{self, Http};
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, PAYLOAD, ROUNDS, lanes};

const LMSTFY_PUBLISH: f64 = 15_700.0;
const LMSTFY_PUBLISH_BULK: f64 = 29_900.0;
const LMSTFY_CONSUME: f64 = 8_300.0;
const LMSTFY_CONSUME_MANY: f64 = 11_500.0;

const CONNECTIONS: u32 = 64;
const BULK_JOBS: u64 = 64;
const CONSUME_COUNT: u64 = 50;

const JOBS: u64 = 64_000;
const BULK_PUBLISHED: u64 = 64 * 64 * 120;
/// No more than a partition has in memory, `jobs.resident_max`.
const CONSUMED: u64 = 64 * 50 * 12;

/// A server with the listeners of that API, and a token.
struct Site {
    server: Fieldpost,
    address: SocketAddr,
    token: String,
}

impl Site {
    async fn start() -> Result<Self, Failure> {
        let [api, admin] = ["LISTEN", "ADMIN_LISTEN"].map(|key| format!("FIELDPOST_LMSTFY__{key}"));
        let server = Fieldpost::start_with(&[(&api, "127.0.0.1:0"), (&admin, "127.0.0.1:0")]).await?;
        let ready = std::fs::read(server.site.log_path().with_file_name("ready.json"))?;
        let ready: Value = serde_json::from_slice(&ready)?;
        let address = |key: &str| -> Result<SocketAddr, Failure> {
            Ok(ready[key].as_str().ok_or("a listener is not on")?.parse()?)
        };
        let mut admin = Http::open(address("lmstfy_admin")?).await?;
        let made = admin.ask(&http::request("POST", "/token/bench?description=bench", &[], ""), 201).await?;
        let made: Value = serde_json::from_slice(made)?;
        let token = format!("X-Token: {}", made["token"].as_str().ok_or("no token")?);
        Ok(Self { address: address("lmstfy")?, server, token })
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        http::request(method, path, &[&self.token], body)
    }

    /// Publishes `total` jobs, one or [`BULK_JOBS`] in a call; how long that took.
    async fn publish(&self, in_each: u64, total: u64) -> Result<Duration, Failure> {
        let request = match in_each {
            1 => self.request("PUT", "/api/bench/one?ttl=0", PAYLOAD),
            many => {
                let body = format!("[{}]", vec![PAYLOAD; many as usize].join(","));
                self.request("PUT", "/api/bench/one/bulk?ttl=0", &body)
            }
        };
        let (address, calls) = (self.address, total / in_each / u64::from(CONNECTIONS));
        lanes(0..CONNECTIONS, |_| repeat(address, request.clone(), calls)).await
    }

    /// Consumes and acknowledges `total` jobs that are there; how long that took.
    async fn consume(&self, count: u64, total: u64) -> Result<Duration, Failure> {
        let path = format!("/api/bench/one?ttr=600&timeout=0&count={count}");
        let consume = self.request("GET", &path, "");
        let ack = Ack::new(&self.request("DELETE", "/api/bench/one/job/ID", ""))?;
        let (address, share) = (self.address, total / u64::from(CONNECTIONS));
        lanes(0..CONNECTIONS, |_| consume_lane(address, consume.clone(), ack.clone(), share)).await
    }
}

async fn repeat(address: SocketAddr, request: Vec<u8>, calls: u64) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    for _ in 0..calls {
        http.ask(&request, 201).await?;
    }
    Ok(())
}

/// Acknowledges what came together, each job with a call of its own, before it consumes again.
async fn consume_lane(address: SocketAddr, consume: Vec<u8>, ack: Ack, total: u64) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    let (mut acks, mut done) = (Vec::new(), 0);
    while done < total {
        acks.clear();
        let came = ack.write_all(http.ask(&consume, 200).await?, &mut acks);
        http.send(&acks).await?;
        for _ in 0..came {
            http.answer(204).await?;
        }
        done += came;
    }
    Ok(())
}

/// An acknowledgement in which only the id is missing.
#[derive(Clone)]
struct Ack {
    before: Vec<u8>,
    behind: Vec<u8>,
}

impl Ack {
    fn new(request: &[u8]) -> Result<Self, Failure> {
        let at = request.windows(4).position(|four| four == b"/ID ").ok_or("no place for the id")? + 1;
        Ok(Self { before: request[..at].to_vec(), behind: request[at + 2..].to_vec() })
    }

    /// Writes one for each job of an answer, and says how many there are.
    fn write_all(&self, jobs: &[u8], acks: &mut Vec<u8>) -> u64 {
        const KEY: &[u8] = b"\"job_id\":\"";
        let (mut rest, mut count) = (jobs, 0);
        while let Some(at) = rest.windows(KEY.len()).position(|part| part == KEY) {
            rest = &rest[at + KEY.len()..];
            let id = rest.split(|&byte| byte == b'"').next().unwrap_or_default();
            for part in [&self.before, id, &self.behind] {
                acks.extend_from_slice(part);
            }
            count += 1;
        }
        count
    }
}

/// One job and 64 jobs in a call.
pub(super) async fn publish(report: &mut Report) -> Result<(), Failure> {
    const ONE: &str = "lmstfy_api_publish_64x1_1queue";
    const BULK: &str = "lmstfy_api_publish_64xbulk64_1queue";
    let site = Site::start().await?;
    site.publish(1, JOBS / 4).await?;
    let (mut one, mut bulk) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let took = site.publish(1, JOBS).await?;
        one.push(report.round(ONE, JOBS, took)?);
        let took = site.publish(BULK_JOBS, BULK_PUBLISHED).await?;
        bulk.push(report.round(BULK, BULK_PUBLISHED, took)?);
    }
    site.server.stop().await?;
    report.rate(ONE, one, Some(("lmstfy_on_redis, recorded", vec![LMSTFY_PUBLISH])));
    report.rate(BULK, bulk, Some(("lmstfy_on_redis, recorded", vec![LMSTFY_PUBLISH_BULK])));
    Ok(())
}

/// One job and 50 jobs in a call, and then a call for each to acknowledge it. The jobs are there
/// already.
pub(super) async fn consume(report: &mut Report) -> Result<(), Failure> {
    const ONE: &str = "lmstfy_api_consume_ack_64x1_1queue";
    const MANY: &str = "lmstfy_api_consume_ack_64xcount50_1queue";
    let site = Site::start().await?;
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (name, count, rates) in [(ONE, 1, &mut one), (MANY, CONSUME_COUNT, &mut many)] {
            // What all lanes take at once does not always come in whole answers: there is more than
            // is consumed.
            site.publish(BULK_JOBS, CONSUMED + 64 * BULK_JOBS).await?;
            let took = site.consume(count, CONSUMED).await?;
            rates.push(report.round(name, CONSUMED, took)?);
        }
    }
    site.server.stop().await?;
    report.rate(ONE, one, Some(("lmstfy_on_redis, recorded", vec![LMSTFY_CONSUME])));
    report.rate(MANY, many, Some(("lmstfy_on_redis, recorded", vec![LMSTFY_CONSUME_MANY])));
    Ok(())
}
