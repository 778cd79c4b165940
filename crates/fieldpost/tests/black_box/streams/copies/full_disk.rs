//! Nodes that copy to each other while the disk of one gets full: the other goes on. Once there is
//! room everything that was acknowledged is on both, once and in order.

use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};
use simulator::server::Site;

use super::super::{S, append_numbers, numbers, read_all, refused, set, until};
use super::nodes::{TestNode, copied_to, until_copied};
use super::{COPY, PATIENCE};
use crate::contract::rig::{BINARY, Rig};
use crate::faults::disk::Disk;

/// Of a mounted disk: below the bound from which `when_full` decides, and above what the store
/// needs.
const LITTLE: u64 = 17_000_000;
/// Messages of an append.
const MESSAGES: u64 = 50;
/// Far more appends than fit where a limit takes the place of a full disk.
const APPENDS_MAX: u64 = 10_000;
/// More numbers than are appended in a row.
const FAR: u64 = MESSAGES * APPENDS_MAX;

fn site(name: &str) -> Site {
    let settings = [("FIELDPOST_NODE__NAME", name), ("FIELDPOST_STREAMS__DISK_FREE", "512MB")];
    Site::new(Path::new(BINARY), &settings).expect("a directory")
}

/// A node, and the disk below its data.
async fn on_disk(name: &'static str) -> (TestNode, Disk) {
    let mut site = site(name);
    let disk = Disk::below(&mut site).expect("a disk");
    (TestNode::on(name, Rig::on(site).await).await, disk)
}

async fn copy_both_ways(one: &TestNode, two: &TestNode) {
    copied_to(one, two, COPY).await;
    copied_to(two, one, COPY).await;
}

/// Waits until the copy of `node` has failed, and says so.
async fn until_waiting(node: &TestNode) {
    let is_waiting = |copy: &Value| copy["state"] == "waiting" && copy["error"].is_string();
    let _: Value = node.rig.api.until(COPY, PATIENCE, is_waiting).await.expect("it says so");
}

/// Appends numbers from `first` on until they are refused: those that were taken.
async fn append_until_refused(node: &TestNode, first: u64) -> Range<u64> {
    for next in (first..first + FAR).step_by(MESSAGES as usize) {
        let messages: Vec<Value> = (next..next + MESSAGES).map(|number| json!({"payload": number})).collect();
        let body = json!({ "messages": messages }).to_string();
        let answer = node.rig.json("POST", &format!("{S}/messages"), &body).await;
        if answer.status == 503 {
            return first..next;
        }
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    panic!("{} takes everything", node.name);
}

/// Checks that both have all that was acknowledged once and in order, and nothing that the other
/// has not.
async fn check(nodes: [&TestNode; 2], acknowledged: &[Range<u64>]) {
    let mut found = Vec::new();
    for node in nodes {
        until_copied(node, COPY).await;
    }
    for node in nodes {
        let mut there = numbers(&read_all(&node.rig).await, "payload");
        for range in acknowledged {
            let of_range: Vec<u64> = there.iter().copied().filter(|number| range.contains(number)).collect();
            assert_eq!(of_range, range.clone().collect::<Vec<u64>>(), "{}", node.name);
        }
        there.sort_unstable();
        assert!(there.is_sorted_by(|a, b| a < b), "{}: once", node.name);
        found.push(there);
    }
    assert_eq!(found[0], found[1]);
}

#[tokio::test]
async fn whichever_disk_is_full_nothing_acknowledged_is_lost_or_doubled() {
    let (mut one, mut two) = (on_disk("one").await, on_disk("two").await);
    copy_both_ways(&one.0, &two.0).await;
    for (node, _) in [&one, &two] {
        // Otherwise the oldest block goes as soon as it is closed while there is hardly any room.
        set(&node.rig, &json!({"when_full": "reject"})).await;
    }
    append_numbers(&one.0.rig, 0, MESSAGES).await;
    let first = 0..MESSAGES;
    let mut acknowledged = vec![first];
    for round in [1, 2] {
        check([&one.0, &two.0], &acknowledged).await;
        let ((full, disk), (other, _)) = if round == 1 { (&mut two, &one) } else { (&mut one, &two) };
        disk.fill(full.rig.process_id()).expect("filled");
        let first = 2 * round * FAR;
        acknowledged.push(append_until_refused(full, first).await);
        append_numbers(&other.rig, first + FAR, MESSAGES).await;
        until_waiting(other).await;
        append_numbers(&other.rig, first + FAR + MESSAGES, MESSAGES).await;
        acknowledged.push(first + FAR..first + FAR + 2 * MESSAGES);
        disk.make_room().expect("room");
        full.kill_and_start().await;
    }
    check([&one.0, &two.0], &acknowledged).await;
}

#[tokio::test]
async fn a_node_on_a_nearly_full_disk_takes_the_rest_when_there_is_room() {
    let mut site = site("two");
    let Some(disk) = Disk::mounted(&mut site).expect("mounted or not") else {
        eprintln!("nothing can be mounted here: how copies see a disk fill is not tested");
        return;
    };
    let (one, two) = (TestNode::start("one").await, TestNode::on("two", Rig::on(site).await).await);
    copy_both_ways(&one, &two).await;
    set(&two.rig, &json!({"when_full": "reject"})).await;
    append_numbers(&one.rig, 0, MESSAGES).await;
    until_copied(&one, COPY).await;
    disk.leave(LITTLE).expect("filled");
    let taken = append_until_refused(&two, FAR).await;
    append_numbers(&one.rig, MESSAGES, MESSAGES).await;
    let says = |copy: &Value| copy["error"].as_str().is_some_and(|error| error.contains("stream_full"));
    let _: Value = one.rig.api.until(COPY, PATIENCE, says).await.expect("it says so");
    // What it has goes out all the same.
    until_copied(&two, COPY).await;
    let answer = two.rig.json("POST", &format!("{S}/messages"), r#"{"payload":0}"#).await;
    assert_eq!(refused(&answer), (503, "stream_full".to_owned()));
    disk.make_room().expect("room");
    until(&two.rig, |stream| stream["messages"] == 2 * MESSAGES + taken.end - taken.start).await;
    check([&one, &two], &[0..2 * MESSAGES, taken]).await;
}
