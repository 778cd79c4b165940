//! No state of the files needs a person: flipped bits and cut files cost what they hold, and the
//! agent starts.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::rig::{SpoolRig, each_in};

const ORDERS: &str = "/v1/streams/shop/orders/messages";
const COUNT: u64 = 60;

/// An agent that was killed with so many messages on disk, some of which the server has.
async fn killed() -> SpoolRig {
    let mut rig = SpoolRig::start(&[]).await;
    for number in 0..COUNT {
        if number == COUNT / 3 {
            rig.until(|state| state["waiting"] == 0).await;
            rig.server.kill().await;
        }
        rig.spooled(ORDERS, &json!({"payload": number})).await;
    }
    rig.kill().await;
    rig.server.start_again().await;
    rig
}

fn files(rig: &SpoolRig) -> Vec<PathBuf> {
    let entries = fs::read_dir(rig.site.dir()).expect("a directory");
    let paths = entries.map(|entry| entry.expect("readable").path());
    paths.filter(|path| path.is_file()).collect()
}

/// The numbers that arrived, in order and once each.
async fn arrived(rig: &SpoolRig) -> Vec<u64> {
    rig.until(|state| state["waiting"] == 0).await;
    let payloads = rig.server.payloads("shop/orders").await;
    let numbers: Vec<u64> =
        payloads.iter().map(|payload| Value::as_u64(payload).expect("a number")).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    numbers
}

#[tokio::test]
async fn a_flipped_bit_in_every_file_costs_one_record_of_each() {
    let mut rig = killed().await;
    let mut hit = 0;
    for path in files(&rig) {
        let length = fs::metadata(&path).expect("there").len();
        if length > 0 {
            let file = File::options().read(true).write(true).open(&path).expect("it opens");
            let mut byte = [0];
            let at = length * 9 / 10;
            file.read_exact_at(&mut byte, at).expect("readable");
            file.write_all_at(&[byte[0] ^ 0x10], at).expect("written");
            hit += usize::from(path.extension().is_some_and(|extension| extension == "seg"));
        }
    }
    rig.start_again().await;
    let arrived = arrived(&rig).await;
    assert!(arrived.len() + hit >= COUNT as usize, "{} of {COUNT}, {hit} hit", arrived.len());
    assert!((1..=hit).contains(&(rig.state().await["damaged"].as_u64().expect("a number") as usize)));
    assert!(fs::read_dir(rig.site.dir().join("damaged")).expect("a directory").count() > 0);
    rig.spooled(ORDERS, &json!({"payload": 1_000})).await;
    rig.until(|state| state["waiting"] == 0).await;
    assert_eq!(rig.server.payloads("shop/orders").await.last(), Some(&json!(1_000)));
}

#[tokio::test]
async fn a_new_identity_publishes_nothing_twice() {
    let mut rig = killed().await;
    fs::write(rig.site.dir().join("new-identity"), "").expect("written");
    rig.start_again().await;
    assert_eq!(arrived(&rig).await, (0..COUNT).collect::<Vec<_>>());
    rig.spooled(ORDERS, &json!({"payload": 1_000})).await;
    rig.until(|state| state["waiting"] == 0).await;
    let page = rig.server.get(&format!("{ORDERS}?limit=1000")).await;
    let sources = each_in(&page["items"], "source");
    assert_eq!(sources.len() as u64, COUNT + 1, "{page}");
    assert!(sources[..COUNT as usize].iter().all(|source| *source == sources[0]), "{sources:?}");
    assert_ne!(sources.last(), sources.first());
    assert!(!rig.site.dir().join("new-identity").exists(), "once only");
}

#[tokio::test]
async fn files_that_are_cut_emptied_or_foreign_are_no_obstacle() {
    let mut rig = killed().await;
    for (place, path) in files(&rig).into_iter().enumerate() {
        let length = fs::metadata(&path).expect("there").len();
        let file = File::options().write(true).open(&path).expect("it opens");
        file.set_len(if place % 2 == 0 { length / 2 } else { 0 }).expect("cut");
    }
    fs::write(rig.site.dir().join("rewrite.tmp"), "half").expect("written");
    fs::write(rig.site.dir().join("99999999999999999999.seg"), vec![0; 5_000]).expect("written");
    fs::write(rig.site.dir().join("notes.txt"), "not ours").expect("written");
    rig.start_again().await;
    arrived(&rig).await;
    rig.spooled(ORDERS, &json!({"payload": 1_000})).await;
    rig.until(|state| state["waiting"] == 0).await;
    assert_eq!(rig.server.payloads("shop/orders").await.last(), Some(&json!(1_000)));
}
