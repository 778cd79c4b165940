//! Lists: their pages neither miss nor repeat an item, and a cursor is good for its own list only.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{Clock, Timestamp};
use serde_json::Value as Json;

use crate::rig::Server;

/// The values of a member over all pages of a list, and how many pages there were. `between` runs
/// between two.
async fn walk(
    server: &Server,
    path: &str,
    member: &str,
    between: impl AsyncFn(usize),
) -> (Vec<String>, usize) {
    let join = if path.contains('?') { '&' } else { '?' };
    let (mut found, mut pages, mut next) = (Vec::new(), 0, path.to_owned());
    loop {
        let page = server.get(&next).await;
        let items = page["items"].as_array().expect("a list");
        found.extend(items.iter().map(|item| text(&item[member])));
        pages += 1;
        let Some(cursor) = page["next_cursor"].as_str() else { return (found, pages) };
        next = format!("{path}{join}cursor={cursor}");
        between(pages).await;
    }
}

fn text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn numbered(prefix: &str, numbers: impl Iterator<Item = usize>) -> Vec<String> {
    numbers.map(|n| format!("{prefix}{n:02}")).collect()
}

#[tokio::test]
async fn registry_lists_are_in_order_of_id_also_while_they_grow() {
    let server = Server::start().await;
    for n in (0..20).rev() {
        server.add_device(&format!("d{n:02}")).await;
        server.add_client(&format!("c{n:02}")).await;
        server.link(&format!("d{n:02}"), "c19").await;
        server.link("d19", &format!("c{n:02}")).await;
    }
    for (path, prefix) in [
        ("/v1/devices?limit=7", "d"),
        ("/v1/clients?limit=7", "c"),
        ("/v1/clients/c19/devices?limit=7", "d"),
        ("/v1/devices/d19/clients?limit=7", "c"),
    ] {
        let (found, pages) = walk(&server, path, "id", async |_| {}).await;
        assert_eq!((found, pages), (numbered(prefix, 0..20), 3), "{path}");
    }
    let growing = async |page: usize| server.add_device(&format!("d{:02}", 30 - page)).await;
    let (found, _) = walk(&server, "/v1/devices?limit=7", "id", growing).await;
    assert_eq!(found[..20], numbered("d", 0..20));
    assert!(found.is_sorted(), "{found:?}");
}

#[tokio::test]
async fn the_last_page_says_so() {
    let server = Server::start().await;
    for n in 0..4 {
        server.add_device(&format!("d{n}")).await;
    }
    for (limit, pages) in [(1, 4), (2, 2), (3, 2), (4, 1), (5, 1), (1_000, 1)] {
        let (found, walked) = walk(&server, &format!("/v1/devices?limit={limit}"), "id", async |_| {}).await;
        assert_eq!((found.len(), walked), (4, pages), "limit {limit}");
    }
}

#[tokio::test]
async fn a_hundred_items_make_a_page() {
    let server = Server::start().await;
    for n in 0..101 {
        server.add_device(&format!("d{n}")).await;
    }
    let page = server.get("/v1/devices").await;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(100));
    assert!(page["next_cursor"].is_string(), "{}", page["next_cursor"]);
}

/// Three devices of different partitions, each linked to one client, and `count` events of each.
async fn with_events(count: i32) -> Server {
    let server = Server::start().await;
    server.add_client("c").await;
    for device in ["a", "b", "d"] {
        server.add_device(device).await;
        server.link(device, "c").await;
    }
    report_all(&server, 0..count).await;
    server
}

async fn report_all(server: &Server, numbers: std::ops::Range<i32>) {
    for n in numbers {
        for device in ["a", "b", "d"] {
            server.report(device, n % 2).await;
        }
    }
}

