//! Identity: what was made anew, restored or set up again is never taken for what was there.

use serde_json::{Value, json};

use super::super::{S, append, append_numbers, numbers, read_all, set, stream, until};
use super::COPY;
use super::nodes::{TestNode, copied_to, start, until_copied};
use crate::contract::rig::PATIENCE;
use crate::directories::program::{run, word};

async fn origins(node: &TestNode) -> Vec<(String, u64)> {
    let page = node.rig.get(&format!("{S}/messages?origin=true&limit=1000")).await;
    let items = page["items"].as_array().expect("items").clone();
    let source = |item: &Value| item["source"].as_str().expect("a source").to_owned();
    items.iter().map(source).zip(numbers(&items, "external_id")).collect()
}

#[tokio::test]
async fn a_message_without_a_source_is_called_by_node_and_stream() {
    let [one] = start(["device-7"]).await;
    append(&one.rig, &json!({"messages": [{"payload": 1}, {"payload": 2, "source": "s", "external_id": 9}]}))
        .await;
    let all = origins(&one).await;
    assert!(all[0].0.starts_with("device-7.") && all[0].1 == 1, "{all:?}");
    assert_eq!(all[1], ("s".to_owned(), 9));
    let plain = read_all(&one.rig).await;
    assert!(plain[0]["source"].is_null() && plain[0]["external_id"].is_null(), "{plain:?}");
    let again = json!({"payload": 1, "source": all[0].0, "external_id": 1});
    let known = append(&one.rig, &again).await;
    assert_eq!((&known[0]["duplicate"], &known[0]["id"]), (&json!(true), &json!("1")));
    assert_eq!(one.rig.json("DELETE", S, "").await.status, 204);
    append_numbers(&one.rig, 1, 1).await;
    assert_ne!(origins(&one).await[0].0, all[0].0, "made again, it is another one");
}

#[tokio::test]
async fn a_stream_made_again_is_copied_as_new() {
    let [one, two] = start(["one", "two"]).await;
    copied_to(&one, &two, COPY).await;
    append_numbers(&one.rig, 1, 5).await;
    until(&two.rig, |stream| stream["messages"] == 5).await;
    assert_eq!(one.rig.json("DELETE", S, "").await.status, 204);
    append_numbers(&one.rig, 101, 5).await;
    copied_to(&one, &two, COPY).await;
    until(&two.rig, |stream| stream["messages"] == 10).await;
    assert_eq!(numbers(&read_all(&two.rig).await, "payload"), [1, 2, 3, 4, 5, 101, 102, 103, 104, 105]);
}

#[tokio::test]
async fn a_peers_stream_that_was_made_anew_is_seen() {
    let [one, two] = start(["one", "two"]).await;
    append_numbers(&one.rig, 1, 5).await;
    two.knows(&one).await;
    two.copies(COPY, &json!({"direction": "from", "node": "one"})).await;
    until(&two.rig, |stream| stream["messages"] == 5).await;
    until_copied(&two, COPY).await;
    assert_eq!(one.rig.json("DELETE", S, "").await.status, 204);
    append_numbers(&one.rig, 101, 3).await;
    // The state is shown for five seconds, the time stays.
    let is_seen = |copy: &Value| copy["state"] == "source_reset" || copy["source_reset_at"].is_string();
    two.rig.api.until(COPY, PATIENCE, is_seen).await.expect("it is seen");
    until(&two.rig, |stream| stream["messages"] == 8).await;
    assert_eq!(numbers(&read_all(&two.rig).await, "payload"), [1, 2, 3, 4, 5, 101, 102, 103]);
}

