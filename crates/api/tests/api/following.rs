//! Feeds that are followed: where they go on later, and pages that wait for their first item.

use std::time::Duration;

use axum::Router;
use serde_json::Value as Json;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::rig::Server;

const PATIENCE: Duration = Duration::from_secs(20);

/// The `member` of each item, and where the feed goes on.
fn shown(page: &Json, member: &str) -> (Vec<Json>, String) {
    let items = page["items"].as_array().expect("items");
    let tail = page["tail_cursor"].as_str().expect("a cursor");
    (items.iter().map(|item| item[member].clone()).collect(), tail.to_owned())
}

async fn with_a_device() -> Server {
    let server = Server::start().await;
    server.add_device("a").await;
    server.add_device("b").await;
    server
}

/// The feeds, with what makes them grow, and the member that tells their items apart.
const FEEDS: [(&str, &str); 4] = [
    ("/v1/events?order=asc", "sequence"),
    ("/v1/events?order=asc&device=a&type=device.changed", "sequence"),
    ("/v1/deliveries?order=asc", "device_id"),
    ("/v1/devices/a/readings?order=asc", "data"),
];

#[tokio::test]
async fn a_tail_cursor_goes_on_behind_what_was_shown() {
    let server = with_a_device().await;
    server.add_client("c").await;
    server.link("a", "c").await;
    for (feed, _) in FEEDS {
        assert!(
            server.get(&feed.replace("order=asc", "order=desc")).await["tail_cursor"].is_null(),
            "{feed}"
        );
    }
    let mut tails = Vec::new();
    for (feed, member) in FEEDS {
        let (items, tail) = shown(&server.get(feed).await, member);
        assert!(items.is_empty(), "{feed}");
        let (items, again) = shown(&server.get(&format!("{feed}&cursor={tail}")).await, member);
        assert!(items.is_empty() && again == tail, "{feed}: nothing came");
        tails.push(tail);
    }
    for value in [1, 0] {
        server.report("a", value).await;
        for ((feed, member), tail) in FEEDS.into_iter().zip(&mut tails) {
            let (items, next) = shown(&server.get(&format!("{feed}&cursor={tail}")).await, member);
            assert_eq!(items.len(), 1, "{feed} after {value}");
            *tail = next;
        }
    }
    let server = server.restart().await;
    for ((feed, member), tail) in FEEDS.into_iter().zip(&tails) {
        assert!(shown(&server.get(&format!("{feed}&cursor={tail}")).await, member).0.is_empty(), "{feed}");
        assert_eq!(shown(&server.get(feed).await, member).0.len(), 2, "{feed} from its beginning");
    }
}

#[tokio::test]
async fn a_page_waits_for_its_first_item() {
    let server = with_a_device().await;
    server.add_client("c").await;
    server.link("a", "c").await;
    let mut value = 0;
    for (feed, member) in FEEDS {
        let tail = shown(&server.get(feed).await, member).1;
        value = 1 - value;
        let path = format!("{feed}&cursor={tail}&wait=60s");
        let waiting = server.get(&path);
        let reporting = async {
            server.report("b", value).await;
            server.report("a", value).await;
        };
        let both = async { tokio::join!(waiting, reporting).0 };
        let page = timeout(PATIENCE, both).await.unwrap_or_else(|_| panic!("{feed} is not told"));
        let (items, next) = shown(&page, member);
        assert!(!items.is_empty() && next != tail, "{feed}: {page}");
    }
}

#[tokio::test]
async fn whoever_waits_for_something_of_a_device_is_told_at_once_that_it_is_deleted() {
    for feed in ["commands", "timeline", "readings"] {
        let server = with_a_device().await;
        let waiting = format!("GET /v1/devices/a/{feed}?order=asc&wait=60s");
        let waiting = server.check(&waiting, "", 404, "unknown_device");
        let both = async { tokio::join!(waiting, server.check("DELETE /v1/devices/a", "", 204, "")) };
        timeout(PATIENCE, both).await.unwrap_or_else(|_| panic!("{feed} is not told"));
    }
}

#[tokio::test]
async fn a_wait_that_brings_nothing_ends_with_an_empty_page() {
    let server = with_a_device().await;
    let began = Instant::now();
    let page = server.get("/v1/events?order=asc&wait=20ms").await;
    assert!(
        page["items"].as_array().expect("items").is_empty() && began.elapsed() >= Duration::from_millis(20)
    );
    let quarantine = server.get("/v1/quarantine?order=asc&wait=20ms").await;
    assert!(quarantine["tail_cursor"].is_string());
    server.report("b", 1).await;
    let other = server.get("/v1/events?device=a&wait=20ms").await;
    assert!(
        other["items"].as_array().expect("items").is_empty(),
        "another device's event is none of this one's"
    );
}

#[tokio::test]
async fn waits_are_for_pages_of_feeds_and_no_longer_than_a_minute() {
    let server = with_a_device().await;
    for path in ["/v1/events?wait=61s", "/v1/events?wait=x", "/v1/events?wait=-1s"] {
        server.check(&format!("GET {path}"), "", 422, "invalid_parameter").await;
    }
    server.check("GET /v1/devices?wait=1s", "", 422, "unknown_parameter").await;
    server.check("GET /v1/devices/none/readings?wait=30s", "", 404, "unknown_device").await;
}

#[tokio::test]
async fn a_server_that_stops_answers_who_waits() {
    let server = with_a_device().await;
    let stop = watch::Sender::new(false);
    let server = server.ended_by(stop.subscribe());
    let waiting = server.get("/v1/events?order=asc&wait=60s");
    let stopping = async { stop.send_replace(true) };
    let both = async { tokio::join!(waiting, stopping).0 };
    let page = timeout(PATIENCE, both).await.expect("it does not wait on");
    assert!(page["items"].as_array().expect("items").is_empty());
}

/// Many callers that wait for one thing all get it.
#[tokio::test]
async fn everybody_who_waits_is_told() {
    let server = Server::start_with(2, Router::new()).await;
    server.add_device("a").await;
    let waiting = futures_util::future::join_all((0..64).map(|_| server.get("/v1/events?device=a&wait=60s")));
    let both = async { tokio::join!(waiting, server.report("a", 1)).0 };
    let pages = timeout(PATIENCE, both).await.expect("in time");
    assert!(pages.iter().all(|page| page["items"].as_array().is_some_and(|items| items.len() == 1)));
}
