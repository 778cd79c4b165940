//! What handlers did with the blocks of streams since the server started, also of streams that are
//! in memory no more.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base::locks::locked;
use base::{Incarnation, Timestamp};

use super::effect::{HandledBlocks, HandledBy};
use crate::kernel::hashed::HashMap;

/// Streams that are remembered: all that a server may have.
const STREAMS_KEPT: usize = base::limits::STREAMS_MAX;
/// Storages of a stream that are remembered.
const MOVES_KEPT: usize = 2 * ::streams::settings::MOVES_MAX;

/// What handlers of a stream did.
#[derive(Clone, Debug, Default)]
pub(super) struct HandledOfStream {
    pub(super) unloaded: Option<HandledBlocks>,
    pub(super) deleted: Option<HandledBlocks>,
    /// By the storage that blocks went to.
    pub(super) moved: BTreeMap<Box<str>, HandledBlocks>,
    /// Where a block is being brought to.
    pub(super) moving: Option<Box<str>>,
}

impl HandledOfStream {
    /// When one of them last did something.
    fn latest(&self) -> Option<Timestamp> {
        let all = [&self.unloaded, &self.deleted].into_iter().flatten().chain(self.moved.values());
        all.map(|one| one.at).max()
    }
}

/// What handlers did, by stream.
#[derive(Debug, Default)]
pub(super) struct HandlerLog {
    streams: Mutex<HashMap<Incarnation, HandledOfStream>>,
    /// Blocks that left memory and are not added up, with their bytes: when is told later.
    unloaded: Mutex<HashMap<Incarnation, UnloadedBlocks>>,
}

/// Blocks that left memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UnloadedBlocks {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

impl UnloadedBlocks {
    pub(super) fn add(&mut self, bytes: u64) {
        self.blocks += 1;
        self.bytes += bytes;
    }
}

impl HandlerLog {
    /// A block of a stream is being brought to a storage.
    pub(super) fn began(&self, stream: Incarnation, to: Box<str>) {
        let mut streams = locked(&self.streams);
        make_room(&mut streams, stream);
        streams.entry(stream).or_default().moving = Some(to);
    }

    /// A handler did something.
    pub(super) fn add(&self, stream: Incarnation, handled: HandledBlocks) {
        let mut streams = locked(&self.streams);
        make_room(&mut streams, stream);
        let of = streams.entry(stream).or_default();
        match handled.by.clone() {
            HandledBy::Unload => of.unloaded = Some(handled.after(of.unloaded.take())),
            HandledBy::Delete => of.deleted = Some(handled.after(of.deleted.take())),
            HandledBy::Move(to) => {
                of.moving = None;
                if of.moved.len() >= MOVES_KEPT && !of.moved.contains_key(&to) {
                    of.moved.clear();
                }
                let before = of.moved.remove(&to);
                of.moved.insert(to, handled.after(before));
            }
        }
    }

    /// Blocks of a stream left memory.
    pub(super) fn unloaded(&self, stream: Incarnation, unloaded: UnloadedBlocks) {
        if unloaded.blocks > 0 {
            let mut all = locked(&self.unloaded);
            let of = all.entry(stream).or_default();
            of.blocks += unloaded.blocks;
            of.bytes += unloaded.bytes;
        }
    }

    /// Adds up what left memory since the last call.
    pub(super) fn add_unloaded(&self, now: Timestamp) {
        let all = std::mem::take(&mut *locked(&self.unloaded));
        for (stream, UnloadedBlocks { blocks, bytes }) in all {
            let error = self.of(stream).unloaded.and_then(|before| before.error);
            self.add(stream, HandledBlocks { by: HandledBy::Unload, at: now, blocks, bytes, error });
        }
    }

    /// What handlers of a stream did.
    pub(super) fn of(&self, stream: Incarnation) -> HandledOfStream {
        locked(&self.streams).get(&stream).cloned().unwrap_or_default()
    }
}

/// Streams that are deleted are not taken out: those whose handlers rested longest go.
fn make_room(streams: &mut HashMap<Incarnation, HandledOfStream>, stream: Incarnation) {
    if streams.len() < STREAMS_KEPT || streams.contains_key(&stream) {
        return;
    }
    let mut at: Vec<Option<Timestamp>> = streams.values().map(HandledOfStream::latest).collect();
    at.sort_unstable();
    let middle = at.get(at.len() / 2).copied().flatten();
    streams.retain(|_, of| of.latest() > middle);
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

    fn handled(by: HandledBy, at: i64) -> HandledBlocks {
        HandledBlocks { by, at: Timestamp(at), blocks: 1, bytes: 10, error: None }
    }

    #[test]
    fn what_handlers_did_is_added_up_by_stream() {
        let log = HandlerLog::default();
        let cold = || HandledBy::Move("cold".into());
        log.began(Incarnation(2), "cold".into());
        assert_eq!(log.of(Incarnation(2)).moving.as_deref(), Some("cold"));
        for (stream, by, at) in [
            (1, HandledBy::Unload, 5),
            (1, HandledBy::Delete, 6),
            (1, HandledBy::Unload, 7),
            (2, cold(), 8),
            (2, cold(), 9),
        ] {
            log.add(Incarnation(stream), handled(by, at));
        }
        let shown = |of: Option<&HandledBlocks>| of.map(|of| (of.at.0, of.blocks, of.bytes));
        let (one, two) = (log.of(Incarnation(1)), log.of(Incarnation(2)));
        assert_eq!(shown(one.unloaded.as_ref()), Some((7, 2, 20)));
        assert_eq!(shown(one.deleted.as_ref()), Some((6, 1, 10)));
        assert_eq!(shown(two.moved.get("cold")), Some((9, 2, 20)));
        assert!(two.moving.is_none() && two.deleted.is_none() && log.of(Incarnation(3)).unloaded.is_none());
    }
}
