//! `POST /v1/reports` over a real connection: one object, and NDJSON in any pieces.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use net::http::{HttpListener, WebAccess};
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::timeout;
use tower_service::Service;

use crate::PATIENCE;
use crate::rig::{LOCKS, Rig};

const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";

/// Serves the route on a free port.
pub(crate) async fn serve(rig: &Rig) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let router = rig.http.clone();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A request whose body is sent piece by piece.
struct Post(TcpStream);

impl Post {
    async fn begin(address: SocketAddr, content_type: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("a server");
        let head = format!(
            "POST /v1/reports HTTP/1.1\r\nhost: x\r\ncontent-type: {content_type}\r\n\
             transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("open");
        Self(stream)
    }

    async fn send(&mut self, piece: &[u8]) {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        self.0.write_all(&chunk).await.expect("open");
    }

    /// Ends the body: status and answer.
    async fn end(mut self) -> (u16, serde_json::Value) {
        self.0.write_all(b"0\r\n\r\n").await.expect("open");
        let mut answer = String::new();
        timeout(PATIENCE, self.0.read_to_string(&mut answer)).await.expect("in time").expect("UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        if status != 200 {
            assert!(head.contains("application/problem+json"), "{head}");
        }
        (status, serde_json::from_str(body).expect("JSON"))
    }
}

pub(crate) async fn post(address: SocketAddr, content_type: &str, body: &str) -> (u16, serde_json::Value) {
    let mut post = Post::begin(address, content_type).await;
    if !body.is_empty() {
        post.send(body.as_bytes()).await;
    }
    post.end().await
}

#[tokio::test]
async fn a_sender_that_is_a_node_is_told_the_name_of_this_one() {
    let rig = Rig::start().await;
    let http = serve(&rig).await;
    for (header, is_told) in [("", false), ("fieldpost-node: edge\r\n", true)] {
        let mut stream = TcpStream::connect(http).await.expect("a server");
        let head = format!("POST /v1/reports HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}");
        let request = format!("{head}content-length: 2\r\n\r\n{{}}");
        stream.write_all(request.as_bytes()).await.expect("open");
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("in time").expect("UTF-8");
        assert_eq!(answer.contains("\r\nfieldpost-node: "), is_told, "{answer}");
    }
}

#[tokio::test]
async fn one_object_is_answered_for_itself() {
    let rig = Rig::start().await;
    let http = serve(&rig).await;
    let accepted = serde_json::json!({"accepted": 1, "rejected_count": 0, "rejected": []});
    for content_type in [JSON, "", "application/json; charset=utf-8", "text/plain", "application/ndjson"] {
        let answer = post(http, content_type, " {\n\"device_id\": \"0xA\",\n\"data\": 1}\n").await;
        assert_eq!(answer, (200, accepted.clone()), "{content_type}");
    }
    assert_eq!(rig.readings("0xA").len(), 5);
    for (body, status, code) in [
        (r#"{"device_id":"0xF","data":1}"#, 404, "unknown_device"),
        (r#"{"device_id":"0xA","data":2}"#, 422, "value_not_allowed"),
        (r#"{"device_id":"0xA"}"#, 422, "missing_field"),
        (r#"{"data":1}"#, 422, "missing_field"),
        (r#"{"device_id":"0xA","data":1,"ts":"2100-01-01T00:00:00Z"}"#, 422, "ts_ahead"),
        (r#"{"device_id":"0xA","data":{"a":1,"a":1}}"#, 400, "unreadable"),
        ("{\"device_id\":\"0xA\",\"data\":1}\n{\"device_id\":\"0xA\",\"data\":0}", 400, "unreadable"),
        ("", 400, "unreadable"),
        ("[]", 422, "not_an_object"),
    ] {
        let (got, answer) = post(http, JSON, body).await;
        assert_eq!((got, &answer["code"]), (status, &code.into()), "{body}");
        assert_eq!(answer["status"], status);
        for member in ["type", "title", "detail"] {
            assert!(answer[member].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
        }
    }
    assert_eq!(rig.readings("0xA").len(), 5);
    assert_eq!(rig.figure("fieldpost_http_reports_total{result=\"missing_field\"}"), 2);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_413() {
    let rig = Rig::start().await;
    let http = serve(&rig).await;
    let padding = " ".repeat(16 * 1_024 * 1_024);
    let mut post = Post::begin(http, JSON).await;
    post.send(&padding.as_bytes()[..padding.len() - 28]).await;
    post.send(br#"{"device_id":"0xA","data":1}"#).await;
    assert_eq!(post.end().await.0, 200, "16 MiB to the byte");
    let mut stream = TcpStream::connect(http).await.expect("a server");
    let head =
        format!("POST /v1/reports HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", padding.len() + 1);
    stream.write_all(head.as_bytes()).await.expect("open");
    let mut answer = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut answer)).await.expect("in time").expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 413", "without waiting for the body");
}

/// The same as [`serve`], by the listener of the server, and how many connections there are.
async fn serve_as_the_server(rig: &Rig) -> (SocketAddr, Gauge, watch::Sender<bool>) {
    let bound = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = bound.local_addr().expect("bound");
    let web = WebAccess::with_tokens(Vec::new());
    let listener = HttpListener::new(bound, rig.http.clone(), Router::new(), 9, web);
    let (connections, stop) = (listener.connections(), watch::Sender::new(false));
    tokio::spawn(listener.run(stop.subscribe()));
    (address, connections, stop)
}

#[tokio::test]
async fn what_was_read_has_its_memory_when_the_caller_hangs_up() {
    let report = r#"{"device_id":"0xA","data":1}"#;
    let large = format!("{report}{}", " ".repeat(1_024 * 1_024));
    for (content_type, body, ends) in [(JSON, large, true), (NDJSON, format!("{report}\n"), false)] {
        let rig = Rig::start().await;
        let (http, connections, _stop) = serve_as_the_server(&rig).await;
        rig.store.hold();
        let mut post = Post::begin(http, content_type).await;
        post.send(body.as_bytes()).await;
        if ends {
            post.0.write_all(b"0\r\n\r\n").await.expect("open");
        }
        rig.store.holds(1).await;
        let held = rig.memory.held_bytes();
        assert!(held > 0, "{content_type}");
        drop(post);
        let gone = async {
            // One whose body breaks off has its connection until its lines are settled.
            while ends && connections.get() > 0 {
                yield_now().await;
            }
        };
        timeout(PATIENCE, gone).await.expect("the connection is closed");
        for _ in 0..10_000 {
            yield_now().await;
        }
        assert_eq!(rig.memory.held_bytes(), held, "{content_type}: it waits for the disk");
        rig.store.release();
        let given_back = async {
            while rig.memory.held_bytes() > 0 {
                yield_now().await;
            }
        };
        timeout(PATIENCE, given_back).await.expect("it is durable");
        assert_eq!(rig.readings("0xA").len(), 1, "{content_type}");
    }
}

#[tokio::test]
async fn a_large_report_has_its_memory_until_it_is_durable() {
    let rig = Rig::start().await;
    let http = serve(&rig).await;
    rig.store.hold();
    let large = format!("{}{}", r#"{"device_id":"0xA","data":1}"#, " ".repeat(1_024 * 1_024));
    let bytes = large.len();
    let answered = tokio::spawn(async move { post(http, JSON, &large).await });
    rig.store.holds(1).await;
    let held = rig.memory.held_bytes();
    assert!((bytes..3 * bytes).contains(&held), "{held} of {bytes}");
    rig.store.release();
    assert_eq!(answered.await.expect("no panic").0, 200);
    assert_eq!(rig.memory.held_bytes(), 0);
}

#[tokio::test]
async fn an_empty_body_is_nothing() {
    let rig = Rig::start().await;
    let http = serve(&rig).await;
    for body in ["", "\n\n \n"] {
        let (status, answer) = post(http, NDJSON, body).await;
        assert_eq!((status, &answer["accepted"], &answer["rejected_count"]), (200, &0.into(), &0.into()));
    }
}

#[tokio::test]
async fn the_answer_waits_until_all_lines_are_durable() {
    let rig = Rig::start().await;
    let http = serve(&rig).await;
    rig.store.hold();
    let mut slow = Post::begin(http, NDJSON).await;
    slow.send(b"{\"device_id\":\"0xA\",\"data\":1}\n{\"device_id\":\"0xA\",").await;
    // Whole lines are handed in although the body goes on.
    rig.store.holds(1).await;
    assert_eq!(rig.figure("fieldpost_http_report_slices_in_flight"), 1);
    slow.send(b"\"data\":0}").await;
    let answered = tokio::spawn(slow.end());
    rig.store.holds(1).await;
    assert!(!answered.is_finished());
    rig.store.release();
    let (status, answer) = answered.await.expect("no panic");
    assert_eq!((status, &answer["accepted"]), (200, &2.into()));
    assert_eq!(rig.readings("0xA"), ["1", "0"]);
}

#[tokio::test]
async fn a_long_body_is_read_no_faster_than_it_becomes_durable() {
    let rig = Rig::start().await;
    let http = serve(&rig).await;
    rig.store.hold();
    let sending = tokio::spawn(async move {
        let mut post = Post::begin(http, NDJSON).await;
        for _ in 0..40 {
            let lines: String = (0..1_000)
                .map(|at| format!("{{\"device_id\":\"{}\",\"data\":{}}}\n", LOCKS[at % 3], at / 3 % 2))
                .collect();
            post.send(lines.as_bytes()).await;
        }
        post.end().await
    });
    rig.store.holds(2).await;
    assert!(rig.figure("fieldpost_http_report_slices_in_flight") <= 8);
    rig.store.release();
    let (status, answer) = sending.await.expect("no panic");
    assert_eq!((status, &answer["accepted"]), (200, &40_000.into()));
    assert_eq!(rig.figure("fieldpost_http_reports_total{result=\"accepted\"}"), 40_000);
    assert_eq!(rig.figure("fieldpost_http_report_slices_in_flight"), 0);
}

#[tokio::test]
async fn a_broken_connection_keeps_what_came_before() {
    let rig = Rig::start().await;
    let http = serve(&rig).await;
    rig.store.hold();
    let mut cut = Post::begin(http, NDJSON).await;
    cut.send(b"{\"device_id\":\"0xA\",\"data\":1}\n").await;
    rig.store.holds(1).await;
    drop(cut);
    rig.store.release();
    let (_, answer) = post(http, NDJSON, "{\"device_id\":\"0xA\",\"data\":0}\n").await;
    assert_eq!(answer["accepted"], 1);
    assert_eq!(rig.readings("0xA"), ["1", "0"]);
}

#[tokio::test]
async fn a_failed_store_is_503() {
    let rig = Rig::start().await;
    let http = serve(&rig).await;
    rig.store.fail();
    for content_type in [JSON, NDJSON] {
        let (status, answer) = post(http, content_type, r#"{"device_id":"0xA","data":1}"#).await;
        assert_eq!((status, &answer["code"]), (503, &"unavailable".into()));
    }
    assert_eq!(rig.figure("fieldpost_http_report_bodies_total{result=\"not_accepting\"}"), 2);
}

#[tokio::test]
async fn every_route_says_that_it_takes_post() {
    let rig = Rig::start().await;
    for path in ["/v1/reports", "/v1/devices/0xA/ack", "/v1/quarantine/none/replay"] {
        let request = Request::builder().method("OPTIONS").uri(path).body(Body::empty());
        let answer = rig.http.clone().call(request.expect("a request")).await.expect("a router never fails");
        let allow = answer.headers().get_all("allow").iter().map(|value| value.to_str().expect("ASCII"));
        let allow: Vec<_> = allow.collect();
        assert_eq!((answer.status().as_u16(), allow), (204, vec!["POST"]), "{path}");
        let body = answer.into_body().collect().await.expect("a whole body").to_bytes();
        assert!(body.is_empty(), "{path}: {body:?}");
    }
}
