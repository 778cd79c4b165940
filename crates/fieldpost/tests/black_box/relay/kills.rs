//! `kill -9` of the relay, of the server and of PostgreSQL, and rows that come again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::rig::{RelayRig, outbox_row};
use super::writers::{WRITERS, check, script};

/// Transactions of a writer between two kills.
const PER_ROUND: u64 = 12;

#[tokio::test]
async fn whichever_side_is_killed_each_row_takes_effect_once() {
    let mut rig = RelayRig::start_alone().await;
    rig.relay(&[]).await;
    let mut committed = BTreeMap::<u64, Vec<u64>>::new();
    for round in 0..6 {
        let numbers = round * PER_ROUND..(round + 1) * PER_ROUND;
        let scripts: Vec<_> = (0..WRITERS).map(|writer| script(7, writer, numbers.clone())).collect();
        std::thread::scope(|scope| {
            for (script, _) in &scripts {
                scope.spawn(|| rig.sql(script));
            }
        });
        for (writer, (_, numbers)) in (0..).zip(scripts) {
            committed.entry(writer).or_default().extend(numbers);
        }
        // Rows are on their way at this moment.
        match round % 3 {
            0 => {
                rig.restart_relay().await;
            }
            1 => {
                rig.server.restart().await;
            }
            _ => {
                rig.postgres().kill();
                rig.postgres().start_again();
            }
        }
    }
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    check("messages", &rig.server.payloads("shop/orders").await, &committed);
    check("jobs", &rig.server.consumed("shop/mail").await, &committed);
    assert_eq!(rig.sql("SELECT count(*) FROM fieldpost_outbox_refused"), "0", "{}", rig.log());
}

/// The relay is killed again and again while it moves a full table.
#[tokio::test]
async fn a_relay_that_is_killed_in_the_middle_of_a_table_does_nothing_twice() {
    let mut rig = RelayRig::start().await;
    rig.sql(
        "INSERT INTO fieldpost_outbox (destination, key, payload) \
         SELECT CASE n % 3 WHEN 0 THEN 'stream:shop/orders' WHEN 1 THEN 'queue:shop/mail' ELSE \
         'queue:shop/bills' END, \
         (n % 7)::text, to_jsonb(n) FROM generate_series(0, 29999) n",
    );
    rig.relay(&[]).await;
    for left in [25_000, 20_000, 15_000, 10_000, 5_000] {
        rig.until_sql(&format!("SELECT count(*) <= {left} FROM fieldpost_outbox"), "t").await;
        rig.restart_relay().await;
    }
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    let numbers = |rest: u64| (0..10_000).map(|n| (3 * n + rest).into()).collect::<Vec<serde_json::Value>>();
    assert!(rig.server.payloads("shop/orders").await == numbers(0), "messages, in order and once");
    for (queue, rest) in [("mail", 1), ("bills", 2)] {
        let overview = rig.server.get(&format!("/v1/queues/shop/{queue}")).await;
        let count = |state: &str| overview[state].as_u64().unwrap_or_default();
        assert_eq!(count("ready") + count("scheduled"), 10_000, "{queue} {rest}: {overview}");
    }
}

#[tokio::test]
async fn a_sequence_that_begins_again_repeats_nothing_and_loses_nothing() {
    let mut rig = RelayRig::start().await;
    rig.relay(&[]).await;
    let insert = "INSERT INTO fieldpost_outbox (destination, payload) \
                  SELECT d, to_jsonb(n) FROM generate_series(1, 5) n, \
                  unnest(ARRAY['stream:shop/orders', 'queue:shop/mail']) d;";
    rig.sql(insert);
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    // While it works, and while it is away.
    rig.sql(&format!("ALTER SEQUENCE fieldpost_outbox_id_seq RESTART; {insert}"));
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    rig.kill_relay().await;
    rig.sql(&format!("ALTER SEQUENCE fieldpost_outbox_id_seq RESTART; {insert}"));
    rig.relay(&[]).await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    assert_eq!(rig.server.payloads("shop/orders").await.len(), 15);
    assert_eq!(rig.server.consumed("shop/mail").await.len(), 15);
}

#[tokio::test]
async fn rows_behind_a_sequence_that_began_again_do_not_wait_for_the_slow_look() {
    let mut rig = RelayRig::start().await;
    rig.sql(
        "INSERT INTO fieldpost_outbox (destination, payload) \
         SELECT 'queue:shop/mail', '0' FROM generate_series(1, 2000)",
    );
    rig.relay(&[]).await;
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    rig.sql("ALTER SEQUENCE fieldpost_outbox_id_seq RESTART");
    rig.sql(&outbox_row("queue:shop/mail", None, &json!(1), None));
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    let mut took = Vec::new();
    for number in 0..20 {
        let started = Instant::now();
        rig.sql(&outbox_row("queue:shop/mail", None, &json!(number), None));
        rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
        took.push(started.elapsed());
    }
    // The slow look comes by every five seconds. A busy machine may take long to start `psql`.
    let quick = took.iter().filter(|time| **time < Duration::from_secs(4)).count();
    assert!(quick >= took.len() / 2, "{took:?}");
}

/// As after a dump was restored: the rows are there again, under other ids.
#[tokio::test]
async fn a_row_that_comes_again_with_its_uid_takes_effect_once() {
    let mut rig = RelayRig::start().await;
    rig.relay(&[]).await;
    let uids = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];
    let row = |uid: &str, to: &str| {
        format!("INSERT INTO fieldpost_outbox (uid, destination, payload) VALUES ('{uid}', '{to}', '1');")
    };
    for _ in 0..3 {
        for (uid, to) in uids.into_iter().zip(["queue:shop/mail", "stream:shop/orders"]) {
            rig.sql(&row(uid, to));
        }
        rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
        rig.restart_relay().await;
    }
    // In a call with others, too, and where it stands twice in one.
    let other = outbox_row("queue:shop/mail", None, &json!(2), None);
    let known = row(uids[0], "queue:shop/mail");
    rig.sql(&format!("BEGIN; {known} {other} {known} COMMIT;"));
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    assert_eq!(rig.server.payloads("shop/orders").await, [json!(1)]);
    assert_eq!(rig.server.consumed("shop/mail").await, [json!(1), json!(2)]);
}
