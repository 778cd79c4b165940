//! Everything that a server shows over its API, as one JSON document; shared with the program that
//! makes the fixture.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use simulator::api_client::{ApiClient, ApiError};
use simulator::server::Site;

use super::queues::STAYS;
use super::story::PATIENCE;
use super::streams;

/// Jobs of a queue that are shown whole, and those at either end that are of more.
const WHOLE_MAX: usize = 100;
const ENDS: usize = 10;

/// Reads it all.
///
/// # Errors
/// What the server refuses, or that it does not answer.
pub(crate) async fn read(site: &Site) -> Result<Value, ApiError> {
    read_within(site, PATIENCE).await
}

/// Reads it all, and has so much patience with what cannot be read.
///
/// # Errors
/// What the server refuses, or that it does not answer.
pub(crate) async fn read_within(site: &Site, patience: Duration) -> Result<Value, ApiError> {
    let api = ApiClient::new(site.http.clone(), patience);
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
        ("commands", "/v1/commands?order=asc"),
        ("rollouts", "/v1/rollouts"),
        ("operations", "/v1/operations"),
        ("notices", "/v1/notices?order=asc"),
        ("campaigns", "/v1/campaigns"),
    ] {
        found[name] = api.list::<Value>(path).await?.into();
    }
    let ids =
        |of: &Value| of.as_array().into_iter().flatten().map(|item| text(&item["id"])).collect::<Vec<_>>();
    for device in ids(&found["devices"]) {
        found["readings"][&device] =
            api.list::<Value>(&format!("/v1/devices/{device}/readings?order=asc")).await?.into();
        found["desired"][&device] = api.get(&format!("/v1/devices/{device}/desired")).await?;
        found["timelines"][&device] =
            api.list::<Value>(&format!("/v1/devices/{device}/timeline?order=asc")).await?.into();
        found["told"][&device] = api.list::<Value>(&format!("/v1/devices/{device}/clients")).await?.into();
    }
    for device in found["devices"].as_array_mut().into_iter().flatten() {
        // No session outlives the server.
        device["state"]["connected"].take();
    }
    for rollout in ids(&found["rollouts"]) {
        found["rolled out"][&rollout] =
            api.list::<Value>(&format!("/v1/rollouts/{rollout}/devices")).await?.into();
    }
    for campaign in ids(&found["campaigns"]) {
        let path = format!("/v1/campaigns/{campaign}");
        found["slots"][&campaign] = api.list::<Value>(&format!("{path}/slots")).await?.into();
        found["results"][&campaign] = api.list::<Value>(&format!("{path}/results?order=asc")).await?.into();
    }
    for client in ids(&found["clients"]) {
        found["linked"][&client] = api.list::<Value>(&format!("/v1/clients/{client}/devices")).await?.into();
    }
    for delivery in ids(&found["deliveries"]) {
        found["attempts"][&delivery] = api.get(&format!("/v1/deliveries/{delivery}")).await?;
    }
    let day = found["events"][0]["ts"].as_str().map_or("2026-11-21", |ts| &ts[..10]).to_owned();
    for metric in ["reports", "changes", "deliveries", "commands"] {
        let path = format!("/v1/stats?metric={metric}&by=hour&from={day}T00:00:00Z");
        let path = format!("{path}&to={day}T23:59:59Z");
        found["counts"][metric] = api.get::<Value>(&path).await?["items"].take();
    }
    found["queues"] = queues(&api).await?;
    found["streams"] = streams::read(&api).await?;
    Ok(found)
}

/// The queues that stay, with what is in them.
async fn queues(api: &ApiClient) -> Result<Value, ApiError> {
    let mut found = json!({});
    for mut queue in api.list::<Value>(&format!("/v1/queues?namespace={STAYS}")).await? {
        let name = text(&queue["queue"]);
        let path = format!("/v1/queues/{STAYS}/{name}");
        // for how long something has been so, and how fast it goes, is never the same
        queue["oldest_ready_ms"].take();
        for passing in ["oldest_ready_at", "rates"] {
            queue.as_object_mut().and_then(|queue| queue.remove(passing));
        }
        let jobs: Vec<Value> = api.list(&format!("{path}/jobs")).await?;
        // what an alias means is what comes after a reserved job, which is in no list
        for alias in jobs.iter().take(WHOLE_MAX).filter_map(|job| job["alias"].as_str()) {
            queue["by alias"][alias] = api.get(&format!("{path}/aliases/{alias}")).await?;
        }
        queue["jobs"] = shown(jobs);
        queue["dead letters"] = api.list::<Value>(&format!("{path}/dead")).await?.into();
        found[&name] = queue;
    }
    Ok(found)
}

/// Jobs of a list; where there are many, some of them, and all in a digest.
fn shown(jobs: Vec<Value>) -> Value {
    if jobs.len() <= WHOLE_MAX {
        return jobs.into();
    }
    let told = ["id", "state", "payload", "run_at", "attempt", "tries", "alias", "group"];
    let mut digest = Sha256::new();
    for field in jobs.iter().flat_map(|job| told.map(|field| &job[field])) {
        digest.update(format!("{field}\n"));
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let ends = jobs.iter().take(ENDS).chain(&jobs[jobs.len() - ENDS..]).collect::<Vec<_>>();
    json!({"count": jobs.len(), "first and last": ends, "digest": digest})
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