#[tokio::test]
async fn a_feed_read_backwards_is_not_disturbed_by_what_comes() {
    let server = with_events(10).await;
    for (path, expect) in [
        ("/v1/events?limit=7", 30),
        ("/v1/events?limit=3&device=b", 10),
        ("/v1/deliveries?limit=7", 30),
        ("/v1/deliveries?limit=7&client=c", 30),
        ("/v1/deliveries?limit=4&device=d", 10),
    ] {
        let before: BTreeSet<_> = walk(&server, path, "id", async |_| {}).await.0.into_iter().collect();
        let growing = async |page: usize| report_all(&server, (page as i32)..(page as i32 + 1)).await;
        let (found, pages) = walk(&server, path, "id", growing).await;
        let unique: BTreeSet<_> = found.iter().cloned().collect();
        assert_eq!(unique.len(), found.len(), "{path} repeats");
        assert_eq!(unique, before, "{path} misses, or shows what came later");
        assert!(pages > 2 && found.len() >= expect, "{path}: {pages} pages");
    }
}

#[tokio::test]
async fn a_feed_read_forwards_shows_what_comes() {
    let server = with_events(4).await;
    for (path, member) in
        [("/v1/events?limit=5&order=asc", "ts"), ("/v1/deliveries?limit=5&order=asc", "created_at")]
    {
        let growing = async |page: usize| {
            if page < 4 {
                report_all(&server, (page as i32)..(page as i32 + 1)).await;
            }
        };
        let (found, _) = walk(&server, path, "id", growing).await;
        let (all, _) = walk(&server, path, "id", async |_| {}).await;
        assert_eq!(found, all, "{path}");
        let (times, _) = walk(&server, path, member, async |_| {}).await;
        assert!(times.is_sorted(), "{path}");
    }
}

#[tokio::test]
async fn a_feed_backwards_is_the_feed_forwards_reversed() {
    let server = with_events(5).await;
    server.report_at("a", 0, Some(Timestamp(server.clock.now().0 - 3_600_000))).await;
    for path in ["/v1/events?limit=4", "/v1/deliveries?limit=4", "/v1/devices/a/readings?limit=2"] {
        let member = if path.contains("readings") { "ts" } else { "id" };
        let (mut backwards, _) = walk(&server, path, member, async |_| {}).await;
        let (forwards, _) = walk(&server, &format!("{path}&order=asc"), member, async |_| {}).await;
        backwards.reverse();
        assert_eq!(backwards, forwards, "{path}");
        assert!(forwards.len() > 5, "{path}");
    }
}

#[tokio::test]
async fn readings_of_the_same_moment_are_all_shown() {
    let server = Server::start().await;
    server.add_device("a").await;
    let ts = server.clock.now();
    for n in 0..10 {
        server.report_at("a", n % 2, Some(ts)).await;
    }
    for order in ["asc", "desc"] {
        let path = format!("/v1/devices/a/readings?limit=3&order={order}");
        let (found, _) = walk(&server, &path, "data", async |_| {}).await;
        assert_eq!(found.len(), 10, "{order}: {found:?}");
    }
}

#[tokio::test]
async fn a_span_includes_its_beginning_and_not_its_end() {
    let server = Server::start().await;
    server.add_device("a").await;
    let begin = server.clock.now();
    for n in 0..4 {
        server.report_at("a", n % 2, Some(begin.after(Duration::from_millis(n as u64)))).await;
    }
    let at = |ms: u64| begin.after(Duration::from_millis(ms)).to_string();
    let elsewhere = at(1).replace('Z', "+00:00");
    for (query, expect) in [
        (String::new(), 4),
        (format!("from={}", at(1)), 3),
        (format!("to={}", at(1)), 1),
        (format!("from={}&to={}", at(1), at(3)), 2),
        (format!("from={}&to={}", at(3), at(1)), 0),
        (format!("from={}", elsewhere.replace('+', "%2B")), 3),
        (format!("from={elsewhere}"), 3),
        ("from=0001-01-01T00:00:00Z&to=9999-12-30T00:00:00Z".to_owned(), 4),
        ("to=0001-01-01T00:00:00Z".to_owned(), 0),
    ] {
        let (found, _) = walk(&server, &format!("/v1/devices/a/readings?{query}"), "ts", async |_| {}).await;
        assert_eq!(found.len(), expect, "{query}: {found:?}");
    }
    for query in ["from=0001-01-01T00:00:00Z", "to=0001-01-01T00:00:00Z"] {
        let expect = if query.starts_with("from") { 4 } else { 0 };
        for feed in ["/v1/events", "/v1/deliveries"] {
            let expect = if feed == "/v1/events" { expect } else { 0 };
            let (found, _) = walk(&server, &format!("{feed}?{query}"), "id", async |_| {}).await;
            assert_eq!(found.len(), expect, "{feed}?{query}");
        }
    }
}

