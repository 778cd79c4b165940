//! What clients receive, and what is kept of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use simulator::receiver::{Behaviour, DeviceEventKind, Ledger, Retain, WebhookReceiver};
use simulator::wire_time;
use tokio::net::TcpListener;

use crate::contract::rig::{PATIENCE, Rig, each, has_attempts, has_status, one_request};

fn arrived(count: u64) -> impl Fn(&Ledger) -> bool {
    move |ledger| ledger.counts().arrivals >= count
}

/// A lock and the receiver of its client.
async fn lock(rig: &Rig) -> WebhookReceiver {
    rig.device(&json!({"id": "0xA", "address": "Küstenstraße 7"})).await;
    rig.receiver("acme", &["0xA"]).await
}

#[tokio::test]
async fn a_notification_has_exactly_the_promised_form() {
    let rig = Rig::start_telling(&[]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/deep/hook?key=1", listener.local_addr().expect("bound"));
    let _: Value = rig
        .api
        .post("/v1/clients", &json!({"id": "acme", "name": "n", "url": url}))
        .await
        .expect("registered");
    rig.device(&json!({"id": "0xA"})).await;
    rig.api.put("/v1/devices/0xA/clients/acme").await.expect("linked");
    rig.report("0xA", 1).await;
    let request = tokio::time::timeout(PATIENCE, one_request(listener)).await;
    let (head, body) = request.expect("it comes");
    assert!(head.starts_with("post /deep/hook?key=1 http/1.1\r\n"), "{head}");
    for header in [
        "content-type: application/json",
        "webhook-id: msg_",
        "webhook-timestamp: ",
        "webhook-signature: v1,",
    ] {
        assert!(head.contains(&format!("\r\n{header}")), "{header} is not in {head}");
    }
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&body), ["data", "timestamp", "type"].map(String::from).into());
    let at = &body["data"]["changed_at"];
    let data = json!({
        "device_id": "0xA", "kind": "lock", "address": null, "value": 1, "previous": null, "connection": "online",
        "changed_at": at, "last_seen_at": at, "sequence": 1, "types": ["device.changed"], "skipped": 0,
    });
    assert_eq!((&body["type"], &body["data"]), (&json!("device.changed"), &data));
    assert!(wire_time::parse_ms(at.as_str().expect("text")).is_some(), "{at}");
}

#[tokio::test]
async fn what_was_not_told_is_folded_into_the_next() {
    let rig = Rig::start_telling(&[]).await;
    let mut receiver = lock(&rig).await;
    receiver.behave(Behaviour::Failing(503)).await;
    for (count, value) in (1..).zip([1, 0, 1]) {
        rig.report("0xA", value).await;
        receiver.until(PATIENCE, arrived(count)).await.expect("a new event goes out at once");
    }
    receiver.behave(Behaviour::Up).await;
    rig.report("0xA", 0).await;
    let deliveries = rig.deliveries("0xA", 4, has_status("delivered")).await;
    assert_eq!(each(&deliveries, "status"), ["superseded", "superseded", "superseded", "delivered"]);
    assert_eq!(each(&deliveries, "attempt_count"), [1, 1, 1, 1]);
    let latest = receiver.ledger().latest("0xA").expect("told").notification.clone();
    assert_eq!((latest.sequence, latest.skipped, latest.previous), (4, 3, Value::Null));
    assert_eq!(latest.types, [DeviceEventKind::Changed; 4]);
    rig.report("0xA", 1).await;
    receiver.until(PATIENCE, arrived(5)).await.expect("told");
    let latest = receiver.ledger().latest("0xA").expect("told").notification.clone();
    assert_eq!(
        (latest.skipped, latest.previous, latest.types.len()),
        (0, json!(0), 1),
        "nothing is left over"
    );
}

#[tokio::test]
async fn a_newer_event_waits_for_the_one_in_flight_and_ends_its_retries() {
    // What ends the one in flight is its receiver, not time.
    let rig = Rig::start_telling(&[("FIELDPOST_NOTIFY__TIMEOUT", "1m")]).await;
    let mut receiver = lock(&rig).await;
    receiver.behave(Behaviour::Hanging).await;
    rig.report("0xA", 1).await;
    receiver.until(PATIENCE, arrived(1)).await.expect("in flight");
    for value in [0, 1, 0] {
        rig.report("0xA", value).await;
    }
    receiver.behave(Behaviour::Up).await;
    let deliveries = rig.deliveries("0xA", 4, has_status("delivered")).await;
    assert_eq!(each(&deliveries, "attempt_count"), [1, 0, 0, 1]);
    let latest = receiver.ledger().latest("0xA").expect("told").notification.clone();
    assert_eq!((latest.sequence, latest.skipped, receiver.counts().arrivals), (4, 3, 2));
    let first = rig.get(&format!("/v1/deliveries/{}", deliveries[0]["id"].as_str().expect("an id"))).await;
    assert_eq!(first["status"], "superseded");
    assert!(first["attempts"][0]["error"].is_string(), "{first}");
}

