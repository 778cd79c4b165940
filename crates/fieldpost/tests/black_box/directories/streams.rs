//! A stream with a stored block and an open one, who reads it and where it is copied to. Also a
//! lock, a word to workers, and what a server shows of all these. Shared with the program that
//! makes the fixture.

use hyper::Method;
use serde_json::{Value, json};
use simulator::api_client::{ApiClient, ApiError};

use super::story::PATIENCE;

const STREAM: &str = "/v1/streams/works/line1";
/// Where reports of one device are gathered for the node.
const GATHERED: &str = "/v1/streams/works/doors";
const LOCK: &str = "/v1/locks/works/press";
const CONTROL: &str = "/v1/queues/works/line1/control";
/// Nobody is there, now or later.
const NOBODY: &str = "http://127.0.0.1:9";

/// Fills a stream. Its blocks are kept for ever.
pub(crate) async fn fill(api: &ApiClient) {
    let settings =
        json!({"block": {"messages": 4, "age": "7d"}, "keep": {"age": null}, "unload_after": "1s"});
    let set = api.any(Method::PUT, &format!("{STREAM}/settings"), Some(&settings)).await.expect("answered");
    assert_eq!(set.status, 204);
    let messages = json!({"messages": [
        {"payload": 1, "source": "press", "external_id": 1},
        {"payload": {"celsius": 71.5}, "source": "press", "external_id": 2, "segment": "heat"},
        {"payload": "text", "source": "press", "external_id": "batch 7", "headers": {"unit": "none"}},
        {"payload_base64": "AAEC/w==", "segment": "raw", "ts": "2026-11-20T08:00:00Z"},
        {"payload": null, "source": "oven", "external_id": "seven", "segment": "heat"},
        {"payload": [1, 2], "source": "press", "external_id": 9},
    ]});
    let appended: Value = api.post(&format!("{STREAM}/messages"), &messages).await.expect("appended");
    assert_eq!(appended["messages"][5]["id"], "6", "{appended}");
    let is_stored =
        |blocks: &Value| blocks["items"][0]["saved"] == true && blocks["items"][0]["loaded"] == false;
    let _blocks: Value =
        api.until(&format!("{STREAM}/blocks"), PATIENCE, is_stored).await.expect("the first is stored");
    fill_around(api).await;
}

/// Readers, copies to a node that is away, a lock, and what workers are told.
async fn fill_around(api: &ApiClient) {
    let put = async |path: &str, body: &Value| {
        let answer = api.any(Method::PUT, path, Some(body)).await.expect("answered");
        assert!(answer.status.is_success(), "{path}: {answer:?}");
    };
    put(&format!("{STREAM}/subscriptions/billing"), &json!({"from": "start"})).await;
    let commit = json!({"reader": "host-1", "id": "2"});
    let path = format!("{STREAM}/subscriptions/billing/commit");
    let committed = api.any(Method::POST, &path, Some(&commit)).await.expect("answered");
    assert_eq!(committed.status, 204);
    let pushed = json!({"segment": "heat", "push": {"url": NOBODY}});
    put(&format!("{STREAM}/subscriptions/pushed"), &pushed).await;
    put("/v1/nodes/centre", &json!({"url": NOBODY})).await;
    put(&format!("{STREAM}/copies/all"), &json!({"direction": "to", "node": "centre"})).await;
    let reports = json!({"kind": "reports", "node": "centre", "selector": "wing=b"});
    put(&format!("{GATHERED}/copies/centre"), &reports).await;
    let report = json!({"device_id": "lockB", "data": 1});
    let _taken: Value = api.post("/v1/reports", &report).await.expect("accepted");
    let is_gathered = |stream: &Value| stream["messages"] == 1;
    let _stream: Value = api.until(GATHERED, PATIENCE, is_gathered).await.expect("it is in the stream");
    put(CONTROL, &json!({"state": "run", "max_in_flight": 3, "data": {"rate": 1.50}})).await;
    let _held: Value = api.post(LOCK, &json!({"owner": "oven", "ttl": "7d"})).await.expect("nobody has it");
}

/// Every stream with its messages.
pub(crate) async fn read(api: &ApiClient) -> Result<Value, ApiError> {
    let mut found = json!({});
    for stream in api.list::<Value>("/v1/streams").await? {
        let text = |name: &str| stream[name].as_str().unwrap_or_default().to_owned();
        let path = format!("/v1/streams/{}/{}", text("namespace"), text("stream"));
        found[&path] =
            api.get::<Value>(&format!("{path}/messages?after=0&limit=1000")).await?["items"].take();
        // What of these a restart does not change.
        for (list, fields) in [
            ("subscriptions", &["name", "position", "segment"][..]),
            ("copies", &["name", "direction", "node", "stream", "position"]),
        ] {
            let items = api.list::<Value>(&format!("{path}/{list}")).await?;
            let kept = |item: &Value| fields.iter().map(|field| item[*field].clone()).collect::<Value>();
            if !items.is_empty() {
                found[format!("{path}/{list}")] = items.iter().map(kept).collect();
            }
        }
    }
    let control = api.any(Method::GET, CONTROL, None).await?;
    if control.status == 200 {
        found[CONTROL] = control.json();
        // Its time is over some day, and its fence is not.
        found[LOCK] = api.get::<Value>(LOCK).await?["fence"].take();
    }
    Ok(found)
}
