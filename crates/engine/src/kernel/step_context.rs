//! What one step of a machine collects: its time, its batch, what that weighs, and the effects that
//! wait for it.

use base::{PartitionId, Timestamp};
use records::{Batch, Op, PartitionHead};
use store::BATCH_BYTES_MAX;

use super::fetch::Fetch;
use super::machine::StepTime;

/// What a batch may weigh before no more work is taken into it, in bytes as [`Op::weight`] counts
/// them. That is far below what a frame of the log may hold.
pub(crate) const STEP_BYTES_MAX: usize = 1 << 20;
/// Payload bytes that the answers of one step may carry together before no more is given. One
/// payload may have a megabyte.
pub(crate) const CARRIED_BYTES_MAX: usize = 8 << 20;

/// One step of a machine with effects `E`. `own` is what only that machine collects.
pub(crate) struct StepContext<'a, E, O> {
    pub(crate) now: Timestamp,
    pub(crate) wall: Timestamp,
    /// The number that the batch will have.
    pub(crate) seq: u64,
    pub(crate) batch: Batch,
    /// What the batch may weigh before no more work is taken into it.
    pub(crate) bytes_max: usize,
    /// Changes that are weighed, and what they weigh.
    weighed: (usize, usize),
    /// Payload bytes that the answers of this step carry.
    pub(crate) carried: usize,
    pub(crate) effects: Vec<E>,
    pub(crate) fetch: &'a dyn Fetch,
    pub(crate) own: O,
}

impl<'a, E, O> StepContext<'a, E, O> {
    /// The step at `moment` behind `head`. The engine clock does not go back behind what is stored.
    pub(crate) fn new(
        id: PartitionId,
        head: &PartitionHead,
        moment: StepTime,
        fetch: &'a dyn Fetch,
        own: O,
    ) -> Self {
        Self {
            now: moment.now.max(head.now),
            wall: moment.wall,
            seq: head.seq + 1,
            batch: Batch::new(id),
            bytes_max: STEP_BYTES_MAX,
            weighed: (0, 0),
            carried: 0,
            effects: Vec::new(),
            fetch,
            own,
        }
    }

    /// Whether the answers take more payloads.
    pub(crate) fn may_carry(&self) -> bool {
        self.carried < CARRIED_BYTES_MAX
    }

    /// Whether the step takes more work.
    pub(crate) fn has_room(&mut self) -> bool {
        self.weigh() < self.bytes_max && self.may_carry()
    }

    /// What the batch weighs so far. Each change is weighed once.
    pub(crate) fn weigh(&mut self) -> usize {
        let (ops, weight) = self.weighed;
        let added: usize = self.batch.ops[ops..].iter().map(Op::weight).sum();
        self.weighed = (self.batch.ops.len(), weight + added);
        self.weighed.1
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.batch.ops.push(op);
    }

    /// The batch behind which the store shows everything that was done so far.
    pub(crate) fn latest_change(&self) -> u64 {
        // Without a change there may be no batch of this step.
        if self.batch.ops.is_empty() { self.seq - 1 } else { self.seq }
    }

    /// Lets the outside see this once the batch is durable.
    pub(crate) fn emit(&mut self, effect: E) {
        self.effects.push(effect);
    }

    /// Ends the step: the changes as one batch, with the head as it is after it, and the effects.
    /// `finish` brings the machine's own fields of the head up to date. Without a change there is
    /// no batch, unless `must_write`.
    ///
    /// No machine comes near the limit. A step takes work while it has room. So it ends with one
    /// input more than that, and with work that has bounds of its own. The largest inputs are a
    /// call of 16 MiB; what may be larger is split, or worked off in several steps.
    ///
    /// # Panics
    /// When the batch is one that the log might not take. The store would fence it off, and the
    /// machine would make it again after each load, for ever.
    pub(crate) fn seal(
        mut self,
        head: &mut PartitionHead,
        must_write: bool,
        finish: impl FnOnce(&mut PartitionHead),
    ) -> (Option<Batch>, Vec<E>) {
        let weight = self.weigh();
        assert!(
            weight <= BATCH_BYTES_MAX,
            "a step makes no batch that the log does not take: {weight} bytes"
        );
        let batch = (must_write || !self.batch.ops.is_empty()).then(|| {
            head.seq = self.seq;
            head.now = self.now;
            finish(head);
            self.batch.head = head.clone();
            self.batch
        });
        (batch, self.effects)
    }
}

#[cfg(test)]
mod tests {
    use base::Lineage;
    use records::{AnswerKey, KeptAnswer};
    use store::MemoryStore;

    use super::super::fetch::FromStore;
    use super::*;

    /// Ends a step whose only change weighs so much.
    fn seal(weight: usize) -> Option<Batch> {
        let id = PartitionId(0);
        let store = MemoryStore::new(Lineage(1), 1);
        let fetch = FromStore::new(&store, id);
        let mut head = Batch::new(id).head;
        let moment = StepTime { now: Timestamp(1), stamp: Timestamp(1), wall: Timestamp(1) };
        let mut step: StepContext<'_, (), ()> = StepContext::new(id, &head, moment, &fetch, ());
        let put = |bytes: usize| {
            let answer = vec![0_u8; bytes].into();
            Op::PutAnswer(Box::new(KeptAnswer { key: AnswerKey(1), at: Timestamp(1), body: 0, answer }))
        };
        let empty = put(0).weight();
        step.push(put(weight - empty));
        assert_eq!(step.weigh(), weight);
        step.seal(&mut head, false, |_| {}).0
    }

    #[test]
    fn the_heaviest_batch_that_may_be_is_made() {
        assert!(seal(BATCH_BYTES_MAX).is_some());
    }

    #[test]
    #[should_panic(expected = "no batch that the log does not take")]
    fn a_batch_that_is_heavier_than_any_may_be_stops_the_process() {
        seal(BATCH_BYTES_MAX + 1);
    }
}
