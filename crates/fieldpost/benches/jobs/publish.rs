//! Jobs published over REST: one in each request beside beanstalkd that syncs each, and a hundred
//! in each.

use std::net::SocketAddr;
use std::time::Duration;

use super::http::{self, Http};
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, PAYLOAD, ROUNDS, beanstalkd, lanes};

const CONNECTIONS: u32 = 64;
const JOBS: u64 = 64_000;
const BEANSTALKD_JOBS: u64 = 32_000;

const BATCH_CONNECTIONS: u32 = 8;
const BATCH_JOBS: u64 = 100;
const BATCHED_JOBS: u64 = 800_000;

/// Each connection waits for the answer before it sends its next job; all of them into one queue.
pub(super) async fn one_by_one_beside_beanstalkd(report: &mut Report) -> Result<(), Failure> {
    const OWN: &str = "jobs_published_rest_64x1_1queue";
    const PEER: &str = "beanstalkd_put_64x1_sync_each_write";
    let server = Fieldpost::start().await?;
    let peer = beanstalkd::syncing().await?;
    let address = server.site.http.address().await;
    let (mut own, mut beside) = (Vec::new(), Vec::new());
    publish(address, CONNECTIONS, 1, JOBS / 4).await?;
    for _ in 0..ROUNDS {
        let took = publish(address, CONNECTIONS, 1, JOBS).await?;
        own.push(report.round(OWN, JOBS, took)?);
        let took = beanstalkd::put(peer.address, CONNECTIONS, 1, BEANSTALKD_JOBS).await?;
        beside.push(report.round(PEER, BEANSTALKD_JOBS, took)?);
    }
    server.stop().await?;
    report.rate(OWN, own, Some((PEER, beside)));
    Ok(())
}

/// A hundred jobs in each request, into one queue.
pub(super) async fn in_batches(report: &mut Report) -> Result<(), Failure> {
    const OWN: &str = "jobs_published_rest_8x100_1queue";
    let server = Fieldpost::start().await?;
    let address = server.site.http.address().await;
    publish(address, BATCH_CONNECTIONS, BATCH_JOBS, BATCHED_JOBS / 8).await?;
    let mut own = Vec::new();
    for _ in 0..ROUNDS {
        let took = publish(address, BATCH_CONNECTIONS, BATCH_JOBS, BATCHED_JOBS).await?;
        own.push(report.round(OWN, BATCHED_JOBS, took)?);
    }
    server.stop().await?;
    report.rate(OWN, own, None);
    Ok(())
}

/// Publishes `total` jobs that are due at once, `in_each` in a request; how long that took.
pub(super) async fn publish(
    address: SocketAddr,
    connections: u32,
    in_each: u64,
    total: u64,
) -> Result<Duration, Failure> {
    let job = format!(r#"{{"payload":{PAYLOAD}}}"#);
    let body = match in_each {
        1 => job,
        many => format!(r#"{{"jobs":[{}]}}"#, vec![job; many as usize].join(",")),
    };
    let request = http::json("POST", "/v1/queues/bench/one/jobs", &body);
    let requests = total / in_each / u64::from(connections);
    lanes(0..connections, |_| publish_lane(address, request.clone(), requests)).await
}

async fn publish_lane(address: SocketAddr, request: Vec<u8>, requests: u64) -> Result<(), Failure> {
    let mut http = Http::open(address).await?;
    for _ in 0..requests {
        http.ask(&request, 201).await?;
    }
    Ok(())
}
