//! Attempts against real receivers on loopback.

use base::{ClientId, Incarnation, Lineage, SystemClock};
use http_body_util::Full;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Method, StatusCode};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{RootCertStore, ServerConfig};
use standardwebhooks::Webhook;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use super::*;
use crate::guard::AddressGuard;
use crate::metrics::AttemptResult;
use crate::receiver::{self, TestReceiver, Then, raw};
use crate::roots;

mod seen;

const BODY: &[u8] = br#"{"type":"device.changed","data":{"device_id":"0xA"}}"#;
const SECRET: &[u8] = b"0123456789abcdef01234567";
/// Long enough that no test that expects an answer meets it.
const PATIENT: Duration = Duration::from_secs(30);
/// For tests that wait for it to pass.
const IMPATIENT: Duration = Duration::from_millis(150);

struct Fixture {
    sender: Sender,
    metrics: WebhookMetrics,
}

impl Fixture {
    fn new(timeout: Duration, allow_private: bool, roots: RootCertStore) -> Self {
        let metrics = WebhookMetrics::new();
        let connector = Connector::new(AddressGuard { allow_private }, roots::tls(roots));
        let clock = Arc::new(SystemClock::start(Timestamp(0)));
        Self {
            sender: Sender::new(clock, timeout, connector, crate::IN_FLIGHT_MAX, metrics.clone()),
            metrics,
        }
    }

    fn patient() -> Self {
        Self::new(PATIENT, true, RootCertStore::empty())
    }

    async fn attempt(&self, url: &str) -> AttemptEnd {
        self.sender.attempt(&client(url), delivery(), Arc::from(BODY)).await
    }

    async fn answer(&self, url: &str) -> engine::AttemptOutcome {
        self.attempt(url).await.answer
    }
}

fn client(url: &str) -> Arc<Client> {
    Arc::new(Client {
        id: ClientId::new("acme").expect("an id"),
        incarnation: Incarnation(1),
        name: "Acme".to_owned(),
        url: url.to_owned(),
        secret: SECRET.to_vec(),
        previous_secret: None,
        enabled: true,
        notices: false,
        created_at: Timestamp(0),
    })
}

fn delivery() -> EntityId {
    EntityId::derive(Lineage(1), 2, Incarnation(3), Timestamp(4), 5, &[6])
}

fn status(code: u16) -> engine::AttemptOutcome {
    AttemptOutcome::Status { code, retry_after: None }
}

fn answering(status: StatusCode) -> impl Fn() -> receiver::Answer + Send + Sync {
    move || {
        let mut answer = receiver::Answer::new(Full::from("thank you"));
        *answer.status_mut() = status;
        answer
    }
}

#[tokio::test]
async fn a_notification_is_posted_as_json_and_its_signature_verifies() {
    let fixture = Fixture::patient();
    let mut receiver = TestReceiver::start(answering(StatusCode::OK)).await;
    let end = fixture.attempt(&receiver.url()).await;
    assert_eq!(end.answer, status(200));
    assert!(end.took < PATIENT && end.at.0 > 1_700_000_000_000);

    let request = receiver.request().await;
    assert_eq!((request.method(), request.uri().to_string()), (&Method::POST, "/hook?to=me".to_owned()));
    let header = |name: &str| request.headers()[name].to_str().expect("text").to_owned();
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("user-agent"), concat!("fieldpost/", env!("CARGO_PKG_VERSION")));
    assert_eq!(header("host"), format!("127.0.0.1:{}", receiver.port));
    assert_eq!(header("webhook-id"), delivery().to_text("msg_"));
    assert_eq!(request.body(), BODY);
    let webhook = Webhook::from_bytes(SECRET.to_vec()).expect("a secret");
    webhook.verify(request.body(), request.headers()).expect("a good signature");
    assert_eq!(fixture.metrics.attempts(AttemptResult::Delivered), 1);
}

#[tokio::test]
async fn every_attempt_has_the_same_id_and_body() {
    let fixture = Fixture::patient();
    let mut receiver = TestReceiver::start(answering(StatusCode::BAD_GATEWAY)).await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        assert_eq!(fixture.answer(&receiver.url()).await, status(502));
        let request = receiver.request().await;
        seen.push((request.headers()["webhook-id"].clone(), request.into_body()));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(fixture.metrics.attempts(AttemptResult::ServerError), 2);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let fixture = Fixture::patient();
    let mut receiver = TestReceiver::start(|| {
        let mut answer = answering(StatusCode::TEMPORARY_REDIRECT)();
        answer.headers_mut().insert("location", HeaderValue::from_static("/elsewhere"));
        answer
    })
    .await;
    assert_eq!(fixture.answer(&receiver.url()).await, status(307));
    assert_eq!(receiver.request().await.uri().path(), "/hook");
    assert!(receiver.requests.try_recv().is_err());
}

