//! A client whose URL takes every connection and never answers, while all its devices change.

use serde_json::{Value, json};
use simulator::receiver::{Behaviour, Retain, WebhookReceiver};
use simulator::registration::register_client;

use crate::overload::rig::{PATIENCE, Rig};

const DEVICES: usize = 1_000;
/// The setting's default.
const PER_CLIENT_IN_FLIGHT: u64 = 16;

#[tokio::test]
async fn a_client_that_never_answers_delays_nobody_else() {
    let rig = Rig::start(&[]).await;
    let (mut dead, well) = (receiver(&rig, "dead").await, receiver(&rig, "well").await);
    dead.behave(Behaviour::Hanging).await;
    let lines =
        |of: &dyn Fn(usize) -> Value| (0..DEVICES).map(|n| format!("{}\n", of(n))).collect::<String>();
    let import = lines(&|n| json!({"id": format!("D{n}"), "clients": ["dead", "well"]}));
    let imported: Value = rig.api.post_lines("/v1/devices/import", import).await.expect("taken");
    assert_eq!(imported["created"], DEVICES);
    for value in [1, 0, 1] {
        let reports = lines(&|n| json!({"device_id": format!("D{n}"), "data": value}));
        let tally: Value = rig.api.post_lines("/v1/reports", reports).await.expect("taken");
        assert_eq!(tally["accepted"], DEVICES);
        let told = |ledger: &simulator::receiver::Ledger| {
            (0..DEVICES).all(|n| {
                let latest = ledger.latest(&format!("D{n}"));
                latest.is_some_and(|latest| latest.notification.value == json!(value))
            })
        };
        well.until(PATIENCE, told).await.expect("everybody else is told");
    }
    assert_eq!(dead.counts().taken, 0);
    // What the other client has answered a moment ago is counted until the server has taken that
    // in.
    rig.until_at_most("fieldpost_notify_in_flight", PER_CLIENT_IN_FLIGHT).await;
    rig.has_grown_less_than(96);
    rig.stop().await;
}

async fn receiver(rig: &Rig, id: &str) -> WebhookReceiver {
    let receiver = WebhookReceiver::open(Retain::Everything).expect("a port");
    register_client(&rig.api, id, &receiver).await.expect("registered");
    receiver
}