#[tokio::test]
async fn a_cursor_is_good_for_its_own_list_only() {
    let server = with_events(4).await;
    let cursor = async |path: &str| text(&server.get(path).await["next_cursor"]);
    let events = cursor("/v1/events?limit=2&device=a").await;
    let devices = cursor("/v1/devices?limit=2").await;
    let readings = cursor("/v1/devices/a/readings?limit=2").await;
    server.check(&format!("GET /v1/events?device=a&limit=9&cursor={events}"), "", 200, "{}").await;
    for foreign in [
        format!("/v1/events?limit=2&cursor={events}"),
        format!("/v1/events?limit=2&device=b&cursor={events}"),
        format!("/v1/events?limit=2&device=a&order=asc&cursor={events}"),
        format!("/v1/events?limit=2&device=a&type=device.lost&cursor={events}"),
        format!("/v1/deliveries?limit=2&device=a&cursor={events}"),
        format!("/v1/devices?limit=2&cursor={events}"),
        format!("/v1/devices?limit=2&kind=lock&cursor={devices}"),
        format!("/v1/clients?limit=2&cursor={devices}"),
        format!("/v1/clients/c/devices?limit=2&cursor={devices}"),
        format!("/v1/devices/b/readings?limit=2&cursor={readings}"),
        format!("/v1/devices?limit=2&cursor={}", &devices[1..]),
        format!("/v1/devices?limit=2&cursor={devices}A"),
        format!("/v1/devices?limit=2&cursor={}", devices.to_lowercase()),
    ] {
        server.check(&format!("GET {foreign}"), "", 400, "invalid_cursor").await;
    }
}

#[tokio::test]
async fn short_lists_have_pages_too() {
    let server = Server::start().await;
    server.add_client("acme").await;
    for _ in 0..3 {
        let opened = server.call("POST /v1/clients/acme/portal", r#"{"ttl":"1h","may":["read"]}"#).await;
        assert_eq!(opened.status, 201, "{}", opened.text);
    }
    server.call("PUT /v1/streams/n/s/settings", "{}").await;
    for (path, member, most) in
        [("/v1/clients/acme/portal", "id", 3), ("/v1/streams/n/s/handlers", "handler", 2)]
    {
        let (found, pages) = walk(&server, &format!("{path}?limit=1"), member, async |_| {}).await;
        assert_eq!((found.len(), pages), (most, most), "{path}: {found:?}");
        for (query, status, code) in [
            ("limit=0", 422, "invalid_parameter"),
            ("cursor=zz", 400, "invalid_cursor"),
            ("colour=red", 422, "unknown_parameter"),
        ] {
            server.check(&format!("GET {path}?{query}"), "", status, code).await;
        }
    }
}

#[tokio::test]
async fn a_call_that_shows_one_object_takes_no_parameter_that_it_does_not_know() {
    let server = Server::start().await;
    server.add_device("d").await;
    for path in ["/v1/devices/d", "/v1/system", "/v1/queues/a/b"] {
        server.check(&format!("GET {path}?colour=red"), "", 422, "unknown_parameter").await;
    }
    // Whoever asks for health may ask as it likes.
    assert_eq!(server.call("GET /healthz?colour=red", "").await.status, 200);
}
