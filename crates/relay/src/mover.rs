//! The relay's life: it waits until it is the one that works, and then moves rows until it is
//! stopped or loses the database.
//!
//! A round sends the rows of one page; the next page is read meanwhile. Rows are deleted once they
//! are durable at their destination. A kill in between leaves them there, and whoever takes over
//! sends them again. The destination knows each by the table's identity and the row's uid.

mod round;

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, sleep_until};

use crate::announce::{RelayPhase, SharedProgress, announce, announce_stopped};
use crate::database::{DatabaseError, DatabaseUrl};
use crate::gaps::IdGaps;
use crate::lanes::{LANES_MAX, PAUSE_FIRST, PAUSE_MAX};
use crate::look::{LeftBehind, keep_looking};
use crate::outbox::{HELD_ROWS_MAX, OutboxPage, OutboxTable};
use crate::outgoing::outgoing;
use crate::plan::{HeldKeys, OnRefused, SendPlan};
use crate::publish::CallMaker;
use crate::table::TableName;
use round::Rounds;

/// Between two attempts to become the one that works.
const LOCK_EVERY: Duration = Duration::from_secs(1);
/// Without a notification it is looked again: somebody may have made the table without its trigger.
const READ_EVERY: Duration = Duration::from_secs(1);

/// How often PostgreSQL is told of a rate that has changed.
const RATE_SHOWN_EVERY: Duration = Duration::from_secs(2);

/// A plan that was made while the table was small must not read all of it when it has grown.
const PLANS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off";

/// What a relay is to do.
#[derive(Clone)]
pub struct RelayConfig {
    /// The database of the outbox.
    pub database: DatabaseUrl,
    /// The outbox.
    pub table: TableName,
    /// What becomes of rows that are refused for good.
    pub on_refused: OnRefused,
    /// How calls reach the server.
    pub make_call: CallMaker,
    /// What the server shows it as: 1 to 64 of `[A-Za-z0-9_.:-]`.
    pub name: String,
}

/// Why a relay stops moving for a while.
#[derive(Debug, thiserror::Error)]
enum MoverError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("over {HELD_ROWS_MAX} keys wait behind refused rows: `fieldpost relay refused ls` shows them")]
    TooManyHeld,
    #[error("over {LANES_MAX} destinations cannot take anything now")]
    TooManyBehind,
    #[error("the relay is stopping")]
    Stopping,
    #[error("the session with the database ended")]
    SessionEnded,
}

impl From<tokio_postgres::Error> for MoverError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Moves rows until `stop` is true. What fails is tried again, for ever.
pub async fn run(config: RelayConfig, mut stop: watch::Receiver<bool>) {
    let progress = SharedProgress::default();
    let (announced_until, mut pause) = (stop.clone(), PAUSE_FIRST);
    let moving = async {
        loop {
            let began = Instant::now();
            match work(&config, &progress, stop.clone()).await {
                Err(MoverError::Stopping) => return,
                Err(error) => progress.stuck(error.to_string()),
                Ok(never) => match never {},
            }
            {
                let mut progress = progress.get();
                progress.phase = RelayPhase::Connecting;
                // It is as old as the session that counted it.
                progress.stats = None;
            }
            if began.elapsed() > PAUSE_MAX {
                pause = PAUSE_FIRST;
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    };
    let announced = announce(&config, &progress, announced_until);
    tokio::join!(moving, announced);
    announce_stopped(&config, &progress).await;
}

async fn work(
    config: &RelayConfig,
    progress: &SharedProgress,
    mut stop: watch::Receiver<bool>,
) -> Result<std::convert::Infallible, MoverError> {
    let opening = async {
        let session = config.database.connect("fieldpost relay").await?;
        session.client.batch_execute(PLANS).await?;
        let outbox = OutboxTable::open(session, &config.table).await?;
        while !outbox.try_lock().await? {
            let before = std::mem::replace(&mut progress.get().phase, RelayPhase::Waiting);
            if before != RelayPhase::Waiting {
                tracing::info!(
                    table = config.table.display_name(),
                    "the relay waits: another one works on the table"
                );
            }
            progress.moves();
            sleep(LOCK_EVERY).await;
        }
        outbox.listen().await?;
        Ok::<_, DatabaseError>(outbox)
    };
    let outbox = tokio::select! {
        _ = stop.wait_for(|stop| *stop) => return Err(MoverError::Stopping),
        outbox = opening => outbox?,
    };
    tracing::info!(
        table = config.table.display_name(),
        database = config.database.address(),
        "the relay works"
    );
    progress.get().phase = RelayPhase::Working;
    progress.moves();
    if config.on_refused == OnRefused::Skip {
        let rows = outbox.release_held().await?;
        if rows > 0 {
            tracing::info!(rows, "rows that were held are tried once more; refused again, they move aside");
        }
    }
    let identity = outbox.identity().await?;
    let settled = AtomicI64::new(0);
    let (found, left_behind) = mpsc::channel(1);
    let mover = Mover {
        rounds: Rounds::new(config, progress, &outbox, stop.clone()),
        reader: OutboxReader { outbox: &outbox, gaps: IdGaps::default(), bound: 0 },
        outbox: &outbox,
        source: format!("relay-{}", identity.replace('-', "")),
        settled: &settled,
        rate: ShownRate { rows_per_second: None, at: Instant::now(), moved: progress.get().moved },
        progress,
        stop: stop.clone(),
    };
    tokio::select! {
        ended = mover.work(left_behind) => ended,
        () = keep_looking(config, progress, &settled, found, stop) => Err(MoverError::Stopping),
    }
}

struct Mover<'a> {
    rounds: Rounds<'a>,
    reader: OutboxReader<'a>,
    outbox: &'a OutboxTable,
    /// What messages have for a source.
    source: String,
    /// Below this id every row has been dealt with.
    settled: &'a AtomicI64,
    progress: &'a SharedProgress,
    rate: ShownRate,
    stop: watch::Receiver<bool>,
}

/// The rate that PostgreSQL shows.
struct ShownRate {
    rows_per_second: Option<u64>,
    /// When it was found.
    at: Instant,
    /// Rows that were moved until then.
    moved: u64,
}

/// Reads pages, each above the one before.
struct OutboxReader<'a> {
    outbox: &'a OutboxTable,
    gaps: IdGaps,
    bound: i64,
}

