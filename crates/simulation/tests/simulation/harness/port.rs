//! A partition of production behind an inbox, and the outcomes of its batches on their way back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use base::locks::locked;
use base::{PartitionId, Timestamp};
use engine::kernel::machine::Machine as Partition;
use engine::kernel::runner::{CommitResult, Runner};
use records::Batch;
use store::StoreError;

use super::machine::Machine;
use super::process::Process;
use super::store_spy::{Ending, StoreSpy};
use super::trace::Trace;

/// Inputs that wait for a partition at most, as in the engine's own driver.
const INBOX_INPUTS_MAX: usize = 256;

/// The outcome of a batch on its way to the partition that made it.
pub(super) struct Outcome {
    pub(super) partition: PartitionId,
    pub(super) seq: u64,
    pub(super) ending: Ending,
    pub(super) result: CommitResult,
}

/// Outcomes that are known and not told yet.
#[derive(Clone, Default)]
pub(super) struct Outcomes(Arc<Mutex<VecDeque<Outcome>>>);

impl Outcomes {
    pub(super) fn waiting(&self) -> usize {
        locked(&self.0).len()
    }

    /// The next one of the partition whose outcome is at `index`: those of one partition keep their
    /// order.
    pub(super) fn take(&self, index: usize) -> Option<Outcome> {
        let mut outcomes = locked(&self.0);
        let chosen = outcomes.get(index)?.partition;
        let first = outcomes.iter().position(|outcome| outcome.partition == chosen)?;
        outcomes.remove(first)
    }
}

/// A partition with what waits for it, and what the model makes of that.
pub(crate) struct Port<M: Partition, N> {
    pub(crate) runner: Runner<M>,
    pub(crate) inbox: VecDeque<(M::Input, N)>,
    spy: Arc<StoreSpy>,
    outcomes: Outcomes,
    /// It wants to go on at once.
    more: bool,
    /// Its store does not go on; nothing is taken any more.
    dead: bool,
    /// Counts how often it lost its memory.
    life: u32,
}

/// What a step took and gave.
pub(crate) struct Stepped<N> {
    /// The inputs, as the model knows them.
    pub(crate) inputs: Vec<N>,
    pub(crate) batch: Option<Batch>,
    /// It did not get to the end of what was due.
    pub(crate) more: bool,
}

impl<M: Partition, N> Port<M, N> {
    /// Loads a partition of a process, and again whenever a batch of it may be lost.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn load(
        process: &Process,
        id: PartitionId,
        context: &Arc<M::Context>,
        load: impl Fn() -> Result<M, StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (kernel, context) = (Arc::clone(&process.kernel), Arc::clone(context));
        Ok(Self::new(Runner::new(id, load()?, Box::new(load), kernel, context), process))
    }

    pub(crate) fn new(runner: Runner<M>, process: &Process) -> Self {
        Self {
            runner,
            inbox: VecDeque::new(),
            spy: Arc::clone(&process.spy),
            outcomes: process.outcomes.clone(),
            // The first step begins with what loading found.
            more: true,
            dead: false,
            life: 0,
        }
    }

    /// Its first step waits for an input.
    pub(crate) fn at_rest(self) -> Self {
        Self { more: false, ..self }
    }

    /// Whether another input may be handed in.
    pub(crate) fn has_room(&self) -> bool {
        !self.dead && self.inbox.len() < INBOX_INPUTS_MAX
    }

    /// Hands in an input; whether it takes any.
    pub(crate) fn hand_in(&mut self, input: M::Input, meant: N) -> bool {
        if !self.dead {
            self.inbox.push_back((input, meant));
        }
        !self.dead
    }

    /// One step over at most the first `count` inputs. `None` if it dies of it.
    pub(crate) fn step(&mut self, count: usize, machine: &Machine) -> Option<Stepped<N>> {
        let (spy, outcomes, partition) = (Arc::clone(&self.spy), self.outcomes.clone(), self.runner.id());
        let tell = move |result| {
            let (seq, ending) = spy.ending().expect("the spy hears an outcome before the partition");
            locked(&outcomes.0).push_back(Outcome { partition, seq, ending, result });
        };
        let (inbox, mut taken) = (&mut self.inbox, Vec::new());
        let mut inputs = std::iter::from_fn(|| {
            let (input, meant) = if taken.len() < count { inbox.pop_front()? } else { return None };
            taken.push(meant);
            Some(input)
        });
        match self.runner.step(&mut inputs, tell) {
            Ok(more) => self.more = more,
            Err(error) => {
                self.die(&error, &machine.trace);
                return None;
            }
        }
        let batch = self.spy.take_batch();
        let line = batch.as_ref().map(|batch| (batch.head.seq, batch.ops.len()));
        machine.count(|counts| counts.batches += u64::from(batch.is_some()));
        let (now, inputs) = (machine.now().0, taken.len());
        machine.trace.note(format_args!("{partition} steps at {now} over {inputs}: {line:?}"));
        Some(Stepped { inputs: taken, batch, more: self.more })
    }

    fn die(&mut self, error: &StoreError, trace: &Trace) {
        trace.note(format_args!("{} stops: {error}", self.runner.id()));
        self.dead = true;
        self.inbox.clear();
    }
}

/// A port as the harness knows it, whatever partition is behind it.
pub(crate) trait AnyPort {
    fn id(&self) -> PartitionId;

    fn is_dead(&self) -> bool;

    /// How often it lost its memory; nothing for one that is dead.
    fn life(&self) -> Option<u32>;

    /// Whether there is something to apply, and it may be applied.
    fn may_take_input(&self) -> bool;

    /// Whether the production driver would step it now. Without a time no timer is due.
    fn wants_step(&self, now: Option<Timestamp>) -> bool;

    /// When it wants to be stepped next, if it does not die before.
    fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp>;

    /// Whether nothing waits for an input to be taken or for a batch to be durable.
    fn is_settled(&self) -> bool;

    /// No input is taken from now on.
    fn close(&mut self);

    /// It is told what became of a batch. It may die of it.
    fn tell(&mut self, result: CommitResult, ending: Ending, trace: &Trace);
}

impl<M: Partition, N> AnyPort for Port<M, N> {
    fn id(&self) -> PartitionId {
        self.runner.id()
    }

    fn is_dead(&self) -> bool {
        self.dead
    }

    fn life(&self) -> Option<u32> {
        (!self.dead).then_some(self.life)
    }

    fn may_take_input(&self) -> bool {
        let has_input = self.runner.has_unfinished() || !self.inbox.is_empty();
        !self.dead && self.runner.may_step() && has_input
    }

    fn wants_step(&self, now: Option<Timestamp>) -> bool {
        let is_due = |now| self.runner.next_wakeup(now).is_some_and(|at| at <= now);
        let waits = self.more || now.is_some_and(is_due);
        self.may_take_input() || !self.dead && self.runner.may_step() && waits
    }

    fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        if self.dead { None } else { self.runner.next_wakeup(now) }
    }

    fn is_settled(&self) -> bool {
        let waits = self.runner.has_unfinished() || !self.inbox.is_empty();
        self.runner.is_settled() && !waits
    }

    fn close(&mut self) {
        self.runner.close();
    }

    fn tell(&mut self, result: CommitResult, ending: Ending, trace: &Trace) {
        match self.runner.outcome(result) {
            Err(error) => self.die(&error, trace),
            Ok(()) if ending != Ending::Durable => self.life += 1,
            Ok(()) => {}
        }
    }
}