#[tokio::test]
async fn attempts_are_repeated_later_and_later_with_the_same_bytes_and_then_given_up() {
    let settings = [("FIELDPOST_NOTIFY__RETRY_BASE", "100ms"), ("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "3")];
    let rig = Rig::start_telling(&settings).await;
    let mut receiver = lock(&rig).await;
    receiver.behave(Behaviour::Failing(500)).await;
    rig.report("0xA", 1).await;
    let failed = rig.last_of(1, "0xA", has_status("failed")).await;
    assert_eq!((&failed["attempt_count"], &failed["next_attempt_at"]), (&json!(3), &Value::Null));
    let attempts = failed["attempts"].as_array().expect("a list");
    assert_eq!(each(attempts, "status_code"), [500, 500, 500]);
    let at: Vec<i64> = each(attempts, "at")
        .iter()
        .map(|at| wire_time::parse_ms(at.as_str().expect("text")).expect("a time"))
        .collect();
    assert!(at[1] - at[0] >= 100 && at[2] - at[1] >= 200, "{at:?}");
    let counts = receiver.counts();
    assert_eq!((counts.arrivals, counts.repeats, counts.altered, counts.forged), (3, 2, 0, 0));
    receiver.behave(Behaviour::Up).await;
    rig.report("0xA", 0).await;
    receiver.until(PATIENCE, arrived(4)).await.expect("told");
    let latest = receiver.ledger().latest("0xA").expect("told").notification.clone();
    assert_eq!((latest.skipped, latest.previous, latest.types.len()), (1, Value::Null, 2));
}

#[tokio::test]
async fn anything_but_2xx_is_a_failure() {
    let rig = Rig::start_telling(&[]).await;
    let mut receiver = lock(&rig).await;
    let elsewhere = WebhookReceiver::open(Retain::Everything).expect("a port");
    for (count, (behaviour, status)) in (1..).zip([
        (Behaviour::Redirecting(elsewhere.url()), 302),
        (Behaviour::Failing(404), 404),
        (Behaviour::Failing(429), 429),
    ]) {
        receiver.behave(behaviour).await;
        rig.report("0xA", i64::try_from(count % 2).expect("0 or 1")).await;
        let attempted = rig.last_of(count, "0xA", has_attempts(1)).await;
        assert_eq!(
            (&attempted["status"], &attempted["attempts"][0]["status_code"]),
            (&json!("pending"), &json!(status))
        );
    }
    receiver.behave(Behaviour::Down).await;
    rig.report("0xA", 0).await;
    let attempted = rig.last_of(4, "0xA", has_attempts(1)).await;
    assert_eq!(attempted["attempts"][0]["status_code"], Value::Null);
    assert!(attempted["attempts"][0]["error"].is_string(), "{attempted}");
    assert_eq!(elsewhere.counts().arrivals, 0, "a redirect is not followed");
}

#[tokio::test]
async fn a_410_disables_the_client_until_it_is_enabled_again() {
    let rig = Rig::start_telling(&[]).await;
    let mut receiver = lock(&rig).await;
    receiver.behave(Behaviour::Gone).await;
    rig.report("0xA", 1).await;
    let disabled = |client: &Value| client["enabled"] == false;
    let _: Value = rig.api.until("/v1/clients/acme", PATIENCE, disabled).await.expect("disabled");
    assert_eq!(rig.last_of(1, "0xA", has_attempts(1)).await["status"], "pending");
    receiver.behave(Behaviour::Up).await;
    rig.api.patch("/v1/clients/acme", &json!({"enabled": true})).await.expect("enabled");
    let delivered = rig.last_of(1, "0xA", has_status("delivered")).await;
    assert_eq!(each(delivered["attempts"].as_array().expect("a list"), "status_code"), [410, 200]);
    assert_eq!((receiver.counts().repeats, receiver.counts().altered), (1, 0));
}

#[tokio::test]
async fn the_url_and_the_link_are_read_at_each_attempt() {
    let settings = [("FIELDPOST_NOTIFY__RETRY_BASE", "100ms"), ("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "1000")];
    let rig = Rig::start_telling(&settings).await;
    let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let (mut old, new) =
        (WebhookReceiver::open(Retain::Everything), WebhookReceiver::open(Retain::Everything));
    let (old, new) = (old.as_mut().expect("a port"), new.expect("a port"));
    for receiver in [&*old, &new] {
        receiver.trust(secret).expect("a secret");
    }
    old.behave(Behaviour::Failing(500)).await;
    let client = json!({"id": "acme", "name": "n", "url": old.url(), "secret": secret});
    let made: Value = rig.api.post("/v1/clients", &client).await.expect("registered");
    assert_eq!(made["secret"], secret);
    rig.device(&json!({"id": "0xA"})).await;
    rig.api.put("/v1/devices/0xA/clients/acme").await.expect("linked");
    rig.report("0xA", 1).await;
    old.until(PATIENCE, arrived(1)).await.expect("tried");
    rig.api.patch("/v1/clients/acme", &json!({"url": new.url()})).await.expect("changed");
    new.until(PATIENCE, arrived(1)).await.expect("told at the new place");
    let id = |receiver: &WebhookReceiver| receiver.ledger().arrivals()[0].webhook_id.clone();
    assert_eq!(id(old), id(&new));
    assert_eq!(new.counts().forged, 0);

    rig.api.patch("/v1/clients/acme", &json!({"url": old.url()})).await.expect("changed back");
    rig.report("0xA", 0).await;
    rig.last_of(2, "0xA", |delivery| delivery["attempt_count"] != 0).await;
    assert_eq!(rig.json("DELETE", "/v1/devices/0xA/clients/acme", "").await.status, 204);
    rig.last_of(2, "0xA", has_status("cancelled")).await;
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_refused_at_the_attempt() {
    let rig = Rig::start(&[]).await;
    let client = json!({"id": "acme", "name": "n", "url": "http://localhost:9/"});
    let _: Value = rig.api.post("/v1/clients", &client).await.expect("registered");
    rig.device(&json!({"id": "0xA"})).await;
    rig.api.put("/v1/devices/0xA/clients/acme").await.expect("linked");
    rig.report("0xA", 1).await;
    let attempted = rig.last_of(1, "0xA", has_attempts(1)).await;
    assert_eq!(attempted["attempts"][0]["error"], "address_refused");
    assert_eq!(attempted["attempts"][0]["status_code"], Value::Null);
}

#[tokio::test]
async fn an_attempt_cut_off_by_a_crash_is_repeated_with_the_same_bytes() {
    let mut rig = Rig::start_telling(&[("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "1")]).await;
    let mut receiver = lock(&rig).await;
    receiver.behave(Behaviour::Hanging).await;
    rig.report("0xA", 1).await;
    receiver.until(PATIENCE, arrived(1)).await.expect("in flight");
    rig.kill().await;
    receiver.behave(Behaviour::Up).await;
    rig.start_again().await;
    let delivered = rig.last_of(1, "0xA", has_status("delivered")).await;
    let attempts = delivered["attempts"].as_array().expect("a list");
    assert_eq!(
        each(attempts, "error"),
        [json!("interrupted"), Value::Null],
        "not the last, though one is the most"
    );
    assert_eq!((receiver.counts().repeats, receiver.counts().altered), (1, 0));
}

#[tokio::test]
async fn only_the_newest_is_sent_again_by_hand() {
    let rig = Rig::start_telling(&[]).await;
    let mut receiver = lock(&rig).await;
    receiver.behave(Behaviour::Failing(500)).await;
    rig.report("0xA", 1).await;
    receiver.until(PATIENCE, arrived(1)).await.expect("tried");
    receiver.behave(Behaviour::Up).await;
    rig.report("0xA", 0).await;
    let deliveries = rig.deliveries("0xA", 2, has_status("delivered")).await;
    let retry =
        |delivery: &Value| format!("/v1/deliveries/{}/retry", delivery["id"].as_str().expect("an id"));
    let refused = rig.json("POST", &retry(&deliveries[0]), "").await;
    assert_eq!((refused.status, refused.text("code").as_str()), (409, "superseded"));
    assert_eq!(rig.json("POST", &retry(&deliveries[1]), "").await.status, 202);
    receiver.until(PATIENCE, arrived(3)).await.expect("sent again");
    let again = rig.last_of(3, "0xA", has_status("delivered")).await;
    assert_eq!(again["resend_of"], deliveries[1]["id"]);
    let ledger = receiver.ledger();
    let [.., first, second] = ledger.arrivals() else { panic!("{:?}", ledger.counts()) };
    assert_ne!(first.webhook_id, second.webhook_id);
    assert_eq!(second.notification.value, first.notification.value);
}

#[tokio::test]
async fn a_client_is_tested_and_told_again_by_hand() {
    let rig = Rig::start_telling(&[]).await;
    let receiver = lock(&rig).await;
    rig.report("0xA", 1).await;
    rig.last_of(1, "0xA", has_status("delivered")).await;
    assert_eq!(rig.json("POST", "/v1/clients/acme/resend", "").await.status, 202);
    let again = rig.last_of(2, "0xA", has_status("delivered")).await;
    receiver.until(PATIENCE, arrived(2)).await.expect("told again");
    assert_eq!(again["type"], "device.changed");

    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    rig.api.patch("/v1/clients/acme", &json!({"url": url, "enabled": false})).await.expect("changed");
    let taken = tokio::spawn(one_request(listener));
    let attempt = rig.json("POST", "/v1/clients/acme/test", "").await;
    assert_eq!((attempt.status, &attempt.json()["status_code"]), (200, &json!(200)), "{attempt:?}");
    let (head, body) = taken.await.expect("taken");
    assert_eq!(body["type"], "client.test");
    assert!(head.contains("webhook-signature: v1,"), "{head}");
    rig.api.patch("/v1/clients/acme", &json!({"url": "http://127.0.0.1:1/"})).await.expect("changed");
    let attempt = rig.json("POST", "/v1/clients/acme/test", "").await.json();
    assert_eq!((&attempt["status_code"], &attempt["error"]), (&Value::Null, &json!("connect_failed")));
    assert_eq!(rig.items("/v1/deliveries").await.len(), 2, "a test is no delivery");
}
