//! What every partition is: a deterministic state machine that turns inputs into one batch and its
//! effects.
//!
//! A machine has no clock, no socket and no executor. `driver.rs` runs it in production, the
//! simulation runs it on a virtual clock. Both do the same four things: step, commit, let the
//! effects of durable batches go, drop all others.

use base::{PartitionId, Timestamp};
use records::Batch;
use store::StoreError;

use super::fetch::Fetch;

/// A partition's rules and memory.
pub trait Machine: Send + 'static {
    /// What goes in.
    type Input: Send + 'static;

    /// What the outside may see of a step. Dropping an effect tells its receiver that the outcome
    /// is unknown.
    type Effect: Send + 'static;

    /// Where effects go.
    type Context: MachineContext<Effect = Self::Effect>;

    /// How much work an input is: about how many entries it holds. A step takes inputs up to a
    /// budget of these.
    fn weight(input: &Self::Input) -> usize;

    /// Applies the inputs, and what the passing of time brings, in order.
    ///
    /// # Errors
    /// When a record that is not resident could not be read. Then the machine is in an unknown
    /// state: drop it.
    fn step(
        &mut self,
        moment: StepTime,
        inputs: &mut dyn Iterator<Item = Self::Input>,
        fetch: &dyn Fetch,
    ) -> Result<Step<Self::Effect>, StoreError>;

    /// All batches up to this one are durable.
    fn settled(&mut self, seq: u64);

    /// Whether inputs were taken that are not applied to their end: the next step goes on with
    /// them.
    fn has_unfinished(&self) -> bool {
        false
    }

    /// The next step is the last before a clean stop.
    fn close(&mut self) {}

    /// When the passing of time brings something next; `None` if only an input can.
    fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp>;
}

/// The part of the outside that the effects and the batches of a machine reach.
pub trait MachineContext: Send + Sync + 'static {
    /// The effects that are let go here.
    type Effect;
    /// What a batch has for callers that wait for it.
    type Update: Send + 'static;

    /// Whether feeds show what its partitions write.
    const HAS_FEEDS: bool = false;

    /// Lets an effect go: its batch is durable.
    fn release(&self, effect: Self::Effect);

    /// A batch is about to be written. `None` if nobody waits for news.
    fn batch_made(&self, partition: PartitionId, batch: &Batch) -> Option<Self::Update>;

    /// A batch with that stamp is durable, and its effects were let go. Without `update` it may
    /// concern everybody.
    fn batch_durable(&self, stamp: Timestamp, update: Option<&Self::Update>) {
        let _nobody_waits = (stamp, update);
    }
}

/// When a step is made.
#[derive(Clone, Copy, Debug)]
pub struct StepTime {
    /// The engine clock: schedules, and stamps what is stored.
    pub now: Timestamp,
    /// The order of entries in feeds; see `feed_clock.rs`.
    pub stamp: Timestamp,
    /// The wall clock: for times that callers name, and for calendars.
    pub wall: Timestamp,
}

/// What a step gives.
#[derive(Debug)]
pub struct Step<E> {
    /// What changed; `None` if nothing did.
    pub batch: Option<Batch>,
    /// What the outside may see once the batch, and all before it, are durable.
    pub effects: Vec<E>,
    /// The step did not get to the end of what was due; step again soon.
    pub more: bool,
}
