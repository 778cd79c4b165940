//! Requests to nodes: pooled connections, TLS, and bounds of time and size.
//!
//! The client crate is for applications. A copy needs what that does not show. It looks at the
//! connection of an answer, bounds how long the system waits for the peer, and streams bodies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::locks::locked;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body as _;
use hyper::header::HeaderMap;
use hyper::http::uri::Authority;
use hyper::{Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{HttpConnector, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use crate::ends::{CopyFailure, CopyFailureKind};
use crate::places::BatchPlaces;
use crate::tls_fault;

/// A node that is there answers a connection sooner. With the pause between tries, a copy goes on
/// within 5 s of the node's return.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// The same with its TLS handshake, which a distant line needs some more turns for.
const HANDSHAKE_MAX: Duration = Duration::from_secs(4);
/// Less than servers, and what is between, wait for.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// Connections to a node that are kept while nothing goes over them.
const IDLE_PER_NODE: usize = 64;
/// Addresses whose connections are kept; beyond it all are made anew.
const POOLS_MAX: usize = 1_000;
/// An answer up to this size takes no place among batches.
const SMALL_BYTES_MAX: u64 = 64 << 10;
/// What is sent and not acknowledged for so long ends its connection: the line was cut without a
/// word.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(3);
/// A connection over which nothing goes is asked after so long whether the node is there, and so
/// often. So one that waits for an answer ends as soon as one that sends.
const ASKED_EVERY: Duration = Duration::from_secs(1);
/// Longest exchange, however it trickles.
const EXCHANGE_MAX: Duration = Duration::from_secs(600);
/// Largest answer.
const ANSWER_BYTES_MAX: usize = 8 << 20;

type NodeConnector = HttpsConnector<HttpConnector>;
type NodePool = Client<NodeConnector, Full<Bytes>>;

/// Sends requests to nodes.
pub(crate) struct NodeTransport {
    connector: NodeConnector,
    /// By the nodes' addresses: one that is silent costs the others nothing.
    pools: Mutex<HashMap<Option<Authority>, NodePool>>,
    places: BatchPlaces,
}

/// What a node answered.
pub(crate) struct NodeAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

base::debug_as_name!(NodeTransport);

impl NodeTransport {
    /// Believes the certificate authorities of the system.
    pub(crate) fn new(places: BatchPlaces) -> Self {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "certificate authorities for other nodes cannot be read");
        }
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
        tcp.set_keepalive(Some(ASKED_EVERY));
        tcp.set_keepalive_interval(Some(ASKED_EVERY));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Self { pools: Mutex::default(), connector, places }
    }

    fn pool(&self, node: &Option<Authority>) -> NodePool {
        let mut pools = locked(&self.pools);
        if pools.len() >= POOLS_MAX && !pools.contains_key(node) {
            pools.clear();
        }
        pools.entry(node.clone()).or_insert_with(|| pool_over(&self.connector)).clone()
    }

    /// Other connections to a node that are kept may have been cut at the same time without a word:
    /// new ones are made.
    fn forget_connections(&self, node: &Option<Authority>) {
        locked(&self.pools).remove(node);
    }

    /// Asks once; any answer, whole. Once there is a connection it begins within `limit`, and goes
    /// on within `limit` whenever it pauses.
    pub(crate) async fn ask(
        &self,
        mut request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<NodeAnswer, CopyFailure> {
        let late = || CopyFailure::new(CopyFailureKind::Unanswered, format!("no answer within {limit:?}"));
        let node = request.uri().authority().cloned();
        let pool = self.pool(&node);
        let asked = async {
            let mut connection = capture_connection(&mut request);
            let mut response = std::pin::pin!(pool.request(request));
            let connected = async {
                tokio::select! {
                    biased;
                    response = &mut response => Some(response),
                    () = async { drop(connection.wait_for_connection_metadata().await) } => None,
                }
            };
            let not_now = |_| CopyFailure::new(CopyFailureKind::NotNow, "no connection in time");
            let response = match tokio::time::timeout(HANDSHAKE_MAX, connected).await.map_err(not_now)? {
                Some(response) => response,
                None => tokio::time::timeout(limit, response).await.map_err(|_| late())?,
            };
            let response = response.map_err(|error| {
                let kind = match error.is_connect() {
                    true => CopyFailureKind::NotNow,
                    false => CopyFailureKind::Unanswered,
                };
                CopyFailure::new(kind, explained(&error))
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
        let answer = tokio::time::timeout(EXCHANGE_MAX, asked).await.unwrap_or_else(|_| Err(late()));
        if answer.as_ref().is_err_and(|failure| failure.kind == CopyFailureKind::Unanswered) {
            self.forget_connections(&node);
        }
        answer
    }
}

fn pool_over(connector: &NodeConnector) -> NodePool {
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_MAX)
        .pool_max_idle_per_host(IDLE_PER_NODE)
        .pool_timer(TokioTimer::new())
        .build(connector.clone())
}

/// What is behind all that an error is wrapped into: the words that tell people most. What TLS
/// found comes first.
fn explained(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(behind) = cause.source() {
        cause = behind;
    }
    match tls_fault::behind(error) {
        Some(fault) => format!("TLS failed: {fault} ({cause})"),
        None => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn what_tls_finds_wrong_with_a_node_is_told_in_plain_words() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let node = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a caller");
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.expect("written");
            stream
        });
        let request = Request::get(format!("https://{address}/v1/node")).body(Full::default());
        let asked = NodeTransport::new(BatchPlaces::default())
            .ask(request.expect("a request"), Duration::from_secs(10))
            .await;
        let failure = asked.err().expect("it does not speak TLS");
        assert!(failure.error.starts_with("TLS failed: it does not speak TLS ("), "{}", failure.error);
        drop(node.await);
    }
}
