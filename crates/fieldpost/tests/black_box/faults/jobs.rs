//! SIGKILL while jobs are published, consumed and acknowledged, again and again on one data
//! directory.
//!
//! Publishers and consumers keep the account, each at its own end. What was published is there
//! until it was acknowledged, and never again after that. Every attempt has a higher number than
//! those before. Whoever was told of a reservation can use it, whichever process hears of it. So
//! many jobs wait for a far time that most of them are parked. `FIELDPOST_TEST_SEED` replays the
//! clients' choices.

mod clients;
mod ledger;
mod wire;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use simulator::api_client::{ApiClient, ApiError};
use simulator::random::SeededRandom;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::clients::Client;
use self::ledger::{Ledger, Listed};
use crate::faults::{PATIENCE, kills, site};

const KILLS: u32 = 15;
/// Before each kill so many more jobs are done, at least and at most.
const DONE_BEFORE: (u64, u64) = (20, 300);
const PUBLISHERS: u64 = 4;
const CONSUMERS: u64 = 6;
const QUEUES: [&str; 3] = ["a", "b", "c"];
/// Jobs of the first queue whose time does not come, and how many of a partition's may be in
/// memory.
const FAR: u64 = 3_000;
const RESIDENT_MAX: &str = "1024";
/// Far from what the publishers count to.
const FAR_FROM: u64 = 1 << 40;

/// What the clients of a run have in common.
struct Run {
    ledger: Ledger,
    /// How often the server was started.
    life: watch::Sender<u32>,
    stop: watch::Sender<bool>,
}

/// A job in a list of the server.
#[derive(Deserialize)]
struct Item {
    id: String,
    payload: u64,
    attempt: u32,
}

async fn publish_far(api: &ApiClient, ledger: &Ledger) -> Result<(), ApiError> {
    for first in (FAR_FROM..FAR_FROM + FAR).step_by(1_000) {
        let numbers = first..first + 1_000;
        ledger.sent(numbers.clone());
        let jobs: Vec<Value> =
            numbers.clone().map(|number| json!({"payload": number, "delay": "1h", "tries": 5})).collect();
        let path = format!("/v1/queues/crash/{}/jobs", QUEUES[0]);
        let answer: Value = api.post(&path, &json!({"jobs": jobs})).await?;
        ledger.published(numbers, &answer);
    }
    Ok(())
}

/// Every job that the server has. A job that becomes ready meanwhile is found twice, and none is
/// missed.
async fn list(api: &ApiClient) -> Result<BTreeMap<u64, Listed>, ApiError> {
    let mut listed = BTreeMap::new();
    for state in ["reserved", "scheduled", "ready"] {
        for queue in QUEUES {
            let items: Vec<Item> = api.list(&format!("/v1/queues/crash/{queue}/jobs?state={state}")).await?;
            for Item { id, payload, attempt } in items {
                listed.insert(payload, Listed { id, attempt });
            }
        }
    }
    Ok(listed)
}

async fn dead(api: &ApiClient) -> Result<u64, ApiError> {
    let mut dead = 0;
    for queue in QUEUES {
        let overview: Value = api.get(&format!("/v1/queues/crash/{queue}")).await?;
        dead += overview["dead"].as_u64().expect("a number");
    }
    Ok(dead)
}

/// Publishes, consumes and kills, lets the clients come to an end, and makes up the account.
async fn kill_under_load(seed: u64) -> Result<(), Box<dyn Error>> {
    let mut site = site();
    site.set("FIELDPOST_JOBS__RESIDENT_MAX", RESIDENT_MAX);
    let mut random = SeededRandom::seeded(seed);
    let mut server = site.start(PATIENCE).await?;
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    let run = Arc::new(Run {
        ledger: Ledger::default(),
        life: watch::Sender::new(1),
        stop: watch::Sender::new(false),
    });
    publish_far(&api, &run.ledger).await?;
    let mut clients = JoinSet::new();
    for number in 0..PUBLISHERS + CONSUMERS {
        let client = Client::new(&site.http, &run, SeededRandom::part(seed, number));
        if number < PUBLISHERS {
            clients.spawn(client.publish(number << 32));
        } else {
            clients.spawn(client.consume());
        }
    }
    let (at_least, at_most) = DONE_BEFORE;
    for _ in 0..KILLS {
        run.ledger.until_done(at_least + random.below(at_most - at_least)).await;
        server.kill().await?;
        run.life.send_modify(|life| *life += 1);
        server = site.start(PATIENCE).await?;
    }
    run.ledger.until_done(at_least).await;
    run.stop.send_replace(true);
    while let Some(ended) = clients.join_next().await {
        ended?;
    }
    run.ledger.close(&list(&api).await?);
    assert_eq!(dead(&api).await?, 0, "every job has tries left");
    drain(&api, &run.ledger).await?;
    let stopped = server.stop(PATIENCE).await?;
    assert!(stopped.success(), "{stopped}");
    Ok(())
}

/// What is ready at the end can still be consumed and acknowledged.
async fn drain(api: &ApiClient, ledger: &Ledger) -> Result<(), ApiError> {
    for queue in QUEUES {
        loop {
            let asked = std::time::Instant::now();
            let answer: Value =
                api.post(&format!("/v1/queues/crash/{queue}/consume"), &json!({"max": 1_000})).await?;
            let jobs = answer["jobs"].as_array().expect("jobs");
            if jobs.is_empty() {
                break;
            }
            let reservations: Vec<&Value> = jobs.iter().map(|job| &job["reservation"]).collect();
            for job in jobs {
                ledger.came(job, asked, true);
            }
            let path = format!("/v1/queues/crash/{queue}/ack");
            let answer: Value = api.post(&path, &json!({"reservations": reservations})).await?;
            assert_eq!(answer, json!({"acked": jobs.len(), "stale": []}));
            for job in jobs {
                ledger.done(job["payload"].as_u64().expect("a number"));
            }
        }
    }
    ledger.close(&list(api).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_published_job_is_lost_and_no_acknowledged_one_comes_back_when_the_server_is_killed() {
    let seed = kills::seed();
    eprintln!("FIELDPOST_TEST_SEED={seed}");
    kill_under_load(seed).await.unwrap();
}
