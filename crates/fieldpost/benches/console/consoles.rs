//! What open consoles cost the server while devices report.

use std::fmt::Write as _;
use std::time::Duration;

use simulator::registration::{DeviceTemplate, import_devices};
use simulator::traffic::DeviceIds;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::machine::{cpu_time, ms};
use super::raw::request;
use super::report::{Report, median};
use super::reporting::Reporting;
use super::site::Fieldpost;
use super::{Failure, Sizes};

const CONSOLES: u32 = 50;
const DEVICES: u32 = 10_000;
/// Rows that a page of devices shows.
const ROWS: u32 = 50;
/// Rounds without consoles and with them, in turn; their medians are compared.
const ROUNDS: u32 = 5;
const ROUND: Duration = Duration::from_secs(10);
/// Of what a stream begins with, no more is looked through for a message.
const BEGIN_BYTES_MAX: usize = 4 << 20;

pub(super) async fn fifty(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let name = format!("consoles_{CONSOLES}_open_beside_{}_reports_per_s", sizes.reports_per_second);
    let server = Fieldpost::start().await?;
    let devices = DeviceIds::new("r", DEVICES);
    let imported =
        import_devices(&server.site.http, &devices, &DeviceTemplate::default(), |_| Ok(())).await?;
    if imported.rejected > 0 {
        return Err(format!("not every device was registered: {imported:?}").into());
    }
    let reporting = Reporting::start(&server.site.mqtt, &devices, sizes.reports_per_second);
    reports_arrive(&server).await?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(share_of_a_core(&server).await?);
        let mut open = JoinSet::new();
        let (shows, mut shown) = mpsc::channel(CONSOLES as usize);
        for console in 0..CONSOLES {
            let stream = TcpStream::connect(server.site.http.address().await).await?;
            open.spawn(look(stream, live(&devices, console), shows.clone()));
        }
        drop(shows);
        // A page shows what comes later only once it has what there is.
        for _ in 0..CONSOLES {
            shown.recv().await.ok_or("a live stream ended before it showed anything")?;
        }
        with.push(share_of_a_core(&server).await?);
        // None may have ended by itself.
        if let Some(ended) = open.try_join_next() {
            return Err(format!("a live stream ended: {:?}", ended?).into());
        }
        open.shutdown().await;
    }
    reporting.stop().await?;
    report.note(&format!("  {name}: percent of a core without {without:.1?}, with {with:.1?}"))?;
    let (without, with) = (median(without), median(with));
    report.figure(&name, format!("{:+.1} % of a core, {without:.1} % without", with - without));
    server.stop().await
}

/// Half of them show the overview and the newest events, half a page of devices.
fn live(devices: &DeviceIds, console: u32) -> Vec<u8> {
    let mut path = "/v1/live?topics=overview,events".to_owned();
    if console % 2 == 1 {
        "/v1/live?topics=devices&ids=".clone_into(&mut path);
        for row in 0..ROWS {
            let comma = if row == 0 { "" } else { "," };
            // Writing to a String cannot fail.
            let _written = write!(path, "{comma}{}", devices.id((console * ROWS + row) % DEVICES));
        }
    }
    request("GET", &path, "", b"")
}

/// Waits for an event that came after the stream had begun.
async fn reports_arrive(server: &Fieldpost) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(server.site.http.address().await).await?;
    stream.write_all(&request("GET", "/v1/live?topics=events", "", b"")).await?;
    until(&mut stream, b"\"first\":false").await
}

/// Reads until this was sent.
async fn until(stream: &mut TcpStream, text: &[u8]) -> Result<(), Failure> {
    let (mut begin, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    while !begin.windows(text.len()).any(|part| part == text) {
        let read = stream.read(&mut buffer).await?;
        if read == 0 || begin.len() > BEGIN_BYTES_MAX {
            return Err("a live stream does not show what it should".into());
        }
        begin.extend_from_slice(&buffer[..read]);
    }
    Ok(())
}

/// Reads until the stream ends, and says when it shows items.
async fn look(mut stream: TcpStream, request: Vec<u8>, shows: mpsc::Sender<()>) -> Result<u64, Failure> {
    stream.write_all(&request).await?;
    until(&mut stream, b"\"items\":").await?;
    shows.send(()).await?;
    let (mut read, mut buffer) = (0, vec![0; 64 << 10]);
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(read),
            some => read += some as u64,
        }
    }
}

async fn share_of_a_core(server: &Fieldpost) -> Result<f64, Failure> {
    let process = server.process_id()?;
    let before = cpu_time(process)?;
    tokio::time::sleep(ROUND).await;
    Ok(100.0 * ms(cpu_time(process)?.saturating_sub(before)) / ms(ROUND))
}
