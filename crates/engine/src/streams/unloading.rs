//! Blocks leave memory by time, once nobody used them for as long as their stream says. Of a stored
//! block at the end of a stream the messages leave; of a block that was read, the index.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Incarnation, PartitionId, Timestamp};
use store::Store;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::context::StreamsContext;
use crate::kernel::context::KernelContext;

/// How often memory is looked at while there are blocks in it: what goes may stay so much longer
/// than it is to.
const LOOKED_EVERY: Duration = Duration::from_secs(1);

/// Has blocks leave memory until it is dropped.
pub(crate) async fn unload_blocks(kernel: Arc<KernelContext>, context: Arc<StreamsContext>) {
    let mut looks = interval(LOOKED_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        context.holding_blocks().await;
        looks.tick().await;
        let (store, of) = (Arc::clone(&kernel.store), Arc::clone(&context));
        let now = kernel.clock.now();
        let _stopping = spawn_blocking(move || of.unload(&*store, now, Instant::now())).await;
        context.tails.handled.add_unloaded(now);
    }
}

impl StreamsContext {
    /// Returns when there are blocks in memory that time may have leave it.
    async fn holding_blocks(&self) {
        while !self.tails.has_stored() && self.indexes.is_empty() {
            tokio::select! {
                () = self.tails.stored.notified() => {}
                () = self.indexes.added.notified() => {}
            }
        }
    }

    /// Has blocks leave memory whose time is over. Reads from disk.
    pub(super) fn unload(&self, store: &dyn Store, now: Timestamp, instant: Instant) {
        // Settings are read before anything is locked.
        let streams = self.indexes.streams().into_iter().chain(self.tails.streams_with_stored());
        let mut kept_for: BTreeMap<Incarnation, Duration> = BTreeMap::new();
        for stream in streams {
            kept_for.entry(stream).or_insert_with(|| unload_after(store, stream));
        }
        let of = |stream: Incarnation| kept_for.get(&stream).copied().unwrap_or(Duration::MAX);
        for (stream, unloaded) in self.indexes.unload(instant, of) {
            self.tails.handled.unloaded(stream, unloaded);
        }
        self.tails.unload(|stream| {
            let kept_ms = i64::try_from(of(stream).as_millis()).unwrap_or(i64::MAX);
            Timestamp(now.0.saturating_sub(kept_ms))
        });
    }
}

/// A stream that is gone, or cannot be read, has no use for memory.
fn unload_after(store: &dyn Store, stream: Incarnation) -> Duration {
    let view = store.view(PartitionId::of_streams(stream.partition_index()));
    let row = view.and_then(|view| view.stream(stream)).ok().flatten();
    Duration::from_millis(row.map_or(0, |row| row.settings.unload_after_ms))
}