#[tokio::test]
async fn one_connection_carries_many_notifications() {
    let fixture = Fixture::patient();
    let receiver = TestReceiver::start(answering(StatusCode::OK)).await;
    for _ in 0..50 {
        assert_eq!(fixture.answer(&receiver.url()).await, status(200));
    }
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn notifications_side_by_side_need_no_more_connections_than_there_were() {
    let fixture = Fixture::patient();
    let receiver = TestReceiver::start(answering(StatusCode::OK)).await;
    for _ in 0..5 {
        let url = receiver.url();
        let answers = futures_util::future::join_all((0..8).map(|_| fixture.answer(&url))).await;
        assert_eq!(answers, [status(200); 8]);
    }
    assert_eq!(receiver.connections(), 8);
}

#[tokio::test]
async fn a_connection_that_the_receiver_closed_is_not_used_again() {
    let fixture = Fixture::patient();
    let other = TestReceiver::start(answering(StatusCode::OK)).await;
    let (port, mut closed) = raw("HTTP/1.1 204 No Content\r\n\r\n", Then::Close).await;
    let url = format!("http://127.0.0.1:{port}/");
    for _ in 0..5 {
        assert_eq!(fixture.answer(&url).await, status(204));
        closed.recv().await.expect("closed");
        // The network is heard of in between, as it is between two notifications.
        assert_eq!(fixture.answer(&other.url()).await, status(200));
    }
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_in_time_is_given_up() {
    let fixture = Fixture::new(IMPATIENT, true, RootCertStore::empty());
    for silence in ["", "HTTP/1.1 200 OK\r\nconte"] {
        let (port, _closed) = raw(silence, Then::Hang).await;
        let end = fixture.attempt(&format!("http://127.0.0.1:{port}/")).await;
        assert_eq!(end.answer, AttemptOutcome::Error(AttemptError::TimedOut), "{silence}");
        assert!(end.took >= IMPATIENT);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_or_is_not_http_is_no_answer() {
    let fixture = Fixture::patient();
    let long_head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    for answer in ["", "HTTP/1.1 200 OK\r\nconte", "SSH-2.0-OpenSSH_9.2\r\n", &long_head] {
        let (port, _closed) = raw(answer, Then::Close).await;
        let answered = fixture.answer(&format!("http://127.0.0.1:{port}/")).await;
        assert_eq!(answered, AttemptOutcome::Error(AttemptError::ConnectionBroken), "{answer}");
    }
}

#[tokio::test]
async fn an_answer_whose_rest_does_not_come_is_an_answer() {
    let fixture = Fixture::patient();
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello";
    let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    for (answer, then) in
        [(cut, Then::Close), (cut, Then::Hang), (endless, Then::Close), (endless, Then::Hang)]
    {
        let (port, _closed) = raw(answer, then).await;
        assert_eq!(fixture.answer(&format!("http://127.0.0.1:{port}/")).await, status(200), "{answer}");
    }
}

#[tokio::test]
async fn where_nobody_listens_the_connection_fails() {
    let fixture = Fixture::patient();
    // Bound, and never listens: nobody else is given the port.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let port = socket.local_addr().expect("bound").port();
    let answer = fixture.answer(&format!("http://127.0.0.1:{port}/")).await;
    assert_eq!(answer, AttemptOutcome::Error(AttemptError::ConnectFailed));
}

#[tokio::test]
async fn a_name_without_an_address_is_unresolved() {
    let answer = Fixture::patient().answer("http://nowhere.invalid/").await;
    assert_eq!(answer, AttemptOutcome::Error(AttemptError::NameUnresolved));
}

#[tokio::test]
async fn a_private_address_is_refused_however_it_is_written() {
    let fixture = Fixture::new(PATIENT, false, RootCertStore::empty());
    let receiver = TestReceiver::start(answering(StatusCode::OK)).await;
    for host in
        ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "localhost"]
    {
        let answer = fixture.answer(&format!("http://{host}:{}/", receiver.port)).await;
        assert_eq!(answer, AttemptOutcome::Error(AttemptError::AddressRefused), "{host}");
    }
    assert_eq!(receiver.connections(), 0);
    assert_eq!(fixture.metrics.attempts(AttemptResult::NoAnswer(AttemptError::AddressRefused)), 8);
}

#[tokio::test]
async fn the_operator_may_allow_a_name_of_a_private_address() {
    let receiver = TestReceiver::start(answering(StatusCode::OK)).await;
    let answer = Fixture::patient().answer(&format!("http://localhost:{}/", receiver.port)).await;
    assert_eq!(answer, status(200));
}

#[tokio::test]
async fn patience_is_passed_on_where_a_receiver_may_ask_for_it() {
    let fixture = Fixture::patient();
    for (code, expect) in [(429, Some(7)), (503, Some(7)), (410, None), (500, None), (200, None)] {
        let receiver = TestReceiver::start(move || {
            let mut answer = answering(StatusCode::from_u16(code).expect("a status"))();
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("7"));
            answer
        })
        .await;
        let expect = AttemptOutcome::Status { code, retry_after: expect.map(Duration::from_secs) };
        assert_eq!(fixture.answer(&receiver.url()).await, expect);
    }
}

#[tokio::test]
async fn a_long_answer_is_not_read_to_its_end() {
    let fixture = Fixture::patient();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000));
    let chunked = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}");
    let sized = format!("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{chunk}{chunk}");
    for answer in [chunked, sized] {
        let (port, mut closed) = raw(answer, Then::Repeat).await;
        assert_eq!(fixture.answer(&format!("http://127.0.0.1:{port}/")).await, status(200));
        // The sender hung up: the receiver can write no more.
        closed.recv().await.expect("closed");
    }
}

