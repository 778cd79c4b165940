//! beanstalkd as the peer: in memory, or with a sync after each write to its log.
//!
//! It has one thread and one tube is in use, as one queue is of ours.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::peer::Peer;
use super::replies::Connection;
use super::{Failure, PAYLOAD, lanes};

const BINARY: &str = "beanstalkd";
/// Time to run of a job, in seconds: longer than any round.
const TTR: u32 = 3_600;

/// Starts one that keeps jobs in memory alone.
pub(super) async fn in_memory() -> Result<Peer, Failure> {
    Peer::start_with(BINARY, |port, _| Ok(listening(port))).await
}

/// Starts one that syncs its log whenever it has written to it.
pub(super) async fn syncing() -> Result<Peer, Failure> {
    let arguments = |port, folder: &Path| {
        Ok([listening(port), vec!["-b".into(), folder.into(), "-f".into(), "0".into()]].concat())
    };
    Peer::start_with(BINARY, arguments).await
}

fn listening(port: u16) -> Vec<std::ffi::OsString> {
    vec!["-l".into(), "127.0.0.1".into(), "-p".into(), port.to_string().into()]
}

/// Puts `total` jobs over some connections, `in_flight` of them unanswered on each; how long that
/// took.
pub(super) async fn put(
    address: SocketAddr,
    connections: u32,
    in_flight: u64,
    total: u64,
) -> Result<Duration, Failure> {
    let command = format!("put 0 0 {TTR} {}\r\n{PAYLOAD}\r\n", PAYLOAD.len()).into_bytes();
    lanes(0..connections, |_| put_lane(address, command.clone(), in_flight, total / u64::from(connections)))
        .await
}

async fn put_lane(address: SocketAddr, command: Vec<u8>, in_flight: u64, total: u64) -> Result<(), Failure> {
    let mut connection = Connection::open(address).await?;
    let mut left = total;
    while left > 0 {
        let now = left.min(in_flight);
        connection.send(&command.repeat(now as usize)).await?;
        for _ in 0..now {
            expect(connection.reply(line).await?, b"INSERTED ")?;
        }
        left -= now;
    }
    Ok(())
}

/// Reserves and deletes `total` jobs that are there, with `in_flight` commands sent ahead on each
/// connection; how long that took.
pub(super) async fn reserve_and_delete(
    address: SocketAddr,
    connections: u32,
    in_flight: u64,
    total: u64,
) -> Result<Duration, Failure> {
    lanes(0..connections, |_| take_lane(address, in_flight, total / u64::from(connections))).await
}

/// What is written together: the deletions of what has come, and as many new reservations.
async fn take_lane(address: SocketAddr, in_flight: u64, total: u64) -> Result<(), Failure> {
    const RESERVE: &[u8] = b"reserve\r\n";
    let mut connection = Connection::open(address).await?;
    let (mut asked, mut reserved, mut deleted) = (in_flight.min(total), 0, 0);
    connection.send(&RESERVE.repeat(asked as usize)).await?;
    let mut commands = Vec::new();
    while deleted < total {
        let (begun, ended) = (reserved, deleted);
        for _ in 0..asked - begun {
            commands.extend_from_slice(b"delete ");
            commands.extend_from_slice(id(connection.reply(reservation).await?)?);
            commands.extend_from_slice(b"\r\n");
            reserved += 1;
        }
        let more = in_flight.min(total - asked);
        commands.extend(RESERVE.repeat(more as usize));
        connection.send(&commands).await?;
        commands.clear();
        asked += more;
        for _ in ended..reserved {
            expect(connection.reply(line).await?, b"DELETED")?;
            deleted += 1;
        }
    }
    Ok(())
}

/// `RESERVED ID BYTES`, then the job.
fn reservation(read: &[u8]) -> Result<Option<usize>, Failure> {
    let Some(head) = line(read)? else { return Ok(None) };
    expect(&read[..head], b"RESERVED ")?;
    let whole = head + PAYLOAD.len() + 2;
    Ok((read.len() >= whole).then_some(whole))
}

fn id(reservation: &[u8]) -> Result<&[u8], Failure> {
    reservation.split(|&byte| byte == b' ').nth(1).ok_or_else(|| "a reservation without an id".into())
}

fn line(read: &[u8]) -> Result<Option<usize>, Failure> {
    Ok(read.iter().position(|&byte| byte == b'\n').map(|at| at + 1))
}

fn expect(said: &[u8], expect: &[u8]) -> Result<(), Failure> {
    if said.starts_with(expect) {
        return Ok(());
    }
    Err(format!("beanstalkd says {}", String::from_utf8_lossy(said)).into())
}
