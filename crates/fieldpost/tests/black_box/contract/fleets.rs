//! Many devices at a time: imported as lines, exported as lines or as a table, and counted.

use serde_json::{Value, json};

use crate::contract::rig::{Rig, each};
use crate::wire::{self, Answer};

const NDJSON: &str = "application/x-ndjson";

async fn export(rig: &Rig, accept: &str, path: &str) -> Answer {
    let address = rig.site.http.address().await;
    wire::ask(address, "GET", path, &[("Accept", accept)], b"").await
}

async fn import(rig: &Rig, lines: &[Value]) -> Value {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let answer = rig.ask("POST", "/v1/devices/import", NDJSON, &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn a_fleet_is_imported_line_by_line() {
    let rig = Rig::start(&[]).await;
    let client = json!({"id": "acme", "name": "n", "url": "https://example.com/"});
    let _: Value = rig.api.post("/v1/clients", &client).await.expect("registered");
    let first = json!({"id": "0xA", "labels": {"site": "12"}, "clients": ["acme"]});
    let told = import(
        &rig,
        &[
            first.clone(),
            json!({"id": "0xB", "expect_from": "2030-01-01T00:00:00+01:00"}),
            json!({"id": "0xA", "address": "here"}),
            json!({"id": "0xC", "clients": ["none"]}),
            json!({"id": "0xD", "colour": 1}),
            json!({"id": "0xE", "expect_from": "soon"}),
        ],
    )
    .await;
    let counts = ["created", "updated", "rejected_count"].map(|name| told[name].clone());
    assert_eq!(counts, [json!(2), json!(1), json!(3)], "{told}");
    let rejected = told["rejected"].as_array().expect("a list");
    assert_eq!(each(rejected, "line"), [4, 5, 6]);
    assert_eq!(each(rejected, "code"), ["unknown_client", "unknown_field", "invalid_time"]);
    assert_eq!(each(&rig.items("/v1/clients/acme/devices").await, "id"), ["0xA"]);
    let again = import(&rig, &[first]).await;
    assert_eq!((&again["created"], &again["updated"]), (&json!(0), &json!(1)));
    assert_eq!(rig.get("/v1/devices/0xA").await["address"], "here", "what a line leaves out stays");
}

#[tokio::test]
async fn a_fleet_is_exported_as_lines_and_as_a_table() {
    let rig = Rig::start(&[]).await;
    let lines: Vec<_> = (0..2_500).map(|at| json!({"id": format!("d{at:04}")})).collect();
    assert_eq!(import(&rig, &lines).await["created"], 2_500);
    let answer = export(&rig, NDJSON, "/v1/devices").await;
    assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, NDJSON));
    let rows = answer.body.lines().filter(|line| line.starts_with('{')).count();
    assert_eq!(rows, 2_500, "without pages");
    let table = export(&rig, "text/csv", "/v1/devices?kind=lock").await.body;
    assert!(table.contains("id,kind,address,labels,"), "{}", &table[..200]);
    assert_eq!(table.matches("\nd").count(), 2_500);
    for path in
        ["/v1/clients", "/v1/events", "/v1/deliveries", "/v1/quarantine", "/v1/devices/d0000/readings"]
    {
        let answer = export(&rig, "text/csv", path).await;
        assert_eq!((answer.status, &answer.headers["content-type"][..8]), (200, "text/csv"), "{path}");
    }
    let refused = export(&rig, NDJSON, "/v1/events?type=x").await;
    assert_eq!((refused.status, refused.text("code").as_str()), (422, "invalid_parameter"));
}

#[tokio::test]
async fn what_happened_is_counted_by_hour_and_day() {
    let rig = Rig::start(&[]).await;
    rig.device(&json!({"id": "0xA", "labels": {"site": "12"}})).await;
    rig.device(&json!({"id": "0xB"})).await;
    for (device, value) in [("0xA", 1), ("0xA", 1), ("0xA", 0), ("0xB", 1)] {
        rig.report(device, value).await;
    }
    for (query, expect) in [
        ("metric=reports", 4),
        ("metric=changes&by=day", 3),
        ("metric=losses", 0),
        ("metric=deliveries", 0),
        ("metric=reports&device=0xA", 3),
        ("metric=changes&label.site=12", 2),
    ] {
        let stats = rig.get(&format!("/v1/stats?{query}")).await;
        let items = stats["items"].as_array().expect("a list");
        let total: u64 = items.iter().filter_map(|item| item["count"].as_u64()).sum();
        assert_eq!(total, expect, "{query}: {stats}");
    }
    for query in ["", "metric=x", "metric=reports&by=week", "metric=reports&device=0xA&client=c"] {
        let refused = rig.json("GET", &format!("/v1/stats?{query}"), "").await;
        assert_eq!((refused.status, refused.text("code").as_str()), (422, "invalid_parameter"), "{query}");
    }
}
