//! Carries out what [`Lanes`] decides: one task asks it, and one task for each lease sees its notifications through.
//!
//! All decisions are made in one place, [`run`]; the tasks only lease, send and record, and tell back which places they no
//! longer hold. A task that panics tells that too.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use base::{Incarnation, Timestamp};
use engine::{Answer, AttemptDue, AttemptEnd, Engine};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{Instrument, debug_span};

use crate::breaker::{Tried, Turned, Why};
use crate::connector::Connector;
use crate::guard::Guard;
use crate::lanes::{IN_FLIGHT_MAX, Lanes, Lease, Limits, Standing};
use crate::metrics::{AttemptResult, Metrics};
use crate::roots;
use crate::sender::Sender;
use crate::tester::Tester;

#[cfg(test)]
mod tests;

/// How long a stop waits for attempts under way; the whole server has 20 s to stop. What is cut off is repeated after the next start.
const DRAIN_MAX: Duration = Duration::from_secs(15);
/// How often connections and clients that are no longer used are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Most messages of tasks that are taken at once.
const PROGRESS_AT_ONCE_MAX: usize = 256;

/// What the operator can set of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Longest that an attempt may take.
    pub timeout: Duration,
    /// Most notifications of one client in flight.
    pub per_client_in_flight: usize,
    /// Most notifications in flight, at most [`IN_FLIGHT_MAX`]; as many connections are kept idle, so that a steady load never has to
    /// connect anew.
    pub in_flight: usize,
    /// Between the beginnings of two attempts at a client whose breaker is open.
    pub breaker_pause: Duration,
    /// Whether private addresses may be reached.
    pub allow_private: bool,
}

/// The sender of webhooks, before it runs.
pub struct Webhooks {
    engine: Engine,
    settings: Settings,
    metrics: Metrics,
    sender: Arc<Sender>,
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Webhooks")
    }
}

impl Webhooks {
    /// A sender of what `engine` has due.
    #[must_use]
    pub fn new(engine: Engine, settings: Settings, metrics: Metrics) -> Self {
        let guard = Guard { allow_private: settings.allow_private };
        let connector = Connector::new(guard, roots::system_tls());
        let clock = Arc::clone(engine.clock());
        let sender = Sender::new(clock, settings.timeout, connector, settings.in_flight, metrics.clone());
        Self { engine, settings, metrics, sender: Arc::new(sender) }
    }

    /// Sends tests, whether this runs or not.
    #[must_use]
    pub fn tester(&self) -> Tester {
        Tester::new(Arc::clone(&self.sender), Arc::clone(self.engine.clock()))
    }

    /// Sends what is due until `shutdown` says so or its sender is gone; then lets the attempts under way end, for 15 s at most.
    pub async fn run(self, shutdown: watch::Receiver<bool>) {
        run(self, shutdown).await;
    }
}

async fn run(webhooks: Webhooks, mut shutdown: watch::Receiver<bool>) {
    let engine = webhooks.engine.clone();
    // A task tells of its lease once and of each send at most once, and holds a place for each of its sends: there is always room.
    let (tell, mut told) = mpsc::channel(2 * IN_FLIGHT_MAX);
    let mut batch = Vec::with_capacity(PROGRESS_AT_ONCE_MAX);
    let mut driver = Driver::new(webhooks, tell);
    let mut clients = engine.directory().subscribe();
    let mut sweep = interval(SWEEP_EVERY);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        driver.start_leases();
        let wakeup = driver.lanes.next_wakeup();
        tokio::select! {
            _ = shutdown.wait_for(|stop| *stop) => break,
            _ = told.recv_many(&mut batch, PROGRESS_AT_ONCE_MAX) => driver.take_in(batch.drain(..)),
            Some(ended) = driver.tasks.join_next() => log_panic(ended),
            named = engine.due_lanes().take() => driver.lanes.mark_due(named),
            Ok(()) = clients.changed() => driver.lanes.clients_changed(),
            () = until(&engine, wakeup) => {}
            _ = sweep.tick() => driver.sweep(),
        }
    }
    drop(told);
    driver.drain().await;
}

/// Waits for `wakeup`.
async fn until(engine: &Engine, wakeup: Option<Timestamp>) {
    match wakeup {
        Some(at) => engine.until(at).await,
        None => pending().await,
    }
}

struct Driver {
    lanes: Lanes,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    metrics: Metrics,
}

/// What every task needs.
struct Shared {
    engine: Engine,
    sender: Arc<Sender>,
    timeout: Duration,
    tell: mpsc::Sender<Progress>,
}

/// What a task tells: which of its places it no longer holds.
enum Progress {
    Leased {
        lease: Lease,
        got: usize,
    },
    Finished {
        client: Incarnation,
        tried: Option<Tried>,
    },
    /// The task ended before these sends did.
    Dropped {
        client: Incarnation,
        sends: usize,
    },
}

impl Driver {
    fn new(webhooks: Webhooks, tell: mpsc::Sender<Progress>) -> Self {
        let Webhooks { engine, settings, metrics, sender } = webhooks;
        let limits = Limits {
            per_client: settings.per_client_in_flight,
            total: settings.in_flight.clamp(1, IN_FLIGHT_MAX),
            breaker_pause: settings.breaker_pause,
        };
        Self {
            lanes: Lanes::new(limits),
            shared: Arc::new(Shared { engine, sender, timeout: settings.timeout, tell }),
            tasks: JoinSet::new(),
            metrics,
        }
    }

