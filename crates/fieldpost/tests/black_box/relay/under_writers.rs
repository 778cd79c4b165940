//! Relays, servers and PostgreSQL that are killed, stopped and taken over from while writers write.

use rustix::process::Signal;
use simulator::random::SeededRandom;

use super::rig::RelayRig;
use super::writers::{UNTIL_ENOUGH, WRITERS, WritersAtWork};

/// Transactions of a writer, with two rows each.
const TRANSACTIONS: u64 = 40;
/// Kills while they write.
const KILLS: u64 = 5;
/// Kills of PostgreSQL while they write: a relay waits longer after each.
const POSTGRES_KILLS: u64 = 3;

/// Returns once the writers have come to a place that the seed chooses, between that of the kill
/// before and the end.
async fn until_kill(rig: &RelayRig, random: &mut SeededRandom, kill: u64) {
    let ids = WRITERS * TRANSACTIONS * 2;
    let step = ids / (KILLS + 1);
    let id = kill * step + random.below(step);
    rig.until_sql(&format!("SELECT last_value >= {id} FROM fieldpost_outbox_id_seq"), "t").await;
}

/// Returns once so many more rows were moved: writers write, and a relay works.
async fn until_moved(rig: &RelayRig, more: u64) {
    let moved = "SELECT 2 * (SELECT count(*) FROM written) - (SELECT count(*) FROM fieldpost_outbox)";
    let before: u64 = rig.sql(moved).parse().expect("a number");
    rig.until_sql(&format!("SELECT ({moved}) >= {}", before + more), "t").await;
}

#[tokio::test]
async fn relays_and_servers_that_are_killed_while_writers_write_do_nothing_twice() {
    for seed in [11, 12, 13] {
        let mut rig = RelayRig::start().await;
        rig.relay(&[]).await;
        let writers = WritersAtWork::start(&rig, seed, TRANSACTIONS);
        let mut random = SeededRandom::part(seed, 1);
        for kill in 0..KILLS {
            until_kill(&rig, &mut random, kill).await;
            if random.chance(500) {
                rig.restart_relay().await;
            } else {
                rig.server.restart().await;
            }
        }
        writers.check(&rig, seed).await;
    }
}

#[tokio::test]
async fn of_two_relays_the_one_that_works_is_killed_while_writers_write() {
    for seed in [21, 22] {
        let mut rig = RelayRig::start().await;
        rig.relay(&[]).await;
        let mut other = rig.another_relay(&[]);
        let writers = WritersAtWork::start(&rig, seed, TRANSACTIONS);
        let mut random = SeededRandom::part(seed, 1);
        for kill in 0..KILLS {
            until_kill(&rig, &mut random, kill).await;
            // One of them works: each is killed in turn.
            if kill % 2 == 0 {
                rig.restart_relay().await;
            } else {
                other.kill().await.expect("killed");
                other = rig.another_relay(&[]);
            }
        }
        writers.check(&rig, seed).await;
        drop(other);
    }
}

/// Writers connect again and go on. Of the relay and the server one may be killed, too, while
/// PostgreSQL is away.
#[tokio::test]
async fn what_postgresql_committed_before_it_was_killed_while_writers_write_arrives_once() {
    for seed in [41, 42, 43] {
        let mut rig = RelayRig::start_alone().await;
        rig.relay(&[]).await;
        let writers = WritersAtWork::start(&rig, seed, UNTIL_ENOUGH);
        let mut random = SeededRandom::part(seed, 1);
        for _ in 0..POSTGRES_KILLS {
            until_moved(&rig, 1 + random.below(200)).await;
            rig.postgres().kill();
            match random.below(3) {
                0 => {
                    rig.restart_relay().await;
                }
                1 => {
                    rig.server.restart().await;
                }
                _ => {}
            }
            rig.postgres().start_again();
        }
        until_moved(&rig, 1).await;
        writers.enough();
        let lost = writers.check_with_losses(&rig, seed).await;
        assert!(lost > 0, "no writer was at work when PostgreSQL was killed, seed {seed}");
    }
}

/// The relay inside calls without a token, the one beside it with one.
#[tokio::test]
async fn a_server_with_a_relay_inside_is_killed_while_writers_write_and_another_relay_waits() {
    for seed in [31, 32] {
        let mut rig = RelayRig::start_inside(&[]).await;
        rig.relay_with_token().await;
        let writers = WritersAtWork::start(&rig, seed, TRANSACTIONS);
        let mut random = SeededRandom::part(seed, 1);
        for kill in 0..KILLS {
            until_kill(&rig, &mut random, kill).await;
            rig.server.restart().await;
            if random.chance(500) {
                rig.kill_relay().await;
                rig.relay_with_token().await;
            }
        }
        writers.check(&rig, seed).await;
    }
}

#[tokio::test]
async fn a_relay_that_wakes_after_another_took_over_moves_nothing_twice() {
    let mut rig = RelayRig::start().await;
    rig.sql(
        "INSERT INTO fieldpost_outbox (destination, key, payload) \
         SELECT CASE n % 2 WHEN 0 THEN 'stream:shop/orders' ELSE 'queue:shop/mail' END, \
         (n % 7)::text, to_jsonb(n) FROM generate_series(0, 19999) n",
    );
    rig.relay(&[]).await;
    rig.until_sql("SELECT count(*) <= 15000 FROM fieldpost_outbox", "t").await;
    rig.signal(Signal::STOP);
    // What PostgreSQL does when it does not hear from it any more: the lock ends with the session.
    rig.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE application_name LIKE 'fieldpost relay%' AND datname = current_database()",
    );
    let other = rig.another_relay(&[]);
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    rig.signal(Signal::CONT);
    let is = |relays: &[serde_json::Value], state: &str| {
        relays.iter().filter(|relay| relay["state"] == state).count() == 1
    };
    rig.until_relays(|relays| is(relays, "waiting") && is(relays, "working")).await;
    rig.until_log("the relay waits: another one works on the table").await;
    let numbers = |rest: u64| (0..10_000).map(|n| (2 * n + rest).into()).collect::<Vec<serde_json::Value>>();
    assert!(rig.server.payloads("shop/orders").await == numbers(0), "messages, in order and once");
    let mut jobs = rig.server.consumed("shop/mail").await;
    jobs.sort_by_key(|job| job.as_u64());
    assert!(jobs == numbers(1), "jobs, once: {}", jobs.len());
    drop(other);
}
