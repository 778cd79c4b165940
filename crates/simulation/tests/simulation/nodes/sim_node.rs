//! A node: its server, the copies that run there, and all that its streams ever showed.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Waker};

use ::streams::own_origins::own_source;
use base::{Incarnation, Lineage, Problem, Timestamp};
use copies::{StreamEnd, run_copy};
use engine::context::EngineContext;
use engine::streams::{CopyKey, CopyTarget, StreamName};
use records::{CopyDirection, StreamCopy};

use super::exchange::{Exchange, NodeHome};
use super::plan::node_name;
use crate::harness::node::Node;
use crate::streams::message::GivenMessage;
use crate::streams::model::Model;
use crate::streams::world::World as Streams;
use crate::streams::world::as_node::StreamsNode;

/// A copy that runs.
pub(super) struct CopyTask {
    pub(super) generation: u64,
    run: Pin<Box<dyn Future<Output = Problem>>>,
    wakes_at: Arc<AtomicI64>,
    has_ended: bool,
}

impl CopyTask {
    /// The copy begins, from one end to the other.
    pub(super) fn begin(
        generation: u64,
        home: NodeHome,
        (source, sink): (impl StreamEnd + 'static, impl StreamEnd + 'static),
    ) -> Self {
        let wakes_at = Arc::clone(&home.wakes_at);
        let run = Box::pin(async move { run_copy(&home, &source, &sink, generation).await });
        Self { generation, run, wakes_at, has_ended: false }
    }

    /// It goes on, as far as it can.
    pub(super) fn go_on(&mut self) {
        if self.has_ended {
            return;
        }
        self.wakes_at.store(i64::MAX, Ordering::Relaxed);
        let mut context = Context::from_waker(Waker::noop());
        self.has_ended = self.run.as_mut().poll(&mut context).is_ready();
    }

    /// When it wants to go on, where it waits for a time.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        let at = self.wakes_at.load(Ordering::Relaxed);
        (at != i64::MAX).then_some(Timestamp(at))
    }
}

/// Messages that a stream showed, kept or gone: their numbers by id.
#[derive(Clone, Default)]
pub(super) struct SeenMessages {
    pub(super) by_id: BTreeMap<u64, u64>,
    pub(super) by_number: BTreeMap<u64, u64>,
    /// Messages that are there twice.
    pub(super) twice: Option<(u64, u64, u64)>,
}

/// A backup, and what it holds.
pub(super) struct NodeBackup {
    pub(super) bytes: Vec<u8>,
    pub(super) seq: u64,
    pub(super) model: Model,
    pub(super) seen: BTreeMap<Incarnation, SeenMessages>,
}

/// A node.
pub(super) struct SimNode {
    pub(super) number: usize,
    pub(super) node: Node<Streams>,
    /// How often it came back with another disk.
    pub(super) image: u64,
    /// How often something that it had was taken from it, but by a crash.
    pub(super) set_back: u64,
    /// The process in which its copies run.
    process: Option<u64>,
    tasks: BTreeMap<CopyKey, CopyTask>,
    pub(super) seen: BTreeMap<Incarnation, SeenMessages>,
    pub(super) backup: Option<NodeBackup>,
}

