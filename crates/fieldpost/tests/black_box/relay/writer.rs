//! A writer of the outbox. When its connection is lost it connects again and goes on, and it knows
//! what it was told of each commit.

use std::io::{Seek, Write};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::rig::{LOOK_EVERY, PATIENCE, RelayRig, psql};

/// Transactions of one session with the database.
const PER_SESSION: usize = 40;
/// How psql ends without a connection, whether it had one or not.
const NO_CONNECTION: i32 = 2;

/// What a writer does at once.
pub(super) struct WriterTransaction {
    /// Above those before.
    pub(super) number: u64,
    /// Between the begin and the end.
    pub(super) statements: String,
    /// It is rolled back otherwise.
    pub(super) commits: bool,
}

impl WriterTransaction {
    /// For psql, which says before a commit that it comes, and behind it that it was answered.
    pub(super) fn script(&self) -> String {
        let Self { number, statements, commits } = self;
        let end = if *commits {
            format!("\\echo commits {number}\nCOMMIT;\n\\echo committed {number}\n")
        } else {
            "ROLLBACK;\n".to_owned()
        };
        format!("BEGIN;\n{statements}{end}")
    }
}

/// What a writer knows of its commits, by number. A transaction that it lost before the commit was
/// rolled back; the writer did it again.
#[derive(Debug, Default)]
pub(super) struct WriterRecord {
    /// They were answered.
    acknowledged: Vec<u64>,
    /// They were not, for the connection was lost: each was done or not.
    unknown: Vec<u64>,
    /// So many connections were lost.
    pub(super) lost: u64,
}

impl WriterRecord {
    /// Takes down what psql said in a session.
    fn take_down(&mut self, said: &str) {
        for line in said.lines() {
            match line.split_once(' ') {
                Some(("commits", number)) => self.unknown.push(number.parse().expect("a number")),
                Some(("committed", _)) => self.acknowledged.extend(self.unknown.pop()),
                _ => {}
            }
        }
    }

    /// The last that is not to be done again.
    fn last(&self) -> Option<u64> {
        self.acknowledged.last().max(self.unknown.last()).copied()
    }

    /// What was committed if these were found: all that was acknowledged, and of the unknown those.
    pub(super) fn committed(&self, found: &[u64]) -> Vec<u64> {
        let done = self.unknown.iter().filter(|number| found.contains(number));
        let mut committed: Vec<u64> = self.acknowledged.iter().chain(done).copied().collect();
        committed.sort_unstable();
        committed
    }
}

/// A writer at work.
pub(super) struct OutboxWriter(JoinHandle<WriterRecord>);

impl OutboxWriter {
    /// It ends when all transactions are done, or some time after it was told that it is enough.
    pub(super) fn start(
        rig: &RelayRig,
        transactions: impl Iterator<Item = WriterTransaction> + Send + 'static,
        enough: &Arc<AtomicBool>,
    ) -> Self {
        Self(tokio::spawn(go_on(rig.url(), transactions, Arc::clone(enough))))
    }

    /// Returns once it has ended, in which nothing but connections may have failed.
    pub(super) async fn ended(self) -> WriterRecord {
        self.0.await.expect("no panic")
    }
}

async fn go_on(
    url: String,
    mut transactions: impl Iterator<Item = WriterTransaction>,
    enough: Arc<AtomicBool>,
) -> WriterRecord {
    let (mut record, mut left) = (WriterRecord::default(), Vec::new());
    let (mut connected_at, mut again) = (Instant::now(), interval(LOOK_EVERY));
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        again.tick().await;
        if left.is_empty() && !enough.load(Ordering::Relaxed) {
            left.extend(transactions.by_ref().take(PER_SESSION));
        }
        if left.is_empty() {
            return record;
        }
        let ended = session(&url, &left).await;
        let (said, why) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        let was_connected = !said.is_empty();
        assert!(was_connected || connected_at.elapsed() < PATIENCE, "{why}");
        if was_connected {
            connected_at = Instant::now();
        }
        record.take_down(&said);
        match ended.status.code() {
            Some(0) => left.clear(),
            Some(NO_CONNECTION) => {
                record.lost += u64::from(was_connected);
                left.retain(|transaction| Some(transaction.number) > record.last());
            }
            _ => panic!("{}: {why}", ended.status),
        }
    }
}

/// How psql ended, which says first that it has a connection.
async fn session(url: &str, transactions: &[WriterTransaction]) -> Output {
    let script: String = transactions.iter().map(WriterTransaction::script).collect();
    let mut input = tempfile::tempfile().expect("a file");
    write!(input, "\\echo connected\n{script}").expect("written");
    input.rewind().expect("it is a file");
    Command::from(psql(url)).stdin(input).kill_on_drop(true).output().await.expect("it runs")
}
