//! The public API over HTTP, for those who look from outside.
//!
//! Calls that may be repeated (GET, PUT, DELETE) are repeated while the server is restarted, until
//! a deadline. A POST or PATCH is repeated only where it cannot have been carried out (no
//! connection, 503). The client crate makes each attempt; the repeats are here, because a server
//! that is killed again and again comes back at another address. Not for load: see
//! [`crate::fleet`].

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fieldpost_client::{Answer, Client, Error, Method, Path, Request};
use hyper::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::endpoint::Endpoint;

/// Between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A single attempt takes no longer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server said no.
    #[error("{method} {path}: {status} {body}")]
    Refused {
        /// The method called.
        method: Method,
        /// The path called.
        path: String,
        /// What was answered.
        status: StatusCode,
        /// The problem in the server's words.
        body: String,
    },
    /// The answer is not what the contract says.
    #[error("{path}: the answer cannot be read: {source}; it is {body}")]
    Unreadable {
        /// The path called.
        path: String,
        /// What is wrong with it.
        source: serde_json::Error,
        /// The beginning of the answer.
        body: String,
    },
    /// No answer came in time.
    #[error("{method} {path}: no answer within {patience:?}: {reason}")]
    NoAnswer {
        /// The method called.
        method: Method,
        /// The path called.
        path: String,
        /// How long it was tried.
        patience: Duration,
        /// What went wrong at the last attempt.
        reason: String,
    },
}

/// A caller of the public API.
#[derive(Debug, Clone)]
pub struct ApiClient {
    endpoint: Endpoint,
    /// The client for the server's last known address, which changes with each start.
    client: Arc<Mutex<Option<(SocketAddr, Client)>>>,
    patience: Duration,
}

/// What was answered, whatever the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResponse {
    /// The HTTP status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

impl ApiResponse {
    /// The body as JSON; `Null` when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// A page of a list.
#[derive(Debug, Deserialize)]
struct ApiPage<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// One request to be made.
struct ApiCall<'a> {
    method: Method,
    path: &'a str,
    request: Request,
}

impl<'a> ApiCall<'a> {
    /// A call with a JSON body, which may be empty.
    fn json(method: Method, path: &'a str, body: impl Into<Bytes>) -> Self {
        let request = Request::new(method.clone(), Path::encoded(path)).timeout(ATTEMPT_TIMEOUT).json(body);
        Self { method, path, request }
    }

    fn value(method: Method, path: &'a str, body: Option<&Value>) -> Self {
        Self::json(method, path, body.map(Value::to_string).unwrap_or_default())
    }
}

/// Why an attempt gave no answer, and whether the server may have acted on it.
struct ApiFailure {
    reason: String,
    may_have_acted: bool,
}

/// How long something that has no signal is looked at.
pub(crate) struct Looks {
    end: Instant,
}

impl Looks {
    pub(crate) fn within(patience: Duration) -> Self {
        Self { end: Instant::now() + patience }
    }

    /// Whether to look once more, after a pause.
    pub(crate) async fn again(&self) -> bool {
        let is_over = Instant::now() > self.end;
        if !is_over {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        !is_over
    }
}

impl ApiClient {
    /// Calls the server at `endpoint`, each call for no longer than `patience`.
    #[must_use]
    pub fn new(endpoint: Endpoint, patience: Duration) -> Self {
        Self { endpoint, client: Arc::default(), patience }
    }

    /// GET, read as `T`.
    ///
    /// # Errors
    /// A refusal, an unreadable answer, or none in time.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        let response = self.success(ApiCall::json(Method::GET, path, "")).await?;
        read(path, &response.body)
    }

