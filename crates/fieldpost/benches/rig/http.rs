//! A lean HTTP/1.1 client: requests that were made beforehand, and answers that are read in place.

use std::net::SocketAddr;

use super::Failure;
use super::replies::Connection;

/// A kept-alive connection.
pub(crate) struct Http(Connection);

impl Http {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        Ok(Self(Connection::open(address).await?))
    }

    /// Sends one request, or several at once.
    pub(crate) async fn send(&mut self, requests: &[u8]) -> Result<(), Failure> {
        self.0.send(requests).await
    }

    /// The body of the next answer, which has to have this status.
    pub(crate) async fn answer(&mut self, expect: u16) -> Result<&[u8], Failure> {
        let answer = self.0.reply(length).await?;
        let status: u16 = std::str::from_utf8(&answer[9..12])?.parse()?;
        if status != expect {
            return Err(format!("expected {expect}: {}", String::from_utf8_lossy(answer)).into());
        }
        let head = head_bytes(answer).ok_or("an answer without a head")?;
        Ok(&answer[head..])
    }

    pub(crate) async fn ask(&mut self, request: &[u8], expect: u16) -> Result<&[u8], Failure> {
        self.send(request).await?;
        self.answer(expect).await
    }
}

/// A request; `lines` are further lines of its head.
pub(crate) fn request(method: &str, path: &str, lines: &[&str], body: &str) -> Vec<u8> {
    let mut text =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
    for line in lines {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

/// A request with a JSON body.
pub(crate) fn json(method: &str, path: &str, body: &str) -> Vec<u8> {
    request(method, path, &["Content-Type: application/json"], body)
}

fn head_bytes(read: &[u8]) -> Option<usize> {
    read.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// How long the answer is that `read` begins with.
fn length(read: &[u8]) -> Result<Option<usize>, Failure> {
    const NAME: &[u8] = b"content-length:";
    let Some(head) = head_bytes(read) else { return Ok(None) };
    let named = |line: &[u8]| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME));
    let body = match read[..head].split(|&byte| byte == b'\n').find(|line| named(line)) {
        Some(line) => std::str::from_utf8(&line[NAME.len()..])?.trim().parse()?,
        // Only 204 has none here.
        None => 0,
    };
    Ok((read.len() >= head + body).then_some(head + body))
}
