//! Another program as a peer, from Debian's packages: a server of our own on a free loopback port,
//! killed when it is dropped.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::net::TcpStream;

use super::Failure;

const PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts to connect while it starts.
const KNOCK_EVERY: Duration = Duration::from_millis(10);

/// A running peer.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    process: Child,
    _folder: TempDir,
}

impl Peer {
    /// Starts `binary`; `config` makes its file, for a port and a folder for its data.
    pub(crate) async fn start(
        binary: &str,
        config: impl FnOnce(u16, &Path) -> String,
    ) -> Result<Self, Failure> {
        let arguments = |port, folder: &Path| {
            let file = folder.join("config");
            fs::write(&file, config(port, folder))?;
            Ok(vec!["-c".into(), file.into()])
        };
        Self::start_with(binary, arguments).await
    }

    /// Starts `binary` with these arguments, for a port and a folder for its data.
    pub(crate) async fn start_with(
        binary: &str,
        arguments: impl FnOnce(u16, &Path) -> io::Result<Vec<OsString>>,
    ) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let process = Command::new(binary)
            .args(arguments(address.port(), folder.path())?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{binary}: {error}; scripts/setup bench installs it"))?;
        let peer = Self { address, process, _folder: folder };
        let start = Instant::now();
        while let Err(error) = TcpStream::connect(address).await {
            if start.elapsed() > PATIENCE {
                return Err(format!("{binary} does not accept: {error}").into());
            }
            tokio::time::sleep(KNOCK_EVERY).await;
        }
        Ok(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Already ended or just killed: either way there is nothing left to do but to collect it.
        let _ended = self.process.kill();
        let _collected = self.process.wait();
    }
}
