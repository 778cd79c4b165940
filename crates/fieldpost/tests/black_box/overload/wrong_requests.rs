//! Tens of thousands of requests that are wrong in every way, and as many tokens that nobody knows.

use futures_util::future::join_all;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use crate::overload::raw::{Http, request};
use crate::overload::rig::{PATIENCE, Rig};

const CALLERS: usize = 16;
const REQUESTS_EACH: usize = 2_000;
/// Requests that are on their way on one connection.
const AHEAD: usize = 20;

/// Requests, each with the status that it has to get.
fn wrong() -> Vec<(Vec<u8>, u16)> {
    let json = "Content-Type: application/json\r\n";
    let post = |path: &str, body: &[u8]| request("POST", path, json, body);
    vec![
        (post("/v1/reports", b"{"), 400),
        (post("/v1/reports", br#"{"device_id":"nobody","data":1}"#), 404),
        (post("/v1/reports", br#"{"device_id":"not an id","data":1}"#), 422),
        (post("/v1/devices", br#"{"id":"0xA","surprise":1}"#), 422),
        (post("/v1/clients", br#"{"name":"x","url":"ftp://x"}"#), 422),
        (request("GET", "/v1/devices?limit=0", "", b""), 422),
        (request("GET", "/v1/devices?cursor=x", "", b""), 400),
        (request("GET", "/v1/devices/nobody", "", b""), 404),
        (request("DELETE", "/v1/reports", "", b""), 405),
        (request("GET", "/v2/nothing", "", b""), 404),
    ]
}

async fn caller(rig: &Rig, wrong: &[(Vec<u8>, u16)]) {
    let mut http = Http::open(rig.http).await.expect("connected");
    let all: Vec<_> = wrong.iter().cycle().take(REQUESTS_EACH).collect();
    for ahead in all.chunks(AHEAD) {
        let bytes: Vec<_> = ahead.iter().flat_map(|(request, _)| request.clone()).collect();
        http.send(&bytes).await.expect("it reads");
        for (request, status) in ahead {
            let answer = http.answer().await.expect("it answers");
            assert_eq!(answer.status, *status, "{} {}", String::from_utf8_lossy(request), answer.body);
        }
    }
}

#[tokio::test]
async fn wrong_requests_are_answered_one_by_one_and_leave_nothing_behind() {
    let rig =
        Rig::start(&[("FIELDPOST_DEVICES__UNKNOWN", "reject"), ("FIELDPOST_QUARANTINE__MAX_BYTES", "1MB")])
            .await;
    let wrong = wrong();
    let all = join_all((0..CALLERS).map(|_| caller(&rig, &wrong)));
    timeout(PATIENCE, all).await.expect("in time");
    rig.has_grown_less_than(128);
    let device: serde_json::Value =
        rig.api.post("/v1/devices", &serde_json::json!({"id": "0xB"})).await.expect("registered");
    assert_eq!(device["id"], "0xB");
    rig.is_well("0xB").await;
    rig.stop().await;
}

#[tokio::test]
async fn guessed_tokens_do_not_keep_a_right_one_out() {
    let digest: String = Sha256::digest("right").iter().map(|byte| format!("{byte:02x}")).collect();
    let config = format!("[[auth.tokens]]\nname = \"ops\"\nsha256 = \"{digest}\"\nscopes = [\"admin\"]\n");
    let rig = Rig::start_with(&config, &[]).await;
    let with =
        |token: &str| request("GET", "/v1/devices", &format!("Authorization: Bearer {token}\r\n"), b"");
    let guesser = async |number: usize| {
        let mut refused = 0;
        let mut http = Http::open(rig.http).await.expect("connected");
        for guess in 0..5 {
            let status = http.ask(&with(&format!("wrong-{number}-{guess}"))).await.expect("answered").status;
            assert!([401, 429].contains(&status), "{status}");
            refused += usize::from(status == 429);
        }
        refused
    };
    let right = async {
        let mut http = Http::open(rig.http).await.expect("connected");
        for _ in 0..500 {
            assert_eq!(http.ask(&with("right")).await.expect("answered").status, 200);
        }
    };
    let both = futures_util::future::join(join_all((0..400).map(guesser)), right);
    let (refused, ()) = timeout(PATIENCE, both).await.expect("in time");
    assert!(refused.iter().sum::<usize>() > 0, "more come than may wait");
    rig.stop().await;
}
