//! One request, one answer: connections, TLS, time limits, and what an answer's status means.
//!
//! What is asked again when it fails is not decided here but in [`crate::call`]. Redirects are not followed, so that the
//! token goes nowhere else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

use crate::error::{Error, Refusal, SetupError};
use crate::path::Path;
use crate::trust::Trust;

/// A machine that is there answers sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that was not used for so long is closed; shorter than servers and what is between wait for.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

const AGENT: HeaderValue = HeaderValue::from_static(concat!("fieldpost-client/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(crate) type Connector = HttpsConnector<HttpConnector>;

/// A server, and how to speak to it.
#[derive(Debug)]
pub(crate) struct Transport {
    pool: legacy::Client<Connector, Full<Bytes>>,
    pub(crate) connector: Connector,
    root: Root,
    authorization: Option<HeaderValue>,
}

/// What is asked of a server.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: Path,
    pub(crate) body: Bytes,
    pub(crate) idempotency_key: Option<HeaderValue>,
    /// From the first byte sent to the last one read.
    pub(crate) timeout: Duration,
    /// A longer answer is not read.
    pub(crate) answer_bytes_max: usize,
}

/// Where a server is: what stands before the paths of its API.
#[derive(Clone, Debug)]
struct Root {
    /// Without a slash at its end.
    text: String,
    uri: Uri,
    host: HeaderValue,
}

impl Root {
    fn of(text: &str) -> Result<Self, SetupError> {
        let wrong = |what| SetupError::Url { url: text.to_owned(), what };
        let uri: Uri = text.parse().map_err(|_| wrong("write it as http://127.0.0.1:8080"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(wrong("the server speaks http or https"));
        }
        let host = uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        // Not repeated: there may be a password in it.
        if host.contains('@') {
            let what = "a server asks for a token, not for a name and a password";
            return Err(SetupError::Url { url: "(not shown)".to_owned(), what });
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(wrong("the URL of a server has no ? and no #"));
        }
        let host = HeaderValue::from_str(&host).map_err(|_| wrong("its host has a wrong form"))?;
        Ok(Self { text: text.trim_end_matches('/').to_owned(), uri, host })
    }

    fn prefix(&self) -> &str {
        self.uri.path().trim_end_matches('/')
    }
}

impl Transport {
    /// Nothing is sent yet.
    pub(crate) fn new(url: &str, token: Option<&str>, trust: Option<Trust>) -> Result<Self, SetupError> {
        let root = Root::of(url)?;
        let authorization = token.map(bearer).transpose()?;
        let connector = connector(root.uri.scheme_str() == Some("https"), trust)?;
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector.clone());
        Ok(Self { pool, connector, root, authorization })
    }

    /// Asks once, over any connection.
    pub(crate) async fn exchange(&self, call: &Call) -> Result<Bytes, Error> {
        let uri = format!("{}{}", self.root.text, call.path.as_str());
        let request = self.request(&uri, call)?;
        let exchange = async {
            let response = self.pool.request(request).await.map_err(|error| {
                if error.is_connect() { self.unreachable(error) } else { self.broken(error) }
            })?;
            self.outcome(response, call.answer_bytes_max).await
        };
        self.in_time(call.timeout, exchange).await
    }

    /// What `exchange` gives, or that it took too long.
    pub(crate) async fn in_time(
        &self,
        limit: Duration,
        exchange: impl Future<Output = Result<Bytes, Error>>,
    ) -> Result<Bytes, Error> {
        let late = || Error::TimedOut { server: self.root.text.clone(), limit };
        tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    /// The server's address, to connect to.
    pub(crate) fn address(&self) -> Uri {
        self.root.uri.clone()
    }

    /// A request for a connection of one's own, which names the host in a header.
    pub(crate) fn request_on_line(&self, call: &Call) -> Result<Request<Full<Bytes>>, Error> {
        let path = format!("{}{}", self.root.prefix(), call.path.as_str());
        let mut request = self.request(&path, call)?;
        request.headers_mut().insert(HOST, self.root.host.clone());
        Ok(request)
    }

    fn request(&self, uri: &str, call: &Call) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = uri.parse().map_err(|_| self.foreign(format!("{uri} is not a path")))?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, JSON);
        headers.insert(USER_AGENT, AGENT);
        if !call.body.is_empty() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        if let Some(key) = &call.idempotency_key {
            headers.insert("idempotency-key", key.clone());
        }
        Ok(request)
    }

    /// The body of a good answer.
    pub(crate) async fn outcome(
        &self,
        response: Response<Incoming>,
        bytes_max: usize,
    ) -> Result<Bytes, Error> {
        let (head, body) = response.into_parts();
        if head.status.is_redirection() {
            let to = head.headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("elsewhere");
            return Err(self.foreign(format!("it answered {} and points to {to}", head.status)));
        }
        let body = Limited::new(body, bytes_max).collect().await.map_err(|error| {
            match error.downcast::<LengthLimitError>() {
                Ok(_) => self.foreign(format!("its answer is longer than {bytes_max} bytes")),
                Err(error) => self.broken(error),
            }
        })?;
        let body = body.to_bytes();
        if head.status.is_success() {
            return Ok(body);
        }
        let seconds = head.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        Err(Error::Refused(Box::new(Refusal::read(head.status.as_u16(), retry_after, &body))))
    }

    pub(crate) fn foreign(&self, what: String) -> Error {
        Error::Foreign { server: self.root.text.clone(), what }
    }

    pub(crate) fn unreachable(&self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Unreachable { server: self.root.text.clone(), cause: cause.into() }
    }

    pub(crate) fn broken(&self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Broken { server: self.root.text.clone(), cause: cause.into() }
    }
}

fn bearer(token: &str) -> Result<HeaderValue, SetupError> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(SetupError::Token);
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| SetupError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Opens connections. The certificate authorities of the system are read only where they are needed.
fn connector(tls: bool, trust: Option<Trust>) -> Result<Connector, SetupError> {
    let trust = match trust {
        Some(trust) => Some(trust),
        None => tls.then(Trust::of_system).transpose()?,
    };
    let config = match trust {
        Some(trust) => trust.client_config()?,
        None => without_tls()?,
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp))
}

/// A server that is not asked over TLS is not believed over it.
fn without_tls() -> Result<ClientConfig, SetupError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_server_is_http_and_nothing_else() {
        for (url, right) in [
            ("http://127.0.0.1:8080", true),
            ("http://127.0.0.1:8080/", true),
            ("http://example.com/fieldpost/", true),
            ("127.0.0.1:8080", false),
            ("mqtt://127.0.0.1", false),
            ("/v1", false),
            ("http://a/?b=c", false),
            ("http://a/#b", false),
            ("", false),
        ] {
            assert_eq!(Transport::new(url, None, None).is_ok(), right, "{url}");
        }
    }

    #[test]
    fn neither_a_token_nor_a_password_is_repeated() {
        let wrong = Transport::new("http://me:hunter2@a", None, None).expect_err("it has a password");
        assert!(!format!("{wrong} {wrong:?}").contains("hunter2"));
        for token in ["", "two words", "ключ", "line\nend"] {
            let wrong = Transport::new("http://a", Some(token), None).expect_err("no header can carry it");
            assert!(matches!(wrong, SetupError::Token), "{token:?}");
        }
        let right = Transport::new("http://a", Some("s3cret"), None).expect("a right token");
        assert!(!format!("{right:?}").contains("s3cret"));
    }
}
