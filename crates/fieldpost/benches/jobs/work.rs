//! Jobs taken and acknowledged on gRPC `Work` streams, beside reservations and deletions that are
//! sent ahead to beanstalkd.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;

use super::report::Report;
use super::site::Fieldpost;
use super::work_stream::{self, WorkedTo};
use super::{Failure, ROUNDS, beanstalkd, lanes, publish};

const STREAMS: u32 = 8;
const CREDITS: u64 = 512;
/// Jobs of a publishing call.
const IN_EACH_CALL: u64 = 1_000;
/// No more than a partition has in memory, `jobs.resident_max`.
const JOBS: u64 = 64_000;
/// So many times in a round: once takes a third of a second, in which a checkpoint or none makes
/// all the difference.
const TIMES: u64 = 4;
/// Many more than that: most are parked, and read in again.
const BACKLOG_JOBS: u64 = 400_000;

/// beanstalkd gains nothing from more than these.
const PEER_CONNECTIONS: u32 = 8;
const PEER_IN_FLIGHT: u64 = 64;
const PEER_JOBS: u64 = 204_800;

/// All of them on one queue, whose jobs are there already; ours durable with every lease and every
/// acknowledgement, the peer's in memory.
pub(super) async fn beside_beanstalkd(report: &mut Report) -> Result<(), Failure> {
    const OWN: &str = "jobs_done_grpc_work_8streams_512credits_1queue";
    const BACKLOG: &str = "jobs_done_grpc_work_8streams_512credits_1queue_backlog400000";
    const PEER: &str = "beanstalkd_reserve_delete_8x64_in_memory";
    let server = Fieldpost::start().await?;
    let peer = beanstalkd::in_memory().await?;
    let (mut own, mut backlog, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    done(&server, JOBS).await?;
    for _ in 0..ROUNDS {
        let mut took = Duration::ZERO;
        for _ in 0..TIMES {
            took += done(&server, JOBS).await?;
        }
        own.push(report.round(OWN, TIMES * JOBS, took)?);
        backlog.push(report.round(BACKLOG, BACKLOG_JOBS, done(&server, BACKLOG_JOBS).await?)?);
        beanstalkd::put(peer.address, PEER_CONNECTIONS, PEER_IN_FLIGHT, PEER_JOBS).await?;
        let took =
            beanstalkd::reserve_and_delete(peer.address, PEER_CONNECTIONS, PEER_IN_FLIGHT, PEER_JOBS).await?;
        beside.push(report.round(PEER, PEER_JOBS, took)?);
    }
    server.stop().await?;
    report.rate(OWN, own, Some((PEER, beside.clone())));
    report.rate(BACKLOG, backlog, Some((PEER, beside)));
    Ok(())
}

/// Publishes so many jobs; then how long it takes to do them all.
async fn done(server: &Fieldpost, jobs: u64) -> Result<Duration, Failure> {
    publish::publish(server.site.http.address().await, STREAMS, IN_EACH_CALL, jobs).await?;
    work(server.grpc()?, jobs).await
}

/// Works until `total` jobs are done, durably; how long that took.
async fn work(address: SocketAddr, total: u64) -> Result<Duration, Failure> {
    let left = watch::Sender::new(total);
    lanes(0..STREAMS, |_| work_stream::work_off(address, "one", CREDITS, WorkedTo::Done, left.clone())).await
}
