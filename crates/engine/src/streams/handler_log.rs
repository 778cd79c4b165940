//! What handlers did with the blocks of streams since the server started, also of streams that are
//! in memory no more.

use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{Incarnation, Timestamp};

use super::effect::HandledBlocks;
use crate::kernel::hashed::HashMap;

/// Streams that are remembered: all that a server may have.
const STREAMS_KEPT: usize = base::limits::STREAMS_MAX;

/// What handlers of a stream did: storing, and deleting.
pub(super) type HandledOfStream = [Option<HandledBlocks>; 2];

/// What handlers did, by stream.
#[derive(Debug, Default)]
pub(super) struct HandlerLog {
    streams: Mutex<HashMap<Incarnation, HandledOfStream>>,
}

impl HandlerLog {
    /// A handler did something.
    pub(super) fn add(&self, stream: Incarnation, handled: HandledBlocks) {
        let mut streams = self.locked();
        if streams.len() >= STREAMS_KEPT && !streams.contains_key(&stream) {
            // Streams that are deleted are not taken out: those whose handlers rested longest go.
            let latest = |of: &HandledOfStream| of.iter().flatten().map(|one| one.at).max();
            let mut at: Vec<Option<Timestamp>> = streams.values().map(latest).collect();
            at.sort_unstable();
            let middle = at.get(at.len() / 2).copied().flatten();
            streams.retain(|_, of| latest(of) > middle);
        }
        let of = &mut streams.entry(stream).or_default()[usize::from(handled.is_deletion)];
        let before = of.take();
        *of = Some(handled.after(before));
    }

    /// What handlers of a stream did.
    pub(super) fn of(&self, stream: Incarnation) -> HandledOfStream {
        self.locked().get(&stream).cloned().unwrap_or_default()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Incarnation, HandledOfStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HandledBlocks {
    /// With what was handled before.
    fn after(mut self, before: Option<Self>) -> Self {
        if let Some(before) = before {
            self.blocks += before.blocks;
            self.bytes += before.bytes;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handled(is_deletion: bool, at: i64) -> HandledBlocks {
        HandledBlocks { is_deletion, at: Timestamp(at), blocks: 1, bytes: 10, error: None }
    }

    #[test]
    fn what_handlers_did_is_added_up_by_stream() {
        let log = HandlerLog::default();
        for (stream, is_deletion, at) in [(1, false, 5), (1, true, 6), (1, false, 7), (2, true, 8)] {
            log.add(Incarnation(stream), handled(is_deletion, at));
        }
        let of = |stream| log.of(Incarnation(stream)).map(|of| of.map(|of| (of.at.0, of.blocks, of.bytes)));
        assert_eq!(of(1), [Some((7, 2, 20)), Some((6, 1, 10))]);
        assert_eq!((of(2), of(3)), ([None, Some((8, 1, 10))], [None, None]));
    }
}
