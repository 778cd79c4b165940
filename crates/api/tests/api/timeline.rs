//! The timeline of a device: everything that happened to it, in one order.

use std::time::Duration;

use engine::ReportContent;
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use crate::commands::{say, send, with_locks};
use crate::rig::names;

const PATH: &str = "/v1/devices/0xA/timeline?order=asc";

fn types(page: &Json) -> Vec<&str> {
    let items = page["items"].as_array().expect("items");
    items.iter().map(|item| item["type"].as_str().expect("a type")).collect()
}

#[tokio::test]
async fn what_happened_to_a_device_is_in_one_list() {
    let server = with_locks().await;
    server.add_client("acme").await;
    server.link("0xA", "acme").await;
    server.report("0xA", 1).await;
    let due = server.lease_all().await.pop().expect("a notification");
    server.end(&due, engine::AttemptOutcome::Status { code: 204, retry_after: None }).await;
    let id = send(&server, r#"{"payload":1}"#).await;
    server.check("GET /v1/devices/0xA/poll", "", 200, "{}").await;
    say(&server, &id, |command| ReportContent::Answer { command, ok: true, result: None }).await;
    server.check("DELETE /v1/devices/0xA/clients/acme", "", 204, "").await;
    let page = server.get(PATH).await;
    let expect = [
        "link.added",
        "device.changed",
        "delivery.attempt",
        "delivery.delivered",
        "command.scheduled",
        "command.published",
        "command.acknowledged",
        "link.removed",
    ];
    assert_eq!(types(&page), expect, "{page}");
    for item in page["items"].as_array().expect("items") {
        assert_eq!(names(item), ["at", "detail", "type"]);
    }
    let detail = |at: usize| page["items"][at]["detail"].clone();
    assert_eq!(detail(0), json!({"client_id": "acme"}));
    assert_eq!(names(&detail(1)), ["event_id", "previous", "sequence", "value"]);
    assert_eq!(names(&detail(2)), ["delivery_id", "duration_ms", "status_code"]);
    assert_eq!(names(&detail(3)), ["delivery_id"]);
    assert_eq!(detail(5), json!({"command_id": id, "tries": 1}));
    let newest_first = server.get("/v1/devices/0xA/timeline?limit=1").await;
    assert_eq!(types(&newest_first), ["link.removed"]);
    let other = server.get("/v1/devices/0xB/timeline").await;
    assert!(types(&other).is_empty(), "{other}");
    server.check("GET /v1/devices/none/timeline", "", 404, "unknown_device").await;
}

#[tokio::test]
async fn a_timeline_is_paged_without_gap_and_followed() {
    let server = with_locks().await;
    for value in [1, 0, 1] {
        server.report("0xA", value).await;
        send(&server, r#"{"payload":1}"#).await;
    }
    let (mut seen, mut path) = (Vec::new(), format!("{PATH}&limit=1"));
    let tail = loop {
        let page = server.get(&path).await;
        seen.extend(types(&page).into_iter().map(str::to_owned));
        match page["next_cursor"].as_str() {
            Some(next) => path = format!("{PATH}&limit=1&cursor={next}"),
            None => break page["tail_cursor"].as_str().expect("a cursor").to_owned(),
        }
    };
    assert_eq!(seen, ["device.changed", "command.scheduled"].repeat(3));
    for make in ["event", "command"] {
        let path = format!("{PATH}&cursor={tail}&wait=60s");
        let grows = async {
            match make {
                "event" => server.report("0xA", 0).await,
                _ => drop(send(&server, r#"{"payload":1}"#).await),
            }
        };
        let both = async { tokio::join!(server.get(&path), grows).0 };
        let page = timeout(Duration::from_secs(20), both).await.expect("it is told");
        assert!(!types(&page).is_empty(), "{make}");
    }
}
