//! Lists and feeds: nothing missed, nothing twice, also across a restart.

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::contract::rig::{PATIENCE, Rig, each};
use crate::wire;

const DEVICES: usize = 20;
/// Reports that carry a `ts` of long ago are still there.
pub(crate) const FOR_YEARS: (&str, &str) = ("FIELDPOST_HISTORY__READINGS", "3650d");

fn id(at: usize) -> String {
    format!("d{at:02}")
}

async fn filled() -> Rig {
    let rig = Rig::start(&[]).await;
    for at in 0..DEVICES {
        rig.device(&json!({"id": id(at)})).await;
    }
    let lines: String =
        (0..DEVICES).map(|at| format!("{}\n", json!({"device_id": id(at), "data": 1}))).collect();
    let answer: Value = rig.api.post_lines("/v1/reports", lines).await.expect("taken");
    assert_eq!(answer["accepted"], DEVICES);
    rig.feed("/v1/events", DEVICES).await;
    rig
}

/// Every item of a list in pages of three; after the second page the server is killed and started
/// again.
async fn pages_across_a_restart(rig: &mut Rig, path: &str) -> Vec<Value> {
    let join = if path.contains('?') { '&' } else { '?' };
    let (mut items, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = rig.get(&format!("{path}{join}limit=3{cursor}")).await;
        items.extend(page["items"].as_array().expect("items").iter().cloned());
        pages += 1;
        if pages == 2 {
            rig.restart().await;
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

#[tokio::test]
async fn pages_neither_miss_nor_repeat_across_a_restart() {
    let mut rig = filled().await;
    for (path, member, count) in [
        ("/v1/devices", "id", DEVICES),
        ("/v1/events", "id", DEVICES),
        ("/v1/events?order=asc", "id", DEVICES),
    ] {
        let items = pages_across_a_restart(&mut rig, path).await;
        let mut keys: Vec<String> = each(&items, member).iter().map(Value::to_string).collect();
        keys.sort();
        keys.dedup();
        assert_eq!((items.len(), keys.len()), (count, count), "{path}");
        let times: Vec<String> = each(&items, "ts").iter().map(Value::to_string).collect();
        let in_order = if path.contains("asc") { times.is_sorted() } else { times.iter().rev().is_sorted() };
        assert!(in_order, "{path}: {times:?}");
    }
}

#[tokio::test]
async fn what_happens_between_two_pages_disturbs_neither() {
    let rig = filled().await;
    let first = rig.get("/v1/events?limit=5").await;
    let cursor = first["next_cursor"].as_str().expect("more").to_owned();
    rig.report(&id(3), 0).await;
    rig.device(&json!({"id": "e"})).await;
    let rest = rig.items(&format!("/v1/events?cursor={cursor}")).await;
    assert_eq!(first["items"].as_array().map(Vec::len), Some(5));
    assert_eq!(rest.len(), DEVICES - 5);
}

#[tokio::test]
async fn from_is_included_and_to_is_not() {
    let rig = Rig::start(&[FOR_YEARS]).await;
    rig.device(&json!({"id": "m1", "kind": "meter"})).await;
    for second in 0..5 {
        let report = json!({"device_id": "m1", "data": second, "ts": format!("2026-01-01T00:00:0{second}Z")});
        assert_eq!(rig.json("POST", "/v1/reports", &report.to_string()).await.status, 200);
    }
    let at = |second: u32| format!("2026-01-01T00:00:0{second}Z");
    for (query, found) in [
        (format!("from={}&to={}", at(1), at(3)), vec![2, 1]),
        (format!("from={}&to={}&order=asc", at(1), at(3)), vec![1, 2]),
        (format!("from={}", at(3)), vec![4, 3]),
        (format!("to={}", at(1)), vec![0]),
        (format!("from={}&to={}", at(3), at(1)), vec![]),
        ("from=2026-01-01T02:00:04%2B02:00".to_owned(), vec![4]),
    ] {
        let readings = rig.items(&format!("/v1/devices/m1/readings?{query}")).await;
        assert_eq!(each(&readings, "data"), found, "{query}");
    }
}

#[tokio::test]
async fn an_event_tells_what_it_changed() {
    let rig = Rig::start(&[]).await;
    rig.device(&json!({"id": "0xA"})).await;
    rig.device(&json!({"id": "0xB"})).await;
    for value in [0, 0, 1] {
        rig.report("0xA", value).await;
    }
    rig.report("0xB", 1).await;
    let events = rig.feed("/v1/events?device=0xA&type=device.changed&order=asc", 2).await;
    let told: Vec<Value> = events
        .iter()
        .map(|event| {
            json!([event["device_id"], event["type"], event["sequence"], event["previous"], event["value"]])
        })
        .collect();
    assert_eq!(
        told,
        [json!(["0xA", "device.changed", 1, null, 0]), json!(["0xA", "device.changed", 2, 0, 1])]
    );
    let keys: Vec<&String> = events[0].as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["device_id", "id", "previous", "sequence", "ts", "type", "value"]);
}

/// So many that a partition has more of them than it merges, and with one label so few that it
/// merges them.
#[tokio::test]
async fn feeds_are_narrowed_by_label_and_by_client_for_few_devices_and_for_many() {
    const MANY: usize = 1_600;
    const FEW: usize = 7;
    let rig = Rig::start_telling(&[]).await;
    let _receiver = rig.receiver("acme", &[]).await;
    let device = |at: usize| {
        let size = if at < FEW { "few" } else { "many" };
        let clients: &[&str] = if at.is_multiple_of(2) && at < FEW { &["acme"] } else { &[] };
        json!({"id": format!("d{at}"), "labels": {"size": size, "all": "1"}, "clients": clients})
    };
    let lines =
        |line: &dyn Fn(usize) -> Value| (0..MANY).map(|at| format!("{}\n", line(at))).collect::<String>();
    let imported: Value = rig.api.post_lines("/v1/devices/import", lines(&device)).await.expect("imported");
    assert_eq!(imported["created"], MANY);
    let report = |at: usize| json!({"device_id": format!("d{at}"), "data": 1});
    let taken: Value = rig.api.post_lines("/v1/reports", lines(&report)).await.expect("taken");
    assert_eq!(taken["accepted"], MANY);
    rig.feed("/v1/deliveries?status=delivered", 4).await;
    // a feed shows this only when it shows all that was before
    rig.device(&json!({"id": "last", "labels": {"last": "1"}})).await;
    rig.report("last", 1).await;
    rig.feed("/v1/events?label.last=1", 1).await;

    for (path, found) in [
        ("/v1/events?label.all=1", MANY),
        ("/v1/events?label.size=many", MANY - FEW),
        ("/v1/events?label.size=few&order=asc", FEW),
        ("/v1/events?label.size=few&label.all=1&type=device.changed", FEW),
        ("/v1/events?label.size=few&type=device.lost", 0),
        ("/v1/events?label.size=none", 0),
        ("/v1/events?client=acme", 4),
        ("/v1/events?client=acme&label.size=many", 0),
        ("/v1/events?device=d0&client=acme&label.size=few", 1),
        ("/v1/events?device=d1&client=acme", 0),
        ("/v1/deliveries?label.size=few", 4),
        ("/v1/deliveries?client=acme&label.all=1", 4),
        ("/v1/deliveries?label.size=many", 0),
    ] {
        let items = rig.items(path).await;
        let mut ids: Vec<String> = each(&items, "id").iter().map(Value::to_string).collect();
        ids.sort();
        ids.dedup();
        assert_eq!((items.len(), ids.len()), (found, found), "{path}");
    }
}

/// SIGTERM does not wait for callers that wait.
#[tokio::test]
async fn a_caller_that_follows_a_feed_is_answered_when_the_server_stops() {
    let rig = Rig::start(&[]).await;
    let address = rig.site.http.address().await;
    let path = "/v1/events?order=asc&wait=60s";
    let waiting = tokio::spawn(async move { wire::ask(address, "GET", path, &[], b"").await });
    let figure = "fieldpost_engine_followers 1\n";
    let follows = async { while !rig.json("GET", "/metrics", "").await.body.contains(figure) {} };
    timeout(PATIENCE, follows).await.expect("it waits");
    assert!(rig.stop().await.success());
    let answer = waiting.await.expect("answered");
    assert_eq!(
        (answer.status, answer.json()["items"].as_array().map(Vec::len)),
        (200, Some(0)),
        "{answer:?}"
    );
    assert!(!answer.text("tail_cursor").is_empty());
}
