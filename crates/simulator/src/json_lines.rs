//! Posting over a connection that is kept: reports for load, devices for an import, commands.
//!
//! For calls one by one see [`crate::api_client`]. Here the connections are the load: their number
//! is chosen, each is kept, and what is on its way is counted. The client crate pools them.

use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::request::Builder;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::access::Secret;
use crate::client_stream::{CONNECT_TIMEOUT, ClientStream, permit_to_connect};
use crate::endpoint::Endpoint;

/// Of an answer that is not the one expected, so much is told.
const EXCERPT_BYTES: usize = 120;

const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
const DOCUMENT: HeaderValue = HeaderValue::from_static("application/json");

/// A connection that takes one request at a time.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    host: String,
    authorization: Option<HeaderValue>,
    requests: SendRequest<Full<Bytes>>,
    /// Drives the connection; ends with it.
    _driver: JoinSet<()>,
}

impl HttpConnection {
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
        let (status, body) = self.ask(Request::post(path), LINES, lines).await?;
        if status != StatusCode::OK {
            return Err(io::Error::other(refusal(status, &body)));
        }
        Ok(body)
    }

    /// Posts a document; the answer, whatever its status.
    ///
    /// # Errors
    /// A connection that breaks.
    pub(crate) async fn post_document(&mut self, path: &str, body: Bytes) -> io::Result<(StatusCode, Bytes)> {
        self.ask(Request::post(path), DOCUMENT, body).await
    }

    async fn ask(
        &mut self,
        request: Builder,
        content_type: HeaderValue,
        body: Bytes,
    ) -> io::Result<(StatusCode, Bytes)> {
        let request = request.header(HOST, &self.host).header(CONTENT_TYPE, content_type);
        let mut request = request.body(Full::new(body)).map_err(io::Error::other)?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        self.requests.ready().await.map_err(io::Error::other)?;
        let response = self.requests.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        Ok((status, body))
    }
}

fn bearer(token: &Secret) -> io::Result<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| io::Error::other("the token holds a character that no header can hold"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// A refusal in few words: the status and what the server has to say to it.
pub(crate) fn refusal(status: StatusCode, body: &[u8]) -> String {
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
