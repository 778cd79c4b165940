//! A fast receiver: answers every POST with an empty 200 and counts it. It looks at nothing but the
//! length of the body.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Failure;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const HEAD_END: &[u8] = b"\r\n\r\n";

/// A listener and its connections; they end when this is dropped.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    received: watch::Receiver<u64>,
    _tasks: JoinSet<()>,
}

impl Sink {
    pub(crate) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (count, received) = watch::channel(0);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::new(count)));
        Ok(Self { address, received, _tasks: tasks })
    }

    /// Waits until `count` posts have been answered in all.
    pub(crate) async fn until(&mut self, count: u64, patience: Duration) -> Result<(), Failure> {
        let all = self.received.wait_for(|received| *received >= count);
        let in_time = matches!(tokio::time::timeout(patience, all).await, Ok(Ok(_)));
        let so_far = *self.received.borrow();
        if in_time {
            Ok(())
        } else {
            Err(format!("the sink has {so_far} of {count} posts after {patience:?}").into())
        }
    }
}

async fn accept(listener: TcpListener, count: Arc<watch::Sender<u64>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let count = Arc::clone(&count);
        connections.spawn(async move {
            // A connection ends when the server closes it; whatever is missing then shows in the
            // count.
            let _ended = answer(stream, &count).await;
        });
    }
}

async fn answer(mut stream: TcpStream, count: &watch::Sender<u64>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut output) = (Vec::with_capacity(8 << 10), Vec::new());
    while stream.read_buf(&mut input).await? > 0 {
        let mut requests = 0;
        while let Some(length) = request_bytes(&input) {
            input.drain(..length);
            output.extend_from_slice(ANSWER);
            requests += 1;
        }
        stream.write_all(&output).await?;
        output.clear();
        count.send_modify(|received| *received += requests);
    }
    Ok(())
}

/// How long the first request is, once it is whole.
fn request_bytes(input: &[u8]) -> Option<usize> {
    let head = input.windows(HEAD_END.len()).position(|window| window == HEAD_END)?;
    let text = std::str::from_utf8(&input[..head]).ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let whole = head + HEAD_END.len() + length.unwrap_or(0);
    (input.len() >= whole).then_some(whole)
}
