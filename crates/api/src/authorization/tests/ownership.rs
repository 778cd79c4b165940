//! What a token of a client reaches: what is its own, as long as it is.

use super::*;

#[tokio::test]
async fn a_label_finds_no_deliveries_of_a_device_that_is_a_clients_no_longer() {
    let rig = Rig::start(Access::of(tokens())).await;
    rig.add_client("acme").await;
    for device in ["d1", "d2"] {
        rig.make("POST /v1/devices", &format!(r#"{{"id":"{device}","labels":{{"site":"12"}}}}"#)).await;
        rig.make(&format!("PUT /v1/devices/{device}/clients/acme"), "").await;
        rig.report(device).await;
    }
    rig.make("DELETE /v1/devices/d2/clients/acme", "").await;
    for (token, query, expect) in [
        ("acme", "client=acme", 2),
        ("acme", "client=acme&label.site=12", 1),
        ("acme", "client=acme&device=d2&label.site=12", 0),
        ("read", "client=acme&label.site=12", 2),
    ] {
        let list = rig.with(token, &format!("GET /v1/deliveries?{query}"), "").await.json;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(expect), "{token} {query}: {list}");
    }
}

#[tokio::test]
async fn who_waits_for_what_is_its_own_no_longer_is_told_nothing_of_it() {
    let rig = Rig::start(Access::of(tokens())).await;
    rig.add_client("acme").await;
    rig.make("POST /v1/devices", r#"{"id":"d1"}"#).await;
    rig.make("PUT /v1/devices/d1/clients/acme", "").await;
    let waiting = rig.with("acme", "GET /v1/events?device=d1&order=asc&wait=30s", "");
    let unlinking = async {
        while rig.engine.following().0 == 0 {
            tokio::task::yield_now().await;
        }
        rig.make("DELETE /v1/devices/d1/clients/acme", "").await;
        rig.report("d1").await;
    };
    let (answer, ()) = futures_util::future::join(waiting, unlinking).await;
    assert_eq!((answer.status, &answer.json["code"]), (403, &Json::from("forbidden")), "{}", answer.json);
}

#[tokio::test]
async fn a_clients_token_does_not_tell_which_devices_there_are() {
    let rig = Rig::start(Access::of(tokens())).await;
    rig.add_client("acme").await;
    rig.make("POST /v1/devices", r#"{"id":"foreign"}"#).await;
    for list in ["/v1/events", "/v1/deliveries"] {
        let asked = async |token: &str, device: &str| {
            let answer = rig.with(token, &format!("GET {list}?client=acme&device={device}"), "").await;
            (answer.status, answer.json)
        };
        assert_eq!(asked("acme", "unknown").await, asked("acme", "foreign").await, "{list}");
        assert_eq!(asked("read", "unknown").await.0, 404, "{list}");
    }
}

#[tokio::test]
async fn a_clients_scope_reaches_its_own() {
    let rig = Rig::start(Access::of(tokens())).await;
    for client in ["acme", "other"] {
        rig.add_client(client).await;
    }
    for (device, client) in [("d1", "acme"), ("d2", "other")] {
        rig.make("POST /v1/devices", &format!(r#"{{"id":"{device}"}}"#)).await;
        rig.make(&format!("PUT /v1/devices/{device}/clients/{client}"), "").await;
    }
    for (call, expect) in [
        ("GET /v1/clients/acme", 200),
        ("GET /v1/clients/other", 403),
        ("GET /v1/clients/nobody", 403),
        ("GET /v1/clients/acme/devices", 200),
        ("GET /v1/clients/other/devices", 403),
        ("PATCH /v1/clients/acme", 403),
        ("DELETE /v1/clients/acme", 403),
        ("GET /v1/devices", 403),
        ("GET /v1/devices/d1", 200),
        ("GET /v1/devices/d%31", 200),
        ("GET /v1/devices/d2", 403),
        ("GET /v1/devices/d3", 403),
        ("GET /v1/devices/%ff", 403),
        ("GET /v1/devices/d1/readings", 200),
        ("GET /v1/devices/d2/readings", 403),
        ("GET /v1/devices/d1/readings/summary", 200),
        ("GET /v1/devices/d2/readings/summary", 403),
        ("GET /v1/devices/d1/clients", 403),
        ("DELETE /v1/devices/d1", 403),
        ("GET /v1/events", 403),
        ("GET /v1/events?device=d1", 200),
        ("GET /v1/events?device=d2", 403),
        ("GET /v1/events?device=d1&device=d2", 403),
        ("GET /v1/events?device=d1&client=acme", 200),
        ("GET /v1/events?device=d1&client=other", 403),
        ("GET /v1/events?device=d1&client=acme&client=other", 403),
        ("GET /v1/stats?metric=reports&device=d1&client=other", 403),
        ("GET /v1/deliveries", 403),
        ("GET /v1/deliveries?client=acme", 200),
        ("GET /v1/deliveries?client=other", 403),
        ("GET /v1/deliveries?client=acme&client=other", 403),
        ("GET /v1/deliveries?device=d1", 403),
        ("GET /v1/stats?metric=reports", 403),
        ("GET /v1/stats?metric=reports&client=acme", 200),
        ("GET /v1/stats?metric=reports&device=d1", 200),
        ("GET /v1/stats?metric=reports&device=d2", 403),
        ("GET /v1/stats?metric=commands&client=acme", 403),
        ("GET /v1/stats?metric=c%6fmmands&device=d1", 403),
        ("GET /v1/stats?metric=reports&metric=commands&device=d1", 422),
    ] {
        rig.check("acme", call, expect).await;
        rig.check("both", call, expect).await;
    }
}

#[tokio::test]
async fn a_clients_scope_reaches_its_own_deliveries() {
    let rig = Rig::start(Access::of(tokens())).await;
    rig.make("POST /v1/devices", r#"{"id":"d1"}"#).await;
    for client in ["acme", "other"] {
        rig.add_client(client).await;
        rig.make(&format!("PUT /v1/devices/d1/clients/{client}"), "").await;
    }
    rig.report("d1").await;
    let acme = rig.engine.queries().client(&ClientId::new("acme").expect("an id")).expect("it is there");
    for due in rig.all_due(2).await {
        let path = format!("/v1/deliveries/{}", due.delivery.to_text(DELIVERY_ID_PREFIX));
        let is_own = due.client == acme.incarnation;
        rig.check("acme", &format!("GET {path}"), if is_own { 200 } else { 403 }).await;
        rig.check("read", &format!("GET {path}"), 200).await;
        rig.check("read", &format!("POST {path}/retry"), 403).await;
        let retried = rig.with("acme", &format!("POST {path}/retry"), "").await;
        assert_eq!(retried.status == 403, !is_own, "{}", retried.json);
    }
    rig.check("acme", "GET /v1/deliveries/nothing", 403).await;
    rig.make("DELETE /v1/clients/acme", "").await;
    rig.add_client("acme").await;
    rig.check("acme", "GET /v1/devices/d1", 403).await;
}

#[tokio::test]
async fn an_export_breaks_off_where_its_caller_loses_the_right_to_it() {
    // More than the pieces that are made before the receiver takes the first.
    const EVENTS: u32 = 5_000;
    let rig = Rig::start(Access::of(tokens())).await;
    rig.add_client("acme").await;
    rig.make("POST /v1/devices", r#"{"id":"d1","kind":"sensor"}"#).await;
    rig.make("PUT /v1/devices/d1/clients/acme", "").await;
    let report = |value: u32| {
        let content = ReportContent::Value { value: Value::number(value.into()).expect("finite"), ts: None };
        Report { device: DeviceId::new("d1").expect("an id"), kind: None, content, id: None }
    };
    for first in (0..EVENTS).step_by(500) {
        let slice = Slice::from_iter((first..first + 500).map(report));
        let pending = rig.engine.intake(WayIn::Http).submit(slice).await.expect("accepting");
        pending.durable().await.expect("durable");
    }
    for (is_unlinked, whole) in [(false, true), (true, false)] {
        let request = Request::builder().uri("/v1/events?device=d1").header("accept", "application/x-ndjson");
        let request = request.header("authorization", "Bearer acme").body(Body::empty());
        let response = rig.router.clone().call(request.expect("a request")).await.expect("an answer");
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        let first = body.frame().await.expect("a piece").expect("readable");
        let mut lines = first.data_ref().expect("rows").iter().filter(|byte| **byte == b'\n').count();
        if is_unlinked {
            rig.make("DELETE /v1/devices/d1/clients/acme", "").await;
        }
        let mut ended_well = true;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                ended_well = false;
                break;
            };
            lines += frame.data_ref().expect("rows").iter().filter(|byte| **byte == b'\n').count();
        }
        assert_eq!((ended_well, lines == EVENTS as usize), (whole, whole), "{lines} lines");
    }
}
