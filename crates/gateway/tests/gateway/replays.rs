//! Refused reports that are handed in once more, decoded as the way they came by would.

use axum::body::Body;
use axum::http::Request;
use base::id::QUARANTINE_ID_PREFIX;
use base::{Timestamp, WayIn};
use engine::intake::{Received, ReportId, Slice};
use engine::records::Quarantined;
use engine::{Page, Report, ReportContent};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::task::yield_now;
use tower_service::Service;

use crate::rig::Rig;

/// Hands in something that is refused, whatever it says, and finds it in the quarantine.
async fn refused(rig: &Rig, topic: Option<&str>, payload: &str) -> Quarantined {
    refused_with(rig, topic, payload, base::Problem::unreadable("on purpose")).await
}

async fn refused_with(rig: &Rig, topic: Option<&str>, payload: &str, problem: base::Problem) -> Quarantined {
    let mut slice = Slice::new();
    let received = Received { payload: payload.as_bytes(), topic };
    slice.push_refused(problem, received);
    let pending = rig.engine.intake(WayIn::Mqtt).submit(slice).await.expect("accepting");
    pending.durable().await.expect("durable");
    loop {
        // A feed that was just read may be a few milliseconds late.
        if let Some(found) = quarantine(rig).into_iter().find(|found| found.payload == payload.as_bytes()) {
            return found;
        }
        yield_now().await;
    }
}

fn quarantine(rig: &Rig) -> Vec<Quarantined> {
    let page = Page { from: Timestamp(0), to: Timestamp::MAX, ascending: true, after: None, limit: 1_000 };
    let found = rig.engine.queries().quarantine(page).expect("readable");
    found.into_iter().map(|(_, report)| report).collect()
}

async fn replay(rig: &Rig, id: &str) -> (u16, Value) {
    let request = Request::post(format!("/v1/quarantine/{id}/replay")).body(Body::empty());
    let answer = rig.http.clone().call(request.expect("a request")).await.expect("a router never fails");
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("a whole body").to_bytes();
    (status, serde_json::from_slice(&body).expect("JSON"))
}

#[tokio::test]
async fn what_is_right_by_now_is_accepted_and_leaves_the_quarantine() {
    let rig = Rig::start().await;
    let an_hour_ago = Timestamp(rig.engine.clock().now().0 - 3_600_000);
    let with_ts = format!(r#"{{"data":1,"ts":"{an_hour_ago}"}}"#);
    for (topic, payload, device) in [
        (None, r#"{"device_id":"0xA","data":1}"#, "0xA"),
        (Some("sensors"), r#"{"sensor_id":"0x1","data":1}"#, "0x1"),
        (Some("dev/lock/0xC/state"), "1", "0xC"),
        (Some("dev/meter/m1/state"), &with_ts, "m1"),
    ] {
        let kept = refused(&rig, topic, payload).await;
        let id = kept.id.to_text(QUARANTINE_ID_PREFIX);
        let (status, told) = replay(&rig, &id).await;
        assert_eq!((status, &told["accepted"]), (200, &1.into()), "{payload}: {told}");
        let page = Page { from: Timestamp(0), to: Timestamp::MAX, ascending: true, after: None, limit: 9 };
        let device = base::DeviceId::new(device).expect("an id");
        let readings = rig.engine.queries().readings(&device, page).expect("a device");
        let at = if payload.contains("ts") { an_hour_ago } else { kept.id.at };
        assert_eq!(readings.iter().map(|reading| reading.ts).collect::<Vec<_>>(), [at], "{payload}");
        let (status, told) = replay(&rig, &id).await;
        assert_eq!((status, &told["code"]), (404, &"unknown_quarantined".into()), "{payload}");
    }
    assert_eq!(quarantine(&rig).len(), 0);
}

#[tokio::test]
async fn a_report_that_was_taken_before_a_kill_has_no_effect_when_it_is_handed_in_again() {
    let rig = Rig::start().await;
    let kept = refused(&rig, None, r#"{"device_id":"0xA","data":1}"#).await;
    let id = kept.id.to_text(QUARANTINE_ID_PREFIX);
    // The server was killed here: it was durable, and still in the quarantine.
    let content =
        ReportContent::Value { value: base::Value::number(1.0).expect("finite"), ts: Some(kept.id.at) };
    let device = base::DeviceId::new("0xA").expect("an id");
    let report = Report { device, kind: None, content, id: Some(ReportId::of(&id)) };
    let pending = rig.engine.intake(WayIn::Http).submit(Slice::from_iter([report])).await.expect("accepting");
    pending.durable().await.expect("durable");
    let (status, told) = replay(&rig, &id).await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(rig.readings("0xA").len(), 1, "once");
    assert!(quarantine(&rig).is_empty());
}

#[tokio::test]
async fn what_is_still_wrong_stays_in_the_quarantine() {
    let rig = Rig::start().await;
    for (topic, payload, status, code) in [
        (None, r#"{"device_id":"0xF","data":1}"#, 404, "unknown_device"),
        (None, r#"{"device_id":"0xA","data":7}"#, 422, "value_not_allowed"),
        (None, "nonsense", 400, "unreadable"),
        (Some("dev/meter/0xA/state"), "1.0", 422, "wrong_kind"),
        (Some("else/where"), "1.00", 422, "unknown_topic"),
    ] {
        let kept = refused(&rig, topic, payload).await;
        let (told_status, told) = replay(&rig, &kept.id.to_text(QUARANTINE_ID_PREFIX)).await;
        assert_eq!((told_status, &told["code"]), (status, &code.into()), "{payload}: {told}");
        let found = rig.engine.queries().quarantined(kept.id).expect("readable");
        assert_eq!(found, Some(kept), "{payload}: as it was");
    }
    assert_eq!(quarantine(&rig).len(), 5, "each of them once");
}

/// Nothing that is put right later makes it the device's own report.
#[tokio::test]
async fn what_its_sender_might_not_report_is_never_taken() {
    let rig = Rig::start().await;
    let problem = base::Problem::not_allowed("not_allowed", "on purpose");
    let kept = refused_with(&rig, Some("dev/lock/0xA/state"), "1", problem).await;
    let (status, told) = replay(&rig, &kept.id.to_text(QUARANTINE_ID_PREFIX)).await;
    assert_eq!((status, &told["code"]), (422, &"not_allowed".into()), "{told}");
    assert_eq!(quarantine(&rig), [kept]);
    assert!(rig.readings("0xA").is_empty() && rig.last_seen("0xA").is_none());
}

#[tokio::test]
async fn what_is_not_there_is_unknown() {
    let rig = Rig::start().await;
    let (status, told) = replay(&rig, "none").await;
    assert_eq!((status, &told["code"]), (404, &"unknown_quarantined".into()), "{told}");
    assert_eq!(replay(&rig, "%ff").await.0, 400);
}
