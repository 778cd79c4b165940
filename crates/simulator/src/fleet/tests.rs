//! Fleets against servers that do as scripted: acknowledge, break off, refuse.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Mutex;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::access::ConnectOptions;
use crate::address::ServerAddress;
use crate::traffic::Flood;

const PATIENCE: Duration = Duration::from_secs(20);

/// An MQTT server that takes QoS 1 publishes.
#[derive(Debug, Default)]
struct Script {
    /// Breaks each of the first connections after so many publishes, of which it acknowledges all
    /// but one.
    break_after: Mutex<Vec<usize>>,
    /// Acknowledges with an id that nobody used.
    wrong_ids: bool,
    /// Payloads by topic, in order of arrival.
    taken: Mutex<HashMap<String, Vec<String>>>,
}

async fn mqtt_server(script: Arc<Script>) -> (Endpoint, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::at(listener.local_addr().expect("it is bound"));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let script = Arc::clone(&script);
            connections.spawn(async move { mqtt_connection(stream, &script).await });
        }
    });
    (endpoint, tasks)
}

async fn mqtt_connection(mut stream: impl AsyncRead + AsyncWrite + Unpin, script: &Script) -> Option<()> {
    let break_after = script.break_after.lock().expect("nobody panicked with it").pop();
    let mut publishes = 0;
    loop {
        let (kind, packet) = mqtt_packet(&mut stream).await?;
        match kind & 0xF0 {
            0x10 => stream.write_all(&[0x20, 2, 0, 0]).await.ok()?,
            0x30 => {
                let topic_end = 2 + usize::from(u16::from_be_bytes([packet[0], packet[1]]));
                let topic = String::from_utf8(packet[2..topic_end].to_vec()).expect("it is UTF-8");
                let payload = String::from_utf8(packet[topic_end + 2..].to_vec()).expect("it is UTF-8");
                script.taken.lock().expect("nobody panicked with it").entry(topic).or_default().push(payload);
                publishes += 1;
                if break_after == Some(publishes) {
                    return None;
                }
                let low = packet[topic_end + 1].wrapping_add(u8::from(script.wrong_ids));
                stream.write_all(&[0x40, 2, packet[topic_end], low]).await.ok()?;
            }
            0xC0 => stream.write_all(&[0xD0, 0]).await.ok()?,
            _ => return None,
        }
    }
}

async fn mqtt_packet(stream: &mut (impl AsyncRead + Unpin)) -> Option<(u8, Vec<u8>)> {
    let kind = stream.read_u8().await.ok()?;
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = stream.read_u8().await.ok()?;
        length |= usize::from(byte & 0x7F) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let mut packet = vec![0; length];
    stream.read_exact(&mut packet).await.ok()?;
    Some((kind, packet))
}

fn plan(way: Way, endpoint: Endpoint, payload: PayloadFormat) -> Plan {
    Plan { way, endpoint, devices: DeviceIds::new("d", 4), payload, keep: ReportRecording::EveryReport }
}

fn floods(lanes: u32, reports_each: u64) -> Vec<Flood> {
    let devices = DeviceIds::new("d", 4);
    (0..lanes).map(|lane| Flood::new(devices.lane(lane, lanes), reports_each, 1)).collect()
}

const MQTT_WAYS: [Way; 2] = [Way::Mqtt { in_flight: 8 }, Way::LeanMqtt { in_flight: 8 }];

#[tokio::test]
async fn every_report_is_acknowledged_once() {
    for way in MQTT_WAYS {
        let script = Arc::new(Script::default());
        let (endpoint, _server) = mqtt_server(Arc::clone(&script)).await;
        let fleet = ReportingFleet::start(plan(way, endpoint, PayloadFormat::Value), floods(2, 100));
        let outcome = fleet.finish(PATIENCE).await;
        let expected = FleetStats { sent: 200, acknowledged: 200, ..FleetStats::default() };
        assert_eq!((outcome.stats, outcome.unanswered), (expected, 0), "{way:?}");
        assert_eq!(outcome.latency.count(), 200);
        assert!((0..4).all(|device| outcome.sent.of(device).iter().all(|report| report.is_acknowledged())));
        let taken = script.taken.lock().expect("nobody panicked with it");
        let values: Vec<_> = outcome.sent.of(3).iter().map(|report| report.value.to_string()).collect();
        assert_eq!(taken["dev/lock/d3/state"], values);
    }
}

