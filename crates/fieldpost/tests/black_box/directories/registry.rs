//! What happens with operations, portals and notices until a data directory has something of each;
//! shared with the program that makes the fixture.
//!
//! Operations have ended, and the post of the notice waits for a client that is disabled. A portal
//! lasts a day at most: it is only there until the directory is opened after that.

use hyper::Method;
use serde_json::{Value, json};
use simulator::api_client::ApiClient;

use super::story::PATIENCE;

/// Begins operations, one of which is called off, and opens a portal.
pub(crate) async fn fill(api: &ApiClient) {
    let labels = json!({"round": "1"});
    let named = json!({"ids": ["lockA", "cellar", "nobody"]});
    let done = begin(api, &json!({"action": "devices.label", "filter": named, "labels": labels})).await;
    let is_done = |operation: &Value| operation["status"] == "done";
    let _done: Value = api.until(&done, PATIENCE, is_done).await.expect("it is done");
    // At a row a second it goes on for a minute, on any machine long enough to be called off.
    let many: Vec<_> = (0..60).map(|number| format!("nobody{number}")).collect();
    let slow = json!({"action": "devices.label", "filter": {"ids": many}, "labels": labels, "rate": 1});
    let cancelled = begin(api, &slow).await;
    let answer = api.any(Method::DELETE, &cancelled, None).await.expect("answered");
    assert_eq!(answer.status, 204);
    let has_ended = |operation: &Value| {
        let count = |name: &str| operation[name].as_u64().unwrap_or_default();
        count("done") + count("refused") + count("skipped") == count("matched")
    };
    let _ended: Value = api.until(&cancelled, PATIENCE, has_ended).await.expect("its rows had their turn");
    let asked = json!({"ttl": "24h", "may": ["read", "retry"]});
    let _portal: Value = api.post("/v1/clients/acme/portal", &asked).await.expect("opened");
}

/// Begins an operation; its path.
async fn begin(api: &ApiClient, operation: &Value) -> String {
    let begun: Value = api.post("/v1/operations", operation).await.expect("begun");
    format!("/v1/operations/{}", begun["id"].as_str().expect("an id"))
}
