//! One HTTP request over a socket of its own, byte for byte as a row says: also such as no client
//! library would send.
//!
//! Shared by the tests of several listeners; what they expect is theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For an answer: far longer than one takes.
const PATIENCE: Duration = Duration::from_secs(60);

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

    /// A member of the body as text; empty when it is none.
    pub(crate) fn text(&self, member: &str) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        body[member].as_str().unwrap_or_default().to_owned()
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

/// Checks that no family of figures is told twice: strict readers refuse such a page as a whole.
pub(crate) fn check_families(page: &str) {
    for word in ["# HELP ", "# TYPE "] {
        let mut known = BTreeSet::new();
        for told in page.lines().filter_map(|line| line.strip_prefix(word)) {
            let family = told.split(' ').next().unwrap_or_default();
            assert!(known.insert(family), "{word}{family} is there twice:\n{page}");
        }
        assert!(known.len() > 20, "{page}");
    }
}

/// Sends `method` and `path` with `headers` and `body`, and reads until the server ends the
/// connection.
pub(crate) async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    send(address, &head(method, path, headers), body).await
}

/// Asks a server that may be killed meanwhile; `None` if it did not answer all of it.
pub(crate) async fn ask_while_there(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(&request(&head(method, path, headers), body)).await.ok()?;
    let mut bytes = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("in time");
    let answer = read.is_ok().then_some(bytes).filter(|bytes| !bytes.is_empty())?;
    let is_headed = answer.windows(4).any(|end| end == b"\r\n\r\n");
    let answer = is_headed.then(|| Answer::read(&answer))?;
    let length: usize = answer.headers.get("content-length")?.parse().ok()?;
    (answer.body.len() == length).then_some(answer)
}

/// Asks over a connection that is there.
pub(crate) async fn ask_over(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    write(&mut stream, &head(method, path, headers), body).await;
    read(stream).await
}

/// Sends `head`, whose lines end in `\n` here, and `body`, and reads until the server ends the
/// connection. The length of the body and the end of the head are added.
pub(crate) async fn send(address: SocketAddr, head: &str, body: &[u8]) -> Answer {
    read(begin(address, head, body).await).await
}

/// Sends a request, and leaves its answer to be read.
pub(crate) async fn begin(address: SocketAddr, head: &str, body: &[u8]) -> TcpStream {
    let stream = timeout(PATIENCE, TcpStream::connect(address)).await.expect("in time");
    let mut stream = stream.expect("it listens");
    write(&mut stream, head, body).await;
    stream
}

fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("\n{name}: {value}")).collect();
    format!("{method} {path} HTTP/1.1\nHost: localhost{headers}")
}

fn request(head: &str, body: &[u8]) -> Vec<u8> {
    let has_body = !body.is_empty();
    let length = if has_body { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
    let head = head.replace('\n', "\r\n");
    let head = format!("{head}\r\nConnection: close\r\n{length}\r\n");
    [head.as_bytes(), body].concat()
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), head: &str, body: &[u8]) {
    timeout(PATIENCE, stream.write_all(&request(head, body))).await.expect("in time").expect("it reads");
}

async fn read(mut stream: impl AsyncRead + Unpin) -> Answer {
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("in time").expect("it answers");
    Answer::read(&answer)
}
