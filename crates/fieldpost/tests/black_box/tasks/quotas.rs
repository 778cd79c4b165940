//! What a token may do with tasks and campaigns, and how much of it.

use std::fs;
use std::path::Path;

use serde_json::json;
use simulator::server::{RunningServer, Site};

use crate::contract::rig::{BINARY, PATIENCE};
use crate::tasks::fleet::Fleet;
use crate::wire::{self, Answer};

/// Name, scopes, and limits of each token; it is called like its name.
const TOKENS: [(&str, &str, &str); 5] = [
    ("admin", "\"admin\"", ""),
    ("reader", "\"read\"", ""),
    ("commander", "\"commands\"", ""),
    ("operator", "\"operate\"", ""),
    ("prober", "\"tasks\"", "classes = [\"ordinary\"]\ncount_max = 2\npicks_per_hour = 2\n"),
];

struct Guarded {
    site: Site,
    _server: RunningServer,
    _folder: tempfile::TempDir,
}

impl Guarded {
    async fn start() -> Self {
        use sha2::Digest;
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("f.toml");
        let tokens = TOKENS.map(|(name, scopes, limits)| {
            let digest: String =
                sha2::Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
            format!(
                "[[auth.tokens]]\nname = \"{name}\"\nsha256 = \"{digest}\"\nscopes = [{scopes}]\n{limits}"
            )
        });
        fs::write(&config, tokens.concat()).expect("written");
        let mut site = Site::new(Path::new(BINARY), &[]).expect("a directory");
        let script = format!("exec \"$@\" --config {}", config.display());
        site.start_through(["sh", "-c", &script, "sh"]);
        let server = site.start(PATIENCE).await.expect("a server");
        Self { site, _server: server, _folder: folder }
    }

    async fn ask(&self, token: &str, call: &str, body: &str) -> Answer {
        let (method, path) = call.split_once(' ').expect("a method and a path");
        let authorization = format!("Bearer {token}");
        let headers = [("Authorization", authorization.as_str()), ("Content-Type", "application/json")];
        wire::ask(self.site.http.address().await, method, path, &headers, body.as_bytes()).await
    }

    /// The answer has this status, and of a refusal this code.
    async fn check(&self, token: &str, call: &str, body: &str, status: u16, code: &str) -> Answer {
        let answer = self.ask(token, call, body).await;
        assert_eq!(
            (answer.status, answer.text("code").as_str()),
            (status, code),
            "{token} {call}: {answer:?}"
        );
        answer
    }
}

#[tokio::test]
async fn scopes_reach_as_far_as_the_contract_says() {
    let server = Guarded::start().await;
    let (task, campaign) = (r#"{"payload":1,"count":1}"#, r#"{"payload":1,"count":1,"every":"1h"}"#);
    for (token, call, body, status) in [
        ("reader", "POST /v1/tasks", task, 403),
        ("commander", "POST /v1/tasks", task, 403),
        ("operator", "POST /v1/tasks", task, 403),
        ("operator", "PUT /v1/campaigns/c", campaign, 403),
        ("prober", "POST /v1/tasks", task, 201),
        ("prober", "PUT /v1/campaigns/c", campaign, 201),
        ("operator", "POST /v1/campaigns/c/pause", "", 204),
        ("commander", "POST /v1/campaigns/c/resume", "", 403),
        ("operator", "POST /v1/campaigns/c/resume", "", 204),
        ("reader", "GET /v1/campaigns/c", "", 200),
        ("reader", "GET /v1/campaigns/c/slots", "", 200),
        ("commander", "GET /v1/campaigns", "", 403),
        ("prober", "GET /v1/campaigns/c/results", "", 200),
        ("prober", "GET /v1/fleet/weights", "", 200),
        ("prober", "GET /v1/fleet/fairness", "", 200),
        ("prober", "GET /v1/fleet/count", "", 200),
        ("prober", "GET /v1/devices", "", 403),
        ("reader", "DELETE /v1/campaigns/c", "", 403),
        ("prober", "DELETE /v1/campaigns/c", "", 204),
    ] {
        server.check(token, call, body, status, if status == 403 { "forbidden" } else { "" }).await;
    }
    let told = json!({"payload": 1, "count": 1, "notify": {"queue": "ops/done"}}).to_string();
    server.check("prober", "POST /v1/tasks", &told, 403, "forbidden").await;
    server.check("admin", "POST /v1/tasks", &told, 201, "").await;
}

#[tokio::test]
async fn class_and_count_of_a_token_are_limited() {
    let server = Guarded::start().await;
    let large = r#"{"payload":1,"count":1,"class":"large"}"#;
    let many = r#"{"payload":1,"count":3}"#;
    server.check("prober", "POST /v1/tasks", large, 403, "forbidden_class").await;
    server.check("prober", "POST /v1/tasks", many, 403, "count_too_large").await;
    server.check("admin", "POST /v1/tasks", large, 201, "").await;
    server.check("admin", "POST /v1/tasks", many, 201, "").await;
    let campaign = r#"{"payload":1,"count":2,"every":"1h"}"#;
    server.check("prober", "PUT /v1/campaigns/c", campaign, 201, "").await;
    server.check("prober", "PATCH /v1/campaigns/c", r#"{"count":3}"#, 403, "count_too_large").await;
    server.check("prober", "PATCH /v1/campaigns/c", r#"{"class":"large"}"#, 403, "forbidden_class").await;
    server.check("prober", "PATCH /v1/campaigns/c", r#"{"count":1}"#, 200, "").await;
}

#[tokio::test]
async fn a_token_that_has_made_its_picks_waits_for_the_next_hour() {
    let server = Guarded::start().await;
    let device = r#"{"id":"d0","kind":"lock"}"#;
    server.check("admin", "POST /v1/devices", device, 201, "").await;
    let _fleet = Fleet::come_to(&server.site, &["d0".to_owned()]).await;
    let (one, two) = (r#"{"payload":1,"count":1}"#, r#"{"payload":1,"count":2}"#);
    let asked = server.check("prober", "POST /v1/tasks?wait=1m", one, 201, "").await;
    assert_eq!(asked.json()["answered"], 1, "{asked:?}");
    let refused = server.check("prober", "POST /v1/tasks", two, 429, "picks_exhausted").await;
    let seconds: u64 = refused.headers["retry-after"].parse().expect("a number");
    assert!((1..=3_600).contains(&seconds), "{refused:?}");
    server.check("admin", "POST /v1/tasks", two, 201, "").await;
}
