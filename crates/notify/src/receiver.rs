//! Receivers on loopback: one that behaves and counts, and one that answers with whatever bytes a
//! test wants.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

use crate::connection::ByteStream;

/// What a receiver answers.
pub(crate) type Answer = Response<Full<Bytes>>;

/// A receiver that keeps what it gets, and answers it.
pub(crate) struct TestReceiver {
    pub(crate) port: u16,
    pub(crate) requests: mpsc::UnboundedReceiver<Request<Bytes>>,
    /// Each answer takes a permit.
    pub(crate) gate: Arc<Semaphore>,
    connections: Arc<AtomicUsize>,
}

/// What the connections of a receiver share.
struct ReceiverContext<A> {
    tls: Option<TlsAcceptor>,
    keep: mpsc::UnboundedSender<Request<Bytes>>,
    gate: Arc<Semaphore>,
    answer: A,
}

impl TestReceiver {
    /// A receiver that answers at once.
    pub(crate) async fn start(answer: impl Fn() -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(None, Semaphore::MAX_PERMITS, answer).await
    }

    /// A receiver that answers nothing before its gate is opened.
    pub(crate) async fn start_closed(answer: impl Fn() -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(None, 0, answer).await
    }

    /// A receiver behind TLS.
    pub(crate) async fn start_tls(
        tls: Arc<ServerConfig>,
        answer: impl Fn() -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(Some(TlsAcceptor::from(tls)), Semaphore::MAX_PERMITS, answer).await
    }

    async fn start_with(
        tls: Option<TlsAcceptor>,
        permits: usize,
        answer: impl Fn() -> Answer + Send + Sync + 'static,
    ) -> Self {
        let (listener, port) = listen().await;
        let (keep, requests) = mpsc::unbounded_channel();
        let (gate, connections) = (Arc::new(Semaphore::new(permits)), Arc::new(AtomicUsize::new(0)));
        let shared = Arc::new(ReceiverContext { tls, keep, gate: Arc::clone(&gate), answer });
        let counter = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(tcp, Arc::clone(&shared)));
            }
        });
        Self { port, requests, gate, connections }
    }

    /// The next request.
    pub(crate) async fn request(&mut self) -> Request<Bytes> {
        self.requests.recv().await.expect("a receiver runs as long as its test")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?to=me", self.port)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve<A: Fn() -> Answer>(tcp: TcpStream, shared: Arc<ReceiverContext<A>>) {
    let stream: Box<dyn ByteStream> = match &shared.tls {
        None => Box::new(tcp),
        Some(tls) => match tls.accept(tcp).await {
            Ok(stream) => Box::new(stream),
            Err(_) => return,
        },
    };
    let service = service_fn(|request: Request<Incoming>| {
        let shared = Arc::clone(&shared);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("a whole request").to_bytes();
            let _ = shared.keep.send(Request::from_parts(head, body));
            shared.gate.acquire().await.expect("never closed").forget();
            Ok::<_, Infallible>((shared.answer)())
        }
    });
    // However the connection ends is the sender's choice.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// What a raw receiver does once it has written its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Close,
    Hang,
    /// Writes the same again, for as long as anybody reads.
    Repeat,
}

/// A receiver that reads one request of each connection, writes `answer`, and goes on as told.
/// Tells of each connection it has closed.
pub(crate) async fn raw(answer: impl Into<Vec<u8>>, then: Then) -> (u16, mpsc::UnboundedReceiver<()>) {
    let (listener, port) = listen().await;
    let (tell, closed) = mpsc::unbounded_channel();
    let answer: Arc<[u8]> = Arc::from(answer.into());
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let (answer, tell) = (Arc::clone(&answer), tell.clone());
            tokio::spawn(async move {
                answer_raw(tcp, &answer, then).await;
                let _ = tell.send(());
            });
        }
    });
    (port, closed)
}

async fn answer_raw(mut tcp: TcpStream, answer: &[u8], then: Then) {
    let mut request = vec![0; 64 * 1_024];
    let mut bytes = 0;
    // The tests' bodies end in the only "}}" of a request.
    while !request[..bytes].ends_with(b"}}") {
        match tcp.read(&mut request[bytes..]).await {
            Ok(read) if read > 0 => bytes += read,
            _ => return,
        }
    }
    while tcp.write_all(answer).await.is_ok() && then == Then::Repeat {}
    if then == Then::Hang {
        std::future::pending::<()>().await;
    }
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}
