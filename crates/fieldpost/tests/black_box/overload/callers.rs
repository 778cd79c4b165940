//! HTTP callers that take their time: heads and bodies that trickle, connections that say nothing
//! any more, answers that nobody reads.

use tokio::time::timeout;

use crate::overload::raw::{Answer, Http, report, request};
use crate::overload::rig::{PATIENCE, Rig};

const CONNECTIONS_MAX: usize = 300;
const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Callers that hold their connections: more than there is room for.
async fn slow_callers(rig: &Rig) -> Vec<Http> {
    let mut callers = Vec::new();
    for number in 0..CONNECTIONS_MAX * 2 {
        let mut caller = Http::open(rig.http).await.expect("connected");
        // Whom there is no room for is told so, or gone already.
        let _refused = match number % 3 {
            0 => caller.send(b"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await,
            1 => caller.ask(HEALTH).await.map(drop),
            _ => Ok(()),
        };
        callers.push(caller);
    }
    callers
}

/// Asks over new connections until the answer is not that there is no room.
async fn ask(rig: &Rig, request: &[u8]) -> Answer {
    let asked = async {
        loop {
            let Ok(mut caller) = Http::open(rig.http).await else { continue };
            match caller.ask(request).await {
                Ok(answer) if answer.status == 503 => assert!(answer.body.contains("too_many_connections")),
                Ok(answer) => return answer,
                // Dropped: more are told that there is no room than there is room for.
                Err(_) => {}
            }
        }
    };
    timeout(PATIENCE, asked).await.expect("there is room at some time")
}

#[tokio::test]
async fn callers_that_hold_their_connections_make_room_for_others() {
    let limit = CONNECTIONS_MAX.to_string();
    let rig = Rig::start(&[("FIELDPOST_HTTP__CONNECTIONS_MAX", &limit)]).await;
    let callers = slow_callers(&rig).await;
    let mut expected = Vec::new();
    for number in 0..50 {
        let answer = ask(&rig, &report("0xA", number % 2)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        expected.push(serde_json::json!(number % 2));
    }
    assert_eq!(ask(&rig, HEALTH).await.status, 200);
    assert_eq!(rig.readings("0xA").await, expected, "all that was accepted, and no more");
    assert!(rig.metric("fieldpost_http_shown_out_total").await > 0);
    rig.has_grown_less_than(64);
    drop(callers);
    rig.is_well("0xB").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_full_server_says_so_and_is_alive() {
    let rig = Rig::start(&[("FIELDPOST_HTTP__CONNECTIONS_MAX", "1")]).await;
    // A request that has begun is left in peace for long.
    let mut holder = Http::open(rig.http).await.expect("connected");
    let begun =
        b"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 30\r\n\r\n";
    assert_eq!(holder.ask(begun).await.expect("asked for its body").status, 100);
    let other = async |request: &[u8]| {
        let mut caller = Http::open(rig.http).await.expect("connected");
        caller.ask(request).await.expect("answered")
    };
    let refused = other(&report("0xA", 1)).await;
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains(r#""code":"too_many_connections""#), "{refused:?}");
    assert_eq!(other(HEALTH).await.status, 200);
    assert_eq!(other(&request("GET", "/readyz", "", b"")).await.status, 200);
    let metrics = other(&request("GET", "/metrics", "", b"")).await;
    assert!(metrics.body.contains(r#"fieldpost_http_connects_total{result="busy"}"#), "{metrics:?}");
    holder.send(br#"{"device_id":"0xA","data":1}  "#).await.expect("it reads");
    assert_eq!(holder.answer().await.expect("answered").status, 200);
    drop(holder);
    assert_eq!(ask(&rig, &report("0xA", 0)).await.status, 200);
    assert_eq!(rig.readings("0xA").await.len(), 2);
    rig.stop().await;
}

#[tokio::test]
async fn answers_that_nobody_reads_do_not_pile_up() {
    let rig = Rig::start(&[]).await;
    let lines: String =
        (0..1_000).map(|n| format!("{{\"id\":\"0xD{n}\",\"address\":\"{n:0200}\"}}\n")).collect();
    let imported: serde_json::Value = rig.api.post_lines("/v1/devices/import", lines).await.expect("taken");
    assert_eq!(imported["created"], 1_000);
    let list = request("GET", "/v1/devices?limit=1000", "", b"");
    let mut callers = Vec::new();
    for _ in 0..100 {
        let mut caller = Http::open(rig.http).await.expect("connected");
        // Ten answers of some 300 KiB, of which none is read: the second is made when the first is
        // taken.
        caller.send(&list.repeat(10)).await.expect("sent");
        callers.push(caller);
    }
    for caller in &mut callers {
        let first = timeout(PATIENCE, caller.answer()).await.expect("in time").expect("answered");
        assert_eq!(first.status, 200);
    }
    rig.has_grown_less_than(64);
    rig.is_well("0xE").await;
    rig.stop().await;
}
