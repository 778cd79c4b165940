//! Selections of devices: lists, exports, counts and operations.

use axum::body::Body;
use axum::http::Request;
use base::DeviceId;
use engine::presence::{KindSet, Session};
use serde_json::{Value as Json, json};

use crate::rig::Server;

/// Devices `d00` to `d19`: country CN or DE by turns, three cities in each, every fourth a gate, no
/// operator but of the first five. `d00` to `d02` have reported, and `d01` is connected.
async fn fleet() -> Server {
    let server = Server::start().await;
    server.engine.name_places_by(["country", "city", "operator"].map(str::to_owned).to_vec());
    server.add_client("acme").await;
    for n in 0..20 {
        let country = if n % 2 == 0 { "CN" } else { "DE" };
        let mut labels = json!({"country": country, "city": (n % 6).to_string()});
        if n < 5 {
            labels["operator"] = json!("1");
        }
        let kind = if n % 4 == 3 { "gate" } else { "lock" };
        let body = json!({"id": format!("d{n:02}"), "kind": kind, "labels": labels}).to_string();
        server.check("POST /v1/devices", &body, 201, "{}").await;
    }
    for n in 0..3 {
        server.report(&format!("d{n:02}"), 1).await;
        server.link(&format!("d{n:02}"), "acme").await;
    }
    connect(&server, "d01").await;
    server
}

async fn connect(server: &Server, device: &str) {
    let device = DeviceId::new(device).expect("an id");
    server
        .engine
        .presence()
        .connected(device, KindSet::Any, Session { number: 1, address: None, label: None })
        .await
        .expect("told");
}

/// Encodes what a query may not hold.
fn query(selector: &str) -> String {
    selector.replace(' ', "%20").replace('"', "%22")
}