#[tokio::test]
async fn after_a_break_the_unacknowledged_is_repeated_in_order() {
    for way in MQTT_WAYS {
        let script = Arc::new(Script { break_after: Mutex::new(vec![20, 13]), ..Script::default() });
        let (endpoint, _server) = mqtt_server(Arc::clone(&script)).await;
        let fleet = ReportingFleet::start(plan(way, endpoint, PayloadFormat::Dated), floods(1, 100));
        let outcome = fleet.finish(PATIENCE).await;
        assert_eq!((outcome.stats.sent, outcome.stats.acknowledged, outcome.stats.broken), (100, 100, 2));
        assert!(outcome.stats.repeated >= 2, "{way:?}: {:?}", outcome.stats);
        let taken = script.taken.lock().expect("nobody panicked with it");
        for device in 0..4 {
            let mut arrived = taken[&format!("dev/lock/d{device}/state")].clone();
            assert!(arrived.len() >= outcome.sent.of(device).len());
            arrived.dedup();
            let mut unique = arrived.clone();
            unique.sort_by_key(|payload| payload.split("\"ts\"").nth(1).map(str::to_owned));
            unique.dedup();
            assert_eq!(unique.len(), outcome.sent.of(device).len(), "{way:?}");
        }
    }
}

#[tokio::test]
async fn an_acknowledgement_out_of_turn_is_noticed() {
    for way in MQTT_WAYS {
        let script = Arc::new(Script { wrong_ids: true, ..Script::default() });
        let (endpoint, _server) = mqtt_server(script).await;
        let fleet = ReportingFleet::start(plan(way, endpoint, PayloadFormat::Value), floods(1, 4));
        let is_noticed = |stats: FleetStats| stats.broken > 0 && stats.sent == 4;
        assert!(fleet.until(PATIENCE, is_noticed).await, "{way:?}");
        let outcome = fleet.finish(Duration::ZERO).await;
        assert_eq!((outcome.stats.acknowledged, outcome.unanswered), (0, 4), "{way:?}");
    }
}

/// Accepts every line but those of device d1.
async fn report_server() -> (Endpoint, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::at(listener.local_addr().expect("it is bound"));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(take_lines));
            connections.spawn(connection);
        }
    });
    (endpoint, tasks)
}

async fn take_lines(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.expect("it arrives whole").to_bytes();
    let lines: Vec<serde_json::Value> =
        body.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let rejected: Vec<_> = (1..)
        .zip(&lines)
        .filter(|(_, report)| report["device_id"] == "d1")
        .map(|(line, _)| serde_json::json!({"line": line, "code": "unknown_device", "detail": ""}))
        .collect();
    let answer = serde_json::json!({
        "accepted": lines.len() - rejected.len(), "rejected_count": rejected.len(), "rejected": rejected,
    });
    Ok(Response::new(Full::from(answer.to_string())))
}

#[tokio::test]
async fn lines_are_settled_one_by_one() {
    let (endpoint, _server) = report_server().await;
    let fleet =
        ReportingFleet::start(plan(Way::Http { lines: 10 }, endpoint, PayloadFormat::Dated), floods(1, 40));
    let outcome = fleet.finish(PATIENCE).await;
    assert_eq!((outcome.stats.acknowledged, outcome.stats.refused, outcome.unanswered), (30, 10, 0));
    assert!(outcome.sent.of(1).iter().all(|report| report.answer == crate::sent::ReportAnswer::Refused));
    assert!(outcome.sent.of(2).iter().all(|report| report.is_acknowledged()));
}

/// As `openssl req -x509` makes one: an authority and a server at once.
const AUTHORITY: IsCa = IsCa::Ca(BasicConstraints::Unconstrained);

