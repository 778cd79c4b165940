//! A caller of the API that sees each try of a call, which one that repeats by itself hides.

use std::io;

use serde_json::Value;
use simulator::endpoint::Endpoint;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::faults::PATIENCE;

/// What was answered, and at which try.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) tries: u32,
}

/// One connection at a time, made when it is needed.
pub(super) struct Caller {
    endpoint: Endpoint,
    open: Option<BufStream<TcpStream>>,
}

impl Caller {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, open: None }
    }

    /// POST, made again until it is answered, with a key that makes all of these one.
    pub(super) async fn keyed(&mut self, key: &str, path: &str, body: &Value) -> Answer {
        self.repeat(&request(path, &format!("Idempotency-Key: {key}\r\n"), body)).await
    }

    /// POST, made again until it is answered.
    pub(super) async fn until_answered(&mut self, path: &str, body: &Value) -> Answer {
        self.repeat(&request(path, "", body)).await
    }

    /// POST, made once; `None` if the server died.
    pub(super) async fn once(&mut self, path: &str, body: &Value) -> Option<Answer> {
        let request = request(path, "", body);
        let answer = timeout(PATIENCE, self.attempt(&request)).await.expect("an answer in time");
        answer.ok().map(|(status, body)| Answer { status, body, tries: 1 })
    }

    async fn repeat(&mut self, request: &str) -> Answer {
        let repeated = async {
            for tries in 1.. {
                if let Ok((status, body)) = self.attempt(request).await {
                    return Answer { status, body, tries };
                }
                tokio::task::yield_now().await;
            }
            unreachable!("tries without an end")
        };
        timeout(PATIENCE, repeated).await.expect("an answer in time")
    }

    /// A connection that broke is not used again.
    async fn attempt(&mut self, request: &str) -> io::Result<(u16, Value)> {
        let mut stream = match self.open.take() {
            Some(stream) => stream,
            None => BufStream::new(TcpStream::connect(self.endpoint.address().await).await?),
        };
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let answer = read(&mut stream).await?;
        self.open = Some(stream);
        Ok(answer)
    }
}

fn request(path: &str, more: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn read(stream: &mut BufStream<TcpStream>) -> io::Result<(u16, Value)> {
    let (mut line, mut status, mut length) = (String::new(), None, 0);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let told = line.trim_end();
        if told.is_empty() {
            break;
        }
        match status {
            None => status = told.get(9..12).and_then(|digits| digits.parse().ok()),
            Some(_) => {
                let (name, value) = told.split_once(':').expect("a header");
                if name.eq_ignore_ascii_case("content-length") {
                    length = value.trim().parse().expect("a number");
                }
            }
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
    Ok((status.expect("a status line"), body))
}
