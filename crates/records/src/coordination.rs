//! Locks, and what operators say to the workers of a queue.

use base::Timestamp;
use compact_str::CompactString;

use crate::weight::weighs;

/// A lock that is held, or was held lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The namespace it is in.
    pub namespace: CompactString,
    /// Its name there.
    pub name: CompactString,
    /// Who holds it; `None` once it is free.
    pub owner: Option<CompactString>,
    /// The number of its latest holder.
    pub fence: u64,
    /// When its holder loses it, or when it became free; on the engine clock.
    pub until: Timestamp,
}

weighs!(Lock: |lock| lock.text_bytes());

impl Lock {
    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.namespace.len() + self.name.len() + self.owner.as_ref().map_or(0, |owner| owner.len())
    }
}

/// What operators say to the workers of a queue. It belongs to the name, whether or not the queue
/// has anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerControl {
    /// The namespace of the queue.
    pub namespace: CompactString,
    /// Its name there.
    pub queue: CompactString,
    /// What the workers are to do.
    pub state: WorkState,
    /// Most jobs that a worker works on at a time.
    pub max_in_flight: Option<u32>,
    /// More, as JSON text, for whoever wrote the workers.
    pub data: Option<Box<str>>,
}

weighs!(WorkerControl: |control| control.text_bytes());

impl WorkerControl {
    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.namespace.len() + self.queue.len() + self.data.as_ref().map_or(0, |data| data.len())
    }
}

/// What the workers of a queue are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkState {
    /// Take jobs.
    Run,
    /// Take no more, and wait.
    Drain,
    /// Take no more, and end.
    Stop,
}

base::names! {
    /// Every state.
    pub WorkState: Run = "run", Drain = "drain", Stop = "stop"
}