#[tokio::test]
async fn a_receiver_that_wants_its_connection_closed_gets_a_new_one() {
    let fixture = Fixture::patient();
    let receiver = TestReceiver::start(|| {
        let mut answer = answering(StatusCode::OK)();
        answer.headers_mut().insert("connection", HeaderValue::from_static("close"));
        answer
    })
    .await;
    for _ in 0..3 {
        assert_eq!(fixture.answer(&receiver.url()).await, status(200));
    }
    assert_eq!(receiver.connections(), 3);
}

/// A certificate for `localhost`, as a server uses it and as a root.
fn certificate() -> (Arc<ServerConfig>, RootCertStore) {
    certificate_until(2_100)
}

/// The same, which expires at the beginning of a year.
fn certificate_until(year: i32) -> (Arc<ServerConfig>, RootCertStore) {
    let signing_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    params.not_after = date_time_ymd(year, 1, 1);
    let cert = params.self_signed(&signing_key).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())
        .expect("a good key");
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).expect("a root");
    (Arc::new(server), roots)
}

#[tokio::test]
async fn https_reaches_a_receiver_whose_certificate_is_good() {
    let (server, roots) = certificate();
    let fixture = Fixture::new(PATIENT, true, roots);
    let mut receiver = TestReceiver::start_tls(server, answering(StatusCode::OK)).await;
    for _ in 0..3 {
        assert_eq!(fixture.answer(&format!("https://localhost:{}/", receiver.port)).await, status(200));
        assert_eq!(receiver.request().await.body(), BODY);
    }
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn tls_that_cannot_be_trusted_or_agreed_on_fails() {
    let (server, roots) = certificate();
    let trusting = Fixture::new(PATIENT, true, roots);
    let (plain, _closed) = raw("HTTP/1.1 400 Bad Request\r\n\r\n}}", Then::Close).await;
    let tls = TestReceiver::start_tls(server, answering(StatusCode::OK)).await;
    let (expired, of_expired) = certificate_until(2_020);
    let expired = TestReceiver::start_tls(expired, answering(StatusCode::OK)).await;
    for (fixture, url, cause) in [
        (&trusting, format!("https://127.0.0.1:{}/", tls.port), AttemptError::TlsWrongName),
        (&Fixture::patient(), format!("https://localhost:{}/", tls.port), AttemptError::TlsUntrusted),
        (
            &Fixture::new(PATIENT, true, of_expired),
            format!("https://localhost:{}/", expired.port),
            AttemptError::TlsExpired,
        ),
        (&trusting, format!("https://localhost:{}/", talker().await), AttemptError::TlsNotSpoken),
    ] {
        assert_eq!(fixture.answer(&url).await, AttemptOutcome::Error(cause), "{url}");
    }
    let impatient = Fixture::new(IMPATIENT, true, RootCertStore::empty());
    let answer = impatient.answer(&format!("https://localhost:{plain}/")).await;
    assert_eq!(
        answer,
        AttemptOutcome::Error(AttemptError::TimedOut),
        "a server that waits for a plain request says nothing"
    );
}

/// The port of a server that speaks first, and no TLS.
async fn talker() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("somebody connects");
        stream.write_all(b"220 mail.example ESMTP\r\n").await.expect("written");
        // Until the other side has hung up, so that it reads what was said.
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
    });
    port
}

#[tokio::test]
async fn kept_connections_are_closed_in_time() {
    let fixture = Fixture::patient();
    let receiver = TestReceiver::start(answering(StatusCode::OK)).await;
    assert_eq!(fixture.answer(&receiver.url()).await, status(200));
    assert_eq!(fixture.sender.idle.len(), 1);
    fixture.sender.idle.sweep(Instant::now() + PATIENT);
    assert_eq!(fixture.sender.idle.len(), 0);
}

#[tokio::test]
async fn a_connection_is_not_kept_longer_than_the_receiver_keeps_it() {
    for (header, connections) in
        [("timeout=1, max=100", 2), ("max=100, timeout=5", 1), ("max=100", 1), ("timeout=soon", 1)]
    {
        let fixture = Fixture::patient();
        let receiver = TestReceiver::start(move || {
            let mut answer = answering(StatusCode::OK)();
            answer.headers_mut().insert("keep-alive", HeaderValue::from_static(header));
            answer
        })
        .await;
        for _ in 0..2 {
            assert_eq!(fixture.answer(&receiver.url()).await, status(200));
        }
        assert_eq!(receiver.connections(), connections, "{header}");
    }
}
