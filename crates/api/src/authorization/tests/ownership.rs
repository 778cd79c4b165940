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

/// Calls about the device `d9`, and what a token of the client `acme` is answered.
const ABOUT_D9: [(&str, u16); 18] = [
    ("/v1/events?client=acme&device=d9", 200),
    ("/v1/events?client=acme&device=d9&type=device.changed", 200),
    ("/v1/events?client=acme&device=d9&type=device.changed&order=asc", 200),
    ("/v1/events?client=acme&device=d9&type=device.changed&wait=1ms", 200),
    ("/v1/events?client=acme&device=d9&type=device.changed&label.site=12", 200),
    ("/v1/deliveries?client=acme&device=d9", 200),
    ("/v1/deliveries?client=acme&device=d9&status=pending", 200),
    ("/v1/deliveries?client=acme&device=d9&status=pending&order=asc", 200),
    ("/v1/deliveries?client=acme&device=d9&status=pending&label.site=12", 200),
    ("/v1/events?device=d9&type=device.changed", 403),
    ("/v1/commands?device=d9", 403),
    ("/v1/stats?metric=reports&device=d9", 403),
    ("/v1/devices/d9", 403),
    ("/v1/devices/d9/commands", 403),
    ("/v1/devices/d9/desired", 403),
    ("/v1/devices/d9/readings", 403),
    ("/v1/devices/d9/readings/summary", 403),
    ("/v1/devices/d9/timeline", 403),
];

/// All of an answer: its status, its headers and its body.
async fn whole_answer(rig: &Rig, token: &str, path: &str) -> (u16, HeaderMap, String) {
    let request = Request::get(path).header("authorization", format!("Bearer {token}")).body(Body::empty());
    let response = rig.router.clone().call(request.expect("a request")).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a whole body").to_bytes();
    (parts.status.as_u16(), parts.headers, String::from_utf8(bytes.to_vec()).expect("text"))
}

#[tokio::test]
async fn whoever_sees_only_its_own_cannot_tell_which_devices_there_are() {
    let rig = Rig::start(Access::of(tokens())).await;
    for client in ["acme", "other"] {
        rig.add_client(client).await;
    }
    let ask = async || {
        // A portal of its own each time: none is stopped by how much it may ask for.
        let body = r#"{"ttl":"1h","may":["read"]}"#;
        let opened = rig.with("admin", "POST /v1/clients/acme/portal", body).await.json;
        let portal = opened["token"].as_str().expect("a token");
        let mut answers = Vec::new();
        for (path, expect) in ABOUT_D9 {
            for (who, token) in [("acme", "acme"), ("portal", portal), ("read", "read")] {
                answers.push((who, path, expect, whole_answer(&rig, token, path).await));
            }
        }
        answers
    };
    let unknown = ask().await;
    rig.make("POST /v1/devices", r#"{"id":"d9","labels":{"site":"12"}}"#).await;
    rig.make("PUT /v1/devices/d9/clients/other", "").await;
    rig.report("d9").await;
    for ((who, path, expect, unknown), (.., foreign)) in unknown.into_iter().zip(ask().await) {
        if who == "read" {
            assert_eq!((unknown.0, foreign.0), (404, 200), "{path}");
            continue;
        }
        assert_eq!(foreign, unknown, "{who} {path}");
        assert!(who == "portal" || foreign.0 == expect, "{path}: {foreign:?}");
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
