//! What every partition is: a deterministic state machine that turns inputs into one batch and its effects.
//!
//! A machine has no clock, no socket and no executor. `driver.rs` runs it in production, the simulation runs it on a virtual
//! clock; both do the same four things: step, commit, let the effects of durable batches go, drop all others.

use base::Timestamp;
use records::Batch;
use store::StoreError;

use crate::devices::effect::Effect;
use crate::kernel::fetch::Fetch;

/// A partition's rules and memory.
pub trait Machine: Send + 'static {
    /// What goes in.
    type Input: Send + 'static;

    /// How much work an input is, in reports; a step takes inputs up to a budget of these.
    fn weight(input: &Self::Input) -> usize;

    /// Applies the inputs, and what the passing of time brings, in order.
    ///
    /// # Errors
    /// When a record that is not resident could not be read. Then the machine is in an unknown state: drop it.
    fn step(
        &mut self,
        moment: Moment,
        inputs: &mut dyn Iterator<Item = Self::Input>,
        fetch: &dyn Fetch,
    ) -> Result<Step, StoreError>;

    /// All batches up to this one are durable.
    fn settled(&mut self, seq: u64);

    /// Whether inputs were taken that are not applied to their end: the next step goes on with them.
    fn has_unfinished(&self) -> bool;

    /// The next step is the last before a clean stop.
    fn close(&mut self);

    /// When the passing of time brings something next; `None` if only an input can.
    fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp>;
}

/// When a step is made.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The engine clock: schedules, and stamps what is stored.
    pub now: Timestamp,
    /// The order of events and deliveries in feeds; see `feed_clock.rs`.
    pub stamp: Timestamp,
    /// The wall clock: when jobs are due that name a moment or a calendar.
    pub wall: Timestamp,
}

/// What a step gives.
#[derive(Debug)]
pub struct Step {
    /// What changed; `None` if nothing did.
    pub batch: Option<Batch>,
    /// What the outside may see once the batch, and all before it, are durable.
    pub effects: Vec<Effect>,
    /// The step did not get to the end of what was due; step again soon.
    pub more: bool,
}
