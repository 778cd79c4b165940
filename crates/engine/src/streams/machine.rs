//! The machine of a partition of streams. It gives ids, keeps duplicates out, and decides when what
//! was appended is written and its callers are answered.
//!
//! A stream that is used is in memory: how far it has come, the numbers of its sources, and what is
//! not durable yet. One that nobody uses is rows. When time does something to it, a row by due time
//! brings it back.
//!
//! ```text
//!   append -> chunk in memory -> saved: a row -> its block is closed -> stored: a file -> dropped
//! ```

mod append;
mod closing;
mod copies;
mod deleting;
mod idempotency;
mod loaded;
mod loading;
mod move_scheduler;
mod moving;
mod retention;
mod saving;
mod settings;
mod stored_numbers;
mod subscriptions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::streams::{FreeSpace, tail};
use base::{Incarnation, PartitionId, Timestamp};
use records::PartitionHead;
use store::StoreError;

use super::StreamName;
use super::append_run::AppendRuns;
use super::context::StreamsContext;
use super::effect::{StreamsEffect, TailChange};
use super::input::StreamsInput;
use super::node_identity::NodeIdentity;
use super::running_copies::LoadedCopy;
use super::stream_metrics::{StreamsCounted, StreamsNow};
use crate::kernel::fetch::Fetch;
use crate::kernel::hashed::HashMap;
use crate::kernel::idempotency::KeptAnswers;
use crate::kernel::machine::{Machine, Step, StepTime};
use crate::kernel::pending_writes::PendingWrites;
use crate::kernel::step_context::{STEP_BYTES_MAX, StepContext};
use deleting::DeletedStream;
pub(crate) use deleting::unknown_stream;
use loaded::{LoadedStream, SourceText};
use move_scheduler::MoveScheduler;

/// Streams that a step looks at because their time has come, at most.
const DUE_PER_STEP: usize = 256;
/// How often streams are looked for that may go out of memory, where it is short.
const EVICTED_EVERY: Duration = Duration::from_secs(1);
/// Memory that each partition has at least.
const MEMORY_SHARE_MIN: usize = 64 << 10;
/// And at most: with one call more it is one batch.
const MEMORY_SHARE_MAX: usize = 16 << 20;
/// Memory that a stream counts for beside what it holds.
const LOADED_STREAM_BYTES: usize = 2 << 10;

/// The memory of one of so many partitions, where all have this much: half of it is for readers.
#[must_use]
pub fn memory_share(memory_bytes: usize, partitions: u16) -> usize {
    (memory_bytes / 2 / usize::from(partitions).max(1)).clamp(MEMORY_SHARE_MIN, MEMORY_SHARE_MAX)
}

const _: () = assert!(
    MEMORY_SHARE_MAX + 2 * base::limits::MESSAGE_BYTES_PER_CALL_MAX <= store::BATCH_BYTES_MAX,
    "what waits for a save, and one call more, fit into a batch"
);

/// A partition of streams.
pub struct StreamPartition {
    id: PartitionId,
    head: PartitionHead,
    /// Bytes that its streams may hold in memory.
    memory_max: usize,
    durable: u64,
    names: HashMap<StreamName, Incarnation>,
    loaded: BTreeMap<Incarnation, LoadedStream>,
    /// Names of streams whose deletion is not durable.
    deleted: PendingWrites<StreamName, ()>,
    /// Texts of messages that are on their way to the store.
    texts: PendingWrites<(Incarnation, SourceText), u64>,
    /// What appends under a key did whose messages are durable, or about to be.
    answers: KeptAnswers,
    /// Subscriptions that were pushed when this was loaded.
    pushed: Vec<(StreamName, Box<str>)>,
    /// Copies that there were when this was loaded, and whether they run.
    copies: Vec<LoadedCopy>,
    node: NodeIdentity,
    /// When time does something to a stream that is not in memory.
    dues: BTreeSet<(Timestamp, Incarnation)>,
    /// When time does something to one that is.
    timers: BTreeSet<(Timestamp, Incarnation)>,
    /// Streams with something to do once a batch is durable.
    to_settle: BTreeSet<(u64, Incarnation)>,
    sweeping: BTreeMap<Incarnation, DeletedStream>,
    runs: AppendRuns,
    move_scheduler: MoveScheduler,
    /// When time does something else to streams that left memory while they wait for a move:
    /// under it they stand among `dues`.
    due_while_waiting: BTreeMap<Incarnation, Timestamp>,
    /// Streams that a step had no room for: the next one goes on with them.
    unfinished: BTreeSet<Incarnation>,
    streams: usize,
    unsaved_bytes: usize,
    external_id_bytes: usize,
    /// Of these, what a save makes room of.
    unsaved_id_bytes: usize,
    evicted_at: Timestamp,
    is_closing: bool,
    /// What the disk with the data has left.
    free_space: FreeSpace,
    now: StreamsNow,
}

