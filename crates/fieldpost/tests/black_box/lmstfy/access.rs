//! What the log says of those who are not let in, and of what is changed; and that it never says a
//! token.

use crate::lmstfy::rig::{NAMESPACE, Rig};
use crate::wire;

/// How the log names a caller of these tests.
const PEER: &str = "peer=127.0.0.1:";

/// The line of the log with all of these in it.
fn line(rig: &Rig, parts: &[&str]) -> String {
    let log = rig.site.log();
    let found = log.lines().find(|line| parts.iter().all(|part| line.contains(part)));
    found.unwrap_or_else(|| panic!("no line has {parts:?}:\n{log}")).to_owned()
}

#[tokio::test]
async fn whoever_is_not_let_in_leaves_a_line() {
    let rig = Rig::start_guarded(&[("ops-secret", "admin"), ("read-secret", "read")]).await;
    for (address, path, header) in [
        (rig.api, "/api/shop/mail", ""),
        (rig.api, "/api/shop/mail", "\nX-Token: guessed-secret"),
        (rig.api, "/api/shop/mail", "\nX-Token: read-secret"),
        (rig.admin, "/version", ""),
        (rig.admin, "/version", "\nAuthorization: Bearer guessed-secret"),
        (rig.admin, "/limits", "\nAuthorization: Bearer read-secret"),
        (rig.admin, "/limits", "\nAuthorization: Digest x"),
    ] {
        let head = format!("GET {path} HTTP/1.1\nHost: localhost{header}");
        assert_eq!(wire::send(address, &head, b"").await.status, 401, "{path}{header}");
    }
    for code in ["missing", "unknown", "forbidden"] {
        line(&rig, &["refused a caller", "way=\"lmstfy\"", &format!("code=\"{code}\""), PEER, "shop"]);
        line(&rig, &["refused a caller", "way=\"lmstfy_admin\"", &format!("code=\"{code}\""), PEER]);
    }
    line(&rig, &["way=\"lmstfy_admin\"", "code=\"malformed\""]);
    line(&rig, &["way=\"lmstfy_admin\"", "login=\"read-secret\"", "code=\"forbidden\""]);
    assert!(!rig.site.log().contains("guessed-secret"), "{}", rig.site.log());
    let head = "GET /metrics HTTP/1.1\nHost: localhost\nAuthorization: Bearer ops-secret";
    let metrics = wire::send(rig.admin, head, b"").await;
    assert!(
        metrics.body.contains("fieldpost_lmstfy_unauthorized_total{reason=\"unknown\"} 2\n"),
        "{metrics:?}"
    );
}

#[tokio::test]
async fn what_an_operator_does_to_a_queue_leaves_a_line_and_work_leaves_none() {
    let rig = Rig::start().await;
    for _ in 0..2 {
        rig.publish("mail", b"x").await;
        rig.consume("mail?ttr=0").await;
    }
    rig.until_size("mail/deadletter/size", 2).await;
    for (method, path, status) in [
        ("PUT", "mail/deadletter", 200),
        ("DELETE", "mail/deadletter", 204),
        ("DELETE", "mail", 204),
        // There is nothing left to change.
        ("PUT", "mail/deadletter", 200),
        ("DELETE", "mail/deadletter", 204),
        ("DELETE", "mail", 204),
        ("DELETE", "never-used", 204),
    ] {
        let answer = rig.ask(method, path, b"").await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    assert_eq!(rig.ask("DELETE", "mail/deadletter?limit=x", b"").await.status, 400);
    for change in [
        "dead letters were respawned",
        "dead letters were deleted",
        "the jobs of a queue that can be consumed were deleted",
    ] {
        let change = format!("change=\"{change}\"");
        line(&rig, &["way=\"lmstfy\"", "caller=\"lmstfy:", PEER, &change, NAMESPACE, "queue=\"mail\""]);
    }
    let log = rig.site.log();
    let changes = log.lines().filter(|line| line.contains("way=\"lmstfy\"") && line.contains("change="));
    assert_eq!(changes.count(), 3, "{log}");
    assert!(!log.contains(&rig.token), "{log}");
}

#[tokio::test]
async fn a_change_over_the_admin_api_leaves_a_line() {
    let rig = Rig::start_bare().await;
    let token = "made-up-secret-of-30-characters";
    let on = rig.ask_admin("POST", "/accesslog?status=enable", b"").await;
    assert_eq!(on.status, 200);
    let (own, limit) = (format!("/token/{NAMESPACE}/{token}"), format!("/token/{NAMESPACE}/{token}/limit"));
    let made = format!("description=x&token={token}");
    for (method, path, body, status) in [
        ("POST", format!("/token/{NAMESPACE}"), made.as_str(), 201),
        ("POST", limit.clone(), r#"{"read":1,"interval":1}"#, 201),
        ("GET", limit.clone(), "", 200),
        ("DELETE", limit, "", 200),
        ("DELETE", own, "", 204),
    ] {
        let answer = rig.ask_admin(method, &path, body.as_bytes()).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    for change in ["a token was made", "a limit was set", "a limit was deleted", "a token was deleted"] {
        line(&rig, &["way=\"lmstfy_admin\"", &format!("change=\"{change}\""), NAMESPACE]);
    }
    line(&rig, &["change=\"the access log was switched\""]);
    line(&rig, &["lmstfy request", &format!("/token/{NAMESPACE}/*/limit"), "method=GET"]);
    assert!(!rig.site.log().contains(token), "{}", rig.site.log());
}