    fn start_leases(&mut self) {
        let shared = Arc::clone(&self.shared);
        let now = shared.engine.clock().now();
        while let Some(lease) = self.lanes.next(now, |client| shared.standing(client)) {
            let span = debug_span!("notify", client = lease.client.0, partition = %lease.partition);
            self.tasks.spawn(see_through(Arc::clone(&self.shared), lease).instrument(span));
        }
        for turned in self.lanes.take_turned() {
            log_turn(&turned);
            self.metrics.breakers_opened.inc_by(u64::from(matches!(turned, Turned::Opened { .. })));
        }
        self.metrics.breakers_open.set(self.lanes.breakers_open() as i64);
        self.metrics.in_flight.set(self.lanes.in_flight() as i64);
        self.metrics.lanes_due.set(self.lanes.due() as i64);
    }

    fn take_in(&mut self, told: impl Iterator<Item = Progress>) {
        let shared = &self.shared;
        for progress in told {
            match progress {
                Progress::Leased { lease, got } => self.lanes.leased(lease, got),
                Progress::Finished { client, tried } => {
                    self.lanes.finished(client, tried, |client| shared.standing(client));
                }
                Progress::Dropped { client, sends } => {
                    (0..sends)
                        .for_each(|_| self.lanes.finished(client, None, |client| shared.standing(client)));
                }
            }
        }
    }

    /// Drops what is kept for clients that are no longer sent to.
    fn sweep(&mut self) {
        let shared = &self.shared;
        shared.sender.sweep();
        self.lanes.sweep(|client| shared.standing(client));
    }

    /// Lets the tasks under way end. What they tell is of no use any more.
    async fn drain(mut self) {
        let all = async {
            while let Some(ended) = self.tasks.join_next().await {
                log_panic(ended);
            }
        };
        if tokio::time::timeout(DRAIN_MAX, all).await.is_err() {
            tracing::warn!(
                tasks = self.tasks.len(),
                "stopped with attempts under way; they will be repeated"
            );
            self.tasks.shutdown().await;
        }
        self.metrics.in_flight.set(0);
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a task of the sender failed; its leases run out by themselves");
    }
}

/// Rare by itself: it takes many failed attempts each time.
fn log_turn(turned: &Turned) {
    match turned {
        Turned::Opened { client, failed, last } => tracing::warn!(
            client = %client.id,
            failed,
            last = AttemptResult::from(*last).as_str(),
            "a receiver keeps failing; its notifications wait, and one at a time is tried until one gets through"
        ),
        Turned::Closed { client, why: Why::Delivered } => {
            tracing::info!(client = %client.id, "a receiver that kept failing takes notifications again");
        }
        Turned::Closed { client, why: Why::Changed } => {
            tracing::info!(client = %client.id, "a client whose receiver kept failing was changed; it begins anew");
        }
    }
}

/// Leases, sends what was leased, side by side, and records each end.
async fn see_through(shared: Arc<Shared>, lease: Lease) {
    let (partition, client, max) = (lease.partition, lease.client, lease.max);
    let mut places = Places { tell: &shared.tell, client, held: Held::Lease(lease) };
    let leased = shared.engine.lease(partition, client, max).await;
    // Not accepting: the engine is stopping, or names the lane again when its partition is back.
    let due = leased.unwrap_or_default();
    places.leased(due.len());
    let mut sends: FuturesUnordered<_> = due.into_iter().map(|due| shared.send(due)).collect();
    while let Some(tried) = sends.next().await {
        places.finished(tried);
    }
}

impl Shared {
    fn standing(&self, client: Incarnation) -> Standing {
        match self.engine.directory().get(client) {
            None => Standing::Gone,
            Some(client) if !client.enabled => Standing::Disabled,
            Some(client) => Standing::Enabled(client),
        }
    }

    /// Sends one notification, if its client is still there and enabled and the lease outlasts the attempt, and records the end.
    async fn send(&self, due: AttemptDue) -> Option<Tried> {
        let now = self.engine.clock().now();
        let holds = now.after(self.timeout) <= due.until;
        let to = self.engine.directory().get(due.client).filter(|client| client.enabled && holds);
        let end = match &to {
            Some(client) => self.sender.attempt(client, due.delivery, Arc::clone(&due.body)).await,
            None => AttemptEnd { at: now, took: Duration::ZERO, answer: Answer::Withheld },
        };
        let (at, answer) = (end.at, end.answer);
        if self.engine.attempt_ended(&due, to.as_deref(), end).await.is_err() {
            let partition = due.partition;
            tracing::debug!(%partition, "the end of an attempt was not recorded; it will count as interrupted");
        }
        to.map(|to| Tried { to, delivery: due.delivery, at, answer })
    }
}

/// The places in flight that a task holds. Whatever way the task ends, they are told to be free.
struct Places<'a> {
    tell: &'a mpsc::Sender<Progress>,
    client: Incarnation,
    held: Held,
}

enum Held {
    Lease(Lease),
    Sends(usize),
}

impl Places<'_> {
    fn leased(&mut self, got: usize) {
        if let Held::Lease(lease) = std::mem::replace(&mut self.held, Held::Sends(got)) {
            self.tell(Progress::Leased { lease, got });
        }
    }

    fn finished(&mut self, tried: Option<Tried>) {
        if let Held::Sends(sends) = &mut self.held {
            *sends -= 1;
        }
        self.tell(Progress::Finished { client: self.client, tried });
    }

    fn tell(&self, progress: Progress) {
        // Fails only once a stop has closed the channel, and then nobody counts places any more.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.tell.try_send(progress) {
            tracing::error!("the sender lost count of its places in flight");
        }
    }
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.held, Held::Sends(0)) {
            Held::Lease(lease) => self.tell(Progress::Leased { lease, got: 0 }),
            Held::Sends(0) => {}
            Held::Sends(sends) => self.tell(Progress::Dropped { client: self.client, sends }),
        }
    }
}
