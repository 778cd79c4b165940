//! Feeds that are followed, against a server that answers what is written down for it. Tested are
//! which questions are asked, what is shown of the answers, and what happens when the server goes
//! away.

use serde_json::{Value, json};

use crate::cli::rig::{Ended, run};
use crate::cli::scripted::{Scripted, answer};

const AT: [&str; 3] = ["2026-11-21T01:02:03.000Z", "2026-11-21T01:02:04.000Z", "2026-11-21T01:02:05.000Z"];

/// What ends a feed that is followed: the token is taken back.
const GONE: &str = r#"{"status":401,"code":"unauthorized","detail":"the token is gone"}"#;

fn event(number: usize) -> Value {
    json!({"id": format!("evt_{number}"), "device_id": "lock7", "type": "device.changed", "ts": AT[number],
        "sequence": number, "value": 1, "previous": 0})
}

fn page(items: &[Value], next: Option<&str>, tail: Option<&str>) -> String {
    let mut page = json!({"items": items, "next_cursor": next});
    if let Some(tail) = tail {
        page["tail_cursor"] = tail.into();
    }
    answer("200 OK", "", &page.to_string())
}

fn gone() -> String {
    answer("401 Unauthorized", "", GONE)
}

/// Runs a line until it ends by itself; what it asked, and how it ended.
fn follow(line: &str, answers: Vec<String>) -> (Vec<String>, Ended) {
    let scripted = Scripted::new(answers);
    let ended = run(&scripted.url, &line.split_whitespace().collect::<Vec<_>>(), "");
    let asked = scripted.asked().into_iter().map(|asked| {
        let line = asked.head.lines().next().expect("a request line").to_owned();
        line.trim_start_matches("GET ").trim_end_matches(" HTTP/1.1").replace("%3A", ":")
    });
    (asked.collect(), ended)
}

fn ids(ended: &Ended) -> Vec<String> {
    let id =
        |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["id"].as_str().map(str::to_owned);
    ended.out.lines().map(|line| id(line).expect("an id")).collect()
}

#[test]
fn it_begins_with_the_newest_and_goes_on_behind_what_it_has_shown() {
    let (asked, ended) = follow(
        "device events lock7 --follow --limit 2 --json",
        vec![
            page(&[event(1), event(0)], Some("older"), None),
            page(&[event(0), event(1)], None, Some("tail-1")),
            page(&[event(2)], None, Some("tail-2")),
            gone(),
        ],
    );
    let from = format!("device=lock7&from={}&order=asc&limit=1000&wait=30s", AT[0]);
    assert_eq!(
        asked,
        [
            "/v1/events?device=lock7&order=desc&limit=2".to_owned(),
            format!("/v1/events?{from}"),
            format!("/v1/events?{from}&cursor=tail-1"),
            format!("/v1/events?{from}&cursor=tail-2"),
        ]
    );
    assert_eq!(ids(&ended), ["evt_0", "evt_1", "evt_2"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

#[test]
fn a_page_that_is_full_is_followed_by_the_next_one_before_the_end_is_waited_at() {
    let (asked, ended) = follow(
        "device events --follow --from 2026-11-21 --json",
        vec![page(&[event(0)], Some("next"), Some("tail")), page(&[event(1)], None, Some("tail-2")), gone()],
    );
    assert!(asked[0].starts_with("/v1/events?from=2026-11-21T00:00:00.000Z&order=asc"), "{asked:?}");
    assert!(asked[1].ends_with("&cursor=next") && asked[2].ends_with("&cursor=tail-2"), "{asked:?}");
    assert_eq!(ids(&ended), ["evt_0", "evt_1"]);
}

#[test]
fn a_cursor_of_before_goes_on_where_it_stood() {
    let (asked, _) = follow("delivery ls --follow --cursor tail-0", vec![gone()]);
    assert_eq!(asked, ["/v1/deliveries?order=asc&limit=1000&wait=30s&cursor=tail-0"]);
}

#[test]
fn an_empty_feed_is_waited_at_from_its_beginning() {
    let reading = json!({"ts": AT[0], "data": "open", "changed": true});
    let (asked, ended) = follow(
        "device readings lock7 --follow",
        vec![
            page(&[], None, None),
            page(&[], None, Some("tail-1")),
            page(&[reading], None, Some("tail-2")),
            gone(),
        ],
    );
    assert_eq!(asked[1], "/v1/devices/lock7/readings?order=asc&limit=1000&wait=30s");
    assert_eq!(ended.out, "TS                        VALUE\n2026-11-21 01:02:03.000Z  \"open\"  changed\n");
}

#[test]
fn a_server_that_goes_away_is_waited_for_and_nothing_is_shown_twice() {
    let busy = r#"{"status":503,"code":"starting","detail":"the server is starting"}"#;
    let (asked, ended) = follow(
        "device events --follow --all --json",
        vec![
            page(&[event(0)], None, Some("tail-1")),
            String::new(),
            answer("503 Service Unavailable", "", busy),
            page(&[event(1)], None, Some("tail-2")),
            gone(),
        ],
    );
    assert!(asked[1..4].iter().all(|asked| asked.ends_with("&cursor=tail-1")), "{asked:?}");
    assert_eq!(ids(&ended), ["evt_0", "evt_1"]);
    let (away, back) = (ended.err.matches("waiting for it").count(), ended.err.matches("is back").count());
    assert_eq!((away, back), (1, 1), "{ended:?}");
}

#[test]
fn what_cannot_be_followed_is_told() {
    let (_, ended) = follow("device events --follow --all", vec![page(&[event(0)], None, None)]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains("tail_cursor"), "{ended:?}");
    for (line, says) in [
        ("device events --follow --order desc", "leave --order out"),
        ("device events --follow --to 1h", "--to"),
    ] {
        let ended = run("http://127.0.0.1:9", &line.split_whitespace().collect::<Vec<_>>(), "");
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(says), "{ended:?}");
    }
    let ended = run("http://127.0.0.1:9", &["delivery", "ls", "--follow"], "");
    assert_eq!(ended.code, Some(3), "who was never there is not waited for: {ended:?}");
}
