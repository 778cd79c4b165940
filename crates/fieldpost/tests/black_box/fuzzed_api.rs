//! The built server against schemathesis: thousands of requests made from the OpenAPI document that
//! it serves, good ones and bad ones. None may be answered with a 5xx, or with anything that the
//! document does not tell of.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use simulator::api_client::ApiClient;
use simulator::server::Site;

const PATIENCE: Duration = Duration::from_secs(60);
/// Requests of each kind and call: more find more, and take longer.
const EXAMPLES: &str = "12";
const SEED: &str = "20261121";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,unsupported_method";

/// Where `scripts/setup test` installs it.
fn schemathesis() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/schemathesis/bin/schemathesis");
    assert!(path.exists(), "{} is not there: run `make setup`", path.display());
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_that_can_be_made_up_is_answered_otherwise_than_the_document_says() {
    let settings = [
        ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true"),
        // What is made up as a URL leads nowhere, and a test of a client waits for it.
        ("FIELDPOST_NOTIFY__TIMEOUT", "100ms"),
    ];
    let site = Site::new(Path::new(env!("CARGO_BIN_EXE_fieldpost")), &settings).expect("a folder");
    let server = site.start(PATIENCE).await.expect("the server starts");
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    // Something to be found by those who know no ids.
    for (path, body) in [
        ("/v1/clients", json!({"id": "acme", "name": "Acme", "url": "http://127.0.0.1:9/hook"})),
        ("/v1/devices", json!({"id": "lock1", "labels": {"site": "12"}})),
    ] {
        let _made: serde_json::Value = api.post(path, &body).await.expect("registered");
    }
    let url = format!("http://{}/openapi.json", site.http.address().await);
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/black_box/schemathesis_hooks.py");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(schemathesis());
    command
        .args(["run", &url, "--no-color", "--seed", SEED, "--max-examples", EXAMPLES, "--checks", CHECKS])
        // A caller may be made to wait for up to a minute.
        .args(["--request-timeout", "90"])
        // It has no end: a stream is read until the caller hangs up.
        .args(["--exclude-path", "/v1/live"])
        .args(["--exclude-path", "/v1/channels/{ns}/{name}"])
        .env("SCHEMATHESIS_HOOKS", hooks)
        .current_dir(folder.path());
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
    let output = output.expect("schemathesis runs");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{told}", output.status);
    assert!(told.contains(" passed"), "it says what it did:\n{told}");
    let status = server.stop(PATIENCE).await.expect("it ends");
    assert!(status.success(), "the server ended with {status}");
}
