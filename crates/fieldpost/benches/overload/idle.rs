//! Memory of connections that say nothing.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use super::Failure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use super::raw::{Mqtt, packet, text};
use super::report::Report;
use super::site::Fieldpost;

const CONNECTIONS: u32 = 19_000;
/// From one address, which has some 28,000 ports.
const CONNECTIONS_PER_ADDRESS: u32 = 5_000;

/// Resident memory for each of many connections with one subscription.
pub(super) async fn mqtt_connections(report: &mut Report) -> Result<(), Failure> {
    let server = Fieldpost::start().await?;
    let (address, process) = (server.site.mqtt.address().await, server.process_id()?);
    let before = resident_kib(process)?;
    let mut connections = Vec::new();
    for number in 0..CONNECTIONS {
        let own = Ipv4Addr::new(127, 0, 1 + (number / CONNECTIONS_PER_ADDRESS) as u8, 1);
        let mut one = Mqtt::open_from(SocketAddr::from((own, 0)), address).await?;
        let (id, filter) = (format!("device-{number:06}"), format!("dev/lock/{number:06}/#"));
        if one.connect(&id).await? != 0 {
            return Err(format!("connection {number} was refused").into());
        }
        one.subscribe(&filter).await?;
        connections.push(one);
    }
    let taken = resident_kib(process)?.saturating_sub(before);
    let each = taken * 1_024 / u64::from(CONNECTIONS);
    let name = format!("idle_mqtt_connections_{CONNECTIONS}_1_subscription");
    report.note(&format!("  {name}: {taken} KiB, {each} B each"))?;
    report.figure(&format!("{name} memory of each"), format!("{each} B"));
    drop(connections);
    server.stop().await
}

impl Mqtt {
    /// Connects from an address of its own, because one address has no more than some 28,000 ports.
    async fn open_from(from: SocketAddr, address: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(from)?;
        Ok(Self(socket.connect(address).await?))
    }

    /// Subscribes to one filter and waits for the answer.
    async fn subscribe(&mut self, filter: &str) -> io::Result<()> {
        let body = [&[0, 1][..], &text(filter), &[1]].concat();
        self.0.write_all(&packet(0x82, &body)).await?;
        self.0.read_exact(&mut [0; 5]).await.map(drop)
    }
}

/// Finer than that of the other benchmark: a connection takes little.
fn resident_kib(process: u32) -> Result<u64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no such field")?;
    Ok(line.split_whitespace().next().ok_or("an empty field")?.parse()?)
}