/// A certificate for `localhost` in a file of its own, and an acceptor that shows it.
fn encryption(is_ca: IsCa) -> (tempfile::NamedTempFile, TlsAcceptor) {
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    params.is_ca = is_ca;
    let signing_key = KeyPair::generate().expect("a key");
    let cert = params.self_signed(&signing_key).expect("a certificate");
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), cert.pem()).expect("it can be written");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the versions are known")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("the key is the certificate's");
    (file, TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn every_way_is_also_taken_under_tls() {
    let (mqtt, http) = (Way::LeanMqtt { in_flight: 8 }, Way::Http { lines: 10 });
    for (scheme, way, is_ca) in [
        ("mqtts", mqtt, IsCa::NoCa),
        ("https", http, IsCa::NoCa),
        ("mqtts", mqtt, AUTHORITY),
        ("https", http, AUTHORITY),
    ] {
        let (ca, acceptor) = encryption(is_ca);
        let script = Arc::new(Script::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let mut server = JoinSet::new();
        let acceptor = acceptor.clone();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, script) = (acceptor.clone(), Arc::clone(&script));
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    if scheme == "mqtts" {
                        mqtt_connection(stream, &script).await;
                    } else {
                        let serving = http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service_fn(take_lines));
                        drop(serving.await);
                    }
                });
            }
        });
        let address: ServerAddress = format!("{scheme}://localhost:{port}").parse().expect("an address");
        let endpoint =
            address.reach(ConnectOptions::default(), Some(ca.path())).await.expect("it can be reached");
        let fleet = ReportingFleet::start(plan(way, endpoint, PayloadFormat::Dated), floods(2, 100));
        let outcome = fleet.finish(PATIENCE).await;
        let stats = outcome.stats;
        assert_eq!((stats.acknowledged + stats.refused, stats.broken), (200, 0), "{scheme}");
        server.abort_all();
    }
}

#[tokio::test]
async fn a_server_that_cannot_prove_who_it_is_gets_no_report() {
    let ((_, acceptor), (other_ca, _)) = (encryption(IsCa::NoCa), encryption(IsCa::NoCa));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let mut server = JoinSet::new();
    server.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            assert!(acceptor.accept(stream).await.is_err(), "the device hangs up");
        }
    });
    let address: ServerAddress = format!("mqtts://localhost:{port}").parse().expect("an address");
    let endpoint =
        address.reach(ConnectOptions::default(), Some(other_ca.path())).await.expect("it can be reached");
    let fleet = ReportingFleet::start(plan(MQTT_WAYS[1], endpoint, PayloadFormat::Dated), floods(1, 1));
    let progress = fleet.progress();
    assert!(fleet.until(PATIENCE, |stats| stats.broken > 0).await);
    assert_eq!(fleet.finish(Duration::ZERO).await.stats.sent, 0);
    assert!(progress.troubles().keys().any(|trouble| trouble.contains("certificate")), "{progress:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_is_believed_that_shows_the_very_certificate_that_was_given() {
    for is_ca in [IsCa::NoCa, AUTHORITY] {
        let (ca, acceptor) = encryption(is_ca);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let address: ServerAddress = format!("amqps://localhost:{port}").parse().expect("an address");
        let endpoint =
            address.reach(ConnectOptions::default(), Some(ca.path())).await.expect("it can be reached");
        let fleet = ReportingFleet::start(
            plan(Way::Amqp { in_flight: 8 }, endpoint, PayloadFormat::Dated),
            floods(1, 1),
        );
        let greeting = async {
            loop {
                let (stream, _) = listener.accept().await.expect("it listens");
                // The first one only wanted to know whether anybody is there.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut greeting = [0; 8];
                stream.read_exact(&mut greeting).await.expect("it greets");
                break greeting;
            }
        };
        let greeting = tokio::time::timeout(PATIENCE, greeting).await.expect("it believes the broker");
        assert_eq!(greeting, *b"AMQP\0\x00\x09\x01");
        fleet.finish(Duration::ZERO).await;
    }
}
