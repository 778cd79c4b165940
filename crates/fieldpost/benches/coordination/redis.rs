//! Redis as the peer: durable after each write, or in memory alone.

use std::net::SocketAddr;
use std::path::Path;

use super::Failure;
use super::peer::Peer;
use super::replies::Connection;

const BINARY: &str = "redis-server";
const OWNER: &str = "5d0c1f2a9b8e47d6a3c4e5f60718293a";
/// The lock is let go only by who holds it, as the pages of Redis say it.
const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/// Starts one that syncs its log before it answers a write, or one that keeps nothing.
pub(super) async fn start(durable: bool) -> Result<Peer, Failure> {
    let arguments = |port: u16, folder: &Path| {
        let own = ["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"];
        let mut words: Vec<std::ffi::OsString> = own.iter().map(Into::into).collect();
        words.push(folder.into());
        let appends = if durable { "yes" } else { "no" };
        words.extend(["--appendonly", appends, "--appendfsync", "always"].iter().map(Into::into));
        Ok(words)
    };
    Peer::start_with(BINARY, arguments).await
}

/// `SET key owner NX PX`, and the script by its digest.
pub(super) async fn locks(address: SocketAddr, lane: u64, count: u64) -> Result<(), Failure> {
    let mut connection = Connection::open(address).await?;
    connection.send(&command(&["SCRIPT", "LOAD", RELEASE])).await?;
    let digest = String::from_utf8(connection.reply(reply).await?[5..45].to_vec())?;
    let key = format!("lock{lane}");
    let acquire = command(&["SET", &key, OWNER, "NX", "PX", "3600000"]);
    let release = command(&["EVALSHA", &digest, "1", &key, OWNER]);
    for _ in 0..count {
        ask(&mut connection, &acquire, b"+OK").await?;
        ask(&mut connection, &release, b":1").await?;
    }
    Ok(())
}

/// `INCR` and `EXPIRE`, sent together.
pub(super) async fn limits(address: SocketAddr, lane: u64, count: u64) -> Result<(), Failure> {
    let mut connection = Connection::open(address).await?;
    let key = format!("limit{lane}");
    let both = [command(&["INCR", &key]), command(&["EXPIRE", &key, "60"])].concat();
    for _ in 0..count {
        ask(&mut connection, &both, b":").await?;
        expect(connection.reply(reply).await?, b":1")?;
    }
    Ok(())
}

pub(super) async fn put_all(address: SocketAddr, keys: u64, value_bytes: usize) -> Result<(), Failure> {
    let mut connection = Connection::open(address).await?;
    let value = "x".repeat(value_bytes);
    for key in 0..keys {
        ask(&mut connection, &command(&["SET", &format!("key{key}"), &value]), b"+OK").await?;
    }
    Ok(())
}

/// Asks for values that are there, with some questions under way.
pub(super) async fn gets(
    address: SocketAddr,
    (keys, value_bytes): (u64, usize),
    in_flight: u64,
    count: u64,
) -> Result<(), Failure> {
    let mut connection = Connection::open(address).await?;
    let head = format!("${value_bytes}\r\n");
    let (mut asked, mut answered) = (0, 0);
    while answered < count {
        let more = (count - asked).min(in_flight - (asked - answered));
        let commands: Vec<u8> = (asked..asked + more)
            .flat_map(|number| command(&["GET", &format!("key{}", number % keys)]))
            .collect();
        connection.send(&commands).await?;
        asked += more;
        // As many as are there: the others go on meanwhile.
        for _ in 0..in_flight.min(asked - answered) {
            expect(connection.reply(reply).await?, head.as_bytes())?;
            answered += 1;
        }
    }
    Ok(())
}

async fn ask(connection: &mut Connection, commands: &[u8], begins: &[u8]) -> Result<(), Failure> {
    connection.send(commands).await?;
    expect(connection.reply(reply).await?, begins)
}

fn expect(found: &[u8], begins: &[u8]) -> Result<(), Failure> {
    if found.starts_with(begins) {
        return Ok(());
    }
    Err(format!("Redis says {}", String::from_utf8_lossy(found)).into())
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    text.into_bytes()
}

/// How long the reply is that `read` begins with.
fn reply(read: &[u8]) -> Result<Option<usize>, Failure> {
    let Some(line) = read.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let length = match read[0] {
        b'$' => match std::str::from_utf8(&read[1..line])?.parse::<i64>()? {
            -1 => line + 2,
            bytes => line + 2 + bytes as usize + 2,
        },
        _ => line + 2,
    };
    Ok((read.len() >= length).then_some(length))
}
