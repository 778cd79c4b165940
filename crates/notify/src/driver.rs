//! Carries out what [`Lanes`] decides: one task asks it and talks to the partitions, others send.
//!
//! All decisions are made in one place, [`run`]. It has one [exchange](exchanges) with a partition
//! at a time: ended attempts go in, leases come out. Tasks of a few sends each carry the leases
//! out. A task reports how its attempts ended and frees their places in flight, also when it
//! panics.

use std::collections::HashSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use base::{ClientId, Timestamp};
use engine::notices::{Condition, Detail, Signal, SignalTopic};
use engine::records::NoticeKind;
use engine::{AttemptDue, Engine};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::breaker::{BreakerEvent, CloseReason};
use crate::connector::Connector;
use crate::guard::AddressGuard;
use crate::lanes::{IN_FLIGHT_MAX, LaneLease, Lanes, SendLimits};
use crate::metrics::{AttemptResult, WebhookMetrics};
use crate::notices;
use crate::open_breakers::OpenBreakers;
use crate::outcomes;
use crate::pushes;
use crate::roots;
use crate::sender::Sender;
use crate::task_ends;
use crate::tester::Tester;

mod exchanges;
mod sends;
#[cfg(test)]
mod tests;

use exchanges::Exchanges;
use sends::{Finished, SendContext, see_through};

/// How long a stop waits for attempts under way; the whole server has 20 s to stop. What is cut off
/// is repeated after the next start.
const DRAIN_MAX: Duration = Duration::from_secs(15);
/// How often connections and clients that are no longer used are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Most messages of tasks that are taken at once.
const PROGRESS_AT_ONCE_MAX: usize = 256;
/// Sends that share a task: what ends together is told together. Several tasks use several cores.
const SENDS_PER_TASK_MAX: usize = 16;

/// What the operator can set of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Longest that an attempt may take.
    pub timeout: Duration,
    /// Most notifications of one client in flight.
    pub per_client_in_flight: usize,
    /// Most notifications in flight, at most [`IN_FLIGHT_MAX`]; as many connections are kept idle,
    /// so that a steady load never has to connect anew.
    pub in_flight: usize,
    /// Between the beginnings of two attempts at a client whose breaker is open.
    pub breaker_pause: Duration,
    /// Whether private addresses may be reached.
    pub allow_private: bool,
}

/// The sender of webhooks, before it runs.
pub struct Webhooks {
    engine: Engine,
    settings: WebhookSettings,
    metrics: WebhookMetrics,
    sender: Arc<Sender>,
    open_breakers: OpenBreakers,
}

base::debug_as_name!(Webhooks);

impl Webhooks {
    /// A sender of what `engine` has due.
    #[must_use]
    pub fn new(engine: Engine, settings: WebhookSettings, metrics: WebhookMetrics) -> Self {
        let guard = AddressGuard { allow_private: settings.allow_private };
        let connector = Connector::new(guard, roots::system_tls());
        let clock = Arc::clone(engine.clock());
        let sender = Sender::new(clock, settings.timeout, connector, settings.in_flight, metrics.clone());
        let open_breakers = OpenBreakers::default();
        Self { engine, settings, metrics, sender: Arc::new(sender), open_breakers }
    }

    /// Sends tests, whether this runs or not.
    #[must_use]
    pub fn tester(&self) -> Tester {
        Tester::new(Arc::clone(&self.sender), Arc::clone(self.engine.clock()))
    }

    /// The clients whose breaker is open, from now on.
    #[must_use]
    pub fn open_breakers(&self) -> OpenBreakers {
        self.open_breakers.clone()
    }

