//! SIGKILL under load, again and again on one data directory: every acknowledged report and every
//! due notification is accounted for.
//!
//! One receiver is always well, the other is in another kind of trouble before each kill. The
//! server is killed when a random number of further reports has been acknowledged, or in the middle
//! of checkpoints. Then it is started again on its data. What it vouched for last is looked for at
//! once, everything at the end. `FIELDPOST_TEST_SEED` replays a run.

use std::error::Error;

use simulator::api_client::ApiClient;
use simulator::random::SeededRandom;
use simulator::receiver::Behaviour;

use crate::faults::load::{LANES_OF_A_WAY, Load};
use crate::faults::scribe::Scribe;
use crate::faults::{PATIENCE, site};

const KILLS: u32 = 22;
/// The first kills come when a checkpoint has just been made: it is the turn of the next partition
/// then.
const KILLS_AT_A_CHECKPOINT: u32 = 6;
/// Before each of the others so many more reports are acknowledged, at least and at most.
const ACKNOWLEDGED_BEFORE: (u64, u64) = (200, 2_000);
const DEFAULT_SEED: u64 = 20_261_121;

/// The trouble of the second receiver before kill `kill`.
fn trouble(kill: u32) -> Behaviour {
    match kill % 4 {
        0 => Behaviour::Hanging,
        1 => Behaviour::Down,
        2 => Behaviour::Failing(503),
        _ => Behaviour::Up,
    }
}

pub(crate) fn seed() -> u64 {
    std::env::var("FIELDPOST_TEST_SEED")
        .map_or(DEFAULT_SEED, |seed| seed.parse().expect("the seed is a number"))
}

async fn checkpoints(api: &ApiClient) -> Result<u64, Box<dyn Error>> {
    let metrics = api.any(hyper::Method::GET, "/metrics", None).await?.body;
    let metrics = String::from_utf8(metrics.to_vec())?;
    let made = metrics.lines().find_map(|line| line.strip_prefix("fieldpost_store_checkpoints_total "));
    Ok(made.ok_or("no figure of checkpoints")?.parse::<f64>()? as u64)
}

/// Waits until a checkpoint has been made since the call.
async fn until_a_checkpoint(api: &ApiClient) -> Result<(), Box<dyn Error>> {
    let before = checkpoints(api).await?;
    let made = async {
        while checkpoints(api).await? == before {}
        Ok(())
    };
    tokio::time::timeout(PATIENCE, made).await?
}

/// Loads the server, kills it again and again, lets things come to rest, and makes up the account.
async fn kill_under_load(seed: u64) -> Result<(), Box<dyn Error>> {
    let site = site();
    let mut random = SeededRandom::seeded(seed);
    let mut server = site.start(PATIENCE).await?;
    let mut load = Load::begin(&site, seed).await?;
    let scribe = Scribe::begin(&site).await?;
    let (at_least, at_most) = ACKNOWLEDGED_BEFORE;
    // Per way, lanes that may not have been connected at a kill.
    let mut unconfirmed = vec![0; load.stats().count()];
    for kill in 0..KILLS {
        load.troubled.behave(trouble(kill)).await;
        if kill < KILLS_AT_A_CHECKPOINT {
            until_a_checkpoint(&load.api).await?;
        } else {
            load.until_acknowledged(at_least + random.below(at_most - at_least)).await;
        }
        for (all, now) in unconfirmed.iter_mut().zip(load.unconfirmed_lanes()) {
            *all += now;
        }
        server.kill().await?;
        server = site.start(PATIENCE).await?;
        scribe.check().await?;
    }
    load.troubled.behave(Behaviour::Up).await;
    load.until_acknowledged(at_least).await;
    eprintln!("the scribe wrote {} numbers", scribe.finish().await?);
    for (stats, unconfirmed) in load.stats().zip(unconfirmed) {
        // With every kill that met a connection, and perhaps a few times while the server is away.
        let kills = u64::from(KILLS * LANES_OF_A_WAY);
        assert!(unconfirmed < kills, "no kill met a connection");
        let breaks = kills - unconfirmed..=8 * kills;
        assert!(
            breaks.contains(&stats.broken),
            "{stats:?}, {unconfirmed} lanes were not confirmed at a kill"
        );
    }
    load.close().await?;
    let stopped = server.stop(PATIENCE).await?;
    assert!(stopped.success(), "{stopped}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_or_due_is_lost_when_the_server_is_killed() {
    let seed = seed();
    eprintln!("FIELDPOST_TEST_SEED={seed}");
    kill_under_load(seed).await.unwrap();
}
