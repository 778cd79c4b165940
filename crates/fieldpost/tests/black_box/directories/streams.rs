//! What a server shows of its streams; shared with the program that makes the fixture.

use serde_json::{Value, json};
use simulator::api_client::{Api, ApiError};

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
