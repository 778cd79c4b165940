//! The HTTP API: registry, history, deliveries, health and metrics, and the form of every answer
//! and refusal.
//!
//! It reads requests, asks the engine and writes answers; what may be registered, changed or told
//! is the engine's to know. Reports are another crate's routes: they are merged in by
//! [`router_with`], so that they keep the same habits.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use access::Access;
use axum::Router;
use base::locks::locked;
use base::{EntityId, Problem};
use engine::records::Client;
use engine::{AttemptEnd, Engine, Queries, QueueCalls, StreamCalls};
use futures_util::future::BoxFuture;
use net::body_drain::BodyDrain;
use net::content_encoding::Decoders;
use net::memory_budget::{MemoryBudget, MemoryPart, Purpose};
use net::shares::{COMMAND_WAITS_SHARE, POLLS_SHARE, SenderShares, SharedPool, WaitShares};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

mod answer;
mod append;
mod authorization;
mod backup;
mod body;
mod change_log;
mod compression;
mod cursor;
mod etag;
mod export;
mod feed;
mod fields;
mod host;
mod idempotency;
mod import;
mod lines;
mod list;
mod live;
mod metrics;
mod middleware;
mod openapi;
mod operations;
mod overview;
mod page;
mod params;
mod path;
mod reads;
mod relays;
mod routes;
mod row;
mod shape;
mod summary;
mod system;
mod transfer;

use authorization::PortalHolders;
use backup::Backups;
use change_log::ChangeLog;
use idempotency::IdempotencyKeys;
use live::LiveStreams;
use metrics::RequestMetrics;
use overview::Overview;
use reads::Reads;
use relays::KnownRelays;

pub use backup::BackupPieces;
pub use host::{DiskSpace, FailingReceiver, LimitUsage, ServerHost};

/// What every request needs. Cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    shared: Arc<SharedState>,
}

/// Sends a client a test notification, once, and tells how that ended.
type Tester = dyn Fn(Arc<Client>) -> BoxFuture<'static, Result<AttemptEnd, Problem>> + Send + Sync;

/// Hands a refused report in again.
type Replayer = dyn Fn(EntityId) -> BoxFuture<'static, Result<(), Problem>> + Send + Sync;

struct SharedState {
    engine: Engine,
    access: Arc<Access>,
    registry: Arc<Mutex<Registry>>,
    metrics: RequestMetrics,
    portals: PortalHolders,
    lookups: Arc<Reads>,
    lists: Arc<Reads>,
    messages: Arc<Reads>,
    exports: Arc<Reads>,
    follows: Arc<Reads>,
    /// Of those who wait at the ends of feeds, for each token.
    followers: SenderShares,
    /// Of those who wait for the ends of commands, and of polls that wait, for each token.
    command_waits: WaitShares,
    polls: WaitShares,
    /// Of those who wait for messages of streams.
    readers: SharedPool,
    /// Of dry runs of operations, for each token.
    dry_runs: SenderShares,
    memory: MemoryBudget,
    memory_of_bodies: MemoryPart,
    memory_of_lines: MemoryPart,
    memory_of_pages: MemoryPart,
    remembered: Arc<IdempotencyKeys>,
    decoders: Decoders,
    change_log: ChangeLog,
    body_drain: BodyDrain,
    tester: OnceLock<Box<Tester>>,
    replayer: OnceLock<Box<Replayer>>,
    /// What is synced so long after it was answered.
    sync_interval: OnceLock<Duration>,
    /// True when the server stops.
    stop: OnceLock<watch::Receiver<bool>>,
    backups: Backups,
    overview: Overview,
    live: LiveStreams,
    relays: KnownRelays,
    /// The program around this.
    host: OnceLock<Box<dyn ServerHost>>,
}

