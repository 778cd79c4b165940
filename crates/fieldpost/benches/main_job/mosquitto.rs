//! Mosquitto from Debian's packages as the peer: a broker of our own on a free loopback port, without persistence.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::net::TcpStream;

use super::Failure;

const BINARY: &str = "/usr/sbin/mosquitto";
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts to connect while it starts.
const KNOCK_EVERY: Duration = Duration::from_millis(10);

/// A running broker; it is killed when this is dropped.
pub(super) struct Mosquitto {
    pub(super) address: SocketAddr,
    process: Child,
    _folder: TempDir,
}

impl Mosquitto {
    /// Starts one that lets `in_flight` messages be unacknowledged on each connection and drops none.
    pub(super) async fn start(in_flight: u16) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let address = free_address()?;
        let config = folder.path().join("mosquitto.conf");
        let text = format!(
            "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nmax_queued_messages 0\n\
             max_inflight_messages {in_flight}\nset_tcp_nodelay true\nlog_type error\nuser root\n",
            port = address.port()
        );
        fs::write(&config, text)?;
        let process = Command::new(BINARY)
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{BINARY}: {error}; scripts/setup bench installs it"))?;
        let mosquitto = Self { address, process, _folder: folder };
        mosquitto.accepts().await?;
        Ok(mosquitto)
    }

    async fn accepts(&self) -> Result<(), Failure> {
        let start = Instant::now();
        while let Err(error) = TcpStream::connect(self.address).await {
            if start.elapsed() > PATIENCE {
                return Err(format!("mosquitto does not accept: {error}").into());
            }
            tokio::time::sleep(KNOCK_EVERY).await;
        }
        Ok(())
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        // Already ended or just killed: either way there is nothing left to do but to collect it.
        let _ended = self.process.kill();
        let _collected = self.process.wait();
    }
}

fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
