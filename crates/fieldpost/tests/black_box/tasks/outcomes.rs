//! Who is told how tasks end, and what came of each pick of a campaign.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use simulator::receiver::{Behaviour, PickMessage, Retain, WebhookReceiver, WebhookReply};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::contract::rig::{PATIENCE, Rig, one_request};
use crate::tasks::fleet::{Fleet, Habit};
use crate::tasks::{done, names, with_devices, with_devices_and};

/// The next job of the queue, acknowledged.
async fn job(rig: &Rig) -> Value {
    let answer = rig.json("POST", "/v1/queues/ops/picks/consume", r#"{"wait":"1m"}"#).await;
    let job = answer.json()["jobs"][0].clone();
    let ack = json!({"reservations": [job["reservation"]]});
    let acked = rig.json("POST", "/v1/queues/ops/picks/ack", &ack.to_string()).await;
    assert_eq!(acked.json()["acked"], 1, "{acked:?}");
    job["payload"].clone()
}

#[tokio::test]
async fn a_queue_gets_each_result_of_a_campaign() {
    let rig = with_devices(2).await;
    let mut fleet = Fleet::come(&rig, &names(2)).await;
    let body = json!({"payload": 1, "count": 1, "every": "1s", "results": {"queue": "ops/picks"}});
    let put = rig.json("PUT", "/v1/campaigns/c", &body.to_string()).await;
    assert_eq!((put.status, &put.json()["results"]), (201, &json!({"queue": "ops/picks"})), "{put:?}");
    let mut untold = BTreeMap::new();
    for _ in 0..2 {
        let heard = fleet.next().await;
        untold.insert(heard.command, heard.device);
    }
    let paused = rig.json("POST", "/v1/campaigns/c/pause", "").await;
    assert_eq!(paused.status, 204, "{paused:?}");
    // Slots that end together are told of in any order, and a third one may have begun.
    let mut seen = BTreeSet::new();
    while !untold.is_empty() {
        let told = job(&rig).await;
        assert_eq!(told["type"], "campaign.result", "{told}");
        let (command, data) = (told["id"].as_str().expect("an id"), &told["data"]);
        assert!(seen.insert(command.to_owned()), "once: {told}");
        let device = untold.remove(command).map_or_else(|| data["device_id"].clone(), Value::from);
        assert_eq!((&data["device_id"], &data["outcome"]), (&device, &json!("answered")), "{told}");
        assert!(data["slot"].is_u64() && data["result"]["from"] == device, "{told}");
    }
}

/// The messages of the stream, once there are more than so many.
async fn more_messages(rig: &Rig, than: usize) -> Vec<Value> {
    let path = "/v1/streams/ops/picks/messages?limit=1000";
    let has_more = |page: &Value| page["items"].as_array().is_some_and(|items| items.len() > than);
    let page: Value = rig.api.until(path, PATIENCE, has_more).await.expect("they come");
    page["items"].as_array().expect("items").clone()
}

#[tokio::test]
async fn a_stream_gets_each_result_of_a_campaign_once_over_kills() {
    let mut rig = with_devices(4).await;
    let mut fleet = Fleet::come(&rig, &names(4)).await;
    fleet.set("d1", Habit::Refuses);
    let made = rig.json("PUT", "/v1/streams/ops/picks/settings", "{}").await;
    assert_eq!(made.status, 204, "{made:?}");
    let body = json!({"payload": 1, "count": 4, "every": "1s", "results": {"stream": "ops/picks"}});
    let put = rig.json("PUT", "/v1/campaigns/c", &body.to_string()).await;
    assert_eq!((put.status, &put.json()["results"]), (201, &json!({"stream": "ops/picks"})), "{put:?}");
    let mut seen = 0;
    for _ in 0..3 {
        // It is killed while results of the same slot are on their way.
        seen = more_messages(&rig, seen).await.len();
        rig.restart().await;
        let gone = fleet.vanish().await;
        fleet.come_back(&rig, gone).await;
    }
    more_messages(&rig, seen).await;
    let paused = rig.json("POST", "/v1/campaigns/c/pause", "").await;
    assert_eq!(paused.status, 204, "{paused:?}");
    let results = rig.items("/v1/campaigns/c/results?order=asc").await;
    let ended: BTreeMap<_, _> =
        results.iter().filter_map(|result| Some((result["command_id"].as_str()?, result))).collect();
    let by_id = |items: &[Value]| -> BTreeMap<String, Value> {
        let id = |item: &Value| item["external_id"].as_str().expect("an id").to_owned();
        items.iter().map(|item| (id(item), item.clone())).collect()
    };
    let has_all = |page: &Value| {
        let there = by_id(page["items"].as_array().expect("items"));
        ended.keys().all(|id| there.contains_key(*id))
    };
    let path = "/v1/streams/ops/picks/messages?limit=1000";
    let page: Value = rig.api.until(path, PATIENCE, has_all).await.expect("each is told");
    let messages = page["items"].as_array().expect("items");
    let there = by_id(messages);
    assert_eq!(there.len(), messages.len(), "once: {messages:?}");
    let picks: BTreeSet<_> = messages
        .iter()
        .map(|message| &message["payload"]["data"])
        .map(|data| (data["slot"].to_string(), data["device_id"].to_string()))
        .collect();
    assert_eq!(picks.len(), messages.len(), "no device is told twice for a slot: {messages:?}");
    for (id, result) in ended {
        let message = &there[id];
        assert_eq!(message["source"], "campaign.c", "{message}");
        let told = &message["payload"];
        assert_eq!((&told["type"], &told["id"]), (&json!("campaign.result"), &json!(id)), "{told}");
        for name in ["device_id", "slot", "picked_at", "outcome", "result"] {
            assert_eq!(told["data"][name], result[name], "{name}: {told}");
        }
    }
}

#[tokio::test]
async fn results_wait_for_a_stream_that_is_full() {
    let settings = [
        ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true"),
        ("FIELDPOST_NOTIFY__RETRY_BASE", "50ms"),
        ("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "1000"),
    ];
    let rig = with_devices_and(1, &settings).await;
    let mut fleet = Fleet::come(&rig, &names(1)).await;
    let small = json!({"when_full": "reject", "block": {"messages": 10}, "keep": {"bytes": "20KB"}});
    let made = rig.json("PUT", "/v1/streams/ops/picks/settings", &small.to_string()).await;
    assert_eq!(made.status, 204, "{made:?}");
    let mut before = 0;
    // The small ones take the room that is left for a result.
    for chars in [1_000, 1] {
        let other = json!({"payload": "x".repeat(chars)}).to_string();
        while rig.json("POST", "/v1/streams/ops/picks/messages", &other).await.status == 201 {
            before += 1;
            assert!(before < 500, "it has a bound");
        }
    }
    let body = json!({"payload": 1, "count": 1, "every": "1s", "results": {"stream": "ops/picks"}});
    let put = rig.json("PUT", "/v1/campaigns/c", &body.to_string()).await;
    assert_eq!(put.status, 201, "{put:?}");
    let first = fleet.next().await;
    let has_ended = |list: &Value| list["items"].as_array().is_some_and(|items| items.len() > 1);
    let _two: Value = rig.api.until("/v1/campaigns/c/results", PATIENCE, has_ended).await.expect("they end");
    assert_eq!(more_messages(&rig, before - 1).await.len(), before, "it takes none");
    let wide = rig.json("PUT", "/v1/streams/ops/picks/settings", "{}").await;
    assert_eq!(wide.status, 204, "{wide:?}");
    let told = |page: &Value| {
        let items = page["items"].as_array().expect("items");
        items.iter().any(|item| item["external_id"] == *first.command)
    };
    let path = "/v1/streams/ops/picks/messages?limit=1000";
    let _page: Value = rig.api.until(path, PATIENCE, told).await.expect("it is told");
}

/// Messages by the command that they are about, in the order of their arrival.
fn by_id(messages: &[PickMessage]) -> BTreeMap<String, Vec<PickMessage>> {
    let mut by_id: BTreeMap<String, Vec<PickMessage>> = BTreeMap::new();
    for message in messages {
        let command = message.body["id"].as_str().expect("an id");
        by_id.entry(command.to_owned()).or_default().push(message.clone());
    }
    by_id
}

fn taken(messages: &[PickMessage]) -> usize {
    messages.iter().filter(|message| message.reply.is_success()).count()
}

#[tokio::test]
async fn a_url_gets_each_result_of_a_campaign_signed_and_again_until_it_takes_it() {
    let settings = [
        ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true"),
        ("FIELDPOST_NOTIFY__RETRY_BASE", "50ms"),
        ("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "1000"),
    ];
    let rig = with_devices_and(2, &settings).await;
    let mut fleet = Fleet::come(&rig, &names(2)).await;
    fleet.set("d1", Habit::Refuses);
    let mut receiver = WebhookReceiver::open(Retain::Everything).expect("a port");
    receiver.behave(Behaviour::Failing(503)).await;
    let body = json!({"payload": 1, "count": 2, "every": "1s", "answer_timeout": "1m",
        "results": {"url": receiver.url()}});
    let put = rig.json("PUT", "/v1/campaigns/c", &body.to_string()).await;
    let secret = put.json()["results"]["secret"].as_str().expect("shown once").to_owned();
    // From here on a message without that signature is answered 401, and counted.
    receiver.trust(&secret).expect("a secret of Standard Webhooks");
    fleet.next().await;
    receiver.until(PATIENCE, |ledger| by_id(ledger.pick_messages()).len() >= 2).await.expect("each is told");
    receiver.behave(Behaviour::Up).await;
    let paused = rig.json("POST", "/v1/campaigns/c/pause", "").await;
    assert_eq!(paused.status, 204, "{paused:?}");
    let has_ended = |list: &Value| {
        let slots = list["items"].as_array().expect("slots");
        let has_ended = |slot: &Value| slot["answered"] == 1 && slot["failed"] == 1;
        // One that came late may be skipped.
        !slots.is_empty() && slots.iter().all(|slot| slot["skipped"] == true || has_ended(slot))
    };
    let _slots: Value = rig.api.until("/v1/campaigns/c/slots", PATIENCE, has_ended).await.expect("it ends");
    let results = rig.items("/v1/campaigns/c/results?order=asc").await;
    let all_taken = |messages: &[PickMessage]| taken(messages) == results.len();
    receiver.until(PATIENCE, |ledger| all_taken(ledger.pick_messages())).await.expect("each is taken");
    let ledger = receiver.ledger();
    assert_eq!((ledger.counts().forged, ledger.counts().malformed), (0, 0), "{:?}", ledger.complaints());
    let told = by_id(ledger.pick_messages());
    assert_eq!(told.len(), results.len(), "{told:?}");
    for result in &results {
        let id = result["command_id"].as_str().expect("it was sent");
        let attempts = &told[id];
        let is_same = |message: &PickMessage| {
            (&message.webhook_id, &message.body) == (&attempts[0].webhook_id, &attempts[0].body)
        };
        assert!(attempts.iter().all(is_same), "{attempts:?}");
        assert_eq!(taken(attempts), 1, "nothing follows what was taken: {attempts:?}");
        let body = &attempts[0].body;
        assert_eq!((&body["type"], &body["id"]), (&json!("campaign.result"), &json!(id)), "{body}");
        for name in ["device_id", "slot", "picked_at", "outcome", "result"] {
            assert_eq!(body["data"][name], result[name], "{name}: {body}");
        }
        assert!(body["data"]["answered_at"].is_string() && result["answered_at"].is_string(), "{body}");
        assert_eq!(body["data"]["campaign_id"], "c", "{body}");
    }
    let failed = ledger.pick_messages().iter().filter(|message| message.reply == WebhookReply::Status(503));
    assert!(failed.count() >= 2, "{told:?}");
}

#[tokio::test]
async fn a_signed_post_tells_the_end_of_a_task() {
    let rig = with_devices(1).await;
    let _fleet = Fleet::come(&rig, &names(1)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/done", listener.local_addr().expect("bound"));
    let ended = done(&rig, 1, &json!({"notify": {"url": url}})).await;
    assert!(ended["notify"]["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")), "{ended}");
    let request = timeout(PATIENCE, one_request(listener)).await;
    let (head, body) = request.expect("it comes");
    assert!(head.starts_with("post /done http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nwebhook-signature: v1,"), "{head}");
    assert_eq!((&body["type"], &body["id"]), (&json!("task.done"), &ended["id"]), "{body}");
    assert_eq!((&body["data"]["status"], &body["data"]["answered"]), (&json!("done"), &json!(1)), "{body}");
}

#[tokio::test]
async fn a_queue_gets_the_end_of_a_task_once() {
    let rig = with_devices(1).await;
    let _fleet = Fleet::come(&rig, &names(1)).await;
    let id = |task: &Value| task["id"].as_str().expect("an id").to_owned();
    let notified = json!({"notify": {"queue": "ops/picks"}});
    let ended = BTreeSet::from([id(&done(&rig, 1, &notified).await), id(&done(&rig, 1, &notified).await)]);
    // Ends that are close together are told of in any order.
    let mut told = BTreeSet::new();
    for _ in 0..2 {
        let message = job(&rig).await;
        assert_eq!(message["type"], "task.done", "{message}");
        told.insert(id(&message));
    }
    assert_eq!(told, ended);
}