fn ids(items: &Json) -> String {
    let ids = items.as_array().expect("a list").iter();
    ids.map(|device| &device["id"].as_str().expect("text")[1..]).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_list_shows_the_devices_of_a_selection_in_order_of_id() {
    let server = fleet().await;
    for (asked, expect) in [
        ("selector=city=3", "03 09 15"),
        ("selector=country=CN,kind=lock,city notin (0,2)", "04 10 16"),
        ("selector=kind=gate,city in (1,3)", "03 07 15 19"),
        ("selector=connection!=never_seen", "00 01 02"),
        ("selector=connected=true", "01"),
        ("selector=connected=false,operator", "00 02 03 04"),
        ("selector=client=acme,country=\"CN\"", "00 02"),
        ("selector=answering=false", ""),
        ("selector=answering=true,operator=1", "00 01 02 03 04"),
        ("place=CN_2", "02 08 14"),
        ("place=DE_*_1", "01 03"),
        ("place=CN&selector=!operator,city=0", "06 12 18"),
        ("place=CN&kind=gate", ""),
        (
            "selector=city in (3,5)&label.country=DE&connected=false&connection=never_seen",
            "03 05 09 11 15 17",
        ),
        ("selector=operator&id_prefix=d03", "03"),
        ("selector=operator&waiting=true", ""),
        ("selector=&limit=3", "00 01 02"),
    ] {
        let page = server.get(&format!("/v1/devices?{}", query(asked))).await;
        assert_eq!(ids(&page["items"]), expect, "{asked}");
    }
}

#[tokio::test]
async fn pages_and_exports_of_a_selection_leave_nothing_out() {
    let server = fleet().await;
    let path = "/v1/devices?selector=country=CN&limit=4";
    let (mut found, mut next) = (Vec::new(), path.to_owned());
    loop {
        let page = server.get(&next).await;
        found.push(ids(&page["items"]));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        next = format!("{path}&cursor={cursor}");
    }
    assert_eq!(found, ["00 02 04 06", "08 10 12 14", "16 18"]);
    let request = Request::get("/v1/devices?place=CN").header("accept", "application/x-ndjson");
    let rows = server.send(request.body(Body::empty()).expect("a request")).await.text;
    assert_eq!(rows.lines().count(), 10, "{rows}");
}

#[tokio::test]
async fn a_count_says_how_a_selection_is_spread() {
    let server = fleet().await;
    let place = json!(["country", "city", "operator"]);
    let all = json!({"total": 20, "connected": 1, "online": 3, "lost": 0, "never_seen": 17, "place": place});
    assert_eq!(server.get("/v1/fleet/count").await, all);
    let by = |by: &'static str| async move { format!("/v1/fleet/count?by={by}") };
    let item = |value: Json, total: u64, connected: u64| json!({"value": value, "total": total, "connected": connected});
    for (key, expect) in [
        ("country", vec![item(json!("CN"), 10, 0), item(json!("DE"), 10, 1)]),
        ("operator", vec![item(Json::Null, 15, 0), item(json!("1"), 5, 1)]),
        ("kind", vec![item(json!("lock"), 15, 1), item(json!("gate"), 5, 0)]),
        ("connection", vec![item(json!("never_seen"), 17, 0), item(json!("online"), 3, 1)]),
        ("connected", vec![item(json!("false"), 19, 0), item(json!("true"), 1, 1)]),
        ("answering", vec![item(json!("true"), 20, 1)]),
        ("client", vec![item(Json::Null, 17, 0), item(json!("acme"), 3, 1)]),
        ("nothing", vec![item(Json::Null, 20, 1)]),
    ] {
        assert_eq!(server.get(&by(key).await).await["items"], json!(expect), "{key}");
    }
    let some = server.get("/v1/fleet/count?place=DE&selector=operator&by=city").await;
    let expect = json!({"total": 2, "connected": 1, "online": 1, "lost": 0, "never_seen": 1, "place": place,
        "items": [item(json!("1"), 1, 1), item(json!("3"), 1, 0)]});
    assert_eq!(some, expect);
}

#[tokio::test]
async fn at_most_a_thousand_values_are_counted() {
    let server = Server::start().await;
    for n in 0..1_001 {
        let body = format!(r#"{{"id":"d{n}","labels":{{"serial":"{n}"}}}}"#);
        server.check("POST /v1/devices", &body, 201, "{}").await;
    }
    let counts = server.get("/v1/fleet/count?by=serial").await;
    assert_eq!((counts["items"].as_array().map(Vec::len), &counts["more"]), (Some(1_000), &json!(true)));
    let fewer = server.get("/v1/fleet/count?by=serial&selector=serial!=7").await;
    assert_eq!((fewer["items"].as_array().map(Vec::len), &fewer["more"]), (Some(1_000), &Json::Null));
}

#[tokio::test]
async fn what_changes_a_device_is_counted_once_it_is_answered() {
    let server = fleet().await;
    let total =
        async |asked: &str| server.get(&format!("/v1/fleet/count?{}", query(asked))).await["total"].clone();
    server.check("PATCH /v1/devices/d09", r#"{"labels":{"city":"9","operator":"2"}}"#, 200, "{}").await;
    assert_eq!((total("selector=city=9").await, total("selector=operator").await), (json!(1), json!(6)));
    let line = r#"{"id":"d10","labels":{"city":"9"},"clients":["acme"]}"#;
    server.check("POST /v1/devices/import", line, 200, r#"{"updated":1}"#).await;
    assert_eq!((total("selector=city=9").await, total("selector=client=acme").await), (json!(2), json!(4)));
    server.check("DELETE /v1/devices/d10", "", 204, "").await;
    assert_eq!((total("selector=city=9").await, total("").await), (json!(1), json!(19)));
    connect(&server, "d09").await;
    assert_eq!(total("selector=connected=true,city=9").await, json!(1));
    let server = server.restart().await;
    let asked = "/v1/fleet/count?selector=city%20in%20(9,1)";
    let expect = json!({"total": 5, "connected": 0, "online": 1, "lost": 0, "never_seen": 4, "place": []});
    assert_eq!(server.get(asked).await, expect);
}

#[tokio::test]
async fn a_selection_that_cannot_be_read_is_refused() {
    let server = fleet().await;
    for (path, code) in [
        ("/v1/devices?selector=a=1,", "bad_selector"),
        ("/v1/devices?place=CN_1_1_1", "bad_place"),
        ("/v1/devices?selector=a&selector=b", "invalid_parameter"),
        ("/v1/fleet/count?selector=connected=maybe", "bad_selector"),
        ("/v1/fleet/count?place=CN__1", "bad_place"),
        ("/v1/fleet/count?by=Country", "invalid_parameter"),
        ("/v1/fleet/count?with=country", "unknown_parameter"),
        ("/v1/stats?metric=reports&selector=,", "bad_selector"),
        ("/v1/stats?metric=reports&selector=a&device=d01", "invalid_parameter"),
    ] {
        server.check(&format!("GET {path}"), "", 422, code).await;
    }
    let body = r#"{"action":"devices.delete","filter":{"selector":"city in"}}"#;
    server.check("POST /v1/operations", body, 422, "bad_selector").await;
}

#[tokio::test]
async fn an_operation_takes_the_devices_of_a_selection() {
    let server = fleet().await;
    let body = r#"{"action":"devices.label","labels":{"x":"y"},"filter":{"selector":"city in (1,3)","place":"DE"},
        "dry_run":true}"#;
    server.check("POST /v1/operations", body, 200, r#"{"matched":7,"complete":true}"#).await;
}

#[tokio::test]
async fn what_happened_to_a_selection_is_counted() {
    let server = fleet().await;
    for (asked, expect) in [
        ("selector=", 3),
        ("place=CN", 2),
        ("selector=country=CN,city=2", 1),
        ("selector=connected=true", 1),
        ("selector=client=acme", 3),
        ("selector=city=99", 0),
    ] {
        let stats = server.get(&format!("/v1/stats?metric=reports&{asked}")).await;
        let items = stats["items"].as_array().expect("a list").iter();
        assert_eq!(
            items.map(|item| item["count"].as_u64().expect("a number")).sum::<u64>(),
            expect,
            "{asked}"
        );
    }
}
