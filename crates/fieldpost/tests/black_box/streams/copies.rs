//! Copies between real nodes. Everything ends up everywhere, once and in order, whoever is killed,
//! stopped or cut off, and whatever was made anew or restored.

mod chaos;
mod full_disk;
mod line;
mod links;
mod nodes;
mod origins;
mod receipts;
mod reports;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{append, append_numbers, numbers, read_all, refused};
use crate::contract::rig::PATIENCE;
use nodes::{TestNode, copied_to, start, until_copied};

const COPY: &str = "/v1/streams/shop/orders/copies/all";

#[tokio::test]
async fn what_one_node_is_given_ends_up_on_another_once_and_in_order() {
    let [one, two] = start(["one", "two"]).await;
    append_numbers(&one.rig, 1, 5).await;
    let put = json!({"direction": "to", "node": "two"}).to_string();
    let made = one.rig.json("PUT", COPY, &put).await;
    assert_eq!(made.status, 404, "there is no such node yet: {made:?}");
    one.knows(&two).await;
    let made = one.rig.json("PUT", COPY, &put).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(one.rig.json("PUT", COPY, &put).await.status, 200);
    append_numbers(&one.rig, 6, 995).await;
    append_numbers(&one.rig, 1_001, 1_000).await;
    let shown = until_copied(&one, COPY).await;
    // A batch whose answer took too long goes a second time.
    let count = |of: &str| shown[of].as_u64().expect("a count");
    assert_eq!(count("copied") + count("duplicates"), 2_000, "{shown}");
    assert_eq!((&shown["position"], &shown["state"]), (&json!("2000"), &json!("idle")), "{shown}");
    let there = read_all(&two.rig).await;
    assert_eq!(numbers(&there, "payload"), (1..=2_000).collect::<Vec<u64>>());
    let source = there[0]["source"].as_str().expect("a source");
    assert!(source.starts_with("one."), "{source}");
    assert_eq!(numbers(&there, "external_id"), (1..=2_000).collect::<Vec<u64>>());
    let answers = |node: &Value| node["reachable"] == true && node["error"].is_null();
    let node: Value = one.rig.api.until("/v1/nodes/two", PATIENCE, answers).await.expect("it answers");
    assert!(node["last_contact_at"].is_string() && node.get("token").is_none(), "{node}");
}

#[tokio::test]
async fn a_copy_from_a_node_brings_what_is_there_and_what_comes() {
    let [one, two] = start(["one", "two"]).await;
    append_numbers(&one.rig, 1, 10).await;
    two.knows(&one).await;
    two.copies(COPY, &json!({"direction": "from", "node": "one"})).await;
    super::until(&two.rig, |stream| stream["messages"] == 10).await;
    append_numbers(&one.rig, 11, 10).await;
    super::until(&two.rig, |stream| stream["messages"] == 20).await;
    assert_eq!(numbers(&read_all(&two.rig).await, "payload"), (1..=20).collect::<Vec<u64>>());
    let shown = until_copied(&two, COPY).await;
    assert_eq!((&shown["copied"], &shown["duplicates"]), (&json!(20), &json!(0)), "{shown}");
}

#[tokio::test]
async fn two_way_copies_and_rings_come_to_rest() {
    let nodes = start(["one", "two", "three"]).await;
    let [one, two, three] = &nodes;
    for (from, to) in [(one, two), (two, one), (two, three), (three, one)] {
        from.knows(to).await;
        let path = format!("/v1/streams/shop/orders/copies/{}", to.name);
        from.copies(&path, &json!({"direction": "to", "node": to.name})).await;
    }
    for round in 0..5 {
        for (place, node) in (0..).zip(&nodes) {
            append_numbers(&node.rig, place * 1_000 + round * 20, 20).await;
        }
    }
    for node in &nodes {
        super::until(&node.rig, |stream| stream["messages"] == 300).await;
    }
    for (from, to) in [(one, two), (two, one), (two, three), (three, one)] {
        until_copied(from, &format!("/v1/streams/shop/orders/copies/{}", to.name)).await;
    }
    for node in &nodes {
        let there = read_all(&node.rig).await;
        let mut all = numbers(&there, "payload");
        assert_eq!(all.len(), 300, "{}: each once", node.name);
        for place in 0..3 {
            let of_one: Vec<u64> = all.iter().copied().filter(|number| number / 1_000 == place).collect();
            assert!(of_one.is_sorted(), "{}: in order of its node", node.name);
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 300, "{}", node.name);
    }
}