    /// POST of a JSON body, read as `T`.
    ///
    /// # Errors
    /// A refusal, an unreadable answer, or none in time.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, ApiError> {
        let response = self.success(ApiCall::value(Method::POST, path, Some(body))).await?;
        read(path, &response.body)
    }

    /// POST of lines of JSON, read as `T`.
    ///
    /// # Errors
    /// A refusal, an unreadable answer, or none in time.
    pub async fn post_lines<T: DeserializeOwned>(&self, path: &str, lines: String) -> Result<T, ApiError> {
        let call = ApiCall::json(Method::POST, path, "");
        let response = self.success(ApiCall { request: call.request.json_lines(lines), ..call }).await?;
        read(path, &response.body)
    }

    /// PATCH; what is answered is left unread.
    ///
    /// # Errors
    /// A refusal, or no answer in time.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<(), ApiError> {
        self.success(ApiCall::value(Method::PATCH, path, Some(body))).await.map(drop)
    }

    /// PUT without a body; what is answered is left unread.
    ///
    /// # Errors
    /// A refusal, or no answer in time.
    pub async fn put(&self, path: &str) -> Result<(), ApiError> {
        self.success(ApiCall::json(Method::PUT, path, "")).await.map(drop)
    }

    /// Any call, and whatever is answered to it.
    ///
    /// # Errors
    /// No answer in time.
    pub async fn any(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<ApiResponse, ApiError> {
        self.call(&ApiCall::value(method, path, body)).await
    }

    /// Any call, made once: what was answered to it, a 503 too.
    ///
    /// # Errors
    /// No answer.
    pub async fn once(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<ApiResponse, ApiError> {
        let answered = self.attempt(&ApiCall::value(method.clone(), path, body)).await;
        answered.map_err(|ApiFailure { reason, .. }| {
            let path = path.to_owned();
            ApiError::NoAnswer { method, path, patience: ATTEMPT_TIMEOUT, reason }
        })
    }

    /// All items of a list, page after page.
    ///
    /// # Errors
    /// A refusal, an unreadable answer, or none in time.
    pub async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, ApiError> {
        let mut items = Vec::new();
        let join = if path.contains('?') { '&' } else { '?' };
        let mut next = format!("{path}{join}limit=1000");
        loop {
            let page: ApiPage<T> = self.get(&next).await?;
            items.extend(page.items);
            match page.next_cursor {
                Some(cursor) => next = format!("{path}{join}limit=1000&cursor={}", percent_encoded(&cursor)),
                None => return Ok(items),
            }
        }
    }

    /// Asks for `path` until the answer satisfies `done`.
    ///
    /// # Errors
    /// A refusal, an unreadable answer, or no satisfying one within `patience`.
    pub async fn until<T: DeserializeOwned>(
        &self,
        path: &str,
        patience: Duration,
        mut done: impl FnMut(&T) -> bool,
    ) -> Result<T, ApiError> {
        let looks = Looks::within(patience);
        loop {
            let answer = self.get(path).await?;
            if done(&answer) {
                return Ok(answer);
            }
            if !looks.again().await {
                let reason = "the answers were not what is awaited".to_owned();
                return Err(ApiError::NoAnswer {
                    method: Method::GET,
                    path: path.to_owned(),
                    patience,
                    reason,
                });
            }
        }
    }

    async fn success(&self, call: ApiCall<'_>) -> Result<ApiResponse, ApiError> {
        let response = self.call(&call).await?;
        if response.status.is_success() {
            return Ok(response);
        }
        let (body, status) = (excerpt(&response.body), response.status);
        Err(ApiError::Refused { method: call.method, path: call.path.to_owned(), status, body })
    }

    async fn call(&self, call: &ApiCall<'_>) -> Result<ApiResponse, ApiError> {
        let repeatable = matches!(call.method, Method::GET | Method::PUT | Method::DELETE);
        let mut last = "the server's address is not known".to_owned();
        let answered = async {
            loop {
                match self.attempt(call).await {
                    Ok(response) if response.status != StatusCode::SERVICE_UNAVAILABLE => {
                        return Some(response);
                    }
                    Ok(response) => last = excerpt(&response.body),
                    Err(failure) => {
                        last = failure.reason;
                        if failure.may_have_acted && !repeatable {
                            return None;
                        }
                    }
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        };
        let answered = tokio::time::timeout(self.patience, answered).await.unwrap_or(None);
        let (method, path) = (call.method.clone(), call.path.to_owned());
        answered.ok_or(ApiError::NoAnswer { method, path, patience: self.patience, reason: last })
    }

    async fn attempt(&self, call: &ApiCall<'_>) -> Result<ApiResponse, ApiFailure> {
        let client = self.client_at(self.endpoint.address().await);
        let answer = client.send(&call.request).await.map_err(|error| failure(&error))?;
        let Answer { status, body, .. } = answer;
        let status = StatusCode::from_u16(status)
            .map_err(|error| ApiFailure { reason: error.to_string(), may_have_acted: true })?;
        Ok(ApiResponse { status, body })
    }

    /// The client for the server at `address`.
    fn client_at(&self, address: SocketAddr) -> Client {
        let mut known = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((at, client)) if *at == address => client.clone(),
            _ => {
                let client = Client::builder(format!("http://{address}")).build();
                let client = client.expect("an address makes a URL, and no TLS is asked for");
                known.insert((address, client)).1.clone()
            }
        }
    }
}

fn failure(error: &Error) -> ApiFailure {
    ApiFailure { reason: error.explained(), may_have_acted: !error.is_undone() }
}

fn read<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, ApiError> {
    let unreadable = |source| ApiError::Unreadable { path: path.to_owned(), source, body: excerpt(body) };
    serde_json::from_slice(body).map_err(unreadable)
}

fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned()
}

/// Everything but letters, digits and `-_.~` as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_the_query() {
        assert_eq!(percent_encoded("aZ09-_.~"), "aZ09-_.~");
        assert_eq!(percent_encoded("a+b/c="), "a%2Bb%2Fc%3D");
    }

    #[tokio::test]
    async fn a_call_to_nobody_ends_with_its_deadline() {
        let api = ApiClient::new(Endpoint::unknown(), Duration::from_millis(20));
        let error = api.get::<Value>("/healthz").await.unwrap_err();
        assert!(matches!(error, ApiError::NoAnswer { .. }), "{error}");
    }
}
