//! One request, one answer: connections, TLS, time limits, and what an answer's status means.
//!
//! What is asked again when it fails is not decided here but in [`crate::retry`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::Instant;

use crate::client::Builder;
use crate::error::{Error, SetupError};
use crate::proxy::Dialer;
use crate::request::{Answer, Download, Request};
use crate::trust::Trust;

/// A machine that is there answers sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that was not used for so long is closed; shorter than servers and what is between
/// wait for.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

const AGENT: HeaderValue = HeaderValue::from_static(concat!("fieldpost-client/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(crate) type Connector = HttpsConnector<Dialer>;
type HttpRequest = hyper::Request<Full<Bytes>>;

/// A server, and how to speak to it.
#[derive(Debug)]
pub(crate) struct Transport {
    pool: legacy::Client<Connector, Full<Bytes>>,
    pub(crate) connector: Connector,
    root: Root,
    authorization: Option<HeaderValue>,
    user_agent: HeaderValue,
    /// How long an answer is waited for, unless the request says otherwise.
    timeout: Duration,
}

/// Where a server is: what stands before the paths of its API.
#[derive(Clone, Debug)]
struct Root {
    /// Without a slash at its end.
    text: Arc<str>,
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
        Ok(Self { text: text.trim_end_matches('/').into(), uri, host })
    }

    fn prefix(&self) -> &str {
        self.uri.path().trim_end_matches('/')
    }
}

impl Transport {
    /// Nothing is sent yet.
    pub(crate) fn new(builder: Builder) -> Result<Self, SetupError> {
        let root = Root::of(&builder.url)?;
        let authorization = builder.token.as_deref().map(bearer).transpose()?;
        let connector = connector(&root.uri, builder.trust, builder.heeds_proxies)?;
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector.clone());
        let Builder { timeout, user_agent, .. } = builder;
        Ok(Self { pool, connector, root, authorization, user_agent: user_agent.unwrap_or(AGENT), timeout })
    }

    /// How long the answer to a request is waited for.
    pub(crate) fn timeout_of(&self, request: &Request) -> Duration {
        request.timeout.unwrap_or(self.timeout)
    }

    /// Asks once, over any connection; the body of a good answer, within the timeout from the first
    /// byte sent to the last one read.
    pub(crate) async fn exchange(&self, request: &Request) -> Result<Bytes, Error> {
        let exchange = async {
            let response = self.begin(request).await?;
            self.read(response, request.answer_bytes_max).await?.success()
        };
        self.in_time(self.timeout_of(request), exchange).await
    }

    /// Asks once, over any connection; any answer, within the timeout until it begins and again
    /// until it ends.
    pub(crate) async fn send(&self, request: &Request) -> Result<Answer, Error> {
        let limit = self.timeout_of(request);
        let response = self.in_time(limit, self.begin(request)).await?;
        self.in_time(limit, self.read(response, request.answer_bytes_max)).await
    }

    /// Asks once, over any connection; the body of a good answer, to be read within `limit`.
    pub(crate) async fn download(&self, request: &Request, limit: Duration) -> Result<Download, Error> {
        let response = self.in_time(self.timeout_of(request), self.begin(request)).await?;
        if !response.status().is_success() {
            let refused = self.read(response, request.answer_bytes_max);
            self.in_time(self.timeout_of(request), refused).await?.success()?;
            return Err(self.foreign("its answer is no success and no refusal".to_owned()));
        }
        let (until, server) = (Instant::now() + limit, Arc::clone(&self.root.text));
        Ok(Download { body: response.into_body(), limit, until, server })
    }

    /// Sends a request; its answer has begun.
    async fn begin(&self, request: &Request) -> Result<Response<Incoming>, Error> {
        let request = self.http_request(&format!("{}{}", self.root.text, request.path.as_str()), request)?;
        let sent = self.pool.request(request).await;
        sent.map_err(|error| if error.is_connect() { self.unreachable(error) } else { self.broken(error) })
    }

    /// What `exchange` gives, or that it took too long.
    pub(crate) async fn in_time<T>(
        &self,
        limit: Duration,
        exchange: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = || Error::TimedOut { server: self.root.text.to_string(), limit };
        tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    /// The server's address, to connect to.
    pub(crate) fn address(&self) -> Uri {
        self.root.uri.clone()
    }

    /// A request for a connection of one's own, which names the host in a header.
    pub(crate) fn request_on_line(&self, request: &Request) -> Result<HttpRequest, Error> {
        let path = format!("{}{}", self.root.prefix(), request.path.as_str());
        let mut request = self.http_request(&path, request)?;
        request.headers_mut().insert(HOST, self.root.host.clone());
        Ok(request)
    }

    fn http_request(&self, uri: &str, request: &Request) -> Result<HttpRequest, Error> {
        let mut http = HttpRequest::new(Full::new(request.body.clone()));
        *http.method_mut() = request.method.clone();
        *http.uri_mut() = uri.parse().map_err(|_| self.foreign(format!("{uri} is not a path")))?;
        let headers = http.headers_mut();
        headers.insert(ACCEPT, JSON);
        headers.insert(USER_AGENT, self.user_agent.clone());
        if let Some(content_type) = &request.content_type {
            headers.insert(CONTENT_TYPE, content_type.clone());
        }
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        if let Some(key) = &request.idempotency_key {
            headers.insert("idempotency-key", key.clone());
        }
        if let Some(source) = &request.idempotency_source {
            headers.insert("idempotency-source", source.clone());
        }
        Ok(http)
    }

    /// The whole answer.
    pub(crate) async fn read(&self, response: Response<Incoming>, bytes_max: usize) -> Result<Answer, Error> {
        let (head, body) = response.into_parts();
        let answer = Answer::headed(&head, &self.root.text);
        let body = Limited::new(body, bytes_max).collect().await.map_err(|error| {
            match error.downcast::<LengthLimitError>() {
                Ok(_) => self.foreign(format!("its answer is longer than {bytes_max} bytes")),
                Err(error) => self.broken(error),
            }
        })?;
        Ok(Answer { body: body.to_bytes(), ..answer })
    }

    pub(crate) fn foreign(&self, what: String) -> Error {
        Error::Foreign { server: self.root.text.to_string(), what }
    }

    pub(crate) fn unreachable(&self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Unreachable { server: self.root.text.to_string(), cause: cause.into() }
    }

    pub(crate) fn broken(&self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Broken { server: self.root.text.to_string(), cause: cause.into() }
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

/// Opens connections. The certificate authorities of the system are read only where they are
/// needed.
fn connector(server: &Uri, trust: Option<Trust>, heeds_proxies: bool) -> Result<Connector, SetupError> {
    let trust = match trust {
        Some(trust) => Some(trust),
        None => (server.scheme_str() == Some("https")).then(Trust::of_system).transpose()?,
    };
    let config = match trust {
        Some(trust) => trust.client_config()?,
        None => without_tls()?,
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let dialer = if heeds_proxies { Dialer::of_environment(tcp, server) } else { Dialer::Direct(tcp) };
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(dialer))
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
    use crate::client::Client;

    fn transport(url: &str, token: Option<&str>) -> Result<Transport, SetupError> {
        let builder = Client::builder(url);
        Transport::new(match token {
            Some(token) => builder.token(token),
            None => builder,
        })
    }

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
            assert_eq!(transport(url, None).is_ok(), right, "{url}");
        }
    }

    #[test]
    fn neither_a_token_nor_a_password_is_repeated() {
        let wrong = transport("http://me:hunter2@a", None).expect_err("it has a password");
        assert!(!format!("{wrong} {wrong:?}").contains("hunter2"));
        for token in ["", "two words", "ключ", "line\nend"] {
            let wrong = transport("http://a", Some(token)).expect_err("no header can carry it");
            assert!(matches!(wrong, SetupError::Token), "{token:?}");
        }
        let right = transport("http://a", Some("s3cret")).expect("a right token");
        assert!(!format!("{right:?}").contains("s3cret"));
    }
}