impl OutboxReader<'_> {
    async fn next(&mut self, left_out: &[String]) -> Result<OutboxPage, DatabaseError> {
        let page = self.outbox.read(&self.gaps, self.bound, left_out).await?;
        let ids: Vec<i64> = page.rows.iter().map(|row| row.row.id).collect();
        self.bound = self.gaps.read(self.bound, &ids, page.is_whole, (page.ends, Instant::now()));
        Ok(page)
    }
}

impl Mover<'_> {
    async fn work(
        mut self,
        mut left_behind: mpsc::Receiver<LeftBehind>,
    ) -> Result<std::convert::Infallible, MoverError> {
        self.look_at_held().await?;
        let mut read_ahead = None;
        loop {
            if *self.stop.borrow() {
                return Err(MoverError::Stopping);
            }
            self.show_rate().await?;
            if self.outbox.session.is_to_look() {
                self.look_at_held().await?;
                self.go_back_to_all().await?;
            }
            if let Ok(behind) = left_behind.try_recv() {
                self.go_back(behind).await?;
            }
            // A page that was read ahead may have rows of a destination that fell behind meanwhile.
            let has_lane_moved = read_ahead.is_none() && self.lane_turn().await?;
            let page = match read_ahead.take() {
                Some(page) => page,
                None => self.reader.next(&self.rounds.lanes.names()).await?,
            };
            if page.rows.is_empty() {
                self.settled.store(self.reader.bound, Ordering::Release);
                if !has_lane_moved {
                    self.idle(&mut left_behind).await?;
                }
                continue;
            }
            let (is_whole, bound) = (page.is_whole, self.reader.bound);
            let plan = self.plan(page);
            if is_whole || self.rounds.lanes.due(Instant::now()).is_some() {
                self.rounds.send(plan).await?;
            } else {
                let left_out = self.rounds.lanes.names();
                let (sent, read) = tokio::join!(self.rounds.send(plan), self.reader.next(&left_out));
                sent?;
                read_ahead = Some(read?);
            }
            self.settled.store(bound, Ordering::Release);
        }
    }

    /// Waits for something to do.
    async fn idle(&mut self, left_behind: &mut mpsc::Receiver<LeftBehind>) -> Result<(), MoverError> {
        let read_at = Instant::now() + READ_EVERY;
        let until = self.rounds.lanes.next_due().map_or(read_at, |due| due.min(read_at));
        let behind = tokio::select! {
            _ = self.stop.wait_for(|stop| *stop) => None,
            () = self.outbox.session.woken() => None,
            () = sleep_until(until.into()) => None,
            behind = left_behind.recv() => behind,
        };
        if let Some(behind) = behind {
            self.go_back(behind).await?;
        }
        if self.outbox.session.client.is_closed() { Err(MoverError::SessionEnded) } else { Ok(()) }
    }

    /// A page of a destination that is behind, if one is due; whether there was one.
    async fn lane_turn(&mut self) -> Result<bool, MoverError> {
        let now = Instant::now();
        let Some((destination, after)) = self.rounds.lanes.due(now) else { return Ok(false) };
        self.rounds.lanes.had_turn(&destination, now);
        let page = self.outbox.read_of(&destination, (after, self.reader.bound)).await?;
        let Some(last) = page.rows.last().map(|row| row.row.id) else {
            self.rounds.caught_up(&destination);
            return Ok(true);
        };
        let mut plan = SendPlan::default();
        for row in page.rows {
            self.add(&mut plan, row, true);
        }
        if self.rounds.lanes.is_behind(&destination) {
            self.reader.gaps.follow(last, self.reader.bound, now);
        }
        self.rounds.lanes.advance(&destination, last);
        self.rounds.send(plan).await?;
        Ok(true)
    }

    fn plan(&mut self, page: OutboxPage) -> SendPlan {
        let mut plan = SendPlan::default();
        for row in page.rows {
            self.add(&mut plan, row, false);
        }
        plan
    }

    fn add(&mut self, plan: &mut SendPlan, page_row: crate::outbox::PageRow, is_of_lane: bool) {
        let row = page_row.row;
        if page_row.is_held {
            self.rounds.held.hold(&row.destination, row.key.as_deref());
            return;
        }
        if !is_of_lane && (page_row.is_left_out || self.rounds.lanes.has(&row.destination)) {
            self.rounds.lanes.go_back(&row.destination, row.id, Instant::now());
            return;
        }
        let (id, destination, key) = (row.id, row.destination.clone(), row.key.clone());
        plan.add(id, &destination, key.as_deref(), outgoing(row, &self.source));
    }

    /// Goes back to rows that were passed when the outbox was looked at. What was held then and is
    /// held no longer is not among them: nothing of its keys may go before it is found.
    async fn go_back(&mut self, behind: LeftBehind) -> Result<(), MoverError> {
        let held = std::mem::take(&mut self.rounds.held);
        self.look_at_held().await?;
        if self.rounds.held.has_all_of(&held) {
            self.found_behind(behind);
            return Ok(());
        }
        self.go_back_to_all().await
    }

    /// Goes back to all rows that were passed. What is held was read before: a hold that ends in
    /// between only waits for the next look.
    async fn go_back_to_all(&mut self) -> Result<(), MoverError> {
        let behind = self.outbox.left_behind(self.settled.load(Ordering::Acquire)).await?;
        self.found_behind(behind);
        Ok(())
    }

    fn found_behind(&mut self, behind: LeftBehind) {
        for (destination, first_id) in behind {
            self.rounds.lanes.found_behind(&destination, first_id, Instant::now());
        }
    }

    async fn look_at_held(&mut self) -> Result<(), MoverError> {
        let rows = self.outbox.held().await?;
        let mut held = HeldKeys::default();
        for (destination, key) in &rows {
            held.hold(destination, key.as_deref());
        }
        if rows.len() > HELD_ROWS_MAX {
            return Err(MoverError::TooManyHeld);
        }
        self.rounds.held = held;
        Ok(())
    }

    /// Has PostgreSQL show the rate, for `relay status`, where it has changed.
    async fn show_rate(&mut self) -> Result<(), MoverError> {
        let elapsed = self.rate.at.elapsed();
        if elapsed < RATE_SHOWN_EVERY {
            return Ok(());
        }
        let moved = self.progress.get().moved;
        let rows_per_second = ((moved - self.rate.moved) as f64 / elapsed.as_secs_f64()).round() as u64;
        if self.rate.rows_per_second != Some(rows_per_second) {
            self.outbox.show_rate(rows_per_second).await?;
        }
        self.rate = ShownRate { rows_per_second: Some(rows_per_second), at: Instant::now(), moved };
        Ok(())
    }
}

impl std::fmt::Debug for RelayConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayConfig").field("name", &self.name).field("table", &self.table).finish()
    }
}

/// A name for a relay of its own process: the machine's, and a random part.
#[must_use]
pub fn relay_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let fits = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let host: String = host.trim().chars().filter(fits).take(48).collect();
    let random = getrandom::u32().unwrap_or_else(|_| std::process::id());
    format!("{}:{random:08x}", if host.is_empty() { "relay" } else { &host })
}
