//! A disk that is really full: what cannot be kept is answered 503, and what was acknowledged
//! arrives.

use std::path::Path;

use serde_json::{Value, json};
use simulator::spool::SpoolSite;

use super::rig::SpoolRig;
use crate::contract::rig::BINARY;
use crate::faults::disk::{FILL, MAKE_ROOM, Namespace};

const ORDERS: &str = "/v1/streams/shop/orders/messages";
/// Room for some hundred messages.
const ROOM: &str = "size=2m";

/// Sends until something is refused; the numbers that were accepted, and the refusal's code.
async fn sent_until_refused(rig: &SpoolRig, numbers: &mut Vec<u64>, next: &mut u64) -> String {
    loop {
        let body = json!({"payload": [*next, "x".repeat(900)]}).to_string();
        let answer = rig.json("POST", ORDERS, &body).await;
        *next += 1;
        if answer.status != 202 {
            assert_eq!(answer.status, 503, "{answer:?}");
            return answer.text("code");
        }
        numbers.push(*next - 1);
    }
}

#[tokio::test]
async fn a_full_disk_refuses_what_it_cannot_keep_and_loses_nothing() {
    let (server, url) = SpoolRig::server().await;
    let mut site = SpoolSite::new(Path::new(BINARY), &url, &[]).expect("a directory");
    let dir = site.dir();
    std::fs::create_dir(&dir).expect("made");
    let Some(disk) = Namespace::with_disk_at(&dir, ROOM).expect("it can be asked") else {
        eprintln!("nothing can be mounted here: a full disk is not tried");
        return;
    };
    site.start_through(disk.enter());
    let mut rig = SpoolRig::at(server, site).await;
    rig.server.kill().await;
    let (mut accepted, mut next) = (Vec::new(), 0);
    for _ in 0..20 {
        rig.spooled(ORDERS, &json!({"payload": [next, ""]})).await;
        accepted.push(next);
        next += 1;
    }
    disk.run(FILL, &dir).expect("it gets full");
    assert_eq!(sent_until_refused(&rig, &mut accepted, &mut next).await, "storage_unavailable");
    assert_eq!(rig.state().await["waiting"], accepted.len());

    rig.kill().await;
    rig.start_again().await;
    assert_eq!(rig.state().await["waiting"], accepted.len(), "all of it is there after a kill");
    assert_eq!(sent_until_refused(&rig, &mut accepted, &mut next).await, "storage_unavailable");

    disk.run(MAKE_ROOM, &dir).expect("there is room");
    rig.spooled(ORDERS, &json!({"payload": [next, "after"]})).await;
    accepted.push(next);
    rig.server.start_again().await;
    rig.until(|state| state["waiting"] == 0).await;
    let arrived: Vec<_> =
        rig.server.payloads("shop/orders").await.iter().map(|payload| payload[0].clone()).collect();
    // What was refused need not be gone: its sender sends it again.
    let expected: Vec<_> = accepted.iter().map(|number| Value::from(*number)).collect();
    let of_accepted: Vec<_> = arrived.iter().filter(|number| expected.contains(number)).cloned().collect();
    assert_eq!(of_accepted, expected, "each once, in order: {arrived:?}");
    assert!(rig.stop().await.success());
}
