//! Clients, devices and links: every call, and the shape of every answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::rig::{Server, names};

#[tokio::test]
async fn a_client_is_registered_changed_and_removed() {
    let server = Server::start().await;
    server
        .check_all(&[
            ("GET /v1/clients", "", 200, r#"{"items":[],"next_cursor":null}"#),
            (
                "POST /v1/clients",
                r#"{"id":"gate-7","name":"Gate","url":"https://gate.example/hook"}"#,
                201,
                r#"{"id":"gate-7","name":"Gate","url":"https://gate.example/hook","enabled":true,"created_at":"*","secret":"*"}"#,
            ),
            ("GET /v1/clients/gate-7", "", 200, r#"{"id":"gate-7","enabled":true}"#),
            ("PATCH /v1/clients/gate-7", r#"{"enabled":false}"#, 200, r#"{"name":"Gate","enabled":false}"#),
            (
                "PATCH /v1/clients/gate-7",
                r#"{"id":"gate-7","name":"G","url":"http://g.example"}"#,
                200,
                r#"{"name":"G","url":"http://g.example","enabled":false}"#,
            ),
            ("PATCH /v1/clients/gate-7", "{}", 200, r#"{"name":"G"}"#),
            ("GET /v1/clients", "", 200, r#"{"items":[{"id":"gate-7","name":"G"}],"next_cursor":null}"#),
            ("DELETE /v1/clients/gate-7", "", 204, ""),
            ("GET /v1/clients/gate-7", "", 404, "unknown_client"),
            ("DELETE /v1/clients/gate-7", "", 404, "unknown_client"),
            ("PATCH /v1/clients/gate-7", "{}", 404, "unknown_client"),
        ])
        .await;
}

#[tokio::test]
async fn a_secret_is_shown_once() {
    let server = Server::start().await;
    let made = server.check("POST /v1/clients", r#"{"name":"A","url":"https://a.example"}"#, 201, "{}").await;
    let secret = made["secret"].as_str().expect("text").strip_prefix("whsec_").expect("the prefix");
    assert_eq!(STANDARD.decode(secret).expect("base64").len(), 32);
    let id = made["id"].as_str().expect("an id is made");
    let expect = ["created_at", "enabled", "id", "name", "notices", "url"];
    assert_eq!(names(&server.get(&format!("/v1/clients/{id}")).await), expect);
    assert_eq!(names(&server.get("/v1/clients").await["items"][0]), expect);
    let changed = server.check(&format!("PATCH /v1/clients/{id}"), r#"{"name":"B"}"#, 200, "{}").await;
    assert_eq!(names(&changed), expect);
}

#[tokio::test]
async fn a_secret_may_be_brought_along() {
    let server = Server::start().await;
    for (given, expect) in [
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=", "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="),
        ("whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE", "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="),
    ] {
        let body = format!(r#"{{"name":"A","url":"https://a.example","secret":"{given}"}}"#);
        server.check("POST /v1/clients", &body, 201, &format!(r#"{{"secret":"{expect}"}}"#)).await;
    }
}

#[tokio::test]
async fn a_device_is_registered_changed_and_removed() {
    let server = Server::start().await;
    server
        .check_all(&[
            ("GET /v1/devices", "", 200, r#"{"items":[],"next_cursor":null}"#),
            (
                "POST /v1/devices",
                r#"{"id":"0xA","address":"12 Harbour St","labels":{"site":"12","floor":"3"},"report_interval":"90m"}"#,
                201,
                r#"{"id":"0xA","kind":"lock","address":"12 Harbour St","labels":{"floor":"3","site":"12"},
                    "report_interval":"1h30m","registered_at":"*",
                    "state":{"value":null,"changed_at":null,"last_seen_at":null,"connection":"never_seen"}}"#,
            ),
            ("GET /v1/devices/0xA", "", 200, r#"{"id":"0xA","report_interval":"1h30m"}"#),
            (
                "PATCH /v1/devices/0xA",
                r#"{"id":"0xA","kind":"lock","address":"13 Harbour St","labels":{"site":null,"door":"7"}}"#,
                200,
                r#"{"address":"13 Harbour St","labels":{"floor":"3","door":"7"},"report_interval":"1h30m"}"#,
            ),
            (
                "PATCH /v1/devices/0xA",
                r#"{"address":null,"labels":null,"report_interval":null}"#,
                200,
                r#"{"address":null,"labels":{},"report_interval":null}"#,
            ),
            (
                "PATCH /v1/devices/0xA",
                r#"{"commands":{"window":3,"gap":"2s"}}"#,
                200,
                r#"{"commands":{"window":3,"gap":"2s"}}"#,
            ),
            (
                "PATCH /v1/devices/0xA",
                r#"{"commands":{"gap":null}}"#,
                200,
                r#"{"commands":{"window":3,"gap":null}}"#,
            ),
            ("PATCH /v1/devices/0xA", r#"{"commands":null}"#, 200, r#"{"commands":null}"#),
            (
                "POST /v1/devices",
                r#"{"id":"0xC","commands":{"gap":"500ms"}}"#,
                201,
                r#"{"id":"0xC","commands":{"window":null,"gap":"500ms"}}"#,
            ),
            ("DELETE /v1/devices/0xC", "", 204, ""),
            (
                "POST /v1/devices",
                r#"{"id":"0xB","kind":"face","address":null,"labels":null,"report_interval":null}"#,
                201,
                r#"{"id":"0xB","kind":"face","address":null,"labels":{},"report_interval":null}"#,
            ),
            ("POST /v1/devices", r#"{"id":"0xA"}"#, 409, "exists"),
            ("GET /v1/devices", "", 200, r#"{"items":[{"id":"0xA"},{"id":"0xB"}],"next_cursor":null}"#),
            ("DELETE /v1/devices/0xA", "", 204, ""),
            ("GET /v1/devices/0xA", "", 404, "unknown_device"),
            ("PATCH /v1/devices/0xA", "{}", 404, "unknown_device"),
            ("DELETE /v1/devices/0xA", "", 404, "unknown_device"),
        ])
        .await;
}

#[tokio::test]
async fn a_device_has_just_the_members_of_the_contract() {
    let server = Server::start().await;
    server.add_device("0xA").await;
    let device = server.get("/v1/devices/0xA").await;
    let expect = ["address", "commands", "id", "kind", "labels", "registered_at", "report_interval", "state"];
    assert_eq!(names(&device), expect);
    assert_eq!(names(&device["state"]), ["changed_at", "connected", "connection", "last_seen_at", "value"]);
}

#[tokio::test]
async fn a_link_is_seen_from_both_sides() {
    let server = Server::start().await;
    server.add_device("0xA").await;
    server.add_client("gate").await;
    let (linked_client, linked_device) = (
        r#"{"items":[{"id":"gate","name":"gate"}],"next_cursor":null}"#,
        r#"{"items":[{"id":"0xA","state":"*"}]}"#,
    );
    server
        .check_all(&[
            ("GET /v1/devices/0xA/clients", "", 200, r#"{"items":[],"next_cursor":null}"#),
            ("PUT /v1/devices/0xA/clients/gate", "", 204, ""),
            ("PUT /v1/devices/0xA/clients/gate", "", 204, ""),
            ("GET /v1/devices/0xA/clients", "", 200, linked_client),
            ("GET /v1/clients/gate/devices", "", 200, linked_device),
            ("DELETE /v1/devices/0xA/clients/gate", "", 204, ""),
            ("DELETE /v1/devices/0xA/clients/gate", "", 204, ""),
            ("GET /v1/clients/gate/devices", "", 200, r#"{"items":[]}"#),
            ("PUT /v1/devices/0xA/clients/gate", "", 204, ""),
            ("DELETE /v1/clients/gate", "", 204, ""),
            ("GET /v1/devices/0xA/clients", "", 200, r#"{"items":[]}"#),
            ("GET /v1/clients/gate/devices", "", 404, "unknown_client"),
            ("PUT /v1/devices/0xA/clients/gate", "", 404, "unknown_client"),
            ("DELETE /v1/devices/0xA/clients/gate", "", 404, "unknown_client"),
            ("GET /v1/devices/0xB/clients", "", 404, "unknown_device"),
        ])
        .await;
    server.add_client("gate").await;
    server.check("PUT /v1/devices/0xB/clients/gate", "", 404, "unknown_device").await;
    server.check("DELETE /v1/devices/0xB/clients/gate", "", 404, "unknown_device").await;
}
