//! Health and figures, also after the store has failed.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use base::PartitionId;
use store::Planned;

use crate::rig::{Server, request};

#[tokio::test]
async fn a_running_server_is_alive_and_ready() {
    let server = Server::start().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.call(&format!("GET {path}"), "").await.status, 200, "{path}");
    }
}

/// Whoever sends load is told what an acknowledgement rests on.
#[tokio::test]
async fn a_ready_server_tells_what_a_loss_of_power_may_take() {
    let server = Server::start().await;
    assert_eq!(server.call("GET /readyz", "").await.text, "ready\n");
    let server = server.synced_within(Duration::from_millis(1_500));
    let expected =
        "ready; synced every 1.5s: the power going out may take what was acknowledged since the last sync\n";
    assert_eq!(server.call("GET /readyz", "").await.text, expected);
}

#[tokio::test]
async fn a_failed_store_is_told_and_everything_else_refused() {
    let server = Server::start_with(1, Router::new()).await;
    server.add_device("a").await;
    server.add_client("c").await;
    server.store.plan(PartitionId(0), Planned::Failed);
    for call in [
        "PATCH /v1/devices/a",
        "GET /readyz",
        "GET /v1/devices",
        "GET /v1/devices/a",
        "GET /v1/clients",
        "GET /v1/clients/c",
        "PUT /v1/devices/a/clients/c",
        "GET /v1/events",
        "GET /v1/deliveries",
        "POST /v1/clients",
    ] {
        server.check(call, r#"{"address":"x"}"#, 503, "unavailable").await;
    }
    let failure = server.engine.failure().expect("the store has failed").to_string();
    let ready = server.check("GET /readyz", "", 503, "unavailable").await;
    assert!(ready["detail"].as_str().is_some_and(|detail| detail.contains(&failure)), "{ready} {failure}");
    server.check("GET /v1/nothing", "", 404, "unknown_route").await;
    for path in ["/healthz", "/metrics"] {
        assert_eq!(server.call(&format!("GET {path}"), "").await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn requests_are_counted_by_route_and_not_by_path() {
    let server =
        Server::start_with(1, Router::new().route("/v1/more", axum::routing::get(async || "x"))).await;
    server.add_device("a").await;
    for (call, times) in
        [("GET /v1/devices/a", 2), ("GET /v1/devices/none", 1), ("GET /made/up", 3), ("BREW /v1/more", 1)]
    {
        for _ in 0..times {
            server.call(call, "").await;
        }
    }
    let answer = server.call("GET /metrics", "").await;
    let content_type = answer.header("content-type");
    assert!(
        content_type.is_some_and(|text| text.starts_with("application/openmetrics-text")),
        "{content_type:?}"
    );
    for line in [
        r#"fieldpost_http_requests_total{method="POST",route="/v1/devices",status="201"} 1"#,
        r#"fieldpost_http_requests_total{method="GET",route="/v1/devices/{id}",status="200"} 2"#,
        r#"fieldpost_http_requests_total{method="GET",route="/v1/devices/{id}",status="404"} 1"#,
        r#"fieldpost_http_requests_total{method="GET",route="unknown",status="404"} 3"#,
        r#"fieldpost_http_requests_total{method="other",route="/v1/more",status="405"} 1"#,
        r#"fieldpost_http_request_duration_seconds_count{method="GET",route="/v1/devices/{id}"} 3"#,
        r#"fieldpost_http_reads_in_flight{sort="lookup"} 0"#,
        r#"fieldpost_http_reads_in_flight{sort="list"} 0"#,
        "fieldpost_http_idempotency_keys 0",
        "fieldpost_http_idempotency_bytes 0",
        "fieldpost_http_idempotency_forgotten_total 0",
        "# EOF",
    ] {
        assert!(answer.text.lines().any(|found| found == line), "{line} is not in\n{}", answer.text);
    }
}

#[tokio::test]
async fn figures_come_in_the_form_that_is_liked_best() {
    let server = Server::start_with(1, Router::new()).await;
    for (accept, is_plain) in [
        (None, false),
        (Some("*/*"), false),
        (Some("application/openmetrics-text; version=1.0.0"), false),
        (Some("text/plain;version=0.0.4"), true),
        (Some("application/openmetrics-text;q=0.2,text/plain;version=0.0.4;q=0.3"), true),
    ] {
        let begun = request("GET /metrics", "");
        let begun = if let Some(accept) = accept { begun.header("accept", accept) } else { begun };
        let answer = server.send(begun.body(Body::empty()).expect("a request")).await;
        let expect = match is_plain {
            true => "text/plain; version=0.0.4; charset=utf-8",
            false => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        };
        assert_eq!(answer.header("content-type"), Some(expect), "{accept:?}");
        let line = match is_plain {
            true => "# TYPE fieldpost_http_requests_total counter",
            false => "# TYPE fieldpost_http_requests counter",
        };
        assert!(answer.text.lines().any(|found| found == line), "{line} is not in\n{}", answer.text);
        assert_ne!(answer.text.ends_with("# EOF\n"), is_plain, "{accept:?}");
    }
}
