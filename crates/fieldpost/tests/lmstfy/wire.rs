//! Requests byte for byte over a socket of their own.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::rig::PATIENCE;

/// What came back. Names of headers are in lower case.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    /// The body, which has to be JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.parse().expect("a number"),
            headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect(),
            body: body.to_owned(),
        }
    }
}

/// Sends `head`, whose lines end in `\n` here, and `body`, and reads until the server ends the connection. The length of the
/// body and the end of the head are added.
pub(crate) async fn send(address: SocketAddr, head: &str, body: &[u8]) -> Answer {
    let mut stream = begin(address, head, body).await;
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer));
    read.await.expect("in time").expect("it answers");
    Answer::read(&answer)
}

/// Sends a request, and leaves its answer to be read.
pub(crate) async fn begin(address: SocketAddr, head: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let has_body = !body.is_empty();
    let length = if has_body { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
    let head = head.replace('\n', "\r\n");
    let head = format!("{head}\r\nConnection: close\r\n{length}\r\n");
    let request = [head.as_bytes(), body].concat();
    timeout(PATIENCE, stream.write_all(&request)).await.expect("in time").expect("it reads");
    stream
}