/// What one step of a partition of streams collects.
#[derive(Default)]
struct StreamsStepPart {
    touched: BTreeSet<Incarnation>,
    /// Bytes of messages that were taken.
    taken: usize,
    counted: StreamsCounted,
    is_behind: bool,
}

type StreamsStep<'a> = StepContext<'a, StreamsEffect, StreamsStepPart>;

impl StreamPartition {
    fn apply(&mut self, input: StreamsInput, step: &mut StreamsStep<'_>) -> Result<(), StoreError> {
        match input {
            StreamsInput::Append(call) => match self.answer_repeat(*call, step)? {
                Some(call) => self.append(call, step),
                None => Ok(()),
            },
            StreamsInput::PutSettings { stream, settings, reply } => {
                self.put_settings(&stream, *settings, reply, step)
            }
            StreamsInput::Delete { stream, reply } => self.delete(&stream, reply, step),
            StreamsInput::Disk { room } => {
                self.disk_has(room, step);
                Ok(())
            }
            StreamsInput::PutSubscription(call) => self.put_subscription(*call, step),
            StreamsInput::DeleteSubscription { stream, subscription, reply } => {
                self.delete_subscription(&stream, &subscription, reply, step)
            }
            StreamsInput::Commit(call) => self.commit(*call, step),
            StreamsInput::PutCopy(call) => self.put_copy(*call, step),
            StreamsInput::PauseCopy { stream, copy, paused, reply } => {
                self.pause_copy((&stream, &copy, paused), reply, step)
            }
            StreamsInput::DeleteCopy { stream, copy, reply } => self.delete_copy(&stream, &copy, reply, step),
            StreamsInput::MoveCopy(call) => self.move_copy(*call, step),
            StreamsInput::Stored(stored) => self.stored(*stored, step),
            StreamsInput::Moved(moved) => {
                self.moved(*moved, step);
                Ok(())
            }
        }
    }

    /// What the passing of time brings.
    fn advance(&mut self, step: &mut StreamsStep<'_>) -> Result<(), StoreError> {
        let has_more = self.answers.forget(step)?;
        step.own.is_behind |= has_more;
        let mut left = DUE_PER_STEP;
        while let Some((_, stream)) = self.to_settle.first().copied().filter(|(seq, _)| *seq <= self.durable)
        {
            self.to_settle.pop_first();
            if self.sweeping.contains_key(&stream) {
                self.sweep_deleted(stream, step)?;
            } else {
                step.own.touched.insert(stream);
            }
            left -= 1;
            if left == 0 || !step.has_room() {
                step.own.is_behind = true;
                return Ok(());
            }
        }
        self.start_waiting_moves(step)?;
        while let Some((at, stream)) = self.dues.first().copied().filter(|(at, _)| *at <= step.now) {
            self.dues.pop_first();
            self.load_due(at, stream, step)?;
            left = left.saturating_sub(1);
            if left == 0 || !step.has_room() {
                step.own.is_behind = true;
                return Ok(());
            }
        }
        while let Some((_, stream)) = self.timers.first().copied().filter(|(at, _)| *at <= step.now) {
            self.timers.pop_first();
            if let Some(loaded) = self.loaded.get_mut(&stream) {
                loaded.timer = None;
            }
            step.own.touched.insert(stream);
            left = left.saturating_sub(1);
            if left == 0 {
                step.own.is_behind = true;
                break;
            }
        }
        Ok(())
    }

