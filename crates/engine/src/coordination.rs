//! Limits, the cache and channels as the edges hold them: memory, bounded, and gone with the
//! process.
//!
//! What keeps them is behind [`EphemeralStore`], so that several nodes can share one that is not in
//! their own memory. Locks are not here: they are durable, in the partitions of queues.

use std::sync::Arc;
use std::time::Duration;

use base::limits::{CACHED_BYTES_MAX, CHANNEL_MESSAGE_BYTES_MAX, EXACT_NUMBER_MAX, LIMIT_PER_MAX};
use base::{Problem, Timestamp};
use bytes::Bytes;
use coordination::{ByteCache, Channels, LimitTable};
use futures_util::future::{BoxFuture, FutureExt, ready};

use crate::Engine;

pub use coordination::{
    CacheStats, CachedValue, ChannelEvent, ChannelListener, ChannelPatterns, CoordinationName, LimitDecision,
    LimitKind, LimitPage, LimitRequest, LimitStatus, LockGrant, LockRequest, LockStatus,
};

/// How much everyday coordination keeps. Its default is that of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinationSettings {
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// Most locks that are held.
    pub locks_max: usize,
    /// Most callers that wait for locks.
    pub lock_waits_max: usize,
    /// Most limits.
    pub limits_max: usize,
    /// Most listeners of channels.
    pub listeners_max: usize,
}

impl Default for CoordinationSettings {
    fn default() -> Self {
        Self {
            cache_bytes: 64_000_000,
            locks_max: 1_000_000,
            lock_waits_max: 100_000,
            limits_max: 100_000,
            listeners_max: 10_000,
        }
    }
}

/// What keeps limits, cached values and channels.
pub trait EphemeralStore: Send + Sync {
    /// A cached value.
    fn get(&self, name: &CoordinationName, now: Timestamp) -> BoxFuture<'_, Option<CachedValue>>;

    /// Whether it has room for such a value at all.
    fn can_hold(&self, name: &CoordinationName, value: &CachedValue) -> bool;

    /// Puts a value, with `only_if_absent` only where none is; whether it was put.
    fn put(
        &self,
        name: CoordinationName,
        value: CachedValue,
        only_if_absent: bool,
        now: Timestamp,
    ) -> BoxFuture<'_, bool>;

    /// Takes a value out; whether it was there.
    fn delete(&self, name: &CoordinationName, now: Timestamp) -> BoxFuture<'_, bool>;

    /// Whether something may be done now.
    fn ask(
        &self,
        name: &CoordinationName,
        asked: &LimitRequest,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<LimitDecision, Problem>>;

    /// Limits that are used, in order of namespace and name.
    fn limits(&self, page: LimitPage<'_>, now: Timestamp) -> Vec<LimitStatus>;

    /// Gives a message to whoever listens; answers to how many.
    fn publish(&self, channel: &CoordinationName, message: &Bytes) -> BoxFuture<'_, usize>;

    /// Listens from now on.
    ///
    /// # Errors
    /// 503 `too_many_listeners`.
    fn listen(&self, patterns: ChannelPatterns) -> Result<ChannelListener, Problem>;

    /// How much it keeps: the cache, limits, and listeners.
    fn stats(&self) -> (CacheStats, usize, usize);
}

/// The memory of this process.
#[derive(Debug)]
struct ProcessMemory {
    cache: ByteCache,
    limits: LimitTable,
    channels: Channels,
}

impl EphemeralStore for ProcessMemory {
    fn get(&self, name: &CoordinationName, now: Timestamp) -> BoxFuture<'_, Option<CachedValue>> {
        ready(self.cache.get(name, now)).boxed()
    }

    fn can_hold(&self, name: &CoordinationName, value: &CachedValue) -> bool {
        self.cache.can_hold(name, value)
    }

    fn put(
        &self,
        name: CoordinationName,
        value: CachedValue,
        only_if_absent: bool,
        now: Timestamp,
    ) -> BoxFuture<'_, bool> {
        ready(self.cache.put(name, value, only_if_absent, now)).boxed()
    }

    fn delete(&self, name: &CoordinationName, now: Timestamp) -> BoxFuture<'_, bool> {
        ready(self.cache.delete(name, now)).boxed()
    }

    fn ask(
        &self,
        name: &CoordinationName,
        asked: &LimitRequest,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<LimitDecision, Problem>> {
        let answer = self.limits.ask(name, asked, now).map_err(|_| {
            let detail = "as many limits are in use as [coordination] limits allows";
            Problem::new(429, "too_many_limits", detail)
        });
        ready(answer).boxed()
    }

    fn limits(&self, page: LimitPage<'_>, now: Timestamp) -> Vec<LimitStatus> {
        self.limits.list(page, now)
    }

    fn publish(&self, channel: &CoordinationName, message: &Bytes) -> BoxFuture<'_, usize> {
        ready(self.channels.publish(channel, message)).boxed()
    }

    fn listen(&self, patterns: ChannelPatterns) -> Result<ChannelListener, Problem> {
        self.channels.listen(patterns).map_err(|_| {
            let detail = "as many listen to channels as [coordination] listeners allows";
            Problem::new(503, "too_many_listeners", detail)
        })
    }

    fn stats(&self) -> (CacheStats, usize, usize) {
        (self.cache.stats(), self.limits.len(), self.channels.listeners())
    }
}

