//! Callers that ask for large answers and read nothing: what their answers take is counted and
//! limited.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::any;
use net::http::{HttpListener, LargeAnswers, WebAccess};
use net::listen::TlsSource;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::PATIENCE;
use crate::mqtt_tls::{agree, certificate};

/// More than the sockets of a machine take for a connection. All callers are given the same memory
/// here.
const ANSWER_BYTES: usize = 64 * 1_024 * 1_024;
/// How long reading such an answer may take on a machine that is busy with other tests.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// So many of these may be on their way, and so many of one address.
const ANSWERS: usize = 4;
const SHARE: usize = 2;

/// Serves such answers on a listener that is arranged like this: where, and what is measured. It
/// serves as long as the sender is there.
async fn serve(
    arrange: impl FnOnce(HttpListener<Router>) -> HttpListener<Router>,
) -> (SocketAddr, Registry, watch::Sender<bool>) {
    let bound = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = bound.local_addr().expect("bound");
    let large = Bytes::from(vec![b'x'; ANSWER_BYTES]);
    let app = Router::new().route("/", any(async move || Body::from(large.clone())));
    let (answers, mut registry, stop) =
        (LargeAnswers::default(), Registry::default(), watch::Sender::new(false));
    answers.register_metrics(&mut registry);
    let listener = HttpListener::new(bound, app, Router::new(), 99, WebAccess::open(&[]));
    tokio::spawn(arrange(listener.with_answers(answers)).run(stop.subscribe()));
    (address, registry, stop)
}

async fn open(address: SocketAddr, caller: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, caller], 0))).expect("an address of this machine");
    socket.connect(address).await.expect("it listens")
}

async fn ask(stream: &mut (impl AsyncWrite + Unpin), method: &str) {
    let head = format!("{method} / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
}

async fn asks(address: SocketAddr, caller: u8, method: &str) -> TcpStream {
    let mut stream = open(address, caller).await;
    ask(&mut stream, method).await;
    stream
}

async fn status(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut line = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut line)).await.expect("in time").expect("an answer");
    String::from_utf8_lossy(&line).into_owned()
}

async fn until_held(registry: &Registry, bytes: usize) {
    let held = async {
        loop {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).expect("text");
            if text.contains(&format!("fieldpost_http_answer_held_bytes {bytes}\n")) {
                break;
            }
            yield_now().await;
        }
    };
    timeout(PATIENCE, held).await.unwrap_or_else(|_| panic!("{bytes} bytes are never held"));
}

#[tokio::test]
async fn who_reads_nothing_holds_memory_that_is_counted_and_limited() {
    let (address, registry, _stop) = serve(|listener| listener).await;
    let mut slow = Vec::new();
    for readers in 1..=ANSWERS {
        let mut stream = asks(address, if readers > SHARE { 2 } else { 1 }, "GET").await;
        assert_eq!(status(&mut stream).await, "HTTP/1.1 200");
        slow.push(stream);
        until_held(&registry, readers * ANSWER_BYTES).await;
        if readers == SHARE {
            assert_eq!(status(&mut asks(address, 1, "GET").await).await, "HTTP/1.1 503");
        }
    }
    assert_eq!(status(&mut asks(address, 3, "GET").await).await, "HTTP/1.1 503");
    let mut carried_out = asks(address, 3, "POST").await;
    assert_eq!(status(&mut carried_out).await, "HTTP/1.1 200");
    drop(carried_out);
    until_held(&registry, ANSWERS * ANSWER_BYTES).await;
    let mut read = Vec::new();
    let mut last = slow.pop().expect("there are some");
    timeout(ANSWER_PATIENCE, last.read_to_end(&mut read)).await.expect("in time").expect("a whole answer");
    assert!(read.len() > ANSWER_BYTES - 12);
    until_held(&registry, (ANSWERS - 1) * ANSWER_BYTES).await;
    drop(slow);
    until_held(&registry, 0).await;
}

#[tokio::test]
async fn over_tls_too_an_answer_is_counted_until_it_is_sent() {
    let (trusted, config) = certificate();
    let source = TlsSource::new(arc_swap::ArcSwap::new(config));
    let (address, registry, _stop) = serve(|listener| listener.with_tls(source)).await;
    let mut slow = Vec::new();
    for readers in 1..=SHARE {
        let mut stream = agree(open(address, 1).await, &trusted).await.expect("trusted");
        ask(&mut stream, "GET").await;
        assert_eq!(status(&mut stream).await, "HTTP/1.1 200");
        slow.push(stream);
        until_held(&registry, readers * ANSWER_BYTES).await;
    }
    // What is left of it is as short as its head.
    let mut read = vec![0; ANSWER_BYTES];
    let whole = timeout(ANSWER_PATIENCE, slow[0].read_exact(&mut read)).await;
    whole.expect("in time").expect("the answer");
    until_held(&registry, ANSWER_BYTES).await;
    slow.pop();
    until_held(&registry, 0).await;
}