impl ApiState {
    /// The state of an API over `engine`, for whom `access` lets in. Bodies and pages take their
    /// memory of `memory`. Its own figures go into `metrics`, and `/metrics` shows all that is
    /// there.
    #[must_use]
    pub fn new(
        engine: Engine,
        access: impl Into<Arc<Access>>,
        memory: &MemoryBudget,
        registry: Arc<Mutex<Registry>>,
    ) -> Self {
        let access = access.into();
        let (lookups, lists, messages) = (Reads::lookups(), Reads::lists(), Reads::messages());
        let [lookups, lists, messages, exports, follows] =
            [lookups, lists, messages, Reads::exports(), Reads::follows()].map(Arc::new);
        let (metrics, remembered) = (RequestMetrics::default(), Arc::new(IdempotencyKeys::default()));
        let (decoders, live, portals) =
            (Decoders::default(), LiveStreams::default(), PortalHolders::default());
        let (relays, clock) = (KnownRelays::default(), Arc::clone(engine.clock()));
        {
            let mut registry = locked(&registry);
            metrics.register(&mut registry);
            access.register(&mut registry);
            decoders.register(&mut registry);
            live.register(&mut registry);
            portals.register(&mut registry);
            relays.register(&mut registry, move || clock.now());
            let reads = [&exports, &follows, &lists, &lookups, &messages];
            metrics::register_gauges(&mut registry, reads, &remembered);
        }
        let body_drain = BodyDrain::default();
        Self {
            shared: Arc::new(SharedState {
                engine,
                access,
                registry,
                metrics,
                memory: memory.clone(),
                portals,
                memory_of_bodies: memory.part(Purpose::Bodies),
                memory_of_lines: memory.part(Purpose::Lines),
                memory_of_pages: memory.part(Purpose::Pages),
                lookups,
                lists,
                messages,
                exports,
                follows,
                followers: SenderShares::new(feed::FOLLOWERS_SHARE),
                command_waits: WaitShares::new(COMMAND_WAITS_SHARE, "the ends of commands"),
                polls: WaitShares::new(POLLS_SHARE, "commands of their devices"),
                readers: SharedPool::new(routes::messages::READERS_MAX, routes::messages::READERS_SHARE),
                dry_runs: SenderShares::new(operations::DRY_RUNS_SHARE),
                remembered,
                decoders,
                change_log: ChangeLog::default(),
                body_drain,
                tester: OnceLock::new(),
                replayer: OnceLock::new(),
                sync_interval: OnceLock::new(),
                stop: OnceLock::new(),
                backups: Backups::default(),
                overview: Overview::default(),
                live,
                relays,
                host: OnceLock::new(),
            }),
        }
    }

    /// Test notifications are sent by `tester`. The first one that is given stays; before that
    /// there are none.
    #[must_use]
    pub fn testing_with(
        self,
        tester: impl Fn(Arc<Client>) -> BoxFuture<'static, Result<AttemptEnd, Problem>> + Send + Sync + 'static,
    ) -> Self {
        let _first = self.shared.tester.get_or_init(|| Box::new(tester));
        self
    }

    /// Refused reports are handed in again by `replayer`. The first one that is given stays; before
    /// that none is.
    #[must_use]
    pub fn replaying_with(
        self,
        replayer: impl Fn(EntityId) -> BoxFuture<'static, Result<(), Problem>> + Send + Sync + 'static,
    ) -> Self {
        let _first = self.shared.replayer.get_or_init(|| Box::new(replayer));
        self
    }

    /// Works on operations until the server stops. To be run once, on a task of its own.
    pub async fn work_on_operations(self) {
        operations::worker::run(self).await;
    }

    /// What is answered is synced only up to `interval` later; `/readyz` says so.
    #[must_use]
    pub fn synced_within(self, interval: Duration) -> Self {
        let _first = self.shared.sync_interval.get_or_init(|| interval);
        self
    }

    /// Callers that wait for something are answered when `stop` is true, or its sender is gone.
    #[must_use]
    pub fn ended_by(self, stop: watch::Receiver<bool>) -> Self {
        let _first = self.shared.stop.get_or_init(|| stop);
        self
    }

    /// So many live streams may be open at a time, 1,024 at most. The first number that is given
    /// stays; without one there are 256.
    #[must_use]
    pub fn live_streams(self, most: usize) -> Self {
        self.shared.live.allow(most);
        self
    }

    /// The program around this one. The first one that is given stays; before that nothing is told
    /// of it.
    #[must_use]
    pub fn hosted_by(self, host: impl ServerHost) -> Self {
        let _first = self.shared.host.get_or_init(|| Box::new(host));
        self
    }

    fn host(&self) -> Option<&dyn ServerHost> {
        self.shared.host.get().map(|host| &**host)
    }

    fn is_stopping(&self) -> bool {
        self.shared.stop.get().is_some_and(|stop| *stop.borrow() || stop.has_changed().is_err())
    }

    fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// Returns when the server stops; never where nobody would say so.
    async fn stopped(&self) {
        match self.shared.stop.get().cloned() {
            // Whoever could say so is gone: then it has.
            Some(mut stop) => drop(stop.wait_for(|stop| *stop).await),
            None => std::future::pending().await,
        }
    }

    fn queues(&self) -> QueueCalls {
        self.shared.engine.queues()
    }

    fn streams(&self) -> StreamCalls {
        self.shared.engine.streams()
    }

    fn queries(&self) -> Queries {
        self.shared.engine.queries()
    }
}

base::debug_as_name!(ApiState);

/// The API's routes, with a problem for everything that is not one of them.
///
/// Routes that are merged into it afterwards work, but keep their own habits; give them to
/// [`router_with`] instead.
#[expect(clippy::needless_pass_by_value, reason = "the router holds the state from here on")]
pub fn router(state: ApiState) -> Router {
    router_with(&state, Router::new())
}

/// The same routes for a part of the server itself. Nobody asks it for a token, and its calls are
/// not counted as those of callers.
pub fn router_within(state: &ApiState) -> Router {
    routes::all(state)
}

/// The API's routes and `more`, all of them counted, refusing in the same form, and with panics
/// caught.
pub fn router_with(state: &ApiState, more: Router) -> Router {
    middleware::keep(state, routes::all(state).merge(more))
}
