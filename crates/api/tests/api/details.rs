//! What a refusal says: the field as its sender wrote it, what was wrong with it, and what would be
//! right.

use crate::commands::with_locks;
use crate::rig::Server;

/// Calls that are refused: each with its body, its code, and a part of its detail.
async fn check_refused(server: &Server, status: u16, rows: &[(&str, &str, &str, &str)]) {
    for (call, body, code, part) in rows {
        let problem = server.check(call, body, status, code).await;
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(part), "{call} {body:.80}: {part} is not in {detail}");
    }
}

#[tokio::test]
async fn a_number_is_refused_with_the_range_of_its_field() {
    let server = with_locks().await;
    for wrong in ["0", "-1", "1.5", "4294967296"] {
        let said =
            |name: &str, most: &str| format!("{name} is {wrong}; it must be a whole number, 1 to {most}");
        for (call, body, name, most) in [
            ("POST /v1/tasks", format!(r#"{{"payload":1,"count":{wrong}}}"#), "count", "100000"),
            (
                "POST /v1/campaigns",
                format!(r#"{{"payload":1,"every":"1m","count":{wrong}}}"#),
                "count",
                "100000",
            ),
            (
                "POST /v1/devices/0xA/commands",
                format!(r#"{{"payload":1,"max_attempts":{wrong}}}"#),
                "max_attempts",
                "1000",
            ),
            (
                "POST /v1/rollouts",
                format!(r#"{{"payload":1,"selector":"","rate":{wrong}}}"#),
                "rate",
                "4294967295",
            ),
            (
                "PUT /v1/queues/ops/q/control",
                format!(r#"{{"state":"run","max_in_flight":{wrong}}}"#),
                "max_in_flight",
                "4294967295",
            ),
        ] {
            check_refused(&server, 422, &[(call, &body, "invalid_number", &said(name, most))]).await;
        }
    }
}
