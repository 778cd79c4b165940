//! Writers that commit at random times, and whether all of theirs arrives, in order and once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use simulator::random::SeededRandom;

use super::rig::{RelayRig, outbox_row};
use super::writer::{OutboxWriter, WriterTransaction};

pub(super) const WRITERS: u64 = 6;
/// So many transactions of a writer that it goes on until it is told that it is enough.
pub(super) const UNTIL_ENOUGH: u64 = u64::MAX;

/// The transactions of a writer under numbers that rise, each with a random time before the commit.
/// Each has one row for the queue and one for the stream, and some are rolled back.
fn transactions(seed: u64, writer: u64, numbers: Range<u64>) -> impl Iterator<Item = WriterTransaction> {
    let mut random = SeededRandom::part(seed, writer * 1_000_000 + numbers.start);
    let key = format!("w{writer}");
    numbers.map(move |number| {
        let payload = json!([writer, number]);
        let statements = [
            outbox_row("queue:shop/mail", Some(&key), &payload, None),
            format!("SELECT pg_sleep({});\n", random.below(20) as f64 / 1_000.0),
            outbox_row("stream:shop/orders", Some(&key), &payload, None),
        ];
        WriterTransaction { number, statements: statements.concat(), commits: !random.chance(100) }
    })
}

/// All of these transactions in one script, and the numbers of those that commit.
pub(super) fn script(seed: u64, writer: u64, numbers: Range<u64>) -> (String, Vec<u64>) {
    let (mut script, mut committed) = (String::new(), Vec::new());
    for transaction in transactions(seed, writer, numbers) {
        script.push_str(&transaction.script());
        if transaction.commits {
            committed.push(transaction.number);
        }
    }
    (script, committed)
}

/// What arrived is what was committed, in order for each writer.
pub(super) fn check(what: &str, arrived: &[Value], committed: &BTreeMap<u64, Vec<u64>>) {
    assert_eq!(&by_writer(arrived), committed, "{what}");
}

/// The numbers of each writer, as they come.
fn by_writer(payloads: &[Value]) -> BTreeMap<u64, Vec<u64>> {
    let mut by_writer = BTreeMap::<u64, Vec<u64>>::new();
    for payload in payloads {
        let number = |at: usize| payload[at].as_u64().expect("a number");
        by_writer.entry(number(0)).or_default().push(number(1));
    }
    by_writer
}

/// Writers that are at work.
pub(super) struct WritersAtWork {
    writers: Vec<OutboxWriter>,
    enough: Arc<AtomicBool>,
}

impl WritersAtWork {
    /// Each with so many transactions. What each of them commits stands in `written` as well, as in
    /// a service's own table.
    pub(super) fn start(rig: &RelayRig, seed: u64, count: u64) -> Self {
        rig.sql("CREATE TABLE written (writer bigint, number bigint)");
        let enough = Arc::new(AtomicBool::new(false));
        let start = |writer| {
            let transactions = transactions(seed, writer, 0..count).map(move |mut transaction| {
                let row = format!("INSERT INTO written VALUES ({writer}, {});\n", transaction.number);
                transaction.statements.push_str(&row);
                transaction
            });
            OutboxWriter::start(rig, transactions, &enough)
        };
        Self { writers: (0..WRITERS).map(start).collect(), enough }
    }

    /// They end soon, whatever they have left.
    pub(super) fn enough(&self) {
        self.enough.store(true, Ordering::Relaxed);
    }

    /// Lets them end; all of theirs has to arrive, in order and once. No connection was lost.
    pub(super) async fn check(self, rig: &RelayRig, seed: u64) {
        assert_eq!(self.check_with_losses(rig, seed).await, 0, "lost connections, seed {seed}");
    }

    /// The same where connections may be lost; how many were. What was acknowledged was committed,
    /// and what is unknown may have been: of that, too, all arrives or nothing.
    pub(super) async fn check_with_losses(self, rig: &RelayRig, seed: u64) -> u64 {
        let mut records = Vec::new();
        for writer in self.writers {
            records.push(writer.ended().await);
        }
        rig.until_sql("SELECT count(*) FROM fieldpost_outbox", "0").await;
        let written =
            "SELECT jsonb_agg(jsonb_build_array(writer, number) ORDER BY writer, number) FROM written";
        let committed = by_writer(&serde_json::from_str::<Vec<Value>>(&rig.sql(written)).expect("a list"));
        for (writer, record) in (0_u64..).zip(&records) {
            let known = record.committed(&committed[&writer]);
            assert_eq!(known, committed[&writer], "writer {writer}, seed {seed}: {record:?}");
        }
        let messages = rig.server.payloads("shop/orders").await;
        let jobs = rig.server.consumed("shop/mail").await;
        check(&format!("messages, seed {seed}"), &messages, &committed);
        check(&format!("jobs, seed {seed}"), &jobs, &committed);
        assert_eq!(rig.sql("SELECT count(*) FROM fieldpost_outbox_refused"), "0", "{}", rig.log());
        records.iter().map(|record| record.lost).sum()
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
    check("messages", &rig.server.payloads("shop/orders").await, &committed);
    check("jobs", &rig.server.consumed("shop/mail").await, &committed);
}