/// What keeps limits, the cache and channels of an engine.
#[derive(Clone)]
pub(crate) struct Ephemeral(pub(crate) Arc<dyn EphemeralStore>);

base::debug_as_name!(Ephemeral);

/// The memory of this process, so much of it.
pub(crate) fn process_memory(settings: &CoordinationSettings) -> Arc<dyn EphemeralStore> {
    Arc::new(ProcessMemory {
        cache: ByteCache::new(settings.cache_bytes),
        limits: LimitTable::new(settings.limits_max),
        channels: Channels::new(settings.listeners_max),
    })
}

/// The calls about limits, the cache and channels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Coordination {
    engine: Engine,
}

impl Coordination {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// A cached value.
    pub async fn cached(&self, name: &CoordinationName) -> Option<CachedValue> {
        self.store().get(name, self.now()).await
    }

    /// Puts a value, gone after `ttl` if that is given.
    ///
    /// # Errors
    /// 409 `exists` with `only_if_absent` where one is, 413 `body_too_large`, 422 `invalid_ttl`.
    pub async fn put_cached(
        &self,
        name: CoordinationName,
        mut value: CachedValue,
        ttl: Option<Duration>,
        only_if_absent: bool,
    ) -> Result<(), Problem> {
        if value.bytes.len() > CACHED_BYTES_MAX {
            let detail = format!("a cached value is at most {CACHED_BYTES_MAX} bytes");
            return Err(Problem::new(413, "body_too_large", detail));
        }
        if !self.store().can_hold(&name, &value) {
            let detail = "the value is too large for the cache: raise [coordination] cache";
            return Err(Problem::new(413, "body_too_large", detail));
        }
        if ttl.is_some_and(|ttl| ttl.is_zero()) {
            return Err(Problem::not_allowed("invalid_ttl", "ttl must be at least 1ms"));
        }
        let now = self.now();
        value.expires_at = ttl.map(|ttl| now.after(ttl));
        let taken = Problem::conflict("exists", format!("{name} is cached already"));
        if self.store().put(name, value, only_if_absent, now).await { Ok(()) } else { Err(taken) }
    }

    /// Takes a value out; whether it was there.
    pub async fn delete_cached(&self, name: &CoordinationName) -> bool {
        self.store().delete(name, self.now()).await
    }

    /// Whether something may be done now. A refused call costs nothing.
    ///
    /// # Errors
    /// 422 for what is out of range, 429 `too_many_limits`.
    pub async fn ask_limit(
        &self,
        name: &CoordinationName,
        asked: &LimitRequest,
    ) -> Result<LimitDecision, Problem> {
        if !(1..=EXACT_NUMBER_MAX).contains(&asked.limit) {
            let detail = format!("limit is {}; it must be 1 to {EXACT_NUMBER_MAX}", asked.limit);
            return Err(Problem::not_allowed("invalid_number", detail));
        }
        if !(1..=asked.limit).contains(&asked.cost) {
            let detail = format!("cost is {}; it must be 1 to limit, which is {}", asked.cost, asked.limit);
            return Err(Problem::not_allowed("invalid_number", detail));
        }
        if !(Duration::from_millis(1)..=LIMIT_PER_MAX).contains(&asked.per) {
            let detail = format!("per must be 1ms to {}", base::duration::format(LIMIT_PER_MAX));
            return Err(Problem::not_allowed("invalid_duration", detail));
        }
        self.store().ask(name, asked, self.now()).await
    }

    /// Limits that are used, in order of namespace and name. It looks at all of them: for a thread
    /// that may.
    #[must_use]
    pub fn limits(&self, page: LimitPage<'_>) -> Vec<LimitStatus> {
        self.store().limits(page, self.now())
    }

    /// Gives a message to whoever listens to its channel; answers to how many.
    ///
    /// # Errors
    /// 413 `body_too_large`.
    pub async fn publish(&self, channel: &CoordinationName, message: &Bytes) -> Result<usize, Problem> {
        if message.len() > CHANNEL_MESSAGE_BYTES_MAX {
            let detail = format!("a message of a channel is at most {CHANNEL_MESSAGE_BYTES_MAX} bytes");
            return Err(Problem::new(413, "body_too_large", detail));
        }
        Ok(self.store().publish(channel, message).await)
    }

    /// Listens from now on.
    ///
    /// # Errors
    /// 503 `too_many_listeners`.
    pub fn listen(&self, patterns: ChannelPatterns) -> Result<ChannelListener, Problem> {
        self.store().listen(patterns)
    }

    fn store(&self) -> &dyn EphemeralStore {
        &*self.engine.context().ephemeral.0
    }

    fn now(&self) -> Timestamp {
        self.engine.clock().now()
    }
}
