//! Payloads that are too large, and those that never end.

use futures_util::future::join_all;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::overload::raw::{Answer, Http, Mqtt, header, request};
use crate::overload::rig::{PATIENCE, Rig};

const MIB: usize = 1_024 * 1_024;
const JSON: &str = "Content-Type: application/json\r\n";
const NDJSON: &str = "Content-Type: application/x-ndjson\r\n";

async fn ask(rig: &Rig, request: &[u8]) -> Answer {
    let mut caller = Http::open(rig.http).await.expect("connected");
    timeout(PATIENCE, caller.ask(request)).await.expect("in time").expect("answered")
}

#[tokio::test]
async fn bodies_that_are_too_large_are_refused_in_bounded_memory() {
    let rig = Rig::start(&[]).await;
    // Large enough to be read, and nothing that could be accepted.
    let large = [&br#"{"device_id":"0xA","data":""#[..], &vec![b'x'; 15 * MIB], b"\"}"].concat();
    let requests: Vec<_> =
        ["/v1/reports", "/v1/devices"].map(|path| request("POST", path, JSON, &large)).into();
    let answers = join_all((0..32).map(|n| ask(&rig, &requests[n % 2]))).await;
    for answer in answers {
        assert!([404, 422].contains(&answer.status), "{answer:?}");
    }
    let over = request("POST", "/v1/devices", JSON, &vec![b' '; 17 * MIB]);
    assert_eq!(ask(&rig, &over).await.status, 413);
    rig.has_grown_less_than(448);
    rig.is_well("0xB").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_body_without_an_end_is_answered_when_it_is_too_large() {
    let rig = Rig::start(&[]).await;
    let mut caller = Http::open(rig.http).await.expect("connected");
    let head =
        format!("POST /v1/reports HTTP/1.1\r\nHost: localhost\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n");
    caller.send(head.as_bytes()).await.expect("it reads");
    let chunk = [&b"100000\r\n"[..], &[b' '; MIB], b"\r\n"].concat();
    for _ in 0..17 {
        caller.send(&chunk).await.expect("it reads");
    }
    let answer = timeout(PATIENCE, caller.answer()).await.expect("in time").expect("answered");
    assert_eq!(answer.status, 413);
    rig.has_grown_less_than(128);
    rig.is_well("0xB").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_line_that_is_too_long_is_rejected_alone() {
    let rig = Rig::start(&[]).await;
    let line = |value: u8| format!("{{\"device_id\":\"0xA\",\"data\":{value}}}\n");
    let long = format!("{{\"device_id\":\"0xA\",\"data\":\"{}\"}}\n", "x".repeat(64 * MIB));
    let body = [line(1), long, line(0)].concat();
    let answer = ask(&rig, &request("POST", "/v1/reports", NDJSON, body.as_bytes())).await;
    let tally: Value = serde_json::from_str(&answer.body).expect("a tally");
    assert_eq!((&tally["accepted"], &tally["rejected_count"]), (&2.into(), &1.into()));
    assert_eq!(
        (&tally["rejected"][0]["line"], &tally["rejected"][0]["code"]),
        (&2.into(), &"line_too_long".into())
    );
    assert_eq!(rig.readings("0xA").await.len(), 2);
    rig.has_grown_less_than(48);
    rig.stop().await;
}

#[tokio::test]
async fn packets_that_are_too_large_or_never_end_take_no_more_than_their_share() {
    let rig = Rig::start(&[]).await;
    let mut device = Mqtt::open(rig.mqtt).await.expect("connected");
    assert_eq!(device.connect("too-large").await.expect("answered"), 0);
    // The header is enough: nothing of such a packet is awaited.
    device.0.write_all(&header(0x32, 256 * 1_024)).await.expect("sent");
    device.ended().await;
    let mut begun = Vec::new();
    for number in 0..500 {
        let mut one = Mqtt::open(rig.mqtt).await.expect("connected");
        assert_eq!(one.connect(&format!("begun-{number}")).await.expect("answered"), 0);
        let beginning = [&header(0x32, 255 * 1_024)[..], &vec![b'x'; 250 * 1_024]].concat();
        // Where there is no more room the connection is ended in the middle.
        let _ended = one.0.write_all(&beginning).await;
        begun.push(one);
    }
    let mut whole = Mqtt::open(rig.mqtt).await.expect("connected");
    assert_eq!(whole.connect("whole").await.expect("answered"), 0);
    whole.report("0xA", 1).await.expect("small packets always have room");
    assert!(rig.metric("fieldpost_mqtt_disconnects_total").await > 100, "some are ended");
    rig.has_grown_less_than(110);
    drop(begun);
    rig.is_well("0xB").await;
    rig.stop().await;
}
