//! What the server refuses: for good it is set aside, and the rest goes on; for now it waits, and
//! nothing else does.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::rig::SpoolRig;
use crate::contract::rig::Rig;

#[tokio::test]
async fn what_is_refused_for_good_is_set_aside_and_the_rest_goes_on() {
    let rig = SpoolRig::start(&[]).await;
    rig.server.device(&json!({"id": "a1", "kind": "meter"})).await;
    let lines = "{\"device_id\":\"a1\",\"data\":1}\nnonsense\n{\"device_id\":\"a1\"}\n{\"device_id\":\"a1\",\"data\":2}\n";
    let answer = rig.ask("POST", "/v1/reports", "application/x-ndjson", lines).await;
    assert_eq!(answer.body, "{\"spooled\":4}");
    let jobs = json!({"jobs": [{"payload": 1}, {"payload": 2, "tries": -1}, {"payload": 3}]});
    assert_eq!(rig.spooled("/v1/queues/shop/mail/jobs", &jobs).await, 3);
    let orders = "/v1/streams/shop/orders/messages";
    let messages = json!({"messages": [{"payload": 1}, {"no": "payload"}, {"payload": 3}]});
    assert_eq!(rig.spooled(orders, &messages).await, 3);
    let line = "{\"payload\":4},{\"payload\":5}\n";
    let answer = rig.ask("POST", orders, "application/x-ndjson", line).await;
    assert_eq!(answer.body, "{\"spooled\":1}");
    let state = rig.until(|state| state["waiting"] == 0).await;
    assert_eq!((&state["forwarded"], &state["refused"]), (&6.into(), &5.into()), "{state}");
    assert_eq!(rig.server.payloads("shop/orders").await, [json!(1), json!(3)]);
    assert_eq!(rig.server.consumed("shop/mail").await, [json!(1), json!(3)]);
    assert_eq!(rig.server.get("/v1/devices/a1").await["state"]["value"], 2);
    let refused = rig.refused();
    assert_eq!(refused.len(), 5, "{refused:?}");
    let of = |destination: &str| refused.iter().find(|line| line["destination"] == destination).expect("one");
    assert_eq!(of("queue:shop/mail")["body"], json!({"payload": 2, "tries": -1}));
    assert_eq!(of("stream:shop/orders")["body"], json!({"no": "payload"}));
    assert_eq!(of("reports")["text"], "nonsense");
    let of_line = refused.iter().find(|refused| refused["text"] == line.trim()).expect("it is kept");
    assert_eq!((&of_line["status"], &of_line["code"]), (&400.into(), &"unreadable".into()), "{of_line}");
    let log = rig.site.log();
    assert!(log.contains(r#"detail="it is not JSON that can be read""#), "it says the same: {log}");
    assert!(!log.contains("not_an_object"), "{log}");
    for line in &refused {
        assert!(
            line["code"].is_string() && line["status"].is_u64() && line["received_at"].is_string(),
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_with_a_problem() {
    let rig = SpoolRig::start(&[]).await;
    for path in ["/v1/queues/%ff/mail/jobs", "/v1/streams/shop/%ff/messages"] {
        let answer = rig.ask("POST", path, "application/json", "{\"payload\":1}").await;
        assert_eq!((answer.status, answer.text("code").as_str()), (400, "unreadable"), "{path}");
    }
}

#[tokio::test]
async fn a_method_that_a_route_does_not_take_is_refused_as_the_server_does() {
    let rig = SpoolRig::start(&[]).await;
    for (method, path) in [("PUT", "/v1/reports"), ("DELETE", "/v1/spool")] {
        let answer = rig.json(method, path, "{}").await;
        assert_eq!((answer.status, answer.text("code").as_str()), (405, "method_not_allowed"), "{path}");
        assert!(answer.headers.contains_key("allow"), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn nobody_gives_a_source_or_a_key_of_the_spool_itself() {
    let rig = SpoolRig::start(&[]).await;
    let orders = "/v1/streams/shop/orders/messages";
    assert_eq!(rig.spooled(orders, &json!({"payload": 1})).await, 1);
    rig.until(|state| state["waiting"] == 0).await;
    let page = rig.server.get(orders).await;
    let own = page["items"][0]["source"].as_str().expect("the spool has given one").to_owned();
    let other = "spool-0123456789abcdef";
    assert_ne!(own, other);
    let message = |source: &str| json!({"payload": 2, "source": source, "external_id": 1_000_000_000_u64});
    let taken = rig.json("POST", orders, &message(&own).to_string()).await;
    assert_eq!((taken.status, taken.text("code").as_str()), (422, "invalid_name"), "{taken:?}");
    assert_eq!(rig.spooled(orders, &message(other)).await, 1);
    for (name, status) in [(own.as_str(), 422), (other, 202)] {
        let key = format!("{name}-1-1");
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key.as_str())];
        let answer = rig.send("/v1/queues/shop/mail/jobs", &headers, b"{\"payload\":1}").await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let state = rig.until(|state| state["waiting"] == 0).await;
    assert_eq!((&state["forwarded"], &state["refused"]), (&3.into(), &0.into()), "{state}");
}

/// A server in front of which one queue has no room until it is told.
async fn answer(
    State((is_open, seen)): State<(watch::Receiver<bool>, watch::Sender<Vec<String>>)>,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    if path.contains("/busy/") && !*is_open.borrow() {
        let problem = json!({"status": 429, "code": "too_many_requests", "detail": "no room"});
        return (StatusCode::TOO_MANY_REQUESTS, problem.to_string()).into_response();
    }
    if path.contains("/closed/") && !*is_open.borrow() {
        let problem = json!({"status": 403, "code": "forbidden", "detail": "not you"});
        return (StatusCode::FORBIDDEN, problem.to_string()).into_response();
    }
    seen.send_modify(|seen| seen.push(path));
    (StatusCode::CREATED, json!({"jobs": []}).to_string()).into_response()
}

#[tokio::test]
async fn a_queue_that_answers_429_or_403_holds_up_only_itself() {
    let (open, is_open) = watch::channel(false);
    let (seen, mut arrived) = watch::channel(Vec::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let to = format!("http://{}", listener.local_addr().expect("bound"));
    let router = Router::new().fallback(answer).with_state((is_open, seen));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let rig = SpoolRig::beside(Rig::start(&[]).await, &to, &[]).await;
    for queue in ["busy", "closed", "free"] {
        rig.spooled(&format!("/v1/queues/shop/{queue}/jobs"), &json!({"payload": 1})).await;
    }
    let path = |queue: &str| format!("/v1/queues/shop/{queue}/jobs");
    arrived.wait_for(|paths| paths.contains(&path("free"))).await.expect("it arrives");
    let state = rig.until(|state| state["error"].is_string() && state["waiting"] == 2).await;
    assert_eq!((&state["refused"], &state["forwarded"]), (&0.into(), &1.into()));
    open.send_replace(true);
    let state = rig.until(|state| state["waiting"] == 0).await;
    assert_eq!((&state["refused"], &state["error"]), (&0.into(), &Value::Null));
    assert!(arrived.borrow().contains(&path("busy")) && arrived.borrow().contains(&path("closed")));
}
