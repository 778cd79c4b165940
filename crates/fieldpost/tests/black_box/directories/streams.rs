//! A stream with a block that is stored and one that is open, and what a server shows of streams;
//! shared with the program that makes the fixture.

use hyper::Method;
use serde_json::{Value, json};
use simulator::api_client::{Api, ApiError};

use super::story::PATIENCE;

const STREAM: &str = "/v1/streams/works/line1";

/// Fills a stream. Its blocks are kept for ever.
pub(crate) async fn fill(api: &Api) {
    let settings = json!({"block": {"messages": 4, "age": "7d"}, "keep": {"age": null}});
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
}

/// Every stream with its messages.
pub(crate) async fn read(api: &Api) -> Result<Value, ApiError> {
    let mut found = json!({});
    for stream in api.list::<Value>("/v1/streams").await? {
        let text = |name: &str| stream[name].as_str().unwrap_or_default().to_owned();
        let path = format!("/v1/streams/{}/{}", text("namespace"), text("stream"));
        found[&path] =
            api.get::<Value>(&format!("{path}/messages?after=0&limit=1000")).await?["items"].take();
    }
    Ok(found)
}
