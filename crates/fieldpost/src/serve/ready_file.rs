//! The ready file: the addresses of the listeners that are on, written whole or not at all.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;

/// Where the server listens.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Addresses {
    pub http: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mqtt: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lmstfy: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lmstfy_admin: Option<SocketAddr>,
}

impl Addresses {
    /// Of a server that listens here and nowhere else.
    pub(super) fn of(http: SocketAddr) -> Self {
        Self { http, mqtt: None, grpc: None, lmstfy: None, lmstfy_admin: None }
    }
}

/// Removes what an earlier run left, so that nobody reads old addresses.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes the file beside its place and moves it there.
pub(super) fn write(path: &Path, addresses: &Addresses) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let mut file = std::fs::File::create(&beside)?;
    serde_json::to_writer(&mut file, addresses)?;
    file.write_all(b"\n")?;
    file.sync_data()?;
    std::fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listeners_that_are_on_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ready.json");
        let http = "127.0.0.1:41233".parse().expect("an address");
        write(&path, &Addresses::of(http)).expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "{\"http\":\"127.0.0.1:41233\"}\n");
        let left: Vec<_> = std::fs::read_dir(dir.path()).expect("listed").collect();
        assert_eq!(left.len(), 1);
    }
}