    /// Brings every stream that the step touched to where it is to be.
    fn finish(&mut self, step: &mut StreamsStep<'_>) -> Result<(), StoreError> {
        let mut touched = std::mem::take(&mut self.unfinished);
        // A step that has only to finish what another left finishes one at least. A row of a large
        // block and a large save are not in one batch.
        let mut may_stop = touched.is_empty();
        loop {
            touched.append(&mut step.own.touched);
            if may_stop && !touched.is_empty() && step.weigh() >= STEP_BYTES_MAX {
                // What the step did to them is written with how far they have come.
                for stream in &touched {
                    self.loaded.get_mut(stream).into_iter().for_each(|loaded| loaded.write_tail(step));
                }
                self.unfinished = touched;
                step.own.is_behind = true;
                return Ok(());
            }
            let Some(stream) = touched.pop_first() else { break };
            self.finish_stream(stream, step)?;
            may_stop = true;
        }
        self.save_under_pressure(step);
        self.evict(step);
        step.own.is_behind |= self.move_scheduler.next_at(step.now).is_some_and(|at| at <= step.now);
        Ok(())
    }

    fn finish_stream(&mut self, stream: Incarnation, step: &mut StreamsStep<'_>) -> Result<(), StoreError> {
        if !self.loaded.contains_key(&stream) {
            return Ok(());
        }
        self.save_what_is_due(stream, step);
        self.count_ids(stream, step);
        self.expire_what_is_due(stream, step)?;
        self.sweep_ids(stream, step)?;
        self.move_what_is_due(stream, step)?;
        let Some(loaded) = self.loaded.get_mut(&stream) else { return Ok(()) };
        closing::store_next(self.id, loaded, step);
        let due = loaded.due_at();
        let unloads = loaded.unloads_at() <= step.now && !self.is_closing;
        if unloads && loaded.unsaved.is_empty() {
            // Nothing is lost: no id has to be left out.
            loaded.is_tail_dirty |= tail::close(&mut loaded.tail, loaded.next);
        }
        if due < loaded.tail.due || (unloads && due != loaded.tail.due) {
            loaded.put_due(due, step);
        }
        loaded.write_tail(step);
        if unloads && self.try_unload(stream, step) {
            return Ok(());
        }
        self.set_timer(stream, step.now);
        Ok(())
    }

    /// Has a stream looked at when the next thing is to be done.
    fn set_timer(&mut self, stream: Incarnation, now: Timestamp) {
        let Some(loaded) = self.loaded.get_mut(&stream) else { return };
        if let Some(before) = loaded.timer.take() {
            self.timers.remove(&(before, stream));
        }
        let unloads = Some(loaded.unloads_at()).filter(|at| *at > now);
        let retry = loaded.retry.map(|(at, _)| at);
        let moves = loaded.moves.looked_at().filter(|_| !self.is_closing);
        let next = [loaded.saves_at(), loaded.closes_at(), retry, loaded.expires_at, moves, unloads];
        loaded.timer = next.into_iter().flatten().min();
        self.timers.extend(loaded.timer.map(|at| (at, stream)));
    }

    /// Takes a stream out of memory, if nothing of it is only there. Whether it is gone.
    fn try_unload(&mut self, stream: Incarnation, step: &mut StreamsStep<'_>) -> bool {
        let Some(loaded) = self.loaded.get(&stream) else { return true };
        let is_busy = loaded.storing.is_some()
            || !loaded.unsaved.is_empty()
            || !loaded.waiting.is_empty()
            || loaded.is_sweeping
            || loaded.moves.under_way.is_some()
            || loaded.retry.is_some();
        if is_busy {
            return false;
        }
        if loaded.written > self.durable {
            self.to_settle.insert((loaded.written, stream));
            return false;
        }
        let Some(gone) = self.loaded.remove(&stream) else { return true };
        self.forget(&gone);
        let mut due = gone.tail.due;
        if gone.moves.waits {
            // It comes back when its move may begin, or for something else.
            due = gone.due_without_moves();
            self.due_while_waiting.insert(stream, due);
        }
        if due != Timestamp::MAX {
            self.dues.insert((due, stream));
        }
        step.emit(StreamsEffect::Tail(self.id, gone.name, TailChange::Closed));
        true
    }

