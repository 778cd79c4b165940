//! Requests to nodes: pooled connections, TLS, and bounds of time and size.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body as _;
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use crate::ends::{CopyFailure, CopyFailureKind};
use crate::places::BatchPlaces;

/// A node that is there answers a connection sooner. With the pause between tries, a copy goes on
/// within 5 s of the node's return.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Less than servers, and what is between, wait for.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// Connections to a node that are kept while nothing goes over them.
const IDLE_PER_NODE: usize = 64;
/// An answer up to this size takes no place among batches.
const SMALL_BYTES_MAX: u64 = 64 << 10;
/// A line is taken for one that moves so much a second at least: what is larger has more time.
const SLOWEST_BYTES_PER_SECOND: u64 = 4 << 10;
/// Longest exchange, however it trickles.
const EXCHANGE_MAX: Duration = Duration::from_secs(600);
/// Largest answer.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Sends requests to nodes.
pub(crate) struct NodeTransport {
    pool: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    places: BatchPlaces,
}

/// What a node answered.
pub(crate) struct NodeAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl std::fmt::Debug for NodeTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeTransport")
    }
}

impl NodeTransport {
    /// Believes the certificate authorities of the system.
    pub(crate) fn new(places: BatchPlaces) -> Self {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has cipher suites for the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_MAX));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let pool = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_PER_NODE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { pool, places }
    }

    /// Asks once; any answer, whole. It begins within `limit` and the time that the body needs on
    /// a slow line, and goes on within `limit` whenever it pauses.
    pub(crate) async fn ask(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<NodeAnswer, CopyFailure> {
        let late = || CopyFailure::new(CopyFailureKind::Unanswered, format!("no answer within {limit:?}"));
        let sent_bytes = request.body().size_hint().lower();
        let sent_within = limit + Duration::from_secs(sent_bytes / SLOWEST_BYTES_PER_SECOND);
        let asked = async {
            let response = tokio::time::timeout(sent_within, self.pool.request(request)).await;
            let response = response.map_err(|_| late())?.map_err(|error| {
                let kind = match error.is_connect() {
                    true => CopyFailureKind::NotNow,
                    false => CopyFailureKind::Unanswered,
                };
                CopyFailure::new(kind, root_cause(&error))
            })?;
            let (head, body) = response.into_parts();
            // A small answer needs no place: who waits for it may hold one.
            let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BYTES_MAX);
            let place = if is_small { None } else { Some(self.places.take().await) };
            let mut body = Limited::new(body, ANSWER_BYTES_MAX);
            let mut bytes = BytesMut::new();
            while let Some(frame) = tokio::time::timeout(limit, body.frame()).await.map_err(|_| late())? {
                let frame = frame
                    .map_err(|error| CopyFailure::new(CopyFailureKind::Unanswered, error.to_string()))?;
                bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
            let body = bytes.freeze();
            let body = match place {
                Some(place) => place.held_by(body),
                None => body,
            };
            Ok(NodeAnswer { status: head.status, headers: head.headers, body })
        };
        tokio::time::timeout(EXCHANGE_MAX, asked).await.unwrap_or_else(|_| Err(late()))
    }
}

/// What is behind all that an error is wrapped into: the words that tell people most.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(behind) = cause.source() {
        cause = behind;
    }
    cause.to_string()
}
