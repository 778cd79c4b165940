//! `kill -9` of the relay, of the server and of PostgreSQL while writers write.

use std::collections::BTreeMap;

use super::rig::RelayRig;
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
        let scripts: Vec<_> = (0..WRITERS).map(|writer| script(writer, numbers.clone())).collect();
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
                rig.kill_relay().await;
                rig.relay(&[]).await;
            }
            1 => {
                rig.server.kill().await;
                rig.server.start_again().await;
            }
            _ => {
                rig.postgres().kill();
                rig.postgres().start_again();
            }
        }
    }
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    check("messages", &rig.payloads("shop/orders").await, &committed);
    check("jobs", &rig.consumed("shop/mail").await, &committed);
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
        rig.kill_relay().await;
        rig.relay(&[]).await;
    }
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    let numbers = |rest: u64| (0..10_000).map(|n| (3 * n + rest).into()).collect::<Vec<serde_json::Value>>();
    assert!(rig.payloads("shop/orders").await == numbers(0), "messages, in order and once");
    for (queue, rest) in [("mail", 1), ("bills", 2)] {
        let figures = rig.server.get(&format!("/v1/queues/shop/{queue}")).await;
        let count = |state: &str| figures[state].as_u64().unwrap_or_default();
        assert_eq!(count("ready") + count("scheduled"), 10_000, "{queue} {rest}: {figures}");
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
    assert_eq!(rig.payloads("shop/orders").await.len(), 15);
    assert_eq!(rig.consumed("shop/mail").await.len(), 15);
}
