//! The API's answers, as the contract has them, turned into a snapshot.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::*;
use crate::endpoint::Endpoint;

/// What the server answers to each path and query.
const ANSWERS: [(&str, &str); 6] = [
    (
        "/v1/devices/d0",
        r#"{"id":"d0","state":{"value":1,"changed_at":"2026-11-21T01:02:03.456Z","connection":"online"}}"#,
    ),
    (
        "/v1/devices/d0/readings?order=asc&limit=1000",
        r#"{"items":[{"ts":"1970-01-01T00:00:00.001Z","data":0,"changed":true}],"next_cursor":"a+b="}"#,
    ),
    (
        "/v1/devices/d0/readings?order=asc&limit=1000&cursor=a%2Bb%3D",
        r#"{"items":[{"ts":"1970-01-01T00:00:00.002Z","data":1,"changed":true}],"next_cursor":null}"#,
    ),
    (
        "/v1/events?order=asc&limit=1000",
        r#"{"items":[{"id":"e1","device_id":"d0","type":"device.changed","ts":"1970-01-01T00:00:00.001Z",
            "sequence":1,"value":0,"previous":null}],"next_cursor":null}"#,
    ),
    (
        "/v1/deliveries?order=asc&limit=1000",
        r#"{"items":[
            {"id":"m1","client_id":"c","device_id":"d0","type":"device.changed","status":"superseded",
             "attempt_count":1,"created_at":"1970-01-01T00:00:00.001Z","next_attempt_at":null},
            {"id":"m2","client_id":"c","device_id":"d0","type":"device.changed","status":"delivered",
             "attempt_count":1,"created_at":"1970-01-01T00:00:00.002Z","next_attempt_at":null}],"next_cursor":null}"#,
    ),
    (
        "/v1/deliveries/m1",
        r#"{"id":"m1","attempts":[{"at":"1970-01-01T00:00:00.001Z","status_code":null,"error":"interrupted","duration_ms":3}]}"#,
    ),
];

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let asked = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let known = ANSWERS.iter().find(|(path, _)| *path == asked);
    let (status, body) = known.map_or((404, "{}"), |(_, body)| (200, *body));
    Ok(Response::builder().status(status).body(Full::from(body)).expect("a response"))
}

async fn api() -> (ApiClient, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::at(listener.local_addr().expect("it is bound"));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections
                .spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    (ApiClient::new(endpoint, Duration::from_secs(20)), tasks)
}

#[tokio::test]
async fn all_pages_are_read_and_doubtful_attempts_looked_at() {
    let (api, _server) = api().await;
    let snapshot = ServerSnapshot::take(&api, &DeviceIds::new("d", 1), |id| u64::from(id == "m1"))
        .await
        .expect("it can be taken");
    let device = &snapshot.devices[&0];
    assert_eq!((device.state.value.clone(), device.state.connection), (1.into(), ConnectionStatus::Online));
    assert_eq!(device.readings.iter().map(|reading| reading.ts_ms).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((device.events.len(), device.events[0].kind), (1, DeviceEventKind::Changed));
    let deliveries: Vec<_> =
        snapshot.deliveries.iter().map(|delivery| (delivery.status, delivery.attempts_cut)).collect();
    assert_eq!(deliveries, [(NotificationStatus::Superseded, 1), (NotificationStatus::Delivered, 0)]);
}

#[tokio::test]
async fn a_device_that_is_not_there_is_told_with_path_and_status() {
    let (api, _server) = api().await;
    let error = ServerSnapshot::take(&api, &DeviceIds::new("x", 1), |_| 0).await.unwrap_err();
    assert!(error.to_string().contains("/v1/devices/x0: 404"), "{error}");
}
