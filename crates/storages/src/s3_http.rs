//! HTTP as the S3 client needs it, over the TLS that the whole server has.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use rustls::{ClientConfig, RootCertStore};

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long one request may take until its answer begins, with a large block on a slow line.
const ANSWER_MAX: Duration = Duration::from_secs(150);

type S3Connections = Client<HttpsConnector<TcpConnector>, HttpRequestBody>;

/// Makes clients of the S3 server.
#[derive(Debug)]
pub(crate) struct S3Connector {
    connections: S3Connections,
}

#[derive(Debug)]
struct S3Http {
    connections: S3Connections,
}

impl S3Connector {
    /// Certificates are those that the system trusts.
    pub(crate) fn new() -> Result<Self, String> {
        let mut trusted = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        trusted.add_parsable_certificates(found.certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_MAX));
        let tls = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Ok(Self { connections: Client::builder(TokioExecutor::new()).build(tls) })
    }
}

impl HttpConnector for S3Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(S3Http { connections: self.connections.clone() }))
    }
}

#[async_trait]
impl HttpService for S3Http {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = tokio::time::timeout(ANSWER_MAX, self.connections.request(request)).await;
        let answer = answer.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?;
        let answer = answer.map_err(|error| {
            let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Request };
            HttpError::new(kind, Innermost::of(&error))
        })?;
        let (head, body) = answer.into_parts();
        let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

/// What an error comes from in the end: what lies above only repeats that there was one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Innermost(String);

impl Innermost {
    fn of(error: &dyn Error) -> Self {
        let mut innermost = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        Self(innermost.to_string())
    }
}