    /// Sends what is due until `shutdown` says so or its sender is gone; then lets the attempts
    /// under way end, for 15 s at most.
    pub async fn run(self, shutdown: watch::Receiver<bool>) {
        let outcomes = outcomes::run(self.engine.clone(), Arc::clone(&self.sender), shutdown.clone());
        let task_ends = task_ends::run(self.engine.clone(), Arc::clone(&self.sender), shutdown.clone());
        let (engine, sender, breakers) =
            (self.engine.clone(), Arc::clone(&self.sender), self.open_breakers.clone());
        let notices = notices::run(engine, sender, breakers, shutdown.clone());
        let (engine, sender) = (self.engine.clone(), Arc::clone(&self.sender));
        let pushes = pushes::run(engine, sender, self.metrics.clone(), shutdown.clone());
        tokio::join!(run(self, shutdown), outcomes, task_ends, notices, pushes);
    }
}

async fn run(webhooks: Webhooks, mut shutdown: watch::Receiver<bool>) {
    let engine = webhooks.engine.clone();
    // A message tells of at least one send, which holds a place until it is taken in: there is
    // always room.
    let (tell, mut told) = mpsc::channel(IN_FLIGHT_MAX);
    let mut batch = Vec::with_capacity(PROGRESS_AT_ONCE_MAX);
    let mut driver = WebhookDriver::new(webhooks, tell);
    let mut clients = engine.directory().subscribe();
    let mut sweep = interval(SWEEP_EVERY);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        driver.choose_leases();
        driver.exchanges.start();
        let wakeup = driver.lanes.next_wakeup();
        tokio::select! {
            _ = shutdown.wait_for(|stop| *stop) => break,
            _ = told.recv_many(&mut batch, PROGRESS_AT_ONCE_MAX) => driver.take_in(batch.drain(..)),
            Some(leased) = driver.exchanges.next() => driver.send(leased),
            Some(ended) = driver.tasks.join_next() => log_panic(ended),
            named = engine.due_lanes().take() => driver.lanes.mark_due(named),
            Ok(()) = clients.changed() => driver.lanes.clients_changed(),
            () = until(&engine, wakeup) => {}
            _ = sweep.tick() => driver.sweep(),
        }
    }
    if tokio::time::timeout(DRAIN_MAX, driver.drain(&mut told)).await.is_err() {
        let tasks = driver.tasks.len();
        tracing::warn!(tasks, "stopped with attempts under way; they will be repeated");
        driver.tasks.shutdown().await;
    }
    driver.metrics.in_flight.set(0);
}

/// Waits for `wakeup`.
async fn until(engine: &Engine, wakeup: Option<Timestamp>) {
    match wakeup {
        Some(at) => engine.until(at).await,
        None => pending().await,
    }
}

struct WebhookDriver {
    lanes: Lanes,
    exchanges: Exchanges,
    shared: Arc<SendContext>,
    tasks: JoinSet<()>,
    metrics: WebhookMetrics,
    open_breakers: OpenBreakers,
    /// Clients that the process before told failing. No breaker of this one knows of them.
    told_failing: HashSet<ClientId>,
}

impl WebhookDriver {
    fn new(webhooks: Webhooks, tell: mpsc::Sender<Vec<Finished>>) -> Self {
        let Webhooks { engine, settings, metrics, sender, open_breakers } = webhooks;
        let limits = SendLimits {
            per_client: settings.per_client_in_flight,
            total: settings.in_flight.clamp(1, IN_FLIGHT_MAX),
            breaker_pause: settings.breaker_pause,
        };
        Self {
            told_failing: engine.clients_told_failing().into_iter().collect(),
            lanes: Lanes::new(limits),
            exchanges: Exchanges::new(engine.clone()),
            shared: Arc::new(SendContext { engine, sender, timeout: settings.timeout, tell }),
            tasks: JoinSet::new(),
            metrics,
            open_breakers,
        }
    }

    fn choose_leases(&mut self) {
        let shared = &self.shared;
        let now = shared.engine.clock().now();
        while let Some(lease) = self.lanes.next(now, |client| shared.status_of(client)) {
            self.exchanges.lease(lease);
        }
        for event in self.lanes.take_breaker_events() {
            log_breaker(&event);
            self.open_breakers.note(&event, now);
            self.told_failing.remove(&event.client().id);
            shared.engine.signal(signal_of(&event));
            self.metrics.breakers_opened.inc_by(u64::from(matches!(event, BreakerEvent::Opened { .. })));
        }
        self.metrics.breakers_open.set(self.lanes.breakers_open() as i64);
        self.metrics.in_flight.set(self.lanes.in_flight() as i64);
        self.metrics.lanes_due.set(self.lanes.due() as i64);
    }

