//! Memory of connections that say nothing, and of consumers that wait for a job.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use super::Failure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::machine::resident_kib;
use super::raw::{Http, Mqtt, packet, request, text};
use super::report::Report;
use super::site::Fieldpost;

const CONNECTIONS: u32 = 19_000;
/// As many as HTTP gets of 20,000 open files.
const CONSUMERS: u32 = 9_000;
/// From one address, which has some 28,000 ports.
const CONNECTIONS_PER_ADDRESS: u32 = 5_000;

/// Resident memory for each of many connections with one subscription.
pub(super) async fn mqtt_connections(report: &mut Report) -> Result<(), Failure> {
    let server = Fieldpost::start().await?;
    let (address, process) = (server.site.mqtt.address().await, server.process_id()?);
    let before = resident_kib(process)?;
    let mut connections = Vec::new();
    for number in 0..CONNECTIONS {
        let mut one = Mqtt(open(number, address).await?);
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

/// Resident memory for each of many consumers that wait for a job of one queue over HTTP.
pub(super) async fn waiting_consumers(report: &mut Report) -> Result<(), Failure> {
    let server = Fieldpost::start().await?;
    let (address, process) = (server.site.http.address().await, server.process_id()?);
    let mut asking = Http::open(address).await?;
    let before = resident_kib(process)?;
    let json = "Content-Type: application/json\r\n";
    let consume = request("POST", "/v1/queues/bench/empty/consume", json, br#"{"wait":"5m"}"#);
    let mut connections = Vec::new();
    for number in 0..CONSUMERS {
        let mut one = open(number, address).await?;
        one.write_all(&consume).await?;
        connections.push(one);
    }
    while waiting(&mut asking).await? < CONSUMERS {}
    let taken = resident_kib(process)?.saturating_sub(before);
    let each = taken * 1_024 / u64::from(CONSUMERS);
    let name = format!("waiting_http_consumers_{CONSUMERS}_1_queue");
    report.note(&format!("  {name}: {taken} KiB, {each} B each"))?;
    report.figure(&format!("{name} memory of each"), format!("{each} B"));
    drop(connections);
    server.stop().await
}

/// Consumers that wait, as the server counts them.
async fn waiting(asking: &mut Http) -> Result<u32, Failure> {
    let told = asking.ask(&request("GET", "/metrics", "", b"")).await?.body;
    let line = told.lines().find_map(|line| line.strip_prefix("fieldpost_engine_waiting_consumers "));
    Ok(line.ok_or("no such figure")?.parse()?)
}

/// Connects from one of several addresses, because one address has no more than some 28,000 ports.
async fn open(number: u32, address: SocketAddr) -> io::Result<TcpStream> {
    let own = Ipv4Addr::new(127, 0, 1 + (number / CONNECTIONS_PER_ADDRESS) as u8, 1);
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((own, 0)))?;
    socket.connect(address).await
}

impl Mqtt {
    /// Subscribes to one filter and waits for the answer.
    async fn subscribe(&mut self, filter: &str) -> io::Result<()> {
        let body = [&[0, 1][..], &text(filter), &[1]].concat();
        self.0.write_all(&packet(0x82, &body)).await?;
        self.0.read_exact(&mut [0; 5]).await.map(drop)
    }
}
