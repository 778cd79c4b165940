//! Writers that commit at random times, and whether all of theirs arrives, in order and once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use simulator::random::Random;

use super::rig::{OutboxWriter, RelayRig, outbox_row};

pub(super) const WRITERS: u64 = 6;

/// The transactions of a writer under numbers that rise: one row for the queue and one for the
/// stream each, a random time before the commit, and some that are rolled back.
pub(super) fn script(seed: u64, writer: u64, numbers: std::ops::Range<u64>) -> (String, Vec<u64>) {
    let mut random = Random::part(seed, writer * 1_000_000 + numbers.start);
    let (mut script, mut committed) = (String::new(), Vec::new());
    for number in numbers {
        let (key, payload) = (format!("w{writer}"), json!([writer, number]));
        script.push_str("BEGIN;\n");
        script.push_str(&outbox_row("queue:shop/mail", Some(&key), &payload, None));
        script.push_str(&format!("SELECT pg_sleep({});\n", random.below(20) as f64 / 1_000.0));
        script.push_str(&outbox_row("stream:shop/orders", Some(&key), &payload, None));
        if random.chance(100) {
            script.push_str("ROLLBACK;\n");
        } else {
            script.push_str("COMMIT;\n");
            committed.push(number);
        }
    }
    (script, committed)
}

/// What arrived is what was committed, in order for each writer.
pub(super) fn check(what: &str, arrived: &[Value], committed: &BTreeMap<u64, Vec<u64>>) {
    let mut by_writer = BTreeMap::<u64, Vec<u64>>::new();
    for payload in arrived {
        let number = |at: usize| payload[at].as_u64().expect("a number");
        by_writer.entry(number(0)).or_default().push(number(1));
    }
    assert_eq!(&by_writer, committed, "{what}");
}

/// Writers that are at work, and what they commit.
pub(super) struct WritersAtWork {
    writers: Vec<OutboxWriter>,
    committed: BTreeMap<u64, Vec<u64>>,
}

impl WritersAtWork {
    /// Each with so many transactions.
    pub(super) fn start(rig: &RelayRig, seed: u64, transactions: u64) -> Self {
        let (mut writers, mut committed) = (Vec::new(), BTreeMap::new());
        for writer in 0..WRITERS {
            let (script, numbers) = script(seed, writer, 0..transactions);
            writers.push(rig.writer(&script));
            committed.insert(writer, numbers);
        }
        Self { writers, committed }
    }

    /// Lets them end; all of theirs has to arrive, in order and once.
    pub(super) async fn check(self, rig: &RelayRig, seed: u64) {
        self.writers.into_iter().for_each(OutboxWriter::ended);
        rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
        let (messages, jobs) = (rig.payloads("shop/orders").await, rig.consumed("shop/mail").await);
        check(&format!("messages, seed {seed}"), &messages, &self.committed);
        check(&format!("jobs, seed {seed}"), &jobs, &self.committed);
        assert_eq!(rig.sql("SELECT count(*) FROM fieldpost_outbox_refused"), "0", "{}", rig.log());
    }
}

#[tokio::test]
async fn all_that_is_committed_arrives_once_and_in_order() {
    let mut rig = RelayRig::start().await;
    rig.relay(&[]).await;
    let scripts: Vec<_> = (0..WRITERS).map(|writer| script(7, writer, 0..40)).collect();
    std::thread::scope(|scope| {
        for (script, _) in &scripts {
            scope.spawn(|| rig.sql(script));
        }
    });
    let committed = (0..).zip(scripts.into_iter().map(|(_, numbers)| numbers)).collect();
    rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
    check("messages", &rig.payloads("shop/orders").await, &committed);
    check("jobs", &rig.consumed("shop/mail").await, &committed);
}