#[tokio::test]
async fn a_copy_takes_its_segments_alone() {
    let [one, two] = start(["one", "two"]).await;
    let of = |number: u64| ["east", "west", "north"][number as usize % 3];
    let messages: Vec<Value> =
        (0..30).map(|number| json!({"payload": number, "segment": of(number)})).collect();
    append(&one.rig, &json!({"messages": messages})).await;
    one.knows(&two).await;
    let terms =
        json!({"direction": "to", "node": "two", "stream": "plant/some", "segments": ["east", "north"]});
    one.copies(COPY, &terms).await;
    until_copied(&one, COPY).await;
    let there = "/v1/streams/plant/some";
    assert_eq!(two.rig.get(there).await["messages"], 20);
    let items = two.rig.items(&format!("{there}/messages")).await;
    assert!(items.iter().all(|item| item["segment"] != "west"), "{items:?}");
}

#[tokio::test]
async fn a_copy_between_streams_of_one_node_needs_no_node() {
    let [one] = start(["one"]).await;
    append_numbers(&one.rig, 1, 3).await;
    let same = json!({"direction": "to", "node": "self"}).to_string();
    let answer = one.rig.json("PUT", COPY, &same).await;
    assert_eq!(refused(&answer), (422, "invalid_name".to_owned()));
    one.copies(COPY, &json!({"direction": "to", "node": "self", "stream": "shop/archive", "from": "1"}))
        .await;
    until_copied(&one, COPY).await;
    let items = one.rig.items("/v1/streams/shop/archive/messages").await;
    assert_eq!(numbers(&items, "payload"), [2, 3]);
}

#[tokio::test]
async fn a_paused_copy_rests_until_it_is_resumed() {
    let [one, two] = start(["one", "two"]).await;
    copied_to(&one, &two, COPY).await;
    append_numbers(&one.rig, 1, 2).await;
    until_copied(&one, COPY).await;
    assert_eq!(one.rig.json("POST", &format!("{COPY}/pause"), "").await.status, 204);
    append_numbers(&one.rig, 3, 2).await;
    let shown = one.rig.get(COPY).await;
    assert_eq!((&shown["state"], &shown["lag"]), (&json!("paused"), &json!(2)), "{shown}");
    assert!(shown["oldest_uncopied_at"].is_string(), "{shown}");
    assert_eq!(super::stream(&two.rig).await["messages"], 2);
    assert_eq!(one.rig.json("POST", &format!("{COPY}/resume"), "").await.status, 204);
    super::until(&two.rig, |stream| stream["messages"] == 4).await;
    let handlers = one.rig.items("/v1/streams/shop/orders/handlers").await;
    let copy = handlers.iter().find(|handler| handler["handler"] == "copy").expect("a copy");
    assert_eq!(copy["name"], "all", "{copy}");
    assert_eq!(one.rig.json("DELETE", COPY, "").await.status, 204);
    let gone = one.rig.json("POST", &format!("{COPY}/pause"), "").await;
    assert_eq!(refused(&gone), (404, "unknown_copy".to_owned()));
}

#[tokio::test]
async fn either_end_may_be_killed_at_any_point() {
    let [mut one, mut two] = start(["one", "two"]).await;
    copied_to(&one, &two, COPY).await;
    let back = "/v1/streams/shop/orders/copies/back";
    two.knows(&one).await;
    two.copies(back, &json!({"direction": "to", "node": "one"})).await;
    for round in 0..4 {
        append_numbers(&one.rig, round * 1_000, 700).await;
        append_numbers(&two.rig, 100_000 + round * 1_000, 700).await;
        if round % 2 == 0 { one.kill_and_start().await } else { two.kill_and_start().await }
    }
    for node in [&one, &two] {
        super::until(&node.rig, |stream| stream["messages"] == 5_600).await;
        let mut all = numbers(&read_all(&node.rig).await, "payload");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5_600, "{}", node.name);
    }
}

