//! Exports: a whole list as rows, whatever the size of a page.

use axum::body::Body;
use axum::http::Request;
use serde_json::Value as Json;

use crate::rig::{Answer, Server, check_form};

const NDJSON: &str = "application/x-ndjson";
const CSV: &str = "text/csv";

async fn export(server: &Server, accept: &str, path: &str) -> Answer {
    let request = Request::get(path).header("accept", accept).body(Body::empty());
    server.send(request.expect("a request")).await
}

fn lines(answer: &Answer) -> Vec<Json> {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(NDJSON)), "{}", answer.text);
    answer.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn rows(answer: &Answer) -> Vec<Vec<String>> {
    let expect = "text/csv; charset=utf-8; header=present";
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(expect)), "{}", answer.text);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(answer.text.as_bytes());
    let row =
        |record: Result<csv::StringRecord, _>| record.expect("a row").iter().map(str::to_owned).collect();
    reader.records().map(row).collect()
}

async fn with_devices(count: usize) -> Server {
    let server = Server::start().await;
    for n in 0..count {
        server.add_device(&format!("d{n:04}")).await;
    }
    server
}

#[tokio::test]
async fn an_export_has_no_end_but_that_of_the_list() {
    let server = with_devices(2_001).await;
    let all = lines(&export(&server, NDJSON, "/v1/devices").await);
    let ids: Vec<_> = all.iter().map(|device| device["id"].as_str().expect("text")).collect();
    assert_eq!((ids.len(), ids.is_sorted(), ids[2_000]), (2_001, true, "d2000"));
    assert_eq!(all[7], server.get("/v1/devices/d0007").await, "a line is what the call for one thing gives");
    let table = rows(&export(&server, CSV, "/v1/devices").await);
    assert_eq!(table.len(), 2_002);
    for (query, expect) in [("limit=3", 3), ("limit=1000", 1_000), ("kind=lock", 2_001), ("kind=none", 0)] {
        let answer = export(&server, NDJSON, &format!("/v1/devices?{query}")).await;
        assert_eq!(lines(&answer).len(), expect, "{query}");
    }
}

#[tokio::test]
async fn an_export_goes_on_behind_a_cursor() {
    let server = with_devices(5).await;
    let page = server.get("/v1/devices?limit=2").await;
    let path = format!("/v1/devices?cursor={}", page["next_cursor"].as_str().expect("more"));
    let rest = lines(&export(&server, NDJSON, &path).await);
    assert_eq!(rest.iter().map(|device| &device["id"]).collect::<Vec<_>>(), ["d0002", "d0003", "d0004"]);
}

#[tokio::test]
async fn every_list_has_a_table() {
    let server = Server::start().await;
    let device = r#"{"id":"a","address":"1, \"High\" St","labels":{"site":"12"},"report_interval":"1h","commands":{"window":2}}"#;
    server.check("POST /v1/devices", device, 201, "{}").await;
    server.add_client("c").await;
    server.link("a", "c").await;
    server.report("a", 1).await;
    server.report("a", 1).await;
    server.report("a", 0).await;
    for (path, names, column, cells) in [
        (
            "/v1/devices",
            "id,kind,address,labels,report_interval,registered_at,value,changed_at,last_seen_at,connection,connected,commands",
            2,
            &["1, \"High\" St"][..],
        ),
        ("/v1/devices?kind=lock", "", 3, &[r#"{"site":"12"}"#]),
        ("/v1/devices?connected=false", "", 11, &[r#"{"window":2,"gap":null}"#]),
        ("/v1/clients/c/devices", "", 6, &["0"]),
        ("/v1/clients", "id,name,url,enabled,created_at,notices", 3, &["true"]),
        ("/v1/devices/a/clients", "id,name,url,enabled,created_at,notices", 0, &["c"]),
        ("/v1/devices/a/readings", "ts,data,changed", 2, &["true", "false", "true"]),
        ("/v1/events?order=asc", "id,device_id,type,ts,sequence,value,previous", 6, &["", "1"]),
        (
            "/v1/deliveries",
            "id,client_id,device_id,type,status,attempt_count,created_at,next_attempt_at,resend_of",
            4,
            &["pending", "superseded"],
        ),
    ] {
        let table = rows(&export(&server, CSV, path).await);
        if !names.is_empty() {
            assert_eq!(table[0].join(","), names, "{path}");
        }
        let found: Vec<_> = table[1..].iter().map(|row| row[column].as_str()).collect();
        assert_eq!(found, cells, "{path}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_an_export_is_told_before_it_begins() {
    let server = Server::start().await;
    for (path, status, code) in [
        ("/v1/devices?limit=0", 422, "invalid_parameter"),
        ("/v1/devices?cursor=x", 400, "invalid_cursor"),
        ("/v1/devices/none/readings", 404, "unknown_device"),
        ("/v1/events?device=none", 404, "unknown_device"),
        ("/v1/clients/none/devices", 404, "unknown_client"),
    ] {
        let answer = export(&server, CSV, path).await;
        check_form(path, &answer);
        assert_eq!((answer.status, answer.json()["code"].as_str()), (status, Some(code)), "{path}");
    }
}