    /// A stream is in memory no more.
    fn forget(&mut self, gone: &LoadedStream) {
        self.names.remove(&gone.name);
        if !gone.moves.waits {
            self.move_scheduler.forget(gone.incarnation());
        }
        self.unsaved_bytes -= gone.unsaved_bytes;
        self.external_id_bytes -= gone.counted_ids.all;
        self.unsaved_id_bytes -= gone.counted_ids.unsaved;
        let stream = gone.incarnation();
        if let Some(at) = gone.timer {
            self.timers.remove(&(at, stream));
        }
    }

    /// Has the streams that were not used for longest go, where memory is short.
    fn evict(&mut self, step: &mut StreamsStep<'_>) {
        let held = |loaded: &LoadedStream| {
            let terms = loaded.subscriptions.bytes() + loaded.copies.bytes();
            LOADED_STREAM_BYTES + loaded.counted_ids.all + terms
        };
        let is_due = step.now >= self.evicted_at.after(EVICTED_EVERY);
        if !is_due || self.loaded.len() * LOADED_STREAM_BYTES + self.external_id_bytes <= self.memory_max {
            return;
        }
        self.evicted_at = step.now;
        let mut by_use: Vec<_> =
            self.loaded.iter().map(|(stream, loaded)| (loaded.used_at, *stream, held(loaded))).collect();
        by_use.sort_unstable();
        let mut all: usize = by_use.iter().map(|(.., bytes)| bytes).sum();
        for (_, stream, bytes) in by_use {
            if all <= self.memory_max {
                break;
            }
            all -= bytes;
            if let Some(loaded) = self.loaded.get_mut(&stream) {
                loaded.used_at = Timestamp(0);
            }
            self.set_timer(stream, step.now);
            self.to_settle.insert((self.durable, stream));
        }
        step.own.is_behind = true;
    }

    fn tell_outside(&mut self, step: &mut StreamsStep<'_>) {
        let now = StreamsNow {
            streams: self.streams,
            loaded: self.loaded.len(),
            unsaved_bytes: self.unsaved_bytes,
            external_id_bytes: self.external_id_bytes,
        };
        let counted = StreamsCounted { now, ..step.own.counted };
        if std::mem::replace(&mut self.now, now) != now || step.own.counted != StreamsCounted::default() {
            step.emit(StreamsEffect::Counted(self.id, counted));
        }
    }
}

impl StreamsStepPart {
    /// Whether the step takes more messages.
    fn takes_more(&self) -> bool {
        self.taken < STEP_BYTES_MAX
    }
}

impl Machine for StreamPartition {
    type Input = StreamsInput;
    type Effect = StreamsEffect;
    type Context = StreamsContext;

    fn weight(input: &StreamsInput) -> usize {
        input.weight()
    }

    fn step(
        &mut self,
        moment: StepTime,
        inputs: &mut dyn Iterator<Item = StreamsInput>,
        fetch: &dyn Fetch,
    ) -> Result<Step<StreamsEffect>, StoreError> {
        let mut step = StepContext::new(self.id, &self.head, moment, fetch, StreamsStepPart::default());
        // What the step before has left comes first: with more, it would be one batch in the end.
        // Otherwise at least one: whoever runs this has taken it from its inbox.
        let mut takes_more = self.unfinished.is_empty() || self.is_closing;
        while takes_more && let Some(input) = inputs.next() {
            self.apply(input, &mut step)?;
            takes_more = step.own.takes_more() && step.has_room();
        }
        self.advance(&mut step)?;
        self.finish(&mut step)?;
        self.tell_outside(&mut step);
        let more = step.own.is_behind;
        let (batch, effects) = step.seal(&mut self.head, false, |_| {});
        Ok(Step { batch, effects, more })
    }

    fn settled(&mut self, seq: u64) {
        self.durable = seq;
        self.deleted.settle(seq);
        self.texts.settle(seq);
        self.answers.settle(seq);
    }

    fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    fn close(&mut self) {
        self.is_closing = true;
        self.unfinished.extend(self.loaded.keys().copied());
    }

    fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        let settled = self.to_settle.first().filter(|(seq, _)| *seq <= self.durable).map(|_| now);
        let due = self.dues.first().map(|(at, _)| *at);
        let timer = self.timers.first().map(|(at, _)| *at);
        let move_at = self.move_scheduler.next_at(now);
        let answers = self.answers.next_wakeup();
        [settled, due, timer, move_at, answers].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