#[tokio::test]
async fn a_node_that_is_cut_off_or_stopped_gets_the_rest_when_it_is_back() {
    let [one, two] = start(["one", "two"]).await;
    copied_to(&one, &two, COPY).await;
    append_numbers(&one.rig, 1, 10).await;
    super::until(&two.rig, |stream| stream["messages"] == 10).await;
    two.line.cut();
    append_numbers(&one.rig, 11, 10).await;
    let waiting = |copy: &Value| copy["state"] == "waiting" && copy["error"].is_string();
    one.rig.api.until(COPY, PATIENCE, waiting).await.expect("it says so");
    let node = |node: &Value| node["reachable"] == false && node["error"].is_string();
    one.rig.api.until("/v1/nodes/two", PATIENCE, node).await.expect("it says so");
    two.line.mend();
    super::until(&two.rig, |stream| stream["messages"] == 20).await;
    two.signal("STOP").await;
    append_numbers(&one.rig, 21, 10).await;
    one.rig.api.until(COPY, PATIENCE, waiting).await.expect("it says so");
    two.signal("CONT").await;
    super::until(&two.rig, |stream| stream["messages"] == 30).await;
    let shown = until_copied(&one, COPY).await;
    assert_eq!(shown["error"], Value::Null, "{shown}");
    assert_eq!(numbers(&read_all(&two.rig).await, "payload"), (1..=30).collect::<Vec<u64>>());
}

/// Longest time from the return of a peer until its copy goes on, and much for a busy machine. With
/// batches that are not made smaller it would be minutes.
const BEGINS_AGAIN: Duration = Duration::from_secs(5 + 55);