/// The number of a message, which is in its payload.
pub(super) fn number_of(given: &GivenMessage) -> u64 {
    let text = std::str::from_utf8(&given.payload).unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

impl SimNode {
    pub(super) fn new(number: usize, node: Node<Streams>) -> Self {
        Self {
            number,
            node,
            image: 0,
            set_back: 0,
            process: None,
            tasks: BTreeMap::new(),
            seen: BTreeMap::new(),
            backup: None,
        }
    }

    pub(super) fn context(&self) -> Option<&EngineContext> {
        self.node.users().context()
    }

    /// What its streams have, durable or not yet.
    pub(super) fn present(&self) -> &Model {
        &self.node.users().model().present
    }

    /// What its streams keep through a crash.
    pub(super) fn durable(&self) -> &Model {
        self.node.users().model().durable()
    }

    /// What a stream of it calls itself.
    pub(super) fn identity_of(&self, stream: Incarnation) -> Box<str> {
        own_source(&node_name(self.number), Lineage(self.node.plan().seed), stream)
    }

    /// Whether its process is another one than when this was last asked; copies that ran in that
    /// are gone.
    pub(super) fn notice_process(&mut self) -> bool {
        let process = self.node.process();
        if process == self.process {
            return false;
        }
        self.process = process;
        self.tasks.clear();
        true
    }

    /// Takes up what its streams show that they did not before, and forgets what a crash took.
    pub(super) fn look_at_messages(&mut self) {
        let Self { node, seen, .. } = self;
        let present = &node.users().model().present.streams;
        // A crash may take a stream whole, and then its incarnation is another's.
        seen.retain(|stream, _| present.contains_key(stream));
        for (stream, found) in present.iter().filter(|(_, found)| !found.is_deleted) {
            let seen = seen.entry(*stream).or_default();
            let is_other = |(id, number): (&u64, &u64)| {
                let is_there = found.messages.get(id).is_none_or(|given| number_of(given) == *number);
                (*id > found.last || !is_there).then_some(*id)
            };
            // What a crash took is a part of the end.
            let taken = seen.by_id.iter().find_map(is_other);
            for (_, number) in taken.map(|id| seen.by_id.split_off(&id)).unwrap_or_default() {
                seen.by_number.remove(&number);
            }
            let newest = seen.by_id.last_key_value().map_or(0, |(id, _)| *id);
            for (id, given) in found.messages.range(newest + 1..) {
                let number = number_of(given);
                seen.by_id.insert(*id, number);
                if let Some(first) = seen.by_number.insert(number, *id) {
                    seen.twice = Some((number, first, *id));
                }
            }
        }
    }

    /// Begins the copies that are to run, and ends the others.
    pub(super) fn tend_copies(&mut self, exchange: &Exchange) {
        let Some(context) = self.node.users().context() else { return };
        let wanted: BTreeMap<CopyKey, u64> = context
            .streams
            .running_copies()
            .into_iter()
            .map(|CopyTarget { key, generation }| (key, generation))
            .collect();
        self.tasks.retain(|key, task| wanted.get(key) == Some(&task.generation));
        for (key, generation) in wanted {
            if self.tasks.contains_key(&key) {
                continue;
            }
            let row = self
                .present()
                .named(key.stream.stream())
                .and_then(|(stream, _)| self.present().copies.get(&(stream, key.copy.clone())).cloned());
            if let Some(task) = row.and_then(|row| self.task(&key, &row, generation, exchange)) {
                self.tasks.insert(key, task);
            }
        }
    }

    fn task(
        &self,
        key: &CopyKey,
        row: &StreamCopy,
        generation: u64,
        exchange: &Exchange,
    ) -> Option<CopyTask> {
        let other = StreamName::new(&row.other_namespace, &row.other_name).ok()?;
        let to = node_number(&row.node).unwrap_or(self.number);
        let clock = self.node.clock();
        let home = exchange.home((self.number, key.clone()), &clock, Arc::default());
        let here = exchange.end((self.number, self.number), key.stream.clone(), &clock);
        let there = exchange.end((self.number, to), other, &clock);
        let ends = match row.direction {
            CopyDirection::To => (here, there),
            CopyDirection::From => (there, here),
        };
        Some(CopyTask::begin(generation, home, ends))
    }

    /// Copies that run.
    pub(super) fn running(&self) -> usize {
        self.tasks.len()
    }

    /// Lets one copy go on, as far as it can.
    pub(super) fn run_copy(&mut self, index: usize) {
        if let Some(task) = self.tasks.values_mut().nth(index) {
            task.go_on();
        }
    }

    /// When something happens on it by itself.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        let tasks = self.tasks.values().filter_map(CopyTask::next_wakeup);
        tasks.chain(self.node.next_wakeup()).min()
    }
}

/// Which node has a name; none is `self`.
pub(super) fn node_number(name: &str) -> Option<usize> {
    name.strip_prefix('n').and_then(|number| number.parse().ok())
}
