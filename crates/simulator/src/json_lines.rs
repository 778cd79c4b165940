//! Posting lines of JSON over a connection that is kept: reports for load, devices for an import.
//!
//! For calls one by one see [`crate::api_client`].

use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::access::Secret;
use crate::client_stream::{CONNECT_TIMEOUT, ClientStream, permit_to_connect};
use crate::endpoint::Endpoint;

/// Of an answer that is not the one expected, so much is told.
const EXCERPT_BYTES: usize = 120;

/// A connection that takes one request at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    host: String,
    authorization: Option<HeaderValue>,
    requests: SendRequest<Full<Bytes>>,
    /// Drives the connection; ends with it.
    _driver: JoinSet<()>,
}

impl Connection {
    /// Connects, and is let in with the endpoint's token if it has one.
    pub(crate) async fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let _permit = permit_to_connect().await;
        let timeout = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
        let wire =
            tokio::time::timeout(CONNECT_TIMEOUT, ClientStream::open(endpoint)).await.map_err(timeout)??;
        let (requests, connection) = handshake(TokioIo::new(wire)).await.map_err(io::Error::other)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection broke");
            }
        });
        let host = endpoint.address().await.to_string();
        let token = endpoint.access().token.as_ref();
        let authorization = token.map(bearer).transpose()?;
        Ok(Self { host, authorization, requests, _driver: driver })
    }

    /// Posts lines of JSON; the body of the answer.
    ///
    /// # Errors
    /// Any status but 200, and a connection that breaks.
    pub(crate) async fn post(&mut self, path: &str, lines: Bytes) -> io::Result<Bytes> {
        let mut request = Request::post(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/x-ndjson")
            .body(Full::new(lines))
            .map_err(io::Error::other)?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        self.requests.ready().await.map_err(io::Error::other)?;
        let response = self.requests.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        if status != StatusCode::OK {
            return Err(io::Error::other(refusal(status, &body)));
        }
        Ok(body)
    }
}

fn bearer(token: &Secret) -> io::Result<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| io::Error::other("the token holds a character that no header can hold"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// A refusal in few words: the status and what the server has to say to it.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Problem {
        code: String,
        detail: String,
    }
    match serde_json::from_slice(body) {
        Ok(Problem { code, detail }) => format!("{status}: {code}: {detail}"),
        Err(_) => {
            let excerpt = &body[..body.len().min(EXCERPT_BYTES)];
            format!("{status}: {}", String::from_utf8_lossy(excerpt))
        }
    }
}