#[tokio::test]
async fn a_line_that_falls_silent_is_noticed_and_its_return_too() {
    let [one, two] = start(["one", "two"]).await;
    copied_to(&one, &two, COPY).await;
    append_numbers(&one.rig, 1, 10).await;
    super::until(&two.rig, |stream| stream["messages"] == 10).await;
    two.line.fall_silent();
    // A megabyte: on a slow line it would take minutes.
    let text = "x".repeat(50_000);
    let heavy: Vec<Value> = (11..=30).map(|_| json!({ "payload": text })).collect();
    append(&one.rig, &json!({"messages": heavy})).await;
    let waiting = |copy: &Value| copy["state"] == "waiting" && copy["error"].is_string();
    one.rig.api.until(COPY, PATIENCE, waiting).await.expect("it says so");
    two.line.mend();
    let mended = Instant::now();
    let all = |stream: &Value| stream["messages"] == 30;
    let _: Value = two.rig.api.until(super::S, BEGINS_AGAIN * 2, all).await.expect("they come");
    assert!(mended.elapsed() < BEGINS_AGAIN, "{:?}", mended.elapsed());
    let ids = numbers(&read_all(&two.rig).await, "external_id");
    assert_eq!(ids, (1..=30).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_copy_that_is_to_begin_behind_what_a_peer_has_is_refused() {
    let [one, two] = start(["one", "two"]).await;
    append_numbers(&one.rig, 1, 5).await;
    two.knows(&one).await;
    for (node, stream, from, expect) in [
        ("one", "shop/orders", "6", Some((422, "invalid_from".to_owned()))),
        ("one", "shop/none", "1", Some((422, "invalid_from".to_owned()))),
        ("self", "shop/none", "1", Some((422, "invalid_from".to_owned()))),
        ("one", "shop/orders", "5", None),
    ] {
        let terms = json!({"direction": "from", "node": node, "stream": stream, "from": from}).to_string();
        let mut answer = two.rig.json("PUT", COPY, &terms).await;
        // A node that is too busy to answer is not waited for.
        let begun = Instant::now();
        while expect.is_some() && answer.status < 400 && begun.elapsed() < PATIENCE {
            assert_eq!(two.rig.json("DELETE", COPY, "").await.status, 204);
            answer = two.rig.json("PUT", COPY, &terms).await;
        }
        let is_refused = (answer.status >= 400).then(|| refused(&answer));
        assert_eq!(is_refused, expect, "{terms}");
    }
    append_numbers(&one.rig, 6, 1).await;
    super::until(&two.rig, |stream| stream["messages"] == 1).await;
    // A node that does not answer is not waited for; the copy says what is wrong once it does.
    one.line.cut();
    let late = json!({"direction": "from", "node": "one", "from": "99"}).to_string();
    let other = "/v1/streams/shop/orders/copies/late";
    assert_eq!(two.rig.json("PUT", other, &late).await.status, 201);
    one.line.mend();
    let says = |copy: &Value| copy["error"].as_str().is_some_and(|error| error.contains("invalid_from"));
    two.rig.api.until(other, PATIENCE, says).await.expect("it says so");
}

#[tokio::test]
async fn what_a_peer_refuses_is_said_and_never_skipped() {
    let [one, two] = start(["one", "two"]).await;
    // Not even one of them has room there: what is refused goes again in smaller batches.
    let messages: Vec<Value> = (1..=3).map(|_| json!({"payload": "x".repeat(1_200)})).collect();
    append(&one.rig, &json!({"messages": messages})).await;
    let full = json!({"keep": {"age": null, "bytes": "1KB"}, "when_full": "reject"});
    let set = two.rig.json("PUT", "/v1/streams/shop/orders/settings", &full.to_string()).await;
    assert_eq!(set.status, 204, "{set:?}");
    one.knows(&two).await;
    one.copies(COPY, &json!({"direction": "to", "node": "two"})).await;
    let waiting = |copy: &Value| copy["error"].as_str().is_some_and(|error| error.contains("stream_full"));
    let shown: Value = one.rig.api.until(COPY, PATIENCE, waiting).await.expect("it says so");
    assert_eq!((&shown["state"], &shown["position"]), (&json!("waiting"), &json!("0")), "{shown}");
    super::set(&two.rig, &json!({})).await;
    super::until(&two.rig, |stream| stream["messages"] == 3).await;
}

#[tokio::test]
async fn a_rate_is_kept() {
    let [one, two] = start(["one", "two"]).await;
    one.knows(&two).await;
    let messages: Vec<Value> = (0..100).map(|_| json!({"payload": "x".repeat(1_000)})).collect();
    append(&one.rig, &json!({"messages": messages})).await;
    super::set(&two.rig, &json!({})).await;
    let terms = json!({"direction": "to", "node": "two", "rate": 1_000});
    one.copies(COPY, &terms).await;
    super::until(&two.rig, |stream| stream["messages"].as_u64() > Some(0)).await;
    assert_ne!(super::stream(&two.rig).await["messages"], 100, "a hundred seconds are not over");
    one.copies(COPY, &json!({"direction": "to", "node": "two", "rate": null})).await;
    super::until(&two.rig, |stream| stream["messages"] == 100).await;
}

#[tokio::test]
async fn what_is_not_copied_outlives_its_age_and_is_counted_where_it_goes() {
    let [one, two] = start(["one", "two"]).await;
    copied_to(&one, &two, COPY).await;
    two.line.cut();
    let short = json!({"keep": {"age": "1s"}, "block": {"messages": 1, "age": "1s", "bytes": "64KB"}});
    super::set(&one.rig, &short).await;
    append_numbers(&one.rig, 1, 3).await;
    super::until(&one.rig, |stream| stream["storages"]["local"]["blocks"] == 3).await;
    // Another stream without a copy loses what is as old: its time was over.
    let other = "/v1/streams/shop/others";
    let set = one.rig.json("PUT", &format!("{other}/settings"), &short.to_string()).await;
    assert_eq!(set.status, 204, "{set:?}");
    one.rig.json("POST", &format!("{other}/messages"), r#"{"payload":1}"#).await;
    one.rig.api.until(other, PATIENCE, |stream: &Value| stream["messages"] == 0).await.expect("it goes");
    assert_eq!(super::stream(&one.rig).await["messages"], 3);
    two.line.mend();
    super::until(&two.rig, |stream| stream["messages"] == 3).await;
    super::until(&one.rig, |stream| stream["messages"] == 0).await;
    assert_eq!(one.rig.get(COPY).await["dropped"], 0);
    two.line.cut();
    super::set(&one.rig, &json!({"keep": {"bytes": "1KB"}, "block": {"messages": 1}})).await;
    for _ in 0..4 {
        append(&one.rig, &json!({"payload": "x".repeat(600)})).await;
    }
    let dropped = |copy: &Value| copy["dropped"].as_u64() > Some(0);
    one.rig.api.until(COPY, PATIENCE, dropped).await.expect("it is counted");
}
