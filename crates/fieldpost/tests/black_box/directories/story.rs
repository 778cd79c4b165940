//! What happens on a server until its data directory has something of everything; shared with the
//! program that makes the fixture.
//!
//! Nothing is left to happen by itself afterwards: one client is told all, the other is disabled
//! with a notification pending.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::receiver::{Behaviour, Retain, WebhookReceiver};
use simulator::server::Site;

use super::{commands, queues, registry, streams};

/// Nothing here takes longer, even on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The device whose reports come last: those that are in the log alone.
pub(crate) const LATE: &str = "late";

/// A failed attempt is repeated by nobody, and nothing is too old to be kept, for ten years.
/// Nothing that only time brings makes a notice. As few jobs as can be are in memory.
pub(crate) const SETTINGS: [(&str, &str); 15] = [
    ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true"),
    ("FIELDPOST_NOTIFY__RETRY_BASE", "1h"),
    ("FIELDPOST_HISTORY__READINGS", "3650d"),
    ("FIELDPOST_HISTORY__EVENTS", "3650d"),
    ("FIELDPOST_HISTORY__DELIVERIES", "3650d"),
    ("FIELDPOST_QUARANTINE__MAX_AGE", "3650d"),
    ("FIELDPOST_COMMANDS__KEEP", "3650d"),
    ("FIELDPOST_OPERATIONS__KEEP", "3650d"),
    ("FIELDPOST_CAMPAIGNS__RESULTS", "3650d"),
    ("FIELDPOST_NOTICES__KEEP", "3650d"),
    ("FIELDPOST_NOTICES__BACKLOG_AGE", "0s"),
    ("FIELDPOST_NOTICES__DEAD_LETTERS", "0"),
    ("FIELDPOST_NOTICES__LOST_TOGETHER", "0"),
    ("FIELDPOST_NOTICES__STORAGE_FREE", "0B"),
    ("FIELDPOST_JOBS__RESIDENT_MAX", "1024"),
];

/// Fills the server of `site`.
pub(crate) async fn tell(site: &Site) {
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    let up = WebhookReceiver::open(Retain::Latest).expect("listens");
    let mut failing = WebhookReceiver::open(Retain::Latest).expect("listens");
    failing.behave(Behaviour::Failing(500)).await;
    register(&api, &up.url(), &failing.url()).await;
    report(&api).await;
    settle(&api).await;
    commands::fill(&api).await;
    queues::fill(&api, &site.http).await;
    registry::fill(&api).await;
    streams::fill(&api).await;
}

/// Reports that no checkpoint has seen yet, one batch each.
pub(crate) async fn tell_late(site: &Site, tag: &str) {
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    for turn in 0..6 {
        accepted(&api, &[json!({"device_id": LATE, "data": turn % 2, "id": format!("{tag}-{turn}")})]).await;
    }
}

async fn register(api: &ApiClient, up: &str, failing: &str) {
    for (id, url) in [("acme", up), ("held", failing)] {
        let client = json!({"id": id, "name": id, "url": url});
        let _client: Value = api.post("/v1/clients", &client).await.expect("registered");
    }
    let devices = [
        json!({"id": "lockA", "address": "12 Harbour St, door 7", "labels": {"site": "12"}}),
        json!({"id": "lockB", "labels": {"site": "12", "wing": "b"}, "report_interval": "12h",
            "commands": {"window": 2, "gap": "1s"}}),
        json!({"id": "cellar", "kind": "thermometer"}),
        json!({"id": "quiet"}),
        json!({"id": "gone"}),
        json!({"id": LATE}),
    ];
    for device in devices {
        let _device: Value = api.post("/v1/devices", &device).await.expect("registered");
    }
    for link in ["lockA/clients/acme", "cellar/clients/acme", "lockB/clients/held"] {
        api.put(&format!("/v1/devices/{link}")).await.expect("linked");
    }
}

async fn report(api: &ApiClient) {
    accepted(
        api,
        &[json!({"device_id": "lockA", "data": 1, "id": "first"}), json!({"device_id": "gone", "data": 1})],
    )
    .await;
    accepted(
        api,
        &[
            json!({"device_id": "cellar", "data": {"celsius": -2.5}}),
            json!({"device_id": "lockB", "data": 1}),
        ],
    )
    .await;
    let many = (0..400).map(|turn| json!({"device_id": "lockA", "data": 1, "id": format!("r{turn}")}));
    accepted(api, &many.collect::<Vec<_>>()).await;
    // too much for a row of the index of readings
    let text = (0..16).map(|turn| json!({"device_id": "cellar", "data": format!("{turn:a>200}")}));
    accepted(api, &text.collect::<Vec<_>>()).await;
    let unknown = json!({"device_id": "nobody", "data": 1});
    let refused = api.any(Method::POST, "/v1/reports", Some(&unknown)).await.expect("answered");
    assert_eq!(refused.status, 404);
}

async fn accepted(api: &ApiClient, reports: &[Value]) {
    let lines: String = reports.iter().map(|report| format!("{report}\n")).collect();
    let answer: Value = api.post_lines("/v1/reports", lines).await.expect("accepted");
    assert_eq!(answer["accepted"], reports.len(), "{answer}");
}

/// Until everything that was begun is at its end, or held.
async fn settle(api: &ApiClient) {
    let delivered = |list: &Value| list["items"].as_array().is_some_and(|items| items.len() >= 2);
    let path = "/v1/deliveries?client=acme&status=delivered";
    let pending = "/v1/deliveries?client=acme&status=pending";
    let _told: Value = api.until(path, PATIENCE, delivered).await.expect("delivered");
    let none = |list: &Value| list["items"].as_array().is_some_and(Vec::is_empty);
    let _none: Value = api.until(pending, PATIENCE, none).await.expect("nothing waits");
    let tried = |list: &Value| list["items"][0]["attempt_count"] == 1;
    let _held: Value = api.until("/v1/deliveries?client=held", PATIENCE, tried).await.expect("tried");
    // That it is disabled is a notice, which waits for it.
    api.patch("/v1/clients/held", &json!({"notices": true})).await.expect("changed");
    api.patch("/v1/clients/held", &json!({"enabled": false})).await.expect("disabled");
    let gone = api.any(Method::DELETE, "/v1/devices/gone", None).await.expect("answered");
    assert_eq!(gone.status, 204);
}
