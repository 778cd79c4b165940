//! Everything that a server shows over its API, as one JSON document; shared with the program that makes the fixture.

use serde_json::{Value, json};
use simulator::api_client::{Api, ApiError};
use simulator::server::Site;

use crate::story::PATIENCE;

/// Reads it all.
///
/// # Errors
/// What the server refuses, or that it does not answer.
pub(crate) async fn read(site: &Site) -> Result<Value, ApiError> {
    let api = Api::new(site.http.clone(), PATIENCE);
    let mut found = json!({});
    for (name, path) in [
        ("clients", "/v1/clients"),
        ("devices", "/v1/devices"),
        ("on site 12", "/v1/devices?label.site=12"),
        ("thermometers", "/v1/devices?kind=thermometer"),
        ("events", "/v1/events?order=asc"),
        ("deliveries", "/v1/deliveries?order=asc"),
        ("held", "/v1/deliveries?client=held&status=pending"),
        ("quarantine", "/v1/quarantine?order=asc"),
    ] {
        found[name] = api.list::<Value>(path).await?.into();
    }
    let ids =
        |of: &Value| of.as_array().into_iter().flatten().map(|item| text(&item["id"])).collect::<Vec<_>>();
    for device in ids(&found["devices"]) {
        found["readings"][&device] =
            api.list::<Value>(&format!("/v1/devices/{device}/readings?order=asc")).await?.into();
        found["told"][&device] = api.list::<Value>(&format!("/v1/devices/{device}/clients")).await?.into();
    }
    for client in ids(&found["clients"]) {
        found["linked"][&client] = api.list::<Value>(&format!("/v1/clients/{client}/devices")).await?.into();
    }
    for delivery in ids(&found["deliveries"]) {
        found["attempts"][&delivery] = api.get(&format!("/v1/deliveries/{delivery}")).await?;
    }
    let day = found["events"][0]["ts"].as_str().map_or("2026-11-21", |ts| &ts[..10]).to_owned();
    for metric in ["reports", "changes", "deliveries"] {
        let path = format!("/v1/stats?metric={metric}&by=hour&from={day}T00:00:00Z");
        let path = format!("{path}&to={day}T23:59:59Z");
        found["counts"][metric] = api.get::<Value>(&path).await?["items"].take();
    }
    Ok(found)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
