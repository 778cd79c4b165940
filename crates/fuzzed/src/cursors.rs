//! The cursors of lists, as a caller gives them back.
//!
//! A list takes the cursors that it gave, and refuses every other text with `invalid_cursor`. So it
//! refuses cursors of other lists, and of the same list with other filters. It refuses its own with
//! any character changed.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::server::{FuzzedServer, LOCK, with_server};

const NDJSON: &str = "application/x-ndjson";
/// Lists that have a page behind their first one.
const LISTS: [&str; 7] = [
    "/v1/devices?",
    "/v1/devices?kind=lock&",
    "/v1/devices?label.site=1&",
    "/v1/clients?",
    "/v1/events?",
    "/v1/quarantine?",
    "/v1/devices/0xA/readings?",
];

/// Asks every list to go on at the text, and at a genuine cursor that the input changes.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    with_server(2, async |server: &FuzzedServer| {
        fill(server).await;
        let mut given = Vec::new();
        for list in LISTS {
            given.push(cursors_of(server, list).await);
        }
        let changed = changed(&given, data);
        for (list, own) in LISTS.iter().zip(&given) {
            for cursor in [Some(text), changed.as_deref()].into_iter().flatten() {
                check(server, list, own, cursor).await;
            }
        }
    });
}

/// So much that each list has several items.
async fn fill(server: &FuzzedServer) {
    let devices = "{\"id\":\"a\",\"labels\":{\"site\":\"1\"}}\n{\"id\":\"b\",\"labels\":{\"site\":\"1\"}}\n\
                   {\"id\":\"c\",\"labels\":{\"site\":\"1\"}}";
    assert_eq!(server.post("/v1/devices/import", NDJSON, &[devices.as_bytes()]).await.count("created"), 3);
    let client = br#"{"id":"other","name":"Other","url":"https://other.example/"}"#;
    assert_eq!(server.post("/v1/clients", "application/json", &[client]).await.status, 201);
    let mut reports = String::new();
    for number in 0..4 {
        let (data, ts) = (number % 2, number + 1);
        writeln!(reports, r#"{{"device_id":"{LOCK}","data":{data},"ts":"2026-11-20T00:00:0{ts}Z"}}"#)
            .expect("a String takes all text");
        reports.push_str("nonsense\n");
    }
    let answer = server.post("/v1/reports", NDJSON, &[reports.as_bytes()]).await;
    assert_eq!((answer.count("accepted"), answer.count("rejected_count")), (4, 4));
}

/// Every cursor that a list gives.
async fn cursors_of(server: &FuzzedServer, list: &str) -> BTreeSet<String> {
    let mut given = BTreeSet::new();
    let mut path = format!("{list}limit=1");
    loop {
        let page = server.get(&path).await;
        assert_eq!(page.status, 200, "{path}: {page:?}");
        let Some(next) = page.body["next_cursor"].as_str() else { break };
        assert!(given.insert(next.to_owned()), "{list} gives {next} twice");
        path = format!("{list}limit=1&cursor={next}");
    }
    given
}

/// A genuine cursor that has one byte of the input in place of one of its own.
fn changed(given: &[BTreeSet<String>], data: &[u8]) -> Option<String> {
    let [which, at, to, ..] = data else { return None };
    let genuine: Vec<_> = given.iter().flatten().collect();
    let mut cursor = (*genuine.get(usize::from(*which) % genuine.len().max(1))?).clone().into_bytes();
    let at = usize::from(*at) % cursor.len();
    cursor[at] = *to;
    String::from_utf8(cursor).ok()
}

async fn check(server: &FuzzedServer, list: &str, own: &BTreeSet<String>, cursor: &str) {
    let mut path = format!("{list}limit=1&cursor=");
    for byte in cursor.bytes() {
        write!(path, "%{byte:02X}").expect("a String takes all text");
    }
    if path.len() > PATH_BYTES_MAX {
        return;
    }
    let answer = server.get(&path).await;
    let expect = if own.contains(cursor) { (200, "") } else { (400, "invalid_cursor") };
    assert_eq!((answer.status, answer.refused_as()), expect, "{list} with cursor {cursor:?}");
}

/// A longer path is no URI.
const PATH_BYTES_MAX: usize = 60_000;