    /// Sends what was leased.
    fn send(&mut self, leased: Vec<(LaneLease, Vec<AttemptDue>)>) {
        let mut due = Vec::new();
        for (lease, got) in leased {
            self.lanes.leased(lease, got.len());
            due.extend(got);
        }
        while !due.is_empty() {
            let rest = due.split_off(due.len().min(SENDS_PER_TASK_MAX));
            let task = see_through(Arc::clone(&self.shared), std::mem::replace(&mut due, rest));
            self.tasks.spawn(task);
        }
    }

    fn take_in(&mut self, told: impl Iterator<Item = Vec<Finished>>) {
        let shared = &self.shared;
        for Finished { client, partition, ended, tried } in told.flatten() {
            if let Some(ended) = ended {
                self.exchanges.ended(partition, ended);
            }
            if !self.told_failing.is_empty()
                && let Some(to) = tried.as_ref().filter(|tried| tried.is_success()).map(|tried| &tried.to)
                && self.told_failing.remove(&to.id)
            {
                let why = CloseReason::Delivered;
                shared.engine.signal(signal_of(&BreakerEvent::Closed { client: Arc::clone(to), why }));
            }
            self.lanes.finished(client, tried, |client| shared.status_of(client));
        }
    }

    /// Drops what is kept for clients that are no longer sent to.
    fn sweep(&mut self) {
        let shared = &self.shared;
        shared.sender.sweep();
        self.lanes.sweep(|client| shared.status_of(client));
    }

    /// Lets what is under way end, and hands in how it ended. Nothing more is leased.
    async fn drain(&mut self, told: &mut mpsc::Receiver<Vec<Finished>>) {
        self.exchanges.forget_leases();
        while !(self.tasks.is_empty() && self.exchanges.is_empty() && told.is_empty()) {
            self.exchanges.start();
            tokio::select! {
                Some(finished) = told.recv() => self.take_in(std::iter::once(finished)),
                Some(leased) = self.exchanges.next() => self.send(leased),
                Some(ended) = self.tasks.join_next() => log_panic(ended),
            }
        }
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a task of the sender failed; its leases run out by themselves");
    }
}

/// What operators are told of a receiver.
fn signal_of(event: &BreakerEvent) -> Signal {
    let (client, condition, detail) = match event {
        BreakerEvent::Opened { client, failed, last } => {
            let last = AttemptResult::from(*last).as_str();
            let detail = Detail::default().number("failed", u64::from(*failed)).text("last", last);
            (client, Condition::Firing(NoticeKind::ClientFailing), detail)
        }
        BreakerEvent::Closed { client, why: CloseReason::Delivered } => {
            (client, Condition::Resolved, Detail::default())
        }
        BreakerEvent::Closed { client, why: CloseReason::Changed } => {
            (client, Condition::Cleared, Detail::default())
        }
    };
    let subject = format!("client {}", client.id).into();
    let detail = detail.text("client_id", client.id.as_str());
    Signal { topic: SignalTopic::Client, subject, condition, detail }
}

/// Rare by itself: it takes many failed attempts each time.
fn log_breaker(event: &BreakerEvent) {
    match event {
        BreakerEvent::Opened { client, failed, last } => tracing::warn!(
            client = %client.id,
            failed,
            last = AttemptResult::from(*last).as_str(),
            "a receiver keeps failing; its notifications wait, and one at a time is tried until one gets through"
        ),
        BreakerEvent::Closed { client, why: CloseReason::Delivered } => {
            tracing::info!(client = %client.id, "a receiver that kept failing takes notifications again");
        }
        BreakerEvent::Closed { client, why: CloseReason::Changed } => {
            tracing::info!(client = %client.id, "a client whose receiver kept failing was changed; it begins anew");
        }
    }
}
