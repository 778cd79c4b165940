//! Calls of the API as they go over the wire, for programs that this crate has no typed call for.
//!
//! Each is made once: what is tried again, and how long, is up to the caller. Every status is an
//! [`Answer`]; its [`Answer::success`] makes an error of the bad ones.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue, InvalidHeaderValue, LOCATION, RETRY_AFTER};
use hyper::http::response::Parts;
use hyper::{Method, StatusCode};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Refusal};
use crate::path::Path;

/// What a request is made of: method, path, and a body if it has one.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) method: Method,
    pub(crate) path: Path,
    pub(crate) body: Bytes,
    pub(crate) content_type: Option<HeaderValue>,
    pub(crate) idempotency_key: Option<HeaderValue>,
    pub(crate) idempotency_source: Option<HeaderValue>,
    /// `None` is the client's.
    pub(crate) timeout: Option<Duration>,
    /// A longer answer is not read.
    pub(crate) answer_bytes_max: usize,
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const JSON_LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
/// The longest answer, if the request sets no other limit: a list of a thousand jobs with payloads
/// of some kilobytes.
const ANSWER_BYTES_MAX: usize = 256 * 1_024 * 1_024;

impl Request {
    /// A request without a body.
    #[must_use]
    pub fn new(method: Method, path: Path) -> Self {
        Self {
            method,
            path,
            body: Bytes::new(),
            content_type: None,
            idempotency_key: None,
            idempotency_source: None,
            timeout: None,
            answer_bytes_max: ANSWER_BYTES_MAX,
        }
    }

    /// A request with this shape for a body.
    pub(crate) fn document(method: Method, path: Path, shape: &impl Serialize) -> Result<Self, Error> {
        Ok(Self::new(method, path).json(serde_json::to_vec(shape)?))
    }

    /// With a JSON document for a body.
    #[must_use]
    pub fn json(self, document: impl Into<Bytes>) -> Self {
        Self { body: document.into(), content_type: Some(JSON), ..self }
    }

    /// With bytes of any kind for a body.
    #[must_use]
    pub fn bytes(self, bytes: impl Into<Bytes>) -> Self {
        Self { body: bytes.into(), content_type: Some(OCTETS), ..self }
    }

    /// With lines of JSON for a body.
    #[must_use]
    pub fn json_lines(self, lines: impl Into<Bytes>) -> Self {
        Self { body: lines.into(), content_type: Some(JSON_LINES), ..self }
    }

    /// With a key under which the server carries it out once, however often it is made: 1 to 128
    /// visible ASCII characters.
    ///
    /// # Errors
    /// When no header can carry the key.
    pub fn idempotency_key(self, key: &str) -> Result<Self, InvalidHeaderValue> {
        Ok(Self { idempotency_key: Some(HeaderValue::from_str(key)?), ..self })
    }

    /// With the name of a source that publishes to a queue call after call, each under a key. The
    /// server knows the newest of its keys for 90 days.
    ///
    /// # Errors
    /// When no header can carry the name.
    pub fn idempotency_source(self, source: &str) -> Result<Self, InvalidHeaderValue> {
        Ok(Self { idempotency_source: Some(HeaderValue::from_str(source)?), ..self })
    }

    /// How long to wait until the answer begins, and as long again until it ends: the client's
    /// timeout unless set here.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// The most bytes that are read of the answer: 256 MiB unless set here. A longer one is
    /// [`Error::Foreign`].
    #[must_use]
    pub fn answer_bytes_max(self, bytes: usize) -> Self {
        Self { answer_bytes_max: bytes, ..self }
    }
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The whole body.
    pub body: Bytes,
    /// How long the server asks to wait before the request is made again, in whole seconds.
    pub retry_after: Option<Duration>,
    /// Where a redirection points to.
    pub(crate) location: Option<String>,
    pub(crate) server: Arc<str>,
}

impl Answer {
    /// An answer whose body is still to come.
    pub(crate) fn headed(head: &Parts, server: &Arc<str>) -> Self {
        let text = |name: HeaderName| head.headers.get(name)?.to_str().ok();
        let seconds = text(RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
        let location = head.status.is_redirection().then(|| text(LOCATION).unwrap_or("elsewhere").to_owned());
        Self {
            status: head.status.as_u16(),
            body: Bytes::new(),
            retry_after: seconds.map(Duration::from_secs),
            location,
            server: Arc::clone(server),
        }
    }

    /// The body of a 2xx.
    ///
    /// # Errors
    /// [`Error::Refused`], or [`Error::Foreign`] for a redirection: none is followed, so that the
    /// token goes nowhere else.
    pub fn success(self) -> Result<Bytes, Error> {
        let Self { status, body, retry_after, location, server } = self;
        if let Some(to) = location {
            let what = format!("it answered {} and points to {to}", status_line(status));
            return Err(Error::Foreign { server: server.to_string(), what });
        }
        match status {
            200..300 => Ok(body),
            _ => Err(Error::Refused(Box::new(Refusal::read(status, retry_after, &body)))),
        }
    }
}

/// A status with its name, such as `301 Moved Permanently`.
fn status_line(status: u16) -> String {
    StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |status| status.to_string())
}

/// An answer that is read as it comes, for one that need not fit into memory.
#[derive(Debug)]
pub struct Download {
    pub(crate) body: Incoming,
    pub(crate) limit: Duration,
    pub(crate) until: Instant,
    pub(crate) server: Arc<str>,
}

impl Download {
    /// The next bytes, of the size that the connection gave them; `None` after the last.
    ///
    /// # Errors
    /// [`Error::Broken`], or [`Error::TimedOut`] when the time for the whole body is over.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let server = || self.server.to_string();
        loop {
            let frame = timeout_at(self.until, self.body.frame()).await;
            let frame = frame.map_err(|_| Error::TimedOut { server: server(), limit: self.limit })?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(Error::Broken { server: server(), cause: error.into() }),
                // What is no data is a trailer, which the API does not have.
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}
