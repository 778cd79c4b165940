//! Receivers that keep failing: spared, and told everything as soon as they take something.

use serde_json::{Value, json};
use simulator::receiver::{Behaviour, Ledger, Retain, WebhookReceiver};
use simulator::wire_time;

use crate::contract::rig::{PATIENCE, Rig, each};

const DEVICES: usize = 25;
/// Failed attempts in a row that open a breaker.
const FAILED_IN_A_ROW: usize = 20;
const PAUSE_MS: i64 = 400;

/// A server whose client is sent to one after the other, so that attempts can be counted.
async fn one_at_a_time(settings: &[(&str, &str)]) -> (Rig, Vec<String>) {
    let one = [("FIELDPOST_NOTIFY__PER_CLIENT_IN_FLIGHT", "1")];
    let rig = Rig::start_telling(&[&one, settings].concat()).await;
    let devices: Vec<String> = (0..DEVICES).map(|number| format!("lock{number}")).collect();
    for id in &devices {
        rig.device(&json!({"id": id})).await;
    }
    (rig, devices)
}

/// The receiver of a client that is linked to all of them.
async fn failing_receiver(rig: &Rig, devices: &[String]) -> WebhookReceiver {
    let ids: Vec<&str> = devices.iter().map(String::as_str).collect();
    let mut receiver = rig.receiver("acme", &ids).await;
    receiver.behave(Behaviour::Failing(503)).await;
    receiver
}

async fn report_all(rig: &Rig, devices: &[String], value: i64) {
    for id in devices {
        rig.report(id, value).await;
    }
}

fn arrived(count: usize) -> impl Fn(&Ledger) -> bool {
    move |ledger| ledger.arrivals().len() >= count
}

/// When every attempt that was recorded began, in that order.
async fn attempts_began(rig: &Rig) -> Vec<i64> {
    let mut began = Vec::new();
    for delivery in rig.items("/v1/deliveries").await {
        let path = format!("/v1/deliveries/{}", delivery["id"].as_str().expect("an id"));
        let delivery = rig.get(&path).await;
        let attempts = each(delivery["attempts"].as_array().expect("a list"), "at");
        let ms = |at: &Value| wire_time::parse_ms(at.as_str().expect("text")).expect("a time");
        began.extend(attempts.iter().map(ms));
    }
    began.sort_unstable();
    began
}

/// A figure of the server without labels.
async fn figure(rig: &Rig, name: &str) -> String {
    let text = rig.ask("GET", "/metrics", "text/plain", "").await.body;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in {text}")).to_owned()
}

#[tokio::test]
async fn a_receiver_that_keeps_failing_is_tried_now_and_then_and_then_told_everything() {
    let pause = format!("{PAUSE_MS}ms");
    let (rig, devices) = one_at_a_time(&[("FIELDPOST_NOTIFY__RETRY_BASE", &pause)]).await;
    let mut receiver = failing_receiver(&rig, &devices).await;
    report_all(&rig, &devices, 1).await;
    receiver.until(PATIENCE, arrived(FAILED_IN_A_ROW + 3)).await.expect("it is still tried");
    assert_eq!(figure(&rig, "fieldpost_notify_breakers_open").await, "1");
    let failing = rig.get("/v1/overview").await["failing"][0].clone();
    assert_eq!(
        (&failing["what"], &failing["subject"]),
        (&json!("client_breaker_open"), &json!("client acme"))
    );

    // What happens meanwhile takes the place of what waits.
    report_all(&rig, &devices, 0).await;
    receiver.behave(Behaviour::Up).await;
    let told = |ledger: &Ledger| {
        let is_told = |id: &String| ledger.latest(id).is_some_and(|latest| latest.notification.value == 0);
        devices.iter().all(is_told)
    };
    receiver.until(PATIENCE, told).await.expect("everything is told");
    for id in &devices {
        let newest = rig.deliveries(id, 2, |delivery| delivery["status"] == "delivered").await;
        assert_ne!(newest[0]["status"], "failed", "nothing is given up");
    }
    let began = attempts_began(&rig).await;
    assert_eq!(began.len(), receiver.ledger().arrivals().len());
    let failed = receiver.ledger().arrivals().iter().filter(|arrival| !arrival.reply.is_success()).count();
    let pauses: Vec<i64> =
        began[FAILED_IN_A_ROW - 1..=failed].windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses.len() >= 3 && pauses.iter().all(|pause| *pause >= PAUSE_MS), "{pauses:?}");
    assert_eq!(figure(&rig, "fieldpost_notify_breakers_open").await, "0");
    assert_eq!(figure(&rig, "fieldpost_notify_breakers_opened_total").await, "1");
    let counts = receiver.counts();
    assert_eq!((counts.altered, counts.backwards, counts.forged), (0, 0, 0));
}

#[tokio::test]
async fn a_client_with_another_url_is_told_at_once() {
    let (rig, devices) = one_at_a_time(&[]).await;
    let old = failing_receiver(&rig, &devices).await;
    report_all(&rig, &devices, 1).await;
    old.until(PATIENCE, arrived(FAILED_IN_A_ROW)).await.expect("tried");

    let new = WebhookReceiver::open(Retain::Everything).expect("a port");
    rig.api.patch("/v1/clients/acme", &json!({"url": new.url()})).await.expect("changed");
    new.until(PATIENCE, arrived(DEVICES - FAILED_IN_A_ROW)).await.expect("told without a pause of an hour");
    assert_eq!(old.counts().arrivals, FAILED_IN_A_ROW as u64, "nothing more was tried at the old place");
}
