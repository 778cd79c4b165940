//! Reports in batches: accepted durably, refused one by one, in the order in which they come.

use grpc::proto::{Report, SendRequest};
use serde_json::{Value, json};
use tonic::Code;

use crate::grpc::rig::{PATIENCE, Rig, refused};

fn report(device: &str, data: &str) -> Report {
    Report { device_id: device.to_owned(), data: data.as_bytes().to_vec().into(), ..Report::default() }
}

async fn register(rig: &Rig, id: &str) {
    let _device: Value = rig.api.post("/v1/devices", &json!({"id": id})).await.expect("registered");
}

#[tokio::test]
async fn batches_are_answered_in_turn_and_apply_in_order() {
    let mut rig = Rig::start().await;
    register(&rig, "0xA").await;
    let batches: Vec<_> = (0..40)
        .map(|batch| SendRequest {
            reports: (0..=batch)
                .map(|n| report("0xA", if (n + batch) % 2 == 0 { "0" } else { "1" }))
                .collect(),
        })
        .collect();
    let last = batches.last().and_then(|batch| batch.reports.last()).expect("a report").data.clone();
    let sent = rig.reports().await.send(futures_util::stream::iter(batches)).await;
    let mut answers = sent.expect("it answers").into_inner();
    for batch in 0..40 {
        let answer = answers.message().await.expect("no refusal").expect("one for each");
        assert_eq!((answer.accepted, answer.rejected), (batch + 1, Vec::new()));
    }
    assert_eq!(answers.message().await.expect("no refusal"), None);
    rig.restart().await;
    let device: Value = rig.api.get("/v1/devices/0xA").await.expect("it is there");
    assert_eq!(device["state"]["value"].to_string().as_bytes(), last);
    let readings: Vec<Value> = rig.api.list("/v1/devices/0xA/readings").await.expect("a list");
    assert_eq!(readings.len(), 40 * 41 / 2);
}

#[tokio::test]
async fn an_id_may_have_the_characters_that_the_setting_says() {
    let extended = ("FIELDPOST_DEVICES__ID_CHARS", "extended");
    let rig = Rig::start_with(&[extended, ("FIELDPOST_DEVICES__ID_MAX_LEN", "17")]).await;
    register(&rig, "00:1B-44.11_3A:B7").await;
    let batch = SendRequest { reports: vec![report("00:1B-44.11_3A:B7", "1"), report("a/b", "1")] };
    let answers = rig.reports().await.send(futures_util::stream::iter([batch])).await;
    let answer = answers.expect("it answers").into_inner().message().await.expect("no refusal").expect("one");
    assert_eq!((answer.accepted, answer.rejected.len()), (1, 1));
    let rejected = &answer.rejected[0];
    assert_eq!(rejected.code, "invalid_id");
    assert!(rejected.detail.contains("devices.id_chars"), "{rejected:?}");
}

#[tokio::test]
async fn what_is_refused_is_told_by_its_place_and_kept_for_a_replay() {
    let rig = Rig::start().await;
    register(&rig, "0xA").await;
    let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let reports = vec![
        report("0xA", "1"),
        report("0xB", "1"),
        report("0xA", "7"),
        report("0xA", "1,\"ts\":0"),
        Report { ts: at(253_402_300_799), ..report("0xA", "0") },
        Report { id: "twice".to_owned(), ..report("0xA", "0") },
        Report { id: "twice".to_owned(), ..report("0xA", "1") },
        report("0xA", ""),
    ];
    let batch = SendRequest { reports };
    let answers = rig.reports().await.send(futures_util::stream::iter([batch])).await;
    let answer = answers.expect("it answers").into_inner().message().await.expect("no refusal").expect("one");
    let rejected: Vec<_> =
        answer.rejected.iter().map(|rejection| (rejection.index, rejection.code.as_str())).collect();
    assert_eq!(answer.accepted, 3, "{rejected:?}");
    let expect = [
        (1, "unknown_device"),
        (2, "value_not_allowed"),
        (3, "unreadable"),
        (4, "ts_ahead"),
        (7, "missing_field"),
    ];
    assert_eq!(rejected, expect);
    let device: Value = rig.api.get("/v1/devices/0xA").await.expect("it is there");
    assert_eq!(device["state"]["value"], 0, "the repeat of an id is without effect");
    let kept: Vec<Value> = rig.api.list("/v1/quarantine").await.expect("a list");
    assert_eq!(kept.len(), 5);
    let unknown = kept.iter().find(|kept| kept["code"] == "unknown_device").expect("it is kept");
    assert_eq!(
        (&unknown["source"], &unknown["payload"]),
        (&json!("http"), &json!(r#"{"device_id":"0xB","data":1}"#))
    );
    register(&rig, "0xB").await;
    let path = format!("/v1/quarantine/{}/replay", unknown["id"].as_str().expect("an id"));
    let replayed = rig.api.any(http_post(), &path, None).await.expect("answered");
    assert!(replayed.status.is_success(), "{replayed:?}");
    let now = |device: &Value| device["state"]["value"] == 1;
    let _device: Value = rig.api.until("/v1/devices/0xB", PATIENCE, now).await.expect("it was replayed");
}

fn http_post() -> hyper::Method {
    hyper::Method::POST
}

#[tokio::test]
async fn a_batch_that_is_too_large_ends_the_stream_behind_the_answers_before_it() {
    let rig = Rig::start().await;
    register(&rig, "0xA").await;
    let batch = |count: usize| SendRequest { reports: vec![report("0xA", "1"); count] };
    let sent = rig.reports().await.send(futures_util::stream::iter([batch(2), batch(1_001)])).await;
    let mut answers = sent.expect("it answers").into_inner();
    assert_eq!(answers.message().await.expect("no refusal").expect("of the first").accepted, 2);
    let refused = refused(answers.message().await);
    assert_eq!(refused, (Code::InvalidArgument, "too_many_reports".to_owned()));
}