#[tokio::test]
async fn a_peer_that_lost_its_stream_gets_everything_again() {
    let [one, two] = start(["one", "two"]).await;
    copied_to(&one, &two, COPY).await;
    append_numbers(&one.rig, 1, 5).await;
    until(&two.rig, |stream| stream["messages"] == 5).await;
    until_copied(&one, COPY).await;
    assert_eq!(two.rig.json("DELETE", S, "").await.status, 204);
    set(&two.rig, &json!({})).await;
    append_numbers(&one.rig, 6, 1).await;
    until(&two.rig, |stream| stream["messages"] == 6).await;
    let mut all = numbers(&read_all(&two.rig).await, "payload");
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_restored_node_loses_nothing_and_repeats_nothing() {
    let [mut one, two] = start(["one", "two"]).await;
    copied_to(&one, &two, COPY).await;
    two.knows(&one).await;
    two.copies("/v1/streams/shop/orders/copies/back", &json!({"direction": "to", "node": "one"})).await;
    append_numbers(&one.rig, 1, 5).await;
    until(&two.rig, |stream| stream["messages"] == 5).await;
    until_copied(&one, COPY).await;
    let backup = one.rig.site.data_dir().with_file_name("backup");
    let url = format!("http://{}", one.rig.site.http.address().await);
    let ended = run(&["backup", word(&backup), "--url", &url]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // What comes later is copied, and is not in the backup.
    append_numbers(&one.rig, 6, 3).await;
    until(&two.rig, |stream| stream["messages"] == 8).await;
    one.rig.kill().await;
    let data = one.rig.site.data_dir();
    std::fs::remove_dir_all(&data).expect("removed");
    let ended = run(&["restore", word(&backup), "--data-dir", word(&data)]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    one.rig.start_again().await;
    one.line.lead_to(one.rig.site.http.address().await);
    // It gives the ids of what was lost again: to other messages.
    append_numbers(&one.rig, 106, 3).await;
    for node in [&one, &two] {
        until(&node.rig, |stream| stream["messages"] == 11).await;
        let mut all = numbers(&read_all(&node.rig).await, "payload");
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8, 106, 107, 108], "{}", node.name);
    }
    let checked = stream(&one.rig).await;
    assert_eq!(checked["messages"], 11);
}

/// Copies a folder with all that is in it.
fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    let copied = std::process::Command::new("cp").arg("-r").arg(from).arg(to).status();
    assert!(copied.expect("cp").success());
}

#[tokio::test]
async fn a_copied_data_directory_calls_new_messages_by_names_of_its_own() {
    let [mut one, twin, centre] = start(["device", "device", "centre"]).await;
    append_numbers(&one.rig, 1, 3).await;
    // The second device is set up from the first one's disk.
    let site = one.rig.stop_keeping_site().await;
    let there = twin.rig.site.data_dir();
    let mut twin_site = twin.rig.stop_keeping_site().await;
    std::fs::remove_dir_all(&there).expect("removed");
    copy_folder(&site.data_dir(), &there);
    twin_site.set("FIELDPOST_NODE__NAME", "device");
    one.rig = crate::contract::rig::Rig::on(site).await;
    let twin = TestNode::on("device", crate::contract::rig::Rig::on(twin_site).await).await;
    for (node, first) in [(&one, 101), (&twin, 201)] {
        append_numbers(&node.rig, first, 3).await;
        copied_to(node, &centre, COPY).await;
    }
    until(&centre.rig, |stream| stream["messages"] == 9).await;
    let mut all = numbers(&read_all(&centre.rig).await, "payload");
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3, 101, 102, 103, 201, 202, 203]);
    let (of_one, of_twin) = (origins(&one).await, origins(&twin).await);
    assert_eq!(of_one[..3], of_twin[..3], "what was there is called what it was");
    assert_ne!(of_one[3].0, of_twin[3].0);
    assert_eq!(of_one[2].0, of_one[3].0, "the first one goes on as it was");
}

#[tokio::test]
async fn a_device_set_up_anew_under_its_name_is_another_one() {
    let [mut one, two] = start(["one", "two"]).await;
    copied_to(&one, &two, COPY).await;
    append_numbers(&one.rig, 1, 3).await;
    until(&two.rig, |stream| stream["messages"] == 3).await;
    one.rig.kill().await;
    std::fs::remove_dir_all(one.rig.site.data_dir()).expect("removed");
    one.rig.start_again().await;
    append_numbers(&one.rig, 101, 3).await;
    copied_to(&one, &two, COPY).await;
    until(&two.rig, |stream| stream["messages"] == 6).await;
    assert_eq!(numbers(&read_all(&two.rig).await, "payload"), [1, 2, 3, 101, 102, 103]);
}
