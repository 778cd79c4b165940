//! Devices and senders against a server that is only as much of one as they need.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming as Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::*;
use crate::random::Probability;

const PATIENCE: Duration = Duration::from_secs(30);
/// What the server tells each device of the first connection.
const IDS: [&str; 4] = ["cmd_a", "cmd_b", "cmd_c", "cmd_d"];

/// Lets a connection in, gives device d0 its commands, and acknowledges every answer; gives back
/// the answers.
async fn mqtt_connection(mut stream: TcpStream, ids: &[&str]) -> Vec<String> {
    let mut input = vec![0; 4_096];
    assert!(stream.read(&mut input).await.expect("it is read") > 0, "a CONNECT");
    stream.write_all(&[0x20, 2, 0, 0]).await.expect("it is written");
    let read = stream.read(&mut input).await.expect("it is read");
    let topics = (read - 4) / (3 + "dev/face/d0".len());
    let mut suback = vec![0x90, 2 + topics as u8, 0, 1];
    suback.resize(4 + topics, 1);
    stream.write_all(&suback).await.expect("it is written");
    for (packet_id, id) in (1..).zip(ids) {
        let mut out = Vec::new();
        let payload = format!(r#"{{"message_id":"{id}","payload":{{"open":1}}}}"#);
        packet::write_publish(b"dev/face/d0", packet_id, payload.as_bytes(), &mut out);
        stream.write_all(&out).await.expect("it is written");
    }
    let (mut answers, mut held) = (Vec::new(), Vec::new());
    while let Ok(read @ 1..) = stream.read(&mut input).await {
        held.extend_from_slice(&input[..read]);
        let mut rest = held.as_slice();
        while let Ok(Some(packet)) = packet::take(&mut rest) {
            if let packet::ServerPacket::Publish { topic, packet_id: Some(id), payload } = packet {
                assert_eq!(topic, b"dev/face/d0/ack");
                answers.push(String::from_utf8(payload.to_vec()).expect("it is UTF-8"));
                let mut out = Vec::new();
                packet::write_puback(id, &mut out);
                stream.write_all(&out).await.expect("it is written");
            }
        }
        held = rest.to_vec();
    }
    answers
}

async fn devices(
    ids: &'static [&'static str],
    profile: ResponseProfile,
) -> (Arc<CommandLedger>, Vec<String>, u64) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::at(listener.local_addr().expect("it is bound"));
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("somebody connects");
        mqtt_connection(stream, ids).await
    });
    let ledger = Arc::new(CommandLedger::default());
    let fleet = DeviceIds::new("d", 3).of_kind("face");
    let connected = CommandedDevices::connect(&endpoint, &fleet, 1, profile, &ledger);
    assert!(connected.subscribed(3, PATIENCE).await);
    let subscribed = ledger.counts().subscribed;
    let all = ids.len() as u64;
    let is_settled = |counts: CommandCounts| {
        let is_answered = !profile.answer_all() || counts.settled == counts.received;
        counts.received + counts.repeated == all && is_answered
    };
    assert!(ledger.until(PATIENCE, is_settled).await, "{:?}", ledger.counts());
    connected.disconnect().await;
    (ledger, server.await.expect("it does not panic"), subscribed)
}

#[tokio::test]
async fn devices_do_what_they_are_told_and_say_so() {
    let (ledger, answers, subscribed) = devices(&IDS, ResponseProfile::default()).await;
    assert_eq!(subscribed, 3);
    let expect = IDS.map(|id| format!(r#"{{"message_id":"{id}","ok":true}}"#));
    assert_eq!(answers, expect);
    let counts = ledger.counts();
    assert_eq!((counts.answered, counts.settled, counts.broken, counts.subscribed), (4, 4, 0, 0));
}

#[tokio::test]
async fn devices_refuse_repeat_themselves_or_say_nothing() {
    let refusing = ResponseProfile { refuse: Probability::ALWAYS, ..ResponseProfile::default() };
    let (ledger, answers, _) = devices(&IDS, refusing).await;
    assert!(answers.iter().all(|answer| answer.ends_with(r#""ok":false}"#)), "{answers:?}");
    assert_eq!((ledger.counts().refused, ledger.counts().settled), (4, 4));
    let twice = ResponseProfile { twice: Probability::ALWAYS, ..ResponseProfile::default() };
    let (ledger, answers, _) = devices(&IDS[..1], twice).await;
    assert_eq!((answers.len(), ledger.counts().answered, ledger.counts().settled), (2, 2, 1));
    let silent = ResponseProfile { silent: Probability::ALWAYS, ..ResponseProfile::default() };
    let (ledger, answers, _) = devices(&["cmd_a", "cmd_a"], silent).await;
    assert_eq!((answers.len(), ledger.counts().repeated), (0, 1));
}

#[tokio::test]
async fn a_device_that_leaves_comes_back_after_its_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::at(listener.local_addr().expect("it is bound"));
    let server = tokio::spawn(async move {
        let (first, _) = listener.accept().await.expect("somebody connects");
        let answers = mqtt_connection(first, &IDS[..1]).await;
        let (second, _) = listener.accept().await.expect("somebody connects");
        (answers, mqtt_connection(second, &[]).await)
    });
    let profile = ResponseProfile { leave: Probability::ALWAYS, ..ResponseProfile::default() };
    let ledger = Arc::new(CommandLedger::default());
    let fleet = DeviceIds::new("d", 3).of_kind("face");
    let connected = CommandedDevices::connect(&endpoint, &fleet, 1, profile, &ledger);
    let is_back = |counts: CommandCounts| counts.left == 1 && counts.subscribed == 3;
    assert!(ledger.until(PATIENCE, is_back).await, "{:?}", ledger.counts());
    connected.disconnect().await;
    let (answers, _) = server.await.expect("it does not panic");
    assert_eq!((answers.len(), ledger.counts().received, ledger.counts().broken), (0, 1, 0));
}

/// Accepts commands, but none of device d1.
async fn take_command(request: Request<Body>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.expect("it arrives whole").to_bytes();
    assert_eq!(body, r#"{"payload":{"n":1.50},"origin":"run"}"#);
    let (status, answer) = match path.as_str() {
        "/v1/devices/d1/commands" => (404, r#"{"code":"unknown_device","detail":"no d1"}"#.to_owned()),
        other => (201, format!(r#"{{"id":"cmd{other}","status":"scheduled"}}"#)),
    };
    Ok(Response::builder().status(status).body(Full::from(answer)).expect("a response"))
}

#[tokio::test]
async fn commands_are_sent_in_turn_and_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::at(listener.local_addr().expect("it is bound"));
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(take_command)),
            );
        }
    });
    let plan = LoadPlan {
        endpoint,
        devices: DeviceIds::new("d", 4),
        per_second: 1_000.0,
        commands: 40,
        connections: 3,
        origin: "run".to_owned(),
        payload: serde_json::from_str(r#"{"n":1.50}"#).expect("it is JSON"),
    };
    let ledger = Arc::new(CommandLedger::default());
    let mut load = CommandLoad::start(plan, &ledger);
    tokio::time::timeout(PATIENCE, load.sent()).await.expect("they are sent in time");
    let counts = ledger.counts();
    assert_eq!((counts.sent, counts.unsent, counts.broken), (30, 10, 0));
    assert!(ledger.troubles().keys().all(|why| why.contains("unknown_device")), "{:?}", ledger.troubles());
}
